// measure.mjs ENGINE MODEL THREADS PASTS PROMPTS TOKENS LLAMA: prints tokens per second behind so many, prompt tokens per second, and the
// largest resident memory, as JSON. A first pass over each length is not timed: plans are made, pages are touched.

import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { median } from '../statistics.mjs';

const require = createRequire(import.meta.url);
const [engine, model, threads, pasts, prompts, count, llama] = process.argv.slice(2);
const lengths = (list) => list.split(',').filter(Boolean).map(Number);

/** A function that runs a prompt of so many tokens and gives so many more; it calls back at each. */
async function webnn() {
  const { ml } = require('../../lib/index.js');
  const { loadOnnx } = require('../../lib/onnx.js');
  const { GenerationCache, generate } = require('../../lib/generate.js');
  // Each prompt is computed whole.
  const cache = new GenerationCache({ maxBytes: 0 });
  const context = await ml.createContext({ accelerated: false, numThreads: Number(threads) });
  const loaded = await loadOnnx(context, model);
  return async (prompt, most, each) => {
    for await (const { id } of generate(loaded, prompt, { cache, maxNewTokens: most })) each(id);
  };
}

async function onnxruntime() {
  const ort = require('onnxruntime-node');
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: Number(threads) });
  const caches = session.inputMetadata.filter(({ name }) => name.startsWith('past'));
  const int64 = (list) => new ort.Tensor('int64', BigInt64Array.from(list, BigInt), [1, list.length]);
  return async (prompt, most, each) => {
    let feeds = Object.fromEntries(caches.map(({ name, shape }) => [name, new ort.Tensor('float32', new Float32Array(0), [1, shape[1], 0, shape[3]])]));
    let tokens = prompt;
    let total = 0;
    for (let i = 0; i < most; i++) {
      total += tokens.length;
      const results = await session.run({ ...feeds, input_ids: int64(tokens), attention_mask: int64(new Array(total).fill(1)) });
      const { data, dims } = results.logits;
      const logits = data.subarray(data.length - dims.at(-1));
      let best = 0;
      for (let id = 1; id < logits.length; id++) if (logits[id] > logits[best]) best = id;
      each(best);
      tokens = [best];
      feeds = Object.fromEntries(caches.map(({ name }) => [name, results[name.replace('past_key_values', 'present')]]));
    }
  };
}

async function llamaCpp() {
  const { getLlama } = await import(pathToFileURL(path.resolve(llama, 'node_modules/node-llama-cpp/dist/index.js')));
  const library = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads) });
  const loaded = await library.loadModel({ modelPath: model });
  const longest = Math.max(...lengths(pasts), ...lengths(prompts), 64) + Number(count) + 8;
  const context = await loaded.createContext({ contextSize: longest, batchSize: 512, threads: Number(threads) });
  const sequence = context.getSequence();
  return async (prompt, most, each) => {
    await sequence.clearHistory();
    let left = most;
    for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
      each(token);
      left -= 1;
      if (left === 0) break;
    }
  };
}

const run = await { 'webnn-node': webnn, 'onnxruntime-node': onnxruntime, 'llama.cpp': llamaCpp }[engine]();
const promptOf = (length) => Array.from({ length }, (_, i) => ((i * 7919 + 13) % 250) + 3);
const found = { tokens: [] };
await run(promptOf(8), 32, (id) => found.tokens.push(id));
for (const length of lengths(prompts)) {
  const times = [];
  for (let i = 0; i < 3; i++) {
    const begin = performance.now();
    await run(promptOf(length), 1, () => times.push(performance.now() - begin));
  }
  found[`prompt of ${length}, tokens/s`] = (1000 * length) / Math.min(...times.slice(1));
}
for (const length of lengths(pasts)) {
  const times = [];
  let before;
  await run(promptOf(length), Number(count) + 1, () => {
    const now = performance.now();
    if (before !== undefined) times.push(now - before);
    before = now;
  });
  found[`past ${length}, tokens/s`] = 1000 / median(times);
}
found['peak resident, MiB'] = process.resourceUsage().maxRSS / 1024;
console.log(JSON.stringify(found));
// llama.cpp's threads would keep the process.
process.exit();
