// The parent: runs the rounds, prints the comparison, writes the JSON.
import { writeFileSync } from 'node:fs';
import { takeCores } from './busy.mjs';
import { agree, compare } from './compare.mjs';
import { load, machine } from './machine.mjs';
import { readOptions } from './options.mjs';
import { measureRounds } from './rounds.mjs';
import { table } from './table.mjs';

// A control further from 1 than this says that the machine was busy with something else.
const CALM = 0.05;

const options = readOptions(process.argv.slice(2));
const here = machine();
console.log(`${here.cpu}, ${here.usableCores} usable cores, Node ${here.node}, load ${load().toFixed(2)}`);
const versions = Object.entries(here.engines).map(([name, version]) => `${name} ${version}`);
console.log(versions.join(', '));
const others = options.busy ? `, ${options.busy} cores taken by other processes` : '';
console.log(`threads: ${options.threads}, rounds: ${options.rounds}${others}${options.quick ? ', quick: the numbers mean nothing' : ''}\n`);

takeCores(options.busy);

if (options.models !== undefined) {
  const { measureModels, writeReport } = await import('./models/run.mjs');
  const models = await measureModels(options);
  if (options.json) writeReport(options.json, models, here);
  process.exit(models.some(({ error }) => error !== undefined) ? 1 : 0);
}

const rows = [];
const measured = {};
for (const workload of options.only) {
  console.error(`measuring ${workload}`);
  try {
    const { metrics } = await import(`./workloads/${workload}.mjs`);
    const rounds = await measureRounds(workload, options);
    agree(workload, rounds);
    rows.push(...compare(workload, metrics, rounds));
    measured[workload] = rounds;
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}

console.log(`${table(rows, options)}\n`);
for (const { workload, metric, meaning } of rows) console.log(`${workload} ${metric}: ${meaning}`);
for (const [workload, rounds] of Object.entries(measured)) {
  if (!workload.startsWith('shapes')) continue;
  const memory = (side) => (Math.max(...rounds.flatMap((round) => round[side].map(({ peakMemoryBytes }) => peakMemoryBytes))) / 2 ** 20).toFixed(0);
  console.log(`${workload}: resident memory at most ${memory('left')} MiB, ${options.right} ${memory('right')} MiB`);
}
console.log(`ratio: above 1, ${options.left} is faster. control: an engine against itself, to be about 1.00`);
const restless = rows.filter((row) => [row.leftControl, row.rightControl].some((control) => Math.abs(control - 1) > CALM));
if (restless.length > 0) {
  const which = restless.map((row) => `${row.workload} ${row.metric}`).join(', ');
  console.log(`not to be trusted, because a control is off by more than ${CALM * 100}%: ${which}`);
}
console.log(`load at the end: ${load().toFixed(2)}`);

if (options.json) {
  const { left, right, threads, busy, rounds, quick } = options;
  const report = { machine: here, options: { left, right, threads, busy, rounds, quick }, comparison: rows, measured };
  writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
}
