// What constrained output takes of a step: the masks of a JSON schema, a regular expression or a grammar for a large vocabulary, along texts by chance.
//
//   npm run bench -- constrain [--tokens 150000] [--tokenizer FILE] [--texts 20] [--json FILE]
import { readFileSync, writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { compile } from '@webnn-node/constrain';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';

const { values } = parseArgs({
  options: { tokens: { type: 'string', default: '150000' }, tokenizer: { type: 'string' }, texts: { type: 'string', default: '20' }, json: { type: 'string' } },
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

/** Numbers below a bound, the same each time. */
function randomOf(seed) {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** A byte-level vocabulary: bytes, numbers, and words of syllables, as they begin a text and behind a space or a mark. */
function madeUp(count) {
  const random = randomOf(7);
  let next = 256;
  const letters = Array.from({ length: 256 }, (_, byte) => String.fromCodePoint((byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae ? byte : next++));
  const texts = new Set(letters);
  for (let number = 0; number < 1000; number++) texts.add(String(number));
  const marks = ['', 'Ġ', 'Ġ', 'Ġ', '"', 'Ġ"', '_', '.', '(', '-', '/', ',Ġ', 'ĊĊ', '{"', '":'];
  const syllable = () => `${'bcdfghjklmnprstvwz'[random(18)]}${'aeiou'[random(5)]}${['', '', 'n', 'r', 's', 't'][random(6)]}`;
  while (texts.size < count - 1) {
    const word = Array.from({ length: 1 + random(4) }, syllable).join('');
    texts.add(`${marks[random(marks.length)]}${random(5) === 0 ? word[0].toUpperCase() + word.slice(1) : word}${random(12) === 0 ? marks[random(marks.length)] : ''}`);
  }
  const vocab = Object.fromEntries([...texts].map((text, id) => [text, id]));
  return {
    decoder: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true },
    model: { type: 'BPE', vocab, merges: [] },
    added_tokens: [{ id: texts.size, content: '<end>', special: true, normalized: false }],
  };
}

/** Milliseconds that this process has computed: other programs do not count. */
const now = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

/** A walk along one text. Texts end by the token that ends them, which is taken as soon as it may come. */
function walk(constraint, end, random, figures) {
  const matcher = constraint.begin();
  for (let count = 0; count < 200 && !matcher.isDone; count++) {
    let began = now();
    const mask = matcher.mask();
    figures.masks.push(now() - began);
    const id = (mask[end >> 5] >>> (end & 31)) & 1 ? end : pick(mask, random);
    began = now();
    matcher.push(id);
    const forced = matcher.isDone ? [] : matcher.forced();
    figures.pushes.push(now() - began);
    figures.forced += forced.length;
  }
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

const here = machine();
console.log(`${here.cpu}, Node ${here.node}, load ${load().toFixed(2)}`);
const tokenizer = values.tokenizer === undefined ? madeUp(Number(values.tokens)) : JSON.parse(readFileSync(values.tokenizer, 'utf8'));
const ends = tokenizer.added_tokens.filter(({ special }) => special).map(({ id }) => id);
const end = ends.at(-1);
let began = now();
await compile({ regex: 'a', tokenizer, end });
console.log(`${Object.keys(tokenizer.model.vocab).length + tokenizer.added_tokens.length} tokens, read in ${(now() - began).toFixed(0)} ms\n`);
console.log(' masks of                            compiled    mean   median      p99      max   push, mean   forced');
const results = {};
for (const [name, wanted] of Object.entries(CASES)) {
  began = now();
  const constraint = await compile({ ...wanted, tokenizer, end });
  const compiled = now() - began;
  const figures = { masks: [], pushes: [], forced: 0 };
  for (let text = 0; text < Number(values.texts); text++) walk(constraint, end, randomOf(text + 1), figures);
  const sorted = figures.masks.toSorted((a, b) => a - b);
  const mean = (list) => list.reduce((a, b) => a + b, 0) / list.length;
  const [average, middle, high, most, push] = [mean(sorted), median(sorted), sorted[Math.floor(sorted.length * 0.99)], sorted.at(-1), mean(figures.pushes)];
  const share = figures.forced / (figures.forced + figures.masks.length);
  results[name] = { compiled, mean: average, median: middle, p99: high, max: most, push, forced: share, masks: sorted.length };
  const cells = [[compiled.toFixed(1), 9], ...[average, middle, high, most].map((ms) => [ms.toFixed(3), 9]), [push.toFixed(3), 13], [`${(100 * share).toFixed(0)} %`, 9]];
  console.log(` ${name.padEnd(33)}${cells.map(([text, width]) => text.padStart(width)).join('')}`);
}
console.log(`\nmilliseconds of processor time. forced: tokens that no mask was made for. load at the end: ${load().toFixed(2)}`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, results }, null, 2)}\n`);
