// Whether memory comes back: a process loads, runs and releases a model again and again, itself in one context and in workers, each with one cycle; and
// it writes many times 16 MB to a tensor, all of which wait.
//
//   npm run bench -- cycles FILE … [--cycles 100] [--threads 2] [--dimension NAME=SIZE] [--value INPUT=NUMBER]
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { load, machine } from './machine.mjs';

const child = fileURLToPath(new URL('cycles/measure.mjs', import.meta.url));
/** So much of what is resident after three cycles may be resident after all; and so much more, in MB, after a burst of writes. */
const AIM = { cycles: 1.05, burst: 64 };

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    cycles: { type: 'string', default: '100' },
    threads: { type: 'string', default: '2' },
    dimension: { type: 'string', multiple: true, default: [] },
    value: { type: 'string', multiple: true, default: [] },
  },
});
if (process.platform !== 'linux') throw new Error('only Linux tells what a process has resident: /proc/self/smaps');
const given = (list) => Object.fromEntries(list.map((text) => text.split('=')).map(([name, number]) => [name, Number(number)]));
const settings = { threads: Number(values.threads), cycles: Number(values.cycles), dimensions: given(values.dimension), values: given(values.value) };

const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}`);
console.log(`MB resident 5 s after 3 cycles, and 5 s after ${settings.cycles}; ${settings.threads} threads`);
console.log('by kind: the heaps of the C library, the heap of V8, files, stacks, and others, such as weights; the second ratio is without V8\n');
for (const file of positionals) {
  for (const where of ['process', 'workers']) {
    const { before, after } = measure(where, path.resolve(file));
    const ratio = after.resident / before.resident;
    const rest = (after.resident - after.v8) / (before.resident - before.v8);
    const ratios = `${ratio.toFixed(3)}, ${rest.toFixed(3)}`;
    console.log(`${path.basename(file).padEnd(24)} ${where.padEnd(8)} ${mb(before.resident)} ${mb(after.resident)} ${ratios} ${verdict(ratio <= AIM.cycles)}`);
    for (const [name, found] of [['3', before], [`${settings.cycles}`, after]]) {
      const all = ['library', 'v8', 'files', 'stacks', 'others'].map((kind) => `${mb(found[kind])} ${kind}`);
      console.log(`  after ${name.padEnd(5)} ${all.join(' ')}`);
    }
  }
}
const { before, highest, after } = measure('burst');
const grown = (after.resident - before.resident) / 1e6;
console.log(`100 writes of 16 MB      ${mb(before.resident)} before, ${mb(highest)} at most, ${mb(after.resident)} after 5 s: ${grown.toFixed(0)} more ${verdict(grown <= AIM.burst)}`);

function measure(...what) {
  return JSON.parse(execFileSync(process.execPath, ['--expose-gc', child, JSON.stringify(settings), ...what], { encoding: 'utf8' }));
}

function mb(bytes) {
  return (bytes / 1e6).toFixed(1).padStart(7);
}

function verdict(isWithin) {
  return isWithin ? 'as it is to be' : 'TOO MUCH';
}
