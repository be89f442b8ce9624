'use strict';

// Decoders that take embeddings: the tokens of a decoder that has the images among its tokens.

const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../lib/generate.js');
const { KINDS, TOKENS, decoder } = require('./generate/decoders.js');
const { PATCHES, parts, picture, visionEncoder } = require('./generate/embeddings.js');

const COUNT = 10;
const IMAGE = TOKENS - 1;
const WIDTH = 64;

let context;
let vision;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  vision = await loadOnnx(context, visionEncoder(WIDTH), { label: 'vision' });
});
afterAll(() => context.destroy());

const text = (length, seed) => Array.from({ length }, (_, i) => (i * i * seed + i + seed) % IMAGE);
const image = () => new Array(PATCHES).fill(IMAGE);
/** The tokens that the whole model has for a picture. */
const rows = (number) => Array.from({ length: PATCHES }, (_, i) => TOKENS + number * PATCHES + i);

async function tokensOf(model, ids, options) {
  const found = [];
  for await (const token of generate(model, ids, { maxNewTokens: COUNT, bias: { [IMAGE]: -Infinity }, ...options })) found.push(token);
  return found;
}

const idsOf = async (...given) => (await tokensOf(...given)).map(({ id }) => id);

describe.each(KINDS)('a decoder with %s', (kind) => {
  const pictures = [1, 2, 3].map((seed) => picture(seed, WIDTH));
  let models;
  let embed;

  beforeAll(async () => {
    const made = parts(decoder(kind), pictures.map(({ features }) => features.data));
    expect([made.count, made.width]).toEqual([TOKENS, WIDTH]);
    models = {};
    for (const name of ['embed', 'decoder', 'whole']) models[name] = await loadOnnx(context, made[name], { label: name });
    embed = models.embed;
  });
  afterAll(() => Object.values(models).forEach((model) => model.destroy()));

  const features = (number) => ({ token: IMAGE, values: pictures[number].features });
  const seen = (number) => ({ token: IMAGE, model: vision, inputs: { pixel_values: pictures[number].pixels } });

  test.each([1, 5, 70])('continues %i tokens without images', async (length) => {
    expect(await idsOf(models.decoder, text(length, 3), { embed })).toEqual(await idsOf(models.whole, text(length, 3)));
  });

  test('sees images', async () => {
    const [before, between, behind] = [text(9, 3), text(1, 5), text(6, 7)];
    const prompts = [
      [[...before, ...image(), ...behind], [...before, ...rows(0), ...behind], [features(0)]],
      [[...image(), ...between, ...image(), ...behind], [...rows(2), ...between, ...rows(1), ...behind], [features(2), seen(1)]],
      // The last one is an image.
      [[...before, ...image()], [...before, ...rows(1)], seen(1)],
    ];
    const wanted = [];
    for (const [, whole] of prompts) wanted.push(await tokensOf(models.whole, whole));
    for (const [i, [ids, , given]] of prompts.entries()) {
      const found = await tokensOf(models.decoder, ids, { embed, features: given });
      expect(found.map(({ id }) => id)).toEqual(wanted[i].map(({ id }) => id));
      found.forEach(({ logprob }, at) => expect(Math.abs(logprob - wanted[i][at].logprob)).toBeLessThan(1e-3));
    }
    // At once.
    const all = await Promise.all(prompts.map(([ids, , given]) => idsOf(models.decoder, ids, { embed, features: given })));
    expect(all).toEqual(wanted.map((tokens) => tokens.map(({ id }) => id)));
    // In one call: features go to the prompts in their order.
    const found = [[], []];
    for await (const { id, sequence } of generate(models.decoder, [prompts[0][0], prompts[1][0]], { maxNewTokens: COUNT, bias: { [IMAGE]: -Infinity }, embed, features: [features(0), features(2), features(1)] })) found[sequence].push(id);
    expect(found).toEqual(all.slice(0, 2));
  });

  test('steps of calls run together', async () => {
    const calls = [0, 1, 2].map((number) => [[...text(5, 3), ...image(), ...text(4 + number, 5)], { embed, features: features(number), maxNewTokens: 30 }]);
    let share = 1;
    for (let round = 0; round < 100 && share > 0.6; round++) {
      const before = await generationUsage(models.decoder);
      await Promise.all(calls.map(([ids, options]) => idsOf(models.decoder, ids, options)));
      const { steps, runs } = await generationUsage(models.decoder);
      share = (runs - before.runs) / (steps - before.steps);
    }
    expect(share).toBeLessThanOrEqual(0.6);
  });

  test('what is known of an image is known of no other one', async () => {
    const cache = new GenerationCache();
    const ids = [...text(9, 3), ...image(), ...text(6, 7)];
    const wanted = [];
    for (const number of [0, 1]) wanted.push(await idsOf(models.whole, [...text(9, 3), ...rows(number), ...text(6, 7)]));
    for (const [number, known] of [[0, 0], [1, 9], [0, ids.length - 1], [1, ids.length - 1]]) {
      expect(await idsOf(models.decoder, ids, { embed, features: seen(number), cache })).toEqual(wanted[number]);
      expect(cache.known).toEqual([known]);
    }
    cache.destroy();
  });
});

test('what is missing or wrong is said', async () => {
  const made = parts(decoder('GroupQueryAttention'), []);
  const [model, embed, whole] = await Promise.all([made.decoder, made.embed, made.whole].map((bytes) => loadOnnx(context, bytes)));
  const { features } = picture(1, WIDTH);
  const message = (ids, options, other = model) => idsOf(other, ids, options).then(String, ({ message: said }) => said);
  expect(await message([1], {})).toMatch("found a decoder with the input 'inputs_embeds', allowed with a model that embeds tokens");
  expect(await message([1], { embed: 4 })).toMatch('options: embed: found 4, allowed an OnnxModel');
  expect(await message([1], { embed: vision })).toMatch('found a model of embeddings with the inputs ["pixel_values"], allowed one input of tokens');
  expect(await message([1], { embed }, whole)).toMatch('found a model that embeds tokens, allowed with a decoder');
  expect(await message([1, IMAGE], { embed, features: { token: IMAGE, values: features } })).toMatch(`found 4 rows for 1 tokens ${IMAGE}`);
  expect(await message([1, ...image(), IMAGE], { embed, features: { token: IMAGE, values: features } })).toMatch('found 1 tokens without features');
  expect(await message([1], { embed, features: { token: IMAGE, values: new Float32Array(5) } })).toMatch('found 20 bytes, allowed 256 bytes for each embedding');
  expect(await message([1], { embed, features: { token: IMAGE, values: new Uint8Array(5) } })).toMatch('options: features: found an Uint8Array, allowed a Float32Array');
  expect(await message([1], { embed, features: { token: -1, values: features } })).toMatch('options: features: token: found -1');
  expect(await message([1], { embed, features: { token: 1 } })).toMatch('options: features: values: found undefined');
  expect(await message([1], { features: { token: 1, values: features } }, whole)).toMatch("allowed none for a model without the input 'inputs_embeds'");
  const other = await ml.createContext({ accelerated: false });
  const stranger = await loadOnnx(other, made.embed);
  expect(await message([1], { embed: stranger })).toMatch('found a model of another context');
  other.destroy();
  for (const one of [model, embed, whole]) one.destroy();
});
