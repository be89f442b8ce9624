'use strict';

// generate() with decoders that are put together at random, beside everything computed anew for each token: at once and in turns of a talk
// that goes on and back, of several prompts of other lengths, of sessions, on the CPU and on a GPU.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { GenerationCache, generate } = require('../lib/generate.js');
const { loadOnnx } = require('../lib/onnx.js');
const { InferenceSession } = require('../lib/onnxruntime.js');
const { TOKENS, decoderOf, specOf } = require('./generate/random-decoders.js');
const { withContexts } = require('./onnx/contexts.js');
const { generator, seed } = require('./onnx/random.js');

const COUNT = Number(process.env.WEBNN_ROUNDS ?? 40);

let contexts;

withContexts((cpu, gpu) => {
  contexts = { cpu, gpu };
});

/** What generate() gives: by sequence its prompt, and its tokens with their log-probabilities. */
async function said(model, prompts, options) {
  const found = prompts.map((prompt) => ({ prompt, tokens: [] }));
  for await (const { id, logprob, sequence } of generate(model, prompts, options)) found[sequence].tokens.push([id, logprob]);
  return found;
}

/** All that is asked of one decoder. */
async function talk(model, random) {
  const ids = (length) => Array.from({ length }, () => Math.floor(random() * TOKENS));
  const cache = new GenerationCache();
  const first = await said(model, [ids(2 + Math.floor(random() * 12))], { maxNewTokens: 4, cache });
  const turn = [...first[0].prompt, ...first[0].tokens.map(([id]) => id), ...ids(1 + Math.floor(random() * 3))];
  const second = await said(model, [turn], { maxNewTokens: 3, cache });
  // Back to a place before, and on from there; then more rows than the first plans have.
  const third = await said(model, [[...turn.slice(0, 4), ...ids(3)]], { maxNewTokens: 2, cache });
  const several = await said(model, [ids(1), ids(9), [...turn, ...ids(2)]], { maxNewTokens: 2, cache });
  const long = await said(model, [ids(62)], { maxNewTokens: 4 });
  cache.destroy();
  return [first, second, third, several, long].flat();
}

/** The log-probabilities of all tokens after each token that was said. */
function expected(list) {
  const prefixes = ({ prompt, tokens }) => tokens.map((_, i) => [...prompt, ...tokens.slice(0, i).map(([id]) => id)]);
  const asked = list.map(({ spec, found }) => ({ spec, lists: found.flatMap(prefixes) }));
  const script = path.join(__dirname, 'generate', 'random-decoders.js');
  return JSON.parse(execFileSync(process.execPath, [script], { input: JSON.stringify(asked), maxBuffer: 1 << 28 }));
}

test(`${COUNT} decoders say what they say when everything is computed anew (WEBNN_SEED=${seed})`, async () => {
  const list = [];
  const refused = [];
  for (let i = 0; i < COUNT; i++) {
    const spec = specOf(i);
    const bytes = decoderOf(spec);
    const where = i % 4 === 3 ? 'session' : i % 4 === 1 && contexts.gpu ? 'gpu' : 'cpu';
    try {
      const model = where === 'session' ? await InferenceSession.create(bytes) : await loadOnnx(contexts[where], bytes);
      list.push({ spec, where, found: await talk(model, generator(i + 5000)) });
      await (where === 'session' ? model.release() : model.destroy());
    } catch (error) {
      refused.push(JSON.stringify({ spec, where, error: error.message }));
    }
  }
  const wrong = [];
  for (const [i, probabilities] of expected(list).entries()) {
    const { spec, where, found } = list[i];
    const tokens = found.flatMap((one) => one.tokens);
    expect(tokens).toHaveLength(probabilities.length);
    const at = tokens.findIndex(([id, logprob], t) => !(Math.abs(logprob - probabilities[t][id]) < 2e-3 && logprob > Math.max(...probabilities[t]) - 2e-3));
    if (at >= 0) wrong.push(JSON.stringify({ spec, where, at, said: tokens[at], wanted: probabilities[at][tokens[at][0]], most: Math.max(...probabilities[at]) }));
  }
  expect({ refused, wrong }).toEqual({ refused: [], wrong: [] });
}, 300_000);
