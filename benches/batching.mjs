// Small models, and encoders of texts of mixed lengths, with and without `batching`, for 1 to 32 clients: throughput and the 99th percentile, each side in processes of its own, in turn.
//
//   npm run bench -- batching [FILE …] [--clients 1,2,4,8,16,32] [--only NAME] [--threads 2] [--max-size 32] [--rounds 3] [--ms 500] [--json FILE]
//     [--dimension NAME=SIZE] [--mixed NAME=MOST] [--value INPUT=NUMBER]
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { run } from '../scripts/run.mjs';
import { models } from './batching/models.mjs';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';

const SIDES = ['alone', 'batching'];
const LIMIT_SECONDS = 300;
const child = fileURLToPath(new URL('batching/measure.mjs', import.meta.url));

const { values, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    clients: { type: 'string', default: '1,2,4,8,16,32' },
    only: { type: 'string', multiple: true },
    dimension: { type: 'string', multiple: true, default: [] },
    mixed: { type: 'string', multiple: true, default: [] },
    value: { type: 'string', multiple: true, default: [] },
    threads: { type: 'string', default: '2' },
    'max-size': { type: 'string', default: '32' },
    rounds: { type: 'string', default: '3' },
    ms: { type: 'string', default: '500' },
    json: { type: 'string' },
  },
});
const clients = values.clients.split(',').map(Number);
const given = (list) => Object.fromEntries(list.map((text) => text.split('=')).map(([name, number]) => [name, Number(number)]));
const inputs = { dimensions: given(values.dimension), mixed: given(values.mixed), values: given(values.value) };
const settings = { clients, threads: Number(values.threads), maxSize: Number(values['max-size']), ms: Number(values.ms), inputs };
const only = values.only ?? (files.length > 0 ? [] : Object.keys(models));
const unknown = only.find((name) => !Object.hasOwn(models, name));
if (unknown !== undefined || !clients.every((count) => count >= 1)) {
  console.error(unknown === undefined ? `--clients ${values.clients}: expected whole numbers from 1` : `there is no model ${unknown}; there are ${Object.keys(models).join(', ')}`);
  process.exit(2);
}

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}; ${values.threads} threads, at most ${values['max-size']} rows`);
const measured = {};
for (const name of [...only, ...files.map((file) => path.resolve(file))]) {
  measured[name] = await measureRounds(name);
  show(name, measured[name]);
}
console.log('\nratio: above 1, batching is faster; lowest and highest of all pairs. p99: milliseconds. control: the second process of a side by its first');
console.log(`load at the end: ${load().toFixed(2)}`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, settings, measured }, null, 2)}\n`);

/** Each round has two processes for each side, and every second one starts with the other side. */
async function measureRounds(name) {
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const order = round % 2 === 0 ? SIDES : [...SIDES].reverse();
    const found = { alone: [], batching: [] };
    for (const side of [...order, ...order]) found[side].push(await measure(name, side));
    rounds.push(found);
  }
  return rounds;
}

async function measure(name, side) {
  const { code, stdout, error } = await run(process.execPath, [child, name, side, JSON.stringify(settings)], { limitSeconds: LIMIT_SECONDS, stdout: 'keep' });
  if (code !== 0) throw new Error(`${name}, ${side}: ${error?.message ?? `the process ended with ${code}`}`);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

function show(name, rounds) {
  console.log(`\n${models[name] === undefined ? path.basename(name) : `${name}: ${models[name].about}`}`);
  console.log(' clients    alone/s batching/s   ratio   lowest  highest   p99 alone   batching   control alone   batching');
  for (const count of clients) {
    const of = (side, pick) => rounds.flatMap((round) => round[side].map((one) => pick(one[count])));
    const ratios = rounds.flatMap(({ alone, batching }) => batching.map((one, i) => one[count].perSecond / alone[i][count].perSecond));
    const control = (side) => median(rounds.map((round) => round[side][1][count].perSecond / round[side][0][count].perSecond));
    const cells = [
      [count, 8, 0],
      ...SIDES.map((side) => [median(of(side, ({ perSecond }) => perSecond)), 11, 0]),
      [median(ratios), 8, 2],
      [Math.min(...ratios), 9, 2],
      [Math.max(...ratios), 9, 2],
      ...SIDES.map((side, i) => [median(of(side, ({ p99 }) => p99)), 12 - i, 3]),
      ...SIDES.map((side, i) => [control(side), 16 - 5 * i, 2]),
    ];
    console.log(cells.map(([value, width, digits]) => value.toFixed(digits).padStart(width)).join(''));
  }
}
