// measure-batch.mjs ENGINE MODEL THREADS SEQUENCES PASTS TOKENS PROMPT LLAMA: prints as JSON how many tokens a second so many sequences get
// together behind so many tokens each, the share of the slowest, the ceiling, runs of 1,000 steps, and what a prompt that comes in does to the
// steps of another sequence. The first pass is not timed: plans are made, pages are touched.

import { createRequire } from 'node:module';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { median } from '../statistics.mjs';

const require = createRequire(import.meta.url);
const [engine, model, threads, sequences, pasts, count, long, llama] = process.argv.slice(2);
const numbers = (list) => list.split(',').filter(Boolean).map(Number);

/** A function that continues the sequence of that number by so many tokens, and calls back at each; others look at what was done. */
async function webnn() {
  const { ml } = require('../../lib/index.js');
  const { loadOnnx } = require('../../lib/onnx.js');
  const { GenerationCache, generate, generationUsage } = require('../../lib/generate.js');
  const context = await ml.createContext({ accelerated: false, numThreads: Number(threads) });
  const loaded = await loadOnnx(context, model);
  usage = () => generationUsage(loaded);
  /** Milliseconds of a piece of a prompt of so many tokens behind as many as `past`. */
  piece = async (batch, past) => {
    const cache = new GenerationCache();
    const times = { piece: [], step: [] };
    for (let i = 0; i < 24; i++) {
      for (const what of ['piece', 'step']) {
        // The last token of what is new is a step of its own.
        past += what === 'piece' ? batch + 1 : 1;
        const begin = performance.now();
        for await (const { finish } of generate(loaded, promptOf(past, 0), { cache, maxNewTokens: 1 })) {
          if (finish && i >= 8) times[what].push(performance.now() - begin);
        }
      }
    }
    cache.destroy();
    return median(times.piece) - median(times.step);
  };
  // Each prompt is computed whole.
  const nothing = new GenerationCache({ maxBytes: 0 });
  return async (sequence, prompt, most, each) => {
    for await (const { id } of generate(loaded, prompt, { cache: nothing, maxNewTokens: most })) each(id);
  };
}

async function llamaCpp() {
  const { getLlama } = await import(pathToFileURL(path.resolve(llama, 'node_modules/node-llama-cpp/dist/index.js')));
  const library = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads) });
  const loaded = await library.loadModel({ modelPath: model });
  const longest = Math.max(...numbers(pasts), Number(long)) + 2 * Number(count) + 8;
  const most = Math.max(...numbers(sequences), 2);
  const context = await loaded.createContext({ contextSize: longest, sequences: most, batchSize: 512, threads: Number(threads) });
  const all = Array.from({ length: most }, () => context.getSequence());
  return async (sequence, prompt, left, each) => {
    await all[sequence].clearHistory();
    for await (const token of all[sequence].evaluate(prompt, { temperature: 0 })) {
      each(token);
      left -= 1;
      if (left === 0) break;
    }
  };
}

/** One batch for all: it has no other way to compute steps of several sequences in one run. Models without a free batch dimension have none. */
async function onnxruntime() {
  const ort = require('onnxruntime-node');
  const session = await ort.InferenceSession.create(model, { intraOpNumThreads: Number(threads) });
  const caches = session.inputMetadata.filter(({ name }) => name.startsWith('past'));
  const ids = session.inputMetadata.find(({ name }) => name === 'input_ids');
  const int64 = (lists) => new ort.Tensor('int64', BigInt64Array.from(lists.flat(), BigInt), [lists.length, lists[0].length]);
  const none = ({ type, shape }, batch) => new ort.Tensor(type, type === 'float16' ? new Uint16Array(0) : new Float32Array(0), [batch, shape[1], 0, shape[3]]);
  const presentOf = (name) => name.replace('past_key_values', 'present');
  const best = (row) => row.reduce((found, logit, id) => (logit > row[found] ? id : found), 0);
  return async (prompts, most, each) => {
    if (prompts.length > 1 && typeof ids.shape[0] === 'number') return false;
    let feeds = Object.fromEntries(caches.map((input) => [input.name, none(input, prompts.length)]));
    let tokens = prompts;
    let total = 0;
    for (let i = 0; i < most; i++) {
      total += tokens[0].length;
      const mask = tokens.map(() => new Array(total).fill(1));
      const results = await session.run({ ...feeds, input_ids: int64(tokens), attention_mask: int64(mask) });
      const { data, dims: [, rows, count] } = results.logits;
      tokens = prompts.map((_, sequence) => [best(data.subarray(((sequence + 1) * rows - 1) * count, (sequence + 1) * rows * count))]);
      tokens.forEach((_, sequence) => each(sequence));
      feeds = Object.fromEntries(caches.map(({ name }) => [name, results[presentOf(name)]]));
    }
    return true;
  };
}

let usage;
let piece;
const run = await { 'onnxruntime-node': onnxruntime, 'webnn-node': webnn, 'llama.cpp': llamaCpp }[engine]();
const promptOf = (length, seed) => Array.from({ length }, (_, i) => ((i * 7919 + 13 + 31 * seed) % 250) + 3);

const isBatch = engine === 'onnxruntime-node';

/** When each sequence got its tokens. */
async function together(batch, past, tokens) {
  const times = Array.from({ length: batch }, () => []);
  const prompts = times.map((_, i) => promptOf(past, i));
  const each = (i) => times[i].push(performance.now());
  if (isBatch) return (await run(prompts, tokens, each)) ? times : undefined;
  await Promise.all(prompts.map((prompt, i) => run(i, prompt, tokens, () => each(i))));
  return times;
}

const found = {};
for (const past of numbers(pasts)) {
  for (const batch of numbers(sequences)) {
    const rates = [];
    const shares = [];
    const before = await usage?.();
    for (let pass = 0; pass < 3; pass++) {
      // While all are under way: the last ones get their first token when others have had many.
      // A batch is all under way at once.
      const times = await together(batch, past, Number(count) * (isBatch ? 2 : batch + 1));
      if (times === undefined) break;
      const [first, last] = [Math.max(...times.map((own) => own[0])), Math.min(...times.map((own) => own.at(-1)))];
      const counts = times.map((own) => own.filter((time) => time > first && time <= last).length);
      const sum = counts.reduce((a, b) => a + b, 0);
      if (pass === 0 || last <= first) continue;
      rates.push((1000 * sum) / (last - first));
      shares.push((Math.min(...counts) * batch) / sum);
    }
    if (rates.length === 0) continue;
    found[`${batch} behind ${past}, tokens/s`] = median(rates);
    if (batch === 1 || isBatch) continue;
    found[`${batch} behind ${past}, share of the slowest`] = median(shares);
    if (usage === undefined) continue;
    const { steps, runs } = await usage();
    found[`${batch} behind ${past}, runs of 1000 steps`] = (1000 * (runs - before.runs)) / (steps - before.steps);
    found[`${batch} behind ${past}, ceiling`] = (1000 * batch) / (await piece(batch, past));
    found[`${batch} behind ${past}, of the ceiling`] = found[`${batch} behind ${past}, tokens/s`] / found[`${batch} behind ${past}, ceiling`];
  }
}

/** How long a prompt takes, beside a sequence or alone, how long that sequence waits for tokens, and how late timers are. */
async function prompt(isAlone) {
  const times = [];
  let ends = false;
  const steps = isAlone ? undefined : run(0, promptOf(8, 1), 1e6, () => {
    times.push(performance.now());
    if (ends) throw new Error('enough');
  });
  while (!isAlone && times.length < 40) await new Promise((resolve) => { setTimeout(resolve, 1); });
  const delay = monitorEventLoopDelay({ resolution: 1 });
  const begin = performance.now();
  delay.enable();
  await run(1, promptOf(Number(long), 2), 1, () => {});
  const time = performance.now() - begin;
  delay.disable();
  ends = true;
  await steps?.catch(() => {});
  const gaps = (from, to) => times.slice(1).map((end, i) => [end, end - times[i]]).filter(([end]) => end > from && end <= to).map(([, gap]) => gap);
  const waits = gaps(begin, begin + time).sort((a, b) => a - b);
  const wait = (part) => waits[Math.floor(part * (waits.length - 1))];
  // It counts from one timer to the next.
  return { time, longest: wait(1), most: wait(0.99), middle: wait(0.5), step: median(gaps(times[10], begin)), late: delay.percentile(99) / 1e6 - 1 };
}

if (Number(long) > 0 && !isBatch) {
  await prompt(false);
  const [beside, alone] = [await prompt(false), await prompt(true)];
  found[`a step before a prompt of ${long}, ms`] = beside.step;
  found[`longest wait beside a prompt of ${long}, steps`] = beside.longest / beside.step;
  found[`99 of 100 waits beside a prompt of ${long}, at most, steps`] = beside.most / beside.step;
  found[`half of the waits beside a prompt of ${long}, at most, steps`] = beside.middle / beside.step;
  found[`delay of the event loop beside a prompt of ${long}, p99, ms`] = beside.late;
  found[`a prompt of ${long} alone, ms`] = alone.time;
  found[`a prompt of ${long} beside a sequence, of its time alone`] = beside.time / alone.time;
}
found.memory = process.resourceUsage().maxRSS / 1024;
process.stdout.write(JSON.stringify(found));
process.exit(0);
