// Chat completions over HTTP for 1, 4 and 8 streams, of `webnn-node serve` and of another server with OpenAI's interface, in turn.
//
//   npm run bench -- chat --model FOLDER [--beside URL] [--streams 1,4,8] [--tokens 128] [--words 64] [--rounds 3] [--threads 2] [--json FILE]
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine, memoryOf } from './machine.mjs';
import { median, quantile } from './statistics.mjs';

const WORDS = 'river mountain city street house dog cat bird fish horse tree flower car train ship plane book paper letter word'.split(' ');

const { values } = parseArgs({
  options: {
    model: { type: 'string' },
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

const { child, url } = await start();
process.once('exit', () => child.kill('SIGKILL'));
const sides = { serve: { url, model: 'model', pid: child.pid } };
if (values.beside !== undefined) sides.beside = { url: values.beside.replace(/\/+$/, ''), model: values['beside-model'], pid: values['beside-pid'] };
const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}; ${values.threads} threads, ${values.words} words, ${values.tokens} tokens`);
const measured = await measureRounds();
child.kill('SIGTERM');
await once(child, 'exit');
show();
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, values, measured }, null, 2)}\n`);

/** The server, with its address. */
async function start() {
  const program = fileURLToPath(new URL('../bin/webnn-node.js', import.meta.url));
  const server = spawn(process.execPath, [program, 'serve', values.model, '--name', 'model', '--port', '0', '--threads', values.threads], { stdio: ['ignore', 'pipe', 'inherit'] });
  let address;
  for await (const line of createInterface(server.stdout)) {
    const { msg } = JSON.parse(line);
    address = /^listening on (http\S+)/.exec(msg)?.[1] ?? address;
    if (msg !== 'ready') continue;
    server.stdout.resume();
    return { child: server, url: `${address}/v1` };
  }
  throw new Error('the server has ended');
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
  if (measured.beside !== undefined) {
    for (const count of streams) {
      const ratios = measured.serve[count].map(({ perSecond }, i) => perSecond / measured.beside[count][i].perSecond);
      console.log(`${count} streams: ratio ${median(ratios).toFixed(2)}, from ${Math.min(...ratios).toFixed(2)} to ${Math.max(...ratios).toFixed(2)}`);
    }
  }
  console.log(`load at the end: ${load().toFixed(2)}`);
}
