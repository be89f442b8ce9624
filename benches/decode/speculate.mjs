// What guesses gain (`speculate` of generate()), and what they cost where nothing repeats.
//
//     npm run bench -- speculate MODEL.onnx … [--quick] [--threads 1] [--rates 0,0.5,0.8,0.9,0.95,1] [--past 512] [--tokens 256] [--rounds 3] [--draft DRAFT.onnx]
//
// The text is made up, and a constraint has the model say it, with guesses and without. The next token follows in the prompt with the
// probability that is the rate; otherwise the text goes on somewhere else in the prompt. At a rate of 0 no two tokens ever come again.

import { createRequire } from 'node:module';
import { parseArgs } from 'node:util';
import path from 'node:path';
import { machine } from '../machine.mjs';
import { median } from '../statistics.mjs';

const require = createRequire(import.meta.url);
const { ml } = require('../../lib/index.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../../lib/generate.js');

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    threads: { type: 'string', default: '1' },
    rates: { type: 'string' },
    past: { type: 'string' },
    tokens: { type: 'string' },
    rounds: { type: 'string' },
    draft: { type: 'string' },
  },
});
const usual = values.quick ? { rates: '0,0.95', past: '64', tokens: '64', rounds: '1' } : { rates: '0,0.5,0.8,0.9,0.95,1', past: '512', tokens: '256', rounds: '3' };
for (const name of Object.keys(usual)) values[name] ??= usual[name];
if (positionals.length === 0) {
  console.error('MODEL.onnx is missing: npm run bench -- speculate --help');
  process.exit(2);
}
const [past, count, rounds] = [values.past, values.tokens, values.rounds].map(Number);

/** Numbers from 0 to 1, the same each time. */
function numbers(state) {
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** A prompt, and a text that repeats parts of it. */
function textOf(rate, vocabulary, seed) {
  const random = numbers(seed);
  // Beyond the vocabulary of a small model some tokens come again.
  const fresh = (i) => (i * 7919 + seed) % vocabulary;
  const prompt = Array.from({ length: past }, (_, i) => fresh(i));
  if (rate === 0) return { prompt, text: Array.from({ length: count }, (_, i) => fresh(past + i)) };
  let at = Math.floor(random() * past);
  const text = Array.from({ length: count }, () => {
    at = random() < rate ? (at + 1) % past : Math.floor(random() * past);
    return prompt[at];
  });
  return { prompt, text };
}

/** Has the model say a text. */
function saying(text, vocabulary) {
  return {
    begin() {
      let at = 0;
      const mask = new Uint32Array(Math.ceil(vocabulary / 32));
      return {
        mask() {
          mask.fill(0);
          mask[text[at] >> 5] = 1 << (text[at] & 31);
          return mask;
        },
        push: () => void at++,
        get isDone() {
          return at >= text.length;
        },
      };
    },
  };
}

/** Tokens a second behind the first one. */
async function speed(model, prompt, options) {
  const nothing = new GenerationCache({ maxBytes: 0 });
  const times = [];
  let said = 0;
  for await (const { finish } of generate(model, prompt, { maxNewTokens: count, cache: nothing, ...options })) {
    said++;
    if (said === 1 || finish) times.push(performance.now());
  }
  return (1000 * (said - 1)) / (times.at(-1) - times[0]);
}

/** With guesses and without, in turn. The first pass is not timed: plans are made. */
async function compare(model, what, textFor, speculate) {
  const found = { plain: [], guessing: [] };
  let [guessed, accepted] = [0, 0];
  for (let round = -2; round < rounds; round++) {
    const { prompt, options } = textFor(round + 3);
    const plain = await speed(model, prompt, options);
    const before = await generationUsage(model);
    const guessing = await speed(model, prompt, { ...options, speculate });
    const after = await generationUsage(model);
    if (round < 0) continue;
    found.plain.push(plain);
    found.guessing.push(guessing);
    [guessed, accepted] = [guessed + after.guessed - before.guessed, accepted + after.accepted - before.accepted];
  }
  const ratio = median(found.guessing.map((rate, i) => rate / found.plain[i]));
  console.log(`| ${what} | ${median(found.plain).toFixed(1)} | ${median(found.guessing).toFixed(1)} | ${ratio.toFixed(2)} | ${guessed} | ${accepted} |`);
}

console.log(`${machine().cpu}, ${values.threads} threads, Node.js ${process.version}, ${count} tokens behind ${past}\n`);
const context = await ml.createContext({ accelerated: false, numThreads: Number(values.threads) });
const draft = values.draft && (await loadOnnx(context, values.draft));
for (const file of positionals) {
  const model = await loadOnnx(context, file);
  const vocabulary = await vocabularyOf(model);
  console.log(`${path.basename(file)}\n\n| text | tokens/s | with guesses | ratio | guessed | right |\n| --- | ---: | ---: | ---: | ---: | ---: |`);
  for (const rate of values.rates.split(',').map(Number)) {
    const what = rate === 0 ? 'nothing repeats' : `follows the prompt with ${rate}`;
    const textFor = (seed) => {
      const { prompt, text } = textOf(rate, vocabulary, seed);
      return { prompt, options: { constraint: saying(text, vocabulary) } };
    };
    await compare(model, what, textFor, 'prompt');
  }
  const own = (seed) => ({ prompt: textOf(0, vocabulary, seed).prompt, options: {} });
  await compare(model, 'its own', own, 'prompt');
  if (draft) await compare(model, `its own, guesses of ${path.basename(values.draft)}`, own, { draft });
  console.log('');
  model.destroy();
}
context.destroy();

async function vocabularyOf(model) {
  let length = 0;
  const logits = (row) => void (length = row.length);
  for await (const token of generate(model, [1], { maxNewTokens: 1, logits })) void token;
  return length;
}
