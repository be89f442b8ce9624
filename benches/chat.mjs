// Chat completions over HTTP for 1, 4 and 8 streams, of `webnn-node serve`, of llama.cpp by node-llama-cpp, and of another server with OpenAI's interface,
// in turn.
//
//   npm run bench -- chat --model FOLDER-OR-FILE.onnx [--llama DIR] [--beside URL] [--streams 1,4,8] [--tokens 128] [--words 64] [--rounds 3] [--threads 2] [--json FILE]
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { parseArgs } from 'node:util';
import { load, machine, memoryOf } from './machine.mjs';
import { makeHubFolder } from './serving/hub-folder.mjs';
import { inRepository, startNode, startServe } from './serving/start.mjs';
import { median, quantile } from './statistics.mjs';

const WORDS = 'river mountain city street house dog cat bird fish horse tree flower car train ship plane book paper letter word'.split(' ');

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
    llama: { type: 'string' },
    beside: { type: 'string' },
    'beside-model': { type: 'string', default: 'model' },
    'beside-pid': { type: 'string' },
    streams: { type: 'string', default: '1,4,8' },
    tokens: { type: 'string', default: '128' },
    words: { type: 'string', default: '64' },
    rounds: { type: 'string', default: '3' },
    threads: { type: 'string', default: '2' },
    json: { type: 'string' },
  },
});
const streams = values.streams.split(',').map(Number);
const rounds = Number(values.rounds);
if (![...streams, Number(values.tokens), Number(values.words), rounds].every((count) => Number.isInteger(count) && count >= 1)) {
  console.error('--streams, --tokens, --words and --rounds: expected whole numbers from 1');
  process.exit(2);
}

const { url, pid: own } = await startServe(await folderOf(values.model), values.threads);
const sides = { serve: { url: `${url}/v1`, model: 'model', pid: own } };
if (values.llama !== undefined) sides.llama = await startLlama();
if (values.beside !== undefined) sides.beside = { url: values.beside.replace(/\/+$/, ''), model: values['beside-model'], pid: values['beside-pid'] };
const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}; ${values.threads} threads, ${values.words} words, ${values.tokens} tokens`);
const measured = await measureRounds();
show();
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, values, measured }, null, 2)}\n`);
process.exit();

/** The folder of the model; a decoder of benches/models/make_decoder.py gets one. */
async function folderOf(model) {
  if (!model.endsWith('.onnx')) return model;
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-chat-'));
  process.once('exit', () => rmSync(folder, { recursive: true }));
  await makeHubFolder(model, folder);
  return folder;
}

/** llama.cpp, on the .gguf beside the model. */
async function startLlama() {
  const length = Number(values.words) * 12 + Number(values.tokens) + 64;
  const args = [values.llama, values.model.replace(/\.onnx$/, '.gguf'), values.threads, Math.max(...streams), length];
  const { url, pid } = await startNode([inRepository('benches/serving/llama.mjs'), ...args.map(String)]);
  return { url: `${url}/v1`, model: 'model', pid };
}

/** Every second round starts with the other side. */
async function measureRounds() {
  const found = Object.fromEntries(Object.keys(sides).map((side) => [side, Object.fromEntries(streams.map((count) => [count, []]))]));
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? Object.keys(sides) : Object.keys(sides).reverse();
    for (const count of streams) {
      for (const side of order) {
        // The first time makes plans, and is not counted.
        if (round === 0) await measure(sides[side], count, 1000);
        found[side][count].push(await measure(sides[side], count, round));
      }
    }
  }
  return found;
}

/** So many streams at once. */
async function measure({ url: base, model, pid }, count, round) {
  const begin = performance.now();
  const results = await Promise.all(Array.from({ length: count }, (_, i) => stream(base, model, `${round} ${i}`)));
  const seconds = (performance.now() - begin) / 1000;
  return {
    perSecond: results.reduce((sum, { tokens }) => sum + tokens, 0) / seconds,
    first: results.map(({ first }) => first),
    gaps: results.flatMap(({ gaps }) => gaps),
    memory: memoryOf(pid),
  };
}

/** A question of its own, so that no server knows its beginning. */
function question(name) {
  let state = [...name].reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) >>> 0, 7);
  const word = () => WORDS[(state = (Math.imul(state, 1664525) + 1013904223) >>> 0) % WORDS.length];
  return `Question ${name}: ${Array.from({ length: Number(values.words) }, word).join(' ')}`;
}

async function stream(base, model, name) {
  const body = { model, messages: [{ role: 'user', content: question(name) }], max_tokens: Number(values.tokens), temperature: 0, stream: true };
  const begin = performance.now();
  const response = await fetch(`${base}/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', authorization: 'Bearer none' }, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${base}: ${response.status} ${await response.text()}`);
  const times = [];
  for await (const line of createInterface(Readable.fromWeb(response.body))) {
    if (!line.startsWith('data: {')) continue;
    const { choices = [] } = JSON.parse(line.slice('data: '.length));
    if (choices[0]?.delta?.content) times.push(performance.now());
  }
  if (times.length === 0) throw new Error(`${base}: an answer without text`);
  return { tokens: times.length, first: times[0] - begin, gaps: times.slice(1).map((time, i) => time - times[i]) };
}

function show() {
  console.log('\n streams   side   pieces/s   first p50   first p99   gap p50   gap p99   MiB');
  for (const count of streams) {
    for (const [side, found] of Object.entries(measured)) {
      const of = found[count];
      const [first, gaps] = [of.flatMap((one) => one.first), of.flatMap((one) => one.gaps)];
      const cells = [[count, 8, 0], [median(of.map(({ perSecond }) => perSecond)), 11, 1], [quantile(first, 0.5), 12, 1], [quantile(first, 0.99), 12, 1], [quantile(gaps.length > 0 ? gaps : [0], 0.5), 10, 2], [quantile(gaps.length > 0 ? gaps : [0], 0.99), 10, 2], [median(of.map(({ memory }) => memory)), 6, 0]];
      const [streamsCell, ...others] = cells.map(([value, width, digits]) => value.toFixed(digits).padStart(width));
      console.log(`${streamsCell} ${side.padStart(6)}${others.join('')}`);
    }
  }
  console.log('\nfirst and gap: milliseconds until the first piece of text, and between pieces. A piece is a token, or several that make a character.');
  for (const side of Object.keys(sides).filter((name) => name !== 'serve')) {
    for (const count of streams) {
      const ratios = measured.serve[count].map(({ perSecond }, i) => perSecond / measured[side][count][i].perSecond);
      console.log(`${count} streams: ratio to ${side} ${median(ratios).toFixed(2)}, from ${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`);
    }
  }
  console.log(`load at the end: ${load().toFixed(2)}`);
}
