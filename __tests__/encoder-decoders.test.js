'use strict';

// Encoder-decoders as transformers.js has them (a merged decoder): the same logits whether caches stay with the engine, or come as arrays; and
// the same tokens by webnn-node/generate.

const { rmSync } = require('node:fs');
const path = require('node:path');
const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { generate } = require('../lib/generate.js');
const { encoded, long } = require('./transformers/encoded.js');
const { unpackModels } = require('./transformers/models.js');

const TOKENS = 20;
const START = 2;

let context;
let folder;

beforeAll(async () => {
  folder = unpackModels();
  context = await ml.createContext({ accelerated: false });
});

afterAll(() => {
  context.destroy();
  rmSync(folder, { recursive: true });
});

const isKept = (tensor) => Object.getOwnPropertyDescriptor(tensor, 'data').get !== undefined;

/** Token by token, as transformers.js does it. */
async function continued(model, given, options) {
  const pasts = model.inputs.filter(({ name }) => name.startsWith('past'));
  const presentOf = (name) => name.replace('past_key_values', 'present');
  let caches = Object.fromEntries(pasts.map(({ name, shape }) => [name, { data: new Float32Array(0), shape: [1, shape[1], 0, shape[3]] }]));
  const found = { tokens: [], logits: [], kept: [] };
  let token = START;
  for (let i = 0; i < TOKENS; i++) {
    const feeds = { ...given, ...caches, input_ids: long([token]), use_cache_branch: { data: Uint8Array.of(Number(i > 0)), shape: [1] } };
    const results = await model.run(feeds, options);
    const logits = results.logits.data.slice(-results.logits.shape[2]);
    token = logits.indexOf(Math.max(...logits));
    found.tokens.push(token);
    found.logits.push(logits);
    // What is computed of the encoder is so once.
    caches = Object.fromEntries(pasts.map(({ name }) => [name, i > 0 && name.includes('encoder') ? caches[name] : results[presentOf(name)]]));
    found.kept.push(Object.values(caches).every(isKept));
  }
  return found;
}

test.each(['t5', 'bart', 'marian', 'whisper'])('%s', async (name) => {
  const model = await loadOnnx(context, path.join(folder, name, 'onnx', 'decoder_model_merged.onnx'));
  const given = await encoded(context, folder, name);
  const here = await continued(model, given, undefined);
  expect(here.kept).toEqual(new Array(TOKENS).fill(true));
  // A seed, of which nothing is made here, has the model run as others do.
  const otherwise = await continued(model, given, { seed: 0 });
  expect(otherwise.kept).toEqual(new Array(TOKENS).fill(false));
  expect(here.tokens).toEqual(otherwise.tokens);
  here.logits.forEach((logits, i) => logits.forEach((x, at) => expect(Math.abs(x - otherwise.logits[i][at])).toBeLessThan(1e-4)));
  const generated = [];
  for await (const { id } of generate(model, [START], { maxNewTokens: TOKENS, inputs: given })) generated.push(id);
  expect(generated).toEqual(here.tokens);
});

// Marian's and whisper's have caches of the encoder, bart's and t5's are like them.
test.each(['marian', 'whisper'])('several prompts, each with states of its own: %s', async (name) => {
  const model = await loadOnnx(context, path.join(folder, name, 'onnx', 'decoder_model_merged.onnx'));
  const given = await encoded(context, folder, name);
  // The second prompt's states are the first one's backwards, and what else there is the same.
  const both = {};
  const second = {};
  for (const [input, { data, shape }] of Object.entries(given)) {
    const other = data instanceof Float32Array ? data.slice().reverse() : data.slice();
    second[input] = { data: other, shape };
    const joined = new data.constructor(2 * data.length);
    joined.set(data);
    joined.set(other, data.length);
    both[input] = { data: joined, shape: [2, ...shape.slice(1)] };
  }
  const said = async (prompts, inputs) => {
    const found = prompts.map(() => []);
    for await (const { id, logprob, sequence } of generate(model, prompts, { maxNewTokens: 6, inputs })) found[sequence].push([id, logprob]);
    return found;
  };
  const prompts = [[START], [START, 5]];
  const alone = [await said(prompts.slice(0, 1), given), await said(prompts.slice(1), second)].flat();
  expect(await said(prompts, both)).toEqual(alone);
  expect(await said([[START]], both).catch(({ message }) => message)).toMatch(/found 2 rows of .*, allowed 1/);
  // One for all.
  expect(await said(prompts, given)).toEqual([alone[0], ...(await said(prompts.slice(1), given))]);
});
