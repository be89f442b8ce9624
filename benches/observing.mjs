// What it takes that programs can be observed: runs of a small network without the code for it, with it and nobody who observes, with a subscriber,
// and with WEBNN_TRACE. Each in processes of its own, in turn.
//
//   npm run bench -- observing [--rounds 10] [--ms 1000] [--json FILE]
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { run } from '../scripts/run.mjs';
import { load, machine } from './machine.mjs';
import { median } from './statistics.mjs';

const SIDES = { without: 'no code for observing', off: 'nobody observes', channels: 'a subscriber of runs', trace: 'WEBNN_TRACE' };
const file = (name) => fileURLToPath(new URL(`observing/${name}`, import.meta.url));

const { values } = parseArgs({ options: { rounds: { type: 'string', default: '10' }, ms: { type: 'string', default: '1000' }, json: { type: 'string' } } });
const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-observing-'));
const here = machine();
console.log(`${here.cpu}, Node ${here.node}, load ${load().toFixed(2)}`);
const rounds = [];
try {
  for (let round = 0; round < Number(values.rounds); round++) rounds.push(await measureRound(round % 2 === 1));
} finally {
  rmSync(folder, { recursive: true });
}
show();
if (values.json !== undefined) writeFileSync(values.json, `${JSON.stringify({ machine: here, rounds }, null, 2)}\n`);

/** Two processes for each side; every second round begins with the last side. */
async function measureRound(isReversed) {
  const order = isReversed ? Object.keys(SIDES).reverse() : Object.keys(SIDES);
  const found = Object.fromEntries(order.map((side) => [side, []]));
  for (const side of [...order, ...order]) found[side].push(await measure(side));
  return found;
}

async function measure(side) {
  const flags = side === 'without' ? ['--require', file('without.cjs')] : [];
  const env = { WEBNN_TRACE: side === 'trace' ? path.join(folder, 'trace.json') : '', WEBNN_PERFORMANCE: '' };
  const { code, stdout } = await run(process.execPath, [...flags, file('measure.mjs'), side, values.ms], { limitSeconds: 120, stdout: 'keep', env });
  if (code !== 0) throw new Error(`${side}: the process ended with ${code}`);
  return JSON.parse(stdout.trim().split('\n').at(-1)).us;
}

function show() {
  console.log('\n side         µs for a run   ratio   lowest  highest   control');
  for (const [side, about] of Object.entries(SIDES)) {
    const ratios = rounds.flatMap((round) => round[side].map((us, i) => us / round.without[i]));
    const control = median(rounds.map((round) => round[side][1] / round[side][0]));
    const cells = [[median(rounds.flatMap((round) => round[side])), 13], [median(ratios), 8], [Math.min(...ratios), 9], [Math.max(...ratios), 9], [control, 10]];
    console.log(` ${side.padEnd(12)}${cells.map(([value, width]) => value.toFixed(3).padStart(width)).join('')}   ${about}`);
  }
  console.log('\nratio: the time by that without the code, in the same round. control: the second process of a side by the first, to be about 1');
  console.log(`load at the end: ${load().toFixed(2)}`);
}
