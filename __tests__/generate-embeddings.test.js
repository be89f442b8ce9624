'use strict';

// Decoders that take embeddings: the tokens of a decoder that has the images among its tokens.

const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../lib/generate.js');
const { KINDS, TOKENS, decoder } = require('./generate/decoders.js');
const { cancelAtAllMoments } = require('./generate/moments.js');
const { OTHERS, PLACED, placing: placedBy } = require('./generate/placed.js');
const { PATCHES, parts, partsWithLayers, picture, placing, visionEncoder, withAxes } = require('./generate/embeddings.js');

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

  test('is cancelled at all moments', async () => {
    const ids = [...text(9, 3), ...image(), ...text(6, 7), ...image()];
    const wanted = await idsOf(models.whole, [...text(9, 3), ...rows(0), ...text(6, 7), ...rows(1)]);
    const options = { bias: { [IMAGE]: -Infinity }, embed, features: [seen(0), seen(1)], cache: new GenerationCache({ maxBytes: 0 }) };
    const { outcomes, cancelled } = await cancelAtAllMoments(models.decoder, ids, { ...options, maxNewTokens: COUNT });
    expect(outcomes.filter((outcome) => outcome !== 'its reason')).toEqual([wanted, wanted]);
    expect(cancelled).toBeGreaterThanOrEqual(COUNT);
    expect(await idsOf(models.decoder, ids, options)).toEqual(wanted);
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

describe.each(['concat', 'GroupQueryAttention', 'genai'])('a decoder with %s, and inputs of each layer', (kind) => {
  const pictures = [1, 2].map((seed) => picture(seed, WIDTH));
  let models;
  beforeAll(async () => {
    const made = partsWithLayers(decoder(kind), pictures.map(({ features }) => features.data), IMAGE);
    models = {};
    for (const name of ['embed', 'decoder', 'whole']) models[name] = await loadOnnx(context, made[name], { label: name });
  });
  afterAll(() => Object.values(models).forEach((model) => model.destroy()));

  test.each([1, 5, 70])('continues %i tokens', async (length) => {
    expect(await idsOf(models.decoder, text(length, 3), { embed: models.embed })).toEqual(await idsOf(models.whole, text(length, 3)));
  });

  test('sees images, in calls at once and again', async () => {
    const { embed } = models;
    const [before, behind] = [text(9, 3), text(6, 7)];
    const [one, other] = pictures.map(({ features }) => ({ token: IMAGE, values: features }));
    const prompts = [
      [[...before, ...image(), ...behind], [...before, ...rows(0), ...behind], [one]],
      [[...image(), ...image(), ...behind], [...rows(1), ...rows(0), ...behind], [other, one]],
      [[...before, ...image()], [...before, ...rows(1)], [other]],
    ];
    const wanted = [];
    for (const [, whole] of prompts) wanted.push(await idsOf(models.whole, whole));
    const cache = new GenerationCache();
    for (let round = 0; round < 2; round++) {
      expect(await Promise.all(prompts.map(([ids, , features]) => idsOf(models.decoder, ids, { embed, features, cache })))).toEqual(wanted);
    }
    cache.destroy();
  });

  test('steps of calls run together', async () => {
    const { reason } = await generationUsage(models.decoder);
    expect(reason).toBeUndefined();
  });
});

describe.each(['concat', 'MultiHeadAttention', 'unmasked'])('a decoder with %s, and positions of three axes', (kind) => {
  let models;
  let vectors;
  beforeAll(async () => {
    const made = parts(decoder(kind), []);
    models = { embed: await loadOnnx(context, made.embed), decoder: await loadOnnx(context, withAxes(made.decoder), { label: 'decoder' }) };
    vectors = async (ids) => (await models.embed.run({ input_ids: { data: BigInt64Array.from(ids, BigInt), shape: [1, ids.length] } })).inputs_embeds.data;
  });
  afterAll(() => Object.values(models).forEach((model) => model.destroy()));

  const pictures = [1, 2].map((seed) => picture(seed, WIDTH).features);
  const film = { data: Float32Array.from([...pictures[0].data, ...pictures[1].data]), shape: [2 * PATCHES, WIDTH] };

  /** Parts of a prompt: tokens, or features with their grid. */
  function promptOf(pieces) {
    const ids = pieces.flatMap((piece) => (Array.isArray(piece) ? piece : new Array(piece.values.shape[0]).fill(IMAGE)));
    return { ids, features: pieces.filter((piece) => !Array.isArray(piece)) };
  }

  /** The positions of the parts, by frames, rows and columns. */
  function positionsOf(pieces) {
    const all = [];
    for (const piece of pieces) {
      const next = all.length === 0 ? 0 : 1 + Math.max(...all.flat());
      if (Array.isArray(piece)) all.push(...piece.map((_, i) => [next + i, next + i, next + i]));
      else {
        const [frames, height, width] = piece.grid;
        for (let t = 0; t < frames; t++) for (let h = 0; h < height; h++) for (let w = 0; w < width; w++) all.push([next + t, next + h, next + w]);
      }
    }
    return all;
  }

  /** The most probable tokens, each by a run of the whole text without a cache. */
  async function expected(pieces) {
    const embeds = [];
    for (const piece of pieces) embeds.push(...(Array.isArray(piece) ? await vectors(piece) : piece.values.data));
    const positions = positionsOf(pieces);
    const found = [];
    const caches = Object.fromEntries(models.decoder.inputs.filter(({ name }) => name.startsWith('past_key')).map(({ name, shape }) => [name, { data: new Float32Array(0), shape: [1, shape[1], 0, shape[3]] }]));
    while (found.length < COUNT) {
      const length = positions.length;
      const inputs = {
        ...caches,
        inputs_embeds: { data: Float32Array.from(embeds), shape: [1, length, WIDTH] },
        position_ids: { data: BigInt64Array.from([0, 1, 2].flatMap((axis) => positions.map((one) => BigInt(one[axis])))), shape: [3, 1, length] },
        ...(models.decoder.inputs.some(({ name }) => name === 'attention_mask') && { attention_mask: { data: new BigInt64Array(length).fill(1n), shape: [1, length] } }),
      };
      const { logits } = await models.decoder.run(inputs);
      const last = [...logits.data.slice(-TOKENS)];
      last[IMAGE] = -Infinity;
      const id = last.indexOf(Math.max(...last));
      found.push(id);
      embeds.push(...(await vectors([id])));
      const next = 1 + Math.max(...positions.flat());
      positions.push([next, next, next]);
    }
    return found;
  }

  const still = { token: IMAGE, values: pictures[0], grid: [1, 2, 2] };
  const wide = { token: IMAGE, values: pictures[1], grid: [1, 1, 4] };
  const moving = { token: IMAGE, values: film, grid: [2, 2, 2] };
  const PROMPTS = [
    [text(7, 3)],
    [text(9, 3), still, text(6, 7)],
    [still, text(2, 5), moving, wide, text(3, 7)],
    [text(60, 3), wide],
  ];

  test('images are where their grids say', async () => {
    const wanted = [];
    for (const pieces of PROMPTS) wanted.push(await expected(pieces));
    const run = (pieces, options) => {
      const { ids, features } = promptOf(pieces);
      return idsOf(models.decoder, ids, { embed: models.embed, features, ...options });
    };
    for (const [i, pieces] of PROMPTS.entries()) expect(await run(pieces)).toEqual(wanted[i]);
    const cache = new GenerationCache();
    for (let round = 0; round < 2; round++) expect(await Promise.all(PROMPTS.map((pieces) => run(pieces, { cache })))).toEqual(wanted);
    cache.destroy();
  });

  test('several images may be one list of features', async () => {
    const { ids } = promptOf([still, text(3, 5), { ...wide }]);
    const features = { token: IMAGE, values: film, grid: [[1, 2, 2], [1, 1, 4]] };
    expect(await idsOf(models.decoder, ids, { embed: models.embed, features })).toEqual(await expected([still, text(3, 5), wide]));
  });

  test('the same features in another grid are others', async () => {
    const cache = new GenerationCache();
    for (const grid of [[1, 2, 2], [1, 4, 1], [1, 2, 2]]) {
      const pieces = [text(5, 3), { ...still, grid }, text(4, 7)];
      const { ids, features } = promptOf(pieces);
      expect(await idsOf(models.decoder, ids, { embed: models.embed, features, cache })).toEqual(await expected(pieces));
    }
    cache.destroy();
  });

  test('grids that are missing or wrong are refused', async () => {
    const { ids, features: [own] } = promptOf([text(5, 3), still]);
    const message = (grid) => idsOf(models.decoder, ids, { embed: models.embed, features: { ...own, grid } }).then(String, ({ message: said }) => said);
    expect(await message(undefined)).toMatch('features: grid: found none, allowed [frames, rows, columns] of each image');
    expect(await message([1, 2, 3])).toMatch('features: grid: found grids of 6 places for 4 rows');
    expect(await message([2 ** 31 - 1, 2 ** 31 - 1, 2 ** 31 - 1])).toMatch('features: grid: found grids of');
    for (const wrong of [4, [1, 2], [1, 0, 4], [[1, 2, 2], 3], [1, 2, 2.5], 'x']) expect(await message(wrong)).toMatch('options: features: grid: found');
  });
});

describe('a model of embeddings that takes features as well', () => {
  const pictures = [1, 2, 3].map((seed) => picture(seed, WIDTH));
  let made;
  let decoderOnly;
  let whole;
  beforeAll(async () => {
    made = parts(decoder('GroupQueryAttention'), pictures.map(({ features }) => features.data));
    [decoderOnly, whole] = await Promise.all([made.decoder, made.whole].map((bytes) => loadOnnx(context, bytes)));
  });
  afterAll(() => [decoderOnly, whole].forEach((model) => model.destroy()));

  const features = (number) => ({ token: IMAGE, values: pictures[number].features });

  test.each(['rows', 'elements', 'beginning'])('by %s', async (kind) => {
    const embed = await loadOnnx(context, placing(made.embed, IMAGE, kind), { label: kind });
    // What the file means: by a run of it.
    const ids = [...text(5, 3), ...image(), ...text(3, 5), ...image()];
    const both = { data: Float32Array.from([...pictures[0].features.data, ...pictures[1].features.data]), shape: [2, PATCHES, WIDTH] };
    const { inputs_embeds: embedded } = await embed.run({ input_ids: { data: BigInt64Array.from(ids, BigInt), shape: [1, ids.length] }, image_features: both });
    expect([...embedded.data.subarray(5 * WIDTH, (5 + PATCHES) * WIDTH)]).toEqual([...pictures[0].features.data]);
    expect([...embedded.data.subarray((8 + PATCHES) * WIDTH)]).toEqual([...pictures[1].features.data]);
    const prompts = [
      [text(70, 3), text(70, 3), []],
      [ids, [...text(5, 3), ...rows(0), ...text(3, 5), ...rows(1)], [features(0), { token: IMAGE, model: vision, inputs: { pixel_values: pictures[1].pixels } }]],
      [[...image(), ...text(9, 7)], [...rows(2), ...text(9, 7)], features(2)],
    ];
    const wanted = [];
    for (const [, tokens] of prompts) wanted.push(await idsOf(whole, tokens));
    for (const [i, [tokens, , given]] of prompts.entries()) expect(await idsOf(decoderOnly, tokens, { embed, features: given })).toEqual(wanted[i]);
    expect(await Promise.all(prompts.map(([tokens, , given]) => idsOf(decoderOnly, tokens, { embed, features: given })))).toEqual(wanted);
    const message = (tokens, given) => idsOf(decoderOnly, tokens, { embed, features: given }).then(String, ({ message: said }) => said);
    expect(await message([...image(), 1])).toMatch(`found ${PATCHES} tokens without features`);
    expect(await message(new Array(PATCHES).fill(7), { ...features(0), token: 7 })).toMatch(`found features for the token 7, allowed ${IMAGE}, as the model of embeddings has it`);
    embed.destroy();
  });

  // The tokens of the pictures, and of what is heard.
  const NUMBERS = { 'below zero': [-1, -2], 'of images and sound, with numbers below zero for them': [-3, -10005], 'if there are images, and then if there is sound': [IMAGE, IMAGE - 1] };

  test.each(Object.keys(PLACED))('in the place of tokens %s', async (kind) => {
    const embed = await loadOnnx(context, placedBy(made.embed, IMAGE, PLACED[kind]), { label: kind });
    const [one, other] = NUMBERS[kind] ?? [IMAGE, IMAGE];
    const options = { bias: { [IMAGE]: -Infinity, [IMAGE - 1]: -Infinity }, embed };
    const plain = await loadOnnx(context, made.embed);
    const words = (length, seed) => text(length, seed).map((id) => id % (IMAGE - 1));
    const all = (token) => new Array(PATCHES).fill(token);
    const of = (token, number) => ({ token, values: pictures[number].features });
    const prompts = [
      [words(70, 3), words(70, 3), []],
      [[...words(5, 3), ...all(one), ...words(3, 5), ...all(other)], [...words(5, 3), ...rows(0), ...words(3, 5), ...rows(1)], [of(one, 0), of(other, 1)]],
      [[...all(other), ...words(9, 7)], [...rows(2), ...words(9, 7)], of(other, 2)],
    ];
    // What the file means: by a run of it.
    const [ids] = prompts[1];
    const list = (...numbers) => ({ data: Float32Array.from(numbers.flatMap((number) => [...pictures[number].features.data])), shape: [numbers.length * PATCHES, WIDTH] });
    const given = one === other || kind === 'below zero' ? { image_features: list(0, 1) } : { image_features: list(0), audio_features: list(1) };
    const tokens = (numbers) => ({ input_ids: { data: BigInt64Array.from(numbers, BigInt), shape: [1, numbers.length] } });
    const { inputs_embeds: embedded } = await embed.run({ ...tokens(ids), ...given });
    const { inputs_embeds: alone } = await plain.run(tokens(ids.map((id) => (id < 0 || id >= IMAGE - 1 ? 0 : id))));
    [[5, 0], [8 + PATCHES, 1]].forEach(([first, number]) => alone.data.set(pictures[number].features.data, first * WIDTH));
    expect([...embedded.data]).toEqual([...alone.data]);
    const wanted = [];
    for (const [, all] of prompts) wanted.push(await idsOf(whole, all, { ...options, embed: undefined }));
    for (const [i, [tokens, , given]] of prompts.entries()) expect(await idsOf(decoderOnly, tokens, { ...options, features: given })).toEqual(wanted[i]);
    expect(await Promise.all(prompts.map(([tokens, , given]) => idsOf(decoderOnly, tokens, { ...options, features: given })))).toEqual(wanted);
    const message = (tokens, given) => idsOf(decoderOnly, tokens, { embed, features: given }).then(String, ({ message: said }) => said);
    expect(await message([...all(one), one, 1], of(one, 0))).toMatch('found 1 tokens without features');
    expect(await message(all(7), of(7, 0))).toMatch(/found features for the token 7, allowed -?\d.*, as the model of embeddings has it/);
    [embed, plain].forEach((one) => one.destroy());
  });

  test('tokens below zero are those of features, and no tokens of the text', async () => {
    const embed = await loadOnnx(context, placedBy(made.embed, IMAGE, PLACED['below zero']));
    const ids = [...text(5, 3), ...new Array(PATCHES).fill(-7)];
    const options = { embed, features: { token: -7, values: pictures[0].features }, maxNewTokens: 1 };
    const seen = [];
    await idsOf(decoderOnly, ids, { ...options, logits: (_, { prompt }) => void seen.push([...prompt]) });
    expect(seen).toEqual([ids]);
    // What is not the last token of the vocabulary has no penalty for it.
    expect(await idsOf(decoderOnly, ids, { ...options, bias: { [IMAGE]: 1000 }, repetitionPenalty: 1e6 })).toEqual([IMAGE]);
    const message = (tokens, given) => idsOf(decoderOnly, tokens, { embed, ...given }).then(String, ({ message: said }) => said);
    expect(await message([1, -7], {})).toMatch('ids: found -7, allowed whole numbers from 0 to 2147483647');
    expect(await message([1, -8], { features: { token: -7, values: new Float32Array(0) } })).toMatch('ids: found -8, allowed');
    expect(await message([1], { features: { token: -(2 ** 31) - 1, values: new Float32Array(0) } })).toMatch('features: token: found -2147483649');
    embed.destroy();
  });

  test.each(Object.keys(OTHERS))('that does something else with them: %s', async (kind) => {
    const embed = await loadOnnx(context, placedBy(made.embed, IMAGE, OTHERS[kind]), { label: kind });
    const said = await idsOf(decoderOnly, text(5, 3), { embed }).then(String, ({ message }) => message);
    expect(said).toMatch(`, and ${OTHERS[kind].at}, allowed one input of tokens, and features that take the place of tokens`);
    embed.destroy();
  });

  test.each(['first', 'sum', 'scaled', 'shown', 'other'])('that does something else with them (%s) is refused', async (kind) => {
    const embed = await loadOnnx(context, placing(made.embed, IMAGE, kind), { label: kind });
    const said = await idsOf(decoderOnly, text(5, 3), { embed }).then(String, ({ message }) => message);
    // No row of the table is a token above the last one.
    const others = { first: `does not put whole rows in the place of the tokens ${IMAGE}`, other: 'found the index 40' };
    expect(said).toMatch(others[kind] ?? /found a model of embeddings with the inputs \["image_features", "input_ids"\], and .*, allowed one input of tokens, and features/);
    embed.destroy();
  });
});

test('what is missing or wrong is said', async () => {
  const made = parts(decoder('GroupQueryAttention'), []);
  const [model, embed, whole] = await Promise.all([made.decoder, made.embed, made.whole].map((bytes) => loadOnnx(context, bytes)));
  const { features } = picture(1, WIDTH);
  const message = (ids, options, other = model) => idsOf(other, ids, options).then(String, ({ message: said }) => said);
  expect(await message([1], {})).toMatch("found a decoder with the input 'inputs_embeds', which needs the option embed");
  expect(await message([1], { embed: 4 })).toMatch('options: embed: found 4, allowed an OnnxModel');
  expect(await message([1], { embed: vision })).toMatch('found a model of embeddings with the inputs ["pixel_values"], allowed one input of tokens');
  expect(await message([1], { embed }, whole)).toMatch('found the option embed, allowed for a decoder');
  expect(await message([1, IMAGE], { embed, features: { token: IMAGE, values: features } })).toMatch(`found 4 rows for 1 tokens ${IMAGE}`);
  expect(await message([1, ...image(), IMAGE], { embed, features: { token: IMAGE, values: features } })).toMatch('found 1 tokens without features');
  expect(await message([1], { embed, features: { token: IMAGE, values: new Float32Array(5) } })).toMatch('found 20 bytes, allowed 256 bytes for each embedding');
  expect(await message([1], { embed, features: { token: IMAGE, values: new Uint8Array(5) } })).toMatch('options: features: found an Uint8Array, allowed a Float32Array');
  expect(await message([1], { embed, features: { token: 1.5, values: features } })).toMatch('options: features: token: found 1.5');
  expect(await message([1], { embed, features: { token: 1 } })).toMatch('options: features: values: found undefined');
  expect(await message([1, ...image()], { embed, features: { token: IMAGE, values: features, grid: [1, 2, 2] } })).toMatch('features: grid: found some, allowed none for a model whose positions have one axis');
  expect(await message([1], { features: { token: 1, values: features } }, whole)).toMatch("allowed none for a model without the input 'inputs_embeds'");
  const other = await ml.createContext({ accelerated: false });
  const stranger = await loadOnnx(other, made.embed);
  expect(await message([1], { embed: stranger })).toMatch('found a model of another context');
  other.destroy();
  for (const one of [model, embed, whole]) one.destroy();
});
