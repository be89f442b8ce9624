// What constrained output takes of a step: the masks of a JSON schema, a regular expression or a grammar for a large vocabulary, along texts by chance;
// and for how long the JavaScript thread does nothing else. With a model: what a step with masks beside it gains, and tokens that are forced.
//
//   npm run bench -- constrain [--tokens 150000] [--tokenizer FILE] [--texts 20] [--json FILE]
//   npm run bench -- constrain --model MODEL.onnx --tokenizer FILE [--threads 2] [--rounds 5]
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { compile } from '@webnn-node/constrain';
import { measureDecoder } from './constrain/decoder.mjs';
import { madeUp, randomOf } from './constrain/vocabulary.mjs';
import { load, machine } from './machine.mjs';
import { median, quantile } from './statistics.mjs';

const { values } = parseArgs({
  options: {
    tokens: { type: 'string', default: '150000' },
    tokenizer: { type: 'string' },
    texts: { type: 'string', default: '20' },
    model: { type: 'string' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '5' },
    json: { type: 'string' },
  },
});

const person = {
  type: 'object',
  properties: {
    name: { type: 'string' },
    age: { type: 'integer', minimum: 0, maximum: 150 },
    email: { type: 'string', format: 'email' },
    tags: { type: 'array', items: { type: 'string', maxLength: 20 }, maxItems: 5 },
    address: { type: 'object', properties: { street: { type: 'string' }, city: { enum: ['Berlin', 'Paris', 'Rome'] } }, required: ['street', 'city'], additionalProperties: false },
  },
  required: ['name', 'age', 'tags', 'address'],
  additionalProperties: false,
};
const CASES = {
  'an object of strings and numbers': { schema: person },
  'any object of JSON': { schema: { type: 'object' } },
  'one of 200 values': { schema: { enum: Array.from({ length: 200 }, (_, i) => `value number ${i * 7919}`) } },
  'a date and time': { schema: { type: 'string', format: 'date-time' } },
  'a regular expression': { regex: '[A-Z][a-z]+( [A-Z][a-z]+){1,3}, [0-9]{2,5}' },
  'a grammar of sums': { grammar: 'start: sum\nsum: product ("+" product)*\nproduct: value ("*" value)*\nvalue: NUMBER | "(" sum ")"\nNUMBER: /[0-9]+(\\.[0-9]+)?/' },
};

/** Milliseconds that this process has computed: other programs do not count. */
const now = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** The next token of a text by chance. The token that ends it is taken as soon as it may come. */
const next = (mask, end, random) => ((mask[end >> 5] >>> (end & 31)) & 1 ? end : pick(mask, random));

/** A walk along one text. */
function walk(constraint, end, random, figures) {
  const matcher = constraint.begin();
  for (let count = 0; count < 200 && !matcher.isDone; count++) {
    let began = now();
    const mask = matcher.mask();
    figures.masks.push(now() - began);
    const id = next(mask, end, random);
    began = now();
    matcher.push(id);
    const forced = matcher.isDone ? [] : matcher.forced();
    figures.pushes.push(now() - began);
    figures.forced += forced.length;
  }
}

/** For how long the JavaScript thread is held by each mask of a text, in milliseconds: by one that it computes itself, or asks for. */
async function hold(constraint, end, random, computes) {
  const times = [];
  const matcher = constraint.begin();
  for (let count = 0; count < 200 && !matcher.isDone; count++) {
    let last = performance.now();
    let longest = 0;
    let isWanted = true;
    const turn = () => {
      longest = Math.max(longest, performance.now() - last);
      last = performance.now();
      if (isWanted) setImmediate(turn);
    };
    setImmediate(turn);
    const mask = computes ? matcher.mask() : await matcher.maskAsync();
    isWanted = false;
    await new Promise((resolve) => { setImmediate(resolve); });
    times.push(longest);
    matcher.push(next(mask, end, random));
    if (!matcher.isDone) matcher.forced();
  }
  return times;
}

/** One of the tokens of a mask by chance: the first behind a place. */
function pick(mask, random) {
  const first = random(mask.length);
  for (let i = 0; i < mask.length; i++) {
    const word = (first + i) % mask.length;
    if (mask[word] === 0) continue;
    const bits = Array.from({ length: 32 }, (_, bit) => bit).filter((bit) => (mask[word] >>> bit) & 1);
    return word * 32 + bits[random(bits.length)];
  }
  throw new Error('a mask of nothing');
}

async function measureMasks(tokenizer, end) {
  let began = now();
  await compile({ regex: 'a', tokenizer, end });
  console.log(`${Object.keys(tokenizer.model.vocab).length + tokenizer.added_tokens.length} tokens, read in ${(now() - began).toFixed(0)} ms\n`);
  console.log(' masks of                            compiled    mean   median      p99      max   push, mean, max      forced');
  const results = {};
  for (const [name, wanted] of Object.entries(CASES)) {
    began = now();
    const constraint = await compile({ ...wanted, tokenizer, end });
    const compiled = now() - began;
    const figures = { masks: [], pushes: [], forced: 0 };
    for (let text = 0; text < Number(values.texts); text++) walk(constraint, end, randomOf(text + 1), figures);
    const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
    const [average, middle, high, most] = [mean(figures.masks), median(figures.masks), quantile(figures.masks, 0.99), Math.max(...figures.masks)];
    const [push, longest] = [mean(figures.pushes), Math.max(...figures.pushes)];
    const share = figures.forced / (figures.forced + figures.masks.length);
    results[name] = { compiled, mean: average, median: middle, p99: high, max: most, push, longest, forced: share, masks: figures.masks.length };
    const cells = [[compiled.toFixed(1), 9], ...[average, middle, high, most].map((ms) => [ms.toFixed(3), 9]), [push.toFixed(3), 9], [longest.toFixed(3), 9], [`${(100 * share).toFixed(0)} %`, 9]];
    console.log(` ${name.padEnd(33)}${cells.map(([text, width]) => text.padStart(width)).join('')}`);
  }
  console.log('\nmilliseconds of processor time. forced: tokens that no mask was made for.\n');
  return results;
}

async function measureHolds(tokenizer, end) {
  console.log(' the JavaScript thread is held by     mask(), p99      max   maskAsync(), p99      max');
  const results = {};
  for (const [name, wanted] of Object.entries(CASES)) {
    results[name] = {};
    for (const [way, computes] of [['mask', true], ['maskAsync', false]]) {
      // Each with a grammar of its own: copies share what they find out.
      const constraint = await compile({ ...wanted, tokenizer: { ...tokenizer }, end });
      const times = [];
      for (let text = 0; text < Number(values.texts); text++) times.push(...await hold(constraint, end, randomOf(text + 1), computes));
      results[name][way] = { p99: quantile(times, 0.99), max: Math.max(...times) };
    }
    const { mask, maskAsync } = results[name];
    const cells = [[mask.p99, 16], [mask.max, 9], [maskAsync.p99, 19], [maskAsync.max, 9]];
    console.log(` ${name.padEnd(33)}${cells.map(([ms, width]) => ms.toFixed(3).padStart(width)).join('')}`);
  }
  console.log('\nmilliseconds of time, of each mask the longest between two turns of the event loop.');
  return results;
}

const here = machine();
console.log(`${here.cpu}, Node ${here.node}, load ${load().toFixed(2)}`);
const tokenizer = values.tokenizer === undefined ? madeUp(Number(values.tokens)) : JSON.parse(readFileSync(values.tokenizer, 'utf8'));
const ends = tokenizer.added_tokens.filter(({ special }) => special).map(({ id }) => id);
const end = ends.at(-1);
let results;
if (values.model === undefined) results = { masks: await measureMasks(tokenizer, end), holds: await measureHolds(tokenizer, end) };
else results = await measureDecoder(values.model, { tokenizer, end, threads: Number(values.threads), rounds: Number(values.rounds) });
console.log(`load at the end: ${load().toFixed(2)}`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, results }, null, 2)}\n`);
