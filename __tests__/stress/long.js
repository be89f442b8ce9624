'use strict';

// Random programs for some minutes, then 100 rounds of eight threads that end at random moments. Says what it does, and
// ends with code 1 at the first thing that is not as it should be; the seed that it prints repeats it.

const { parseArgs } = require('node:util');
const webnn = require('../..');
const { runProgram } = require('./programs.js');
const { chooseSeed } = require('./random.js');
const { AT_ONCE, resident, runRound } = require('./workers.js');

const { values } = parseArgs({
  options: { minutes: { type: 'string', default: '1' }, rounds: { type: 'string', default: '100' } },
});
const [minutes, rounds] = [Number(values.minutes), Number(values.rounds)];

/** Memory that is still growing after the first half is a leak. */
const LEAK_MIB = 64;

async function runPrograms(seed) {
  const end = Date.now() + minutes * 60_000;
  let [programs, promises] = [0, 0];
  let half;
  while (Date.now() < end) {
    try {
      promises += await runProgram(webnn, seed + programs, 400);
    } catch (error) {
      throw new Error(`program ${programs}: repeat it with WEBNN_SEED=${seed + programs}`, { cause: error });
    }
    programs++;
    if (programs % 100 === 0) console.info(`${programs} programs, ${promises} promises created and settled, ${resident()} MiB`);
    if (half === undefined && Date.now() > end - minutes * 30_000) half = resident();
  }
  console.info(`${programs} programs, ${promises} promises created and settled`);
  requireLevel('programs', half ?? resident());
}

async function runWorkers(seed) {
  let half;
  for (let round = 0; round < rounds; round++) {
    await runRound(seed + round, 1500);
    if (round % 10 === 9) console.info(`${(round + 1) * AT_ONCE} threads ended, ${resident()} MiB`);
    if (round === Math.floor(rounds / 2)) half = resident();
  }
  requireLevel('threads', half ?? resident());
}

function requireLevel(what, before) {
  const after = resident();
  console.info(`${what}: ${before} MiB after the first half, ${after} MiB at the end`);
  if (after > before + LEAK_MIB) throw new Error(`${what}: memory grows`);
}

(async () => {
  const seed = chooseSeed();
  if (minutes > 0) await runPrograms(seed);
  if (rounds > 0) await runWorkers(seed);
  console.info('nothing went wrong');
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
