'use strict';

// The most probable tokens after prompts, by onnxruntime-node: a list of {kind, prompt, count} as JSON on the standard input. Loaded as a
// module, it does the same with another package that has its interface.

const { readFileSync } = require('node:fs');
const { TOKENS, decoder } = require('./decoders.js');

/** Rows of caches that have a fixed size. */
const SIZE = 128;

/** What comes before the first step: a cache without rows, or of a fixed size, or a state of zeros. */
function empty(ort, [, ...sizes], rows) {
  const shape = [1, ...sizes.map((size) => (typeof size === 'string' ? rows : size))];
  return new ort.Tensor('float32', new Float32Array(shape.reduce((count, size) => count * size, 1)), shape);
}

/** Step by step. */
async function expected(ort, bytes, prompt, count) {
  const session = await ort.InferenceSession.create(bytes, { intraOpNumThreads: 1, graphOptimizationLevel: 'disabled', logSeverityLevel: 3 });
  const rows = session.inputNames.includes('write_indices') ? SIZE : 0;
  const pasts = session.inputMetadata.filter(({ name }) => name.startsWith('past_key'));
  const caches = Object.fromEntries(pasts.map(({ name, shape }) => [name, empty(ort, shape, rows)]));
  const int64 = (list) => new ort.Tensor('int64', BigInt64Array.from(list, BigInt), [1, list.length]);
  const found = [];
  let tokens = [...prompt];
  let total = 0;
  while (found.length < count) {
    const positions = tokens.map((_, i) => total + i);
    total += tokens.length;
    const one = (number) => new ort.Tensor('int64', BigInt64Array.of(BigInt(number)), [1]);
    const filled = { write_indices: one(total - tokens.length), nonpad_kv_seqlen: one(total) };
    const feeds = { ...caches, ...filled, input_ids: int64(tokens), attention_mask: int64(new Array(total).fill(1)), position_ids: int64(positions) };
    const used = Object.fromEntries(Object.entries(feeds).filter(([name]) => session.inputNames.includes(name)));
    const results = await session.run(used);
    const logits = results.logits.data.slice(-TOKENS);
    const most = Math.max(...logits);
    const id = logits.indexOf(most);
    found.push({ id, logprob: -Math.log(logits.reduce((sum, x) => sum + Math.exp(x - most), 0)) });
    tokens = [id];
    for (const name of Object.keys(caches)) caches[name] = results[name.replace('past_key_values', 'present')];
  }
  await session.release();
  return found;
}

async function main() {
  const ort = require('onnxruntime-node');
  const found = [];
  for (const { kind, prompt, count } of JSON.parse(readFileSync(0, 'utf8'))) found.push(await expected(ort, decoder(kind), prompt, count));
  process.stdout.write(JSON.stringify(found));
}

if (require.main === module) main();

module.exports = { stepByStep: expected };
