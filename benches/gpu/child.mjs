// One engine and one group of parts in a process of its own. Prints a line of JSON for each part, when it is done, so that nothing is lost when the
// time is over.
//
//   node benches/gpu/child.mjs ENGINE '{"folder": …, "parts": […], "milliseconds": …, "longest": …, "allowSoftware": false}'
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { generator } from '../onnx/seeded.mjs';
import { median, quantile } from '../statistics.mjs';
import { modelsOf } from './parts.mjs';

const [engine, settings] = process.argv.slice(2);
const { folder, parts, milliseconds, longest, allowSoftware } = JSON.parse(settings);
const end = performance.now() + milliseconds;
const LEAST = 3;

const say = (what) => process.stdout.write(`${JSON.stringify(what)}\n`);

/** Each has the same numbers, as far as its shape has them. */
function input({ type, dims, below, value, signs }) {
  const random = generator(5);
  const length = dims.reduce((a, b) => a * b, 1);
  if (type === 'int64') return { type, dims, data: BigInt64Array.from({ length }, () => BigInt(value ?? Math.floor(((random() + 1) / 2) * below))) };
  return { type, dims, data: Float32Array.from({ length }, () => (signs ? Math.sign(random()) || 1 : random())) };
}

const inputsOf = ({ inputs }) => Object.fromEntries(Object.entries(inputs).map(([name, one]) => [name, input(one)]));
const numbersOf = (data) => Array.from(data.slice(0, 64), Number);

/** Times of a run until the time of the part is over; the first two are not counted. */
async function repeat(run, until) {
  const samples = [];
  await run();
  await run();
  do {
    const begin = performance.now();
    await run();
    samples.push(performance.now() - begin);
  } while (performance.now() < until || samples.length < LEAST);
  return samples;
}

/** A model that is run on one input. */
async function single(opened, part, until) {
  const inputs = inputsOf(part);
  const begin = performance.now();
  const [{ file }] = modelsOf(part);
  const model = await opened.load(path.join(folder, file));
  const answers = numbersOf(await model.run(inputs));
  const loaded = performance.now() - begin;
  const samples = await repeat(() => model.run(inputs), until());
  await model.release();
  return { ms: median(samples), best: Math.min(...samples), samples: samples.length, loaded, answers };
}

/** What a link of a chain takes: the difference of two chains, whose runs take turns. */
async function chain(opened, part, until) {
  const inputs = inputsOf(part);
  const begin = performance.now();
  const [first, second] = modelsOf(part);
  const long = await opened.load(path.join(folder, first.file));
  const short = await opened.load(path.join(folder, second.file));
  const found = await long.run(inputs);
  await short.run(inputs);
  const loaded = performance.now() - begin;
  const timed = async (model) => {
    const before = performance.now();
    await model.run(inputs);
    return performance.now() - before;
  };
  const samples = [];
  const last = until();
  do samples.push(((await timed(long)) - (await timed(short))) / part.each);
  while (performance.now() < last || samples.length < LEAST);
  const isWrong = part.exact !== undefined && found.some((value, i) => Number(value) !== inputs.column.data[0] * inputs[part.exact].data[i]);
  await long.release();
  await short.release();
  return { ms: median(samples), best: quantile(samples, 0.25), samples: samples.length, loaded, answers: numbersOf(found), wrong: isWrong || undefined };
}

/** Prompts, and steps behind them. */
async function text(opened, part, until) {
  const { groups, width, heads, weights } = part.options;
  const [{ file }] = modelsOf(part);
  const begin = performance.now();
  const decoder = await opened.decoder(path.join(folder, file), { groups, head: width / heads, type: weights === 'float16' ? 'float16' : 'float32' });
  const result = { answers: [], prompts: {}, loaded: performance.now() - begin };
  for (const [i, length] of part.prompts.entries()) {
    const prompt = Array.from({ length }, (_, k) => ((k * 7919 + 13) % 250) + 3);
    const last = performance.now() + (until() - performance.now()) / (part.prompts.length - i);
    const found = { first: [], steps: [] };
    let round = 0;
    do {
      let before = performance.now();
      let count = 0;
      await decoder.generate(prompt, part.tokens + 1, (id) => {
        const now = performance.now();
        if (round === 0) result.answers.push(id);
        else found[count === 0 ? 'first' : 'steps'].push(now - before);
        count += 1;
        before = now;
      });
      round += 1;
    } while (round < 2 || (performance.now() < last && round < 20));
    result.prompts[length] = { first: median(found.first), step: median(found.steps), samples: found.steps.length };
    // The next one may be too long for the time that is left.
    if (i + 1 < part.prompts.length) say({ begins: part.name, part: part.name, ...result });
  }
  await decoder.release();
  return result;
}

async function measure(opened, part, i) {
  // Called when a part begins to be measured: its share of what is left.
  const until = () => performance.now() + Math.max(0, Math.min(longest, ((end - performance.now()) / (parts.length - i)) * 0.6));
  if (part.prompts) return text(opened, part, until);
  return part.shorter ? chain(opened, part, until) : single(opened, part, until);
}

/** Engines leave threads and wasm behind that take long to end. */
function leave() {
  process.stdout.write('', () => process.kill(process.pid, 'SIGKILL'));
}

try {
  const { open } = await import(`./engines/${engine}.mjs`);
  const opened = await open();
  const { version } = JSON.parse(readFileSync(new URL(engine.startsWith('webnn') ? '../../package.json' : `../../node_modules/${engine}/package.json`, import.meta.url), 'utf8'));
  say({ adapter: opened.name, isSoftware: opened.isSoftware, version });
  if (opened.isSoftware && !allowSoftware) throw new Error(`${opened.name ?? 'the adapter'} computes in software: it is no GPU`);
  for (const [i, part] of parts.entries()) {
    if (performance.now() > end) {
      say({ part: part.name, error: 'not measured: the time was over' });
      continue;
    }
    say({ begins: part.name });
    try {
      say({ part: part.name, ...(await measure(opened, part, i)) });
    } catch (error) {
      say({ part: part.name, error: String(error?.message ?? error).slice(0, 600) });
    }
  }
} catch (error) {
  say({ error: String(error?.message ?? error).slice(0, 600) });
}
leave();
