// Drives the processes. A round is left, right, left, right, each in a process of its own: two thread pools in one process
// spoil each other, and two that are measured an hour apart have seen two different machines.
import { fileURLToPath } from 'node:url';
import { trouble } from '../scripts/outcome.mjs';
import { run } from '../scripts/run.mjs';
import { load } from './machine.mjs';

const child = fileURLToPath(new URL('measure.mjs', import.meta.url));
// A sequence of a thousand shapes takes minutes on a slow machine.
const limitSeconds = 600;

/** @returns {Promise<{ load: number, left: object[], right: object[] }[]>} */
export async function measureRounds(workload, options) {
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    const round = { load: load(), left: [], right: [] };
    // Every second round starts with the other side, so that neither profits from its place.
    const order = i % 2 === 0 ? ['left', 'right', 'left', 'right'] : ['right', 'left', 'right', 'left'];
    for (const side of order) round[side].push(await measure(options[side], workload, options));
    rounds.push(round);
  }
  return rounds;
}

async function measure(engine, workload, { threads, warmUpMs, sampleMs }) {
  const settings = JSON.stringify({ threads, warmUpMs, sampleMs });
  const ended = await run(process.execPath, [child, engine, workload, settings], { limitSeconds, stdout: 'keep' });
  const wrong = trouble(ended, limitSeconds);
  if (wrong) throw new Error(`${workload} on ${engine}: ${wrong}`);
  return JSON.parse(ended.stdout.trimEnd().split('\n').at(-1));
}
