// Networks of 20 µs to 100 ms for 1 to 64 clients, with each setting of `performance`, beside onnxruntime-node: throughput and the 99th percentile.
// Each side has processes of its own, in turn.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { run } from '../scripts/run.mjs';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';
import { models } from './streams/models.mjs';

const LIMIT_SECONDS = 600;
const OTHER = 'onnxruntime';
const child = fileURLToPath(new URL('streams/measure.mjs', import.meta.url));

const { values } = parseArgs({
  options: {
    clients: { type: 'string', default: '1,4,16,64' },
    only: { type: 'string', multiple: true, default: Object.keys(models) },
    sides: { type: 'string', default: 'default,latency,throughput,onnxruntime' },
    threads: { type: 'string', default: '2' },
    rounds: { type: 'string', default: '3' },
    ms: { type: 'string', default: '1000' },
    quick: { type: 'boolean', default: false },
    json: { type: 'string' },
  },
});
const clients = values.clients.split(',').map(Number);
const sides = values.sides.split(',');
const settings = { clients, threads: Number(values.threads), ms: values.quick ? 20 : Number(values.ms), runs: values.quick ? 1 : 4 };
const rounds = values.quick ? 1 : Number(values.rounds);
const unknown = values.only.find((name) => !Object.hasOwn(models, name));
const isSide = (side) => ['default', 'latency', 'throughput', OTHER].includes(side) || Number(side) >= 1;
if (unknown !== undefined || !clients.every((count) => count >= 1) || !sides.every(isSide)) {
  const counts = `--clients ${values.clients}: expected whole numbers from 1; --sides ${values.sides}: expected default, latency, throughput, ${OTHER} or numbers of streams`;
  console.error(unknown === undefined ? counts : `there is no network ${unknown}; there are ${Object.keys(models).join(', ')}`);
  process.exit(2);
}

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}; ${values.threads} threads${values.quick ? ', quick: the numbers mean nothing' : ''}`);
const measured = {};
for (const name of values.only) {
  measured[name] = [];
  for (let round = 0; round < rounds; round++) measured[name].push(await measureRound(name, round));
  show(name, measured[name]);
}
console.log('\nruns/s; p50 and p99 in milliseconds; p99/fair: divided by the clients and by the time of a run with one client; of best: the throughput divided by that of the');
console.log(`best of the other settings in the same round; of ${OTHER}: likewise; lowest and highest of the rounds`);
console.log(`load at the end: ${load().toFixed(2)}`);
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, settings, measured }, null, 2)}\n`);

async function measureRound(name, round) {
  const found = {};
  for (const side of round % 2 === 0 ? sides : [...sides].reverse()) found[side] = await measure(name, side);
  const sums = Object.values(found).map(({ sum }) => sum);
  if (Math.max(...sums) > 1.001 * Math.min(...sums)) throw new Error(`${name}: the sides disagree: ${sums}`);
  return found;
}

async function measure(name, side) {
  const { code, stdout, error } = await run(process.execPath, [child, name, side, JSON.stringify(settings)], { limitSeconds: LIMIT_SECONDS, stdout: 'keep' });
  if (code !== 0) throw new Error(`${name}, ${side}: ${error?.message ?? `the process ended with ${code}`}`);
  return JSON.parse(stdout.trim().split('\n').at(-1));
}

function show(name, found) {
  console.log(`\n${name}`);
  console.log(`${' clients'} ${'side'.padEnd(12)}     runs/s       p50       p99  p99/fair   of best  (range)          of ${OTHER}`);
  for (const count of clients) {
    for (const side of sides) {
      const of = (pick) => median(found.map((round) => pick(round[side].clients[count])));
      const fair = median(found.map((round) => round[side].clients[count].p99 / count / (round[side].clients[1] ?? round[side].clients[clients[0]]).p50));
      const numbers = [of(({ perSecond }) => perSecond).toFixed(1), of(({ p50 }) => p50).toFixed(3), of(({ p99 }) => p99).toFixed(3), fair.toFixed(2)];
      const ratio = (others) => {
        if (others.length === 0) return ['-'];
        const ratios = found.map((round) => round[side].clients[count].perSecond / Math.max(...others.map((other) => round[other].clients[count].perSecond)));
        return [median(ratios).toFixed(2), `(${Math.min(...ratios).toFixed(2)} - ${Math.max(...ratios).toFixed(2)})`];
      };
      const best = side === OTHER ? ['-'] : ratio(sides.filter((other) => other !== side && other !== OTHER));
      const beside = side === OTHER || !sides.includes(OTHER) ? ['-'] : ratio([OTHER]);
      const cells = [...numbers.map((text) => text.padStart(10)), best[0].padStart(10), `  ${(best[1] ?? '').padEnd(16)}`, beside.join(' ')];
      console.log(`${`${count}`.padStart(8)} ${side.padEnd(12)}${cells.join('')}`);
    }
  }
}
