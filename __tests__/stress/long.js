'use strict';

// Says what it does, and ends with code 1 at the first thing that is not as it should be; the seed that it prints repeats it.

const { parseArgs } = require('node:util');
const webnn = require('../..');
const { figures, requireLevel } = require('./figures.js');
const { GenerationSoak } = require('./generation.js');
const { MemorySoak } = require('./memory.js');
const { runProgram } = require('./programs.js');
const { chooseSeed } = require('./random.js');
const { ServerSoak } = require('./server.js');
const { AT_ONCE, runRound } = require('./workers.js');

const HELP = `npm run stress -- [programs] [workers] [memory] [server] [generate] [--minutes 1] [--steps N] [--rounds 100]

  programs  random programs for so many minutes, against a model that does one thing after the other
  workers   so many rounds of eight threads that end at random moments
  memory    loads, unloads, shapes, limits, lost contexts, workers and processes that share a cache, for so many minutes
  server    clients of models with batching that come, go, cancel and set deadlines, lost contexts, and workers that end, for so many minutes
  generate  calls of generate() that come, go, are cancelled, are left and fail, models and contexts that go, for so many minutes (default 10)

With --steps so many programs, or steps of the others, instead of minutes. Without a name: programs and workers. Prints what the process holds, and fails if that grows after the first half.
WEBNN_SEED repeats a run.`;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { minutes: { type: 'string' }, rounds: { type: 'string', default: '100' }, steps: { type: 'string' }, help: { type: 'boolean' } },
});
const [rounds, steps] = [values.rounds, values.steps].map(Number);
const SHOWN_EVERY = 10_000;

/**
 * Does something again and again, for some minutes or so many times.
 * @param {(i: number) => Promise<void>} step
 * @param {() => object} counts for people
 */
async function repeat(what, step, counts, usual = 1) {
  const minutes = Number(values.minutes ?? usual);
  const begin = Date.now();
  const progress = (i) => (values.steps === undefined ? (Date.now() - begin) / (minutes * 60_000) : i / steps);
  let [shown, half] = [begin, undefined];
  for (let i = 0; progress(i) < 1; i++) {
    await step(i);
    if (Date.now() > shown + SHOWN_EVERY) {
      shown = Date.now();
      console.info(`${what}: ${JSON.stringify({ ...counts(), ...figures() })}`);
    }
    if (half === undefined && progress(i + 1) >= 0.5) half = figures();
  }
  console.info(`${what}: ${JSON.stringify(counts())}`);
  requireLevel(what, half ?? figures(), figures());
}

async function runSoak(what, soak, usual) {
  await soak.start();
  await repeat(what, () => soak.step(), () => ({ ...soak.counts, ...soak.events }), usual);
  await soak.end();
}

const KINDS = {
  async programs(seed) {
    let [programs, promises] = [0, 0];
    const step = async (i) => {
      try {
        promises += await runProgram(webnn, seed + i, 400);
      } catch (error) {
        throw new Error(`program ${i}: repeat it with WEBNN_SEED=${seed + i}`, { cause: error });
      }
      programs++;
    };
    await repeat('programs', step, () => ({ programs, promises }));
  },
  async workers(seed) {
    let half;
    for (let round = 0; round < rounds; round++) {
      await runRound(seed + round, 1500);
      if (round % 10 === 9) console.info(`workers: ${JSON.stringify({ threads: (round + 1) * AT_ONCE, ...figures() })}`);
      if (round === Math.floor(rounds / 2)) half = figures();
    }
    requireLevel('workers', half ?? figures(), figures());
  },
  memory: (seed) => runSoak('memory', new MemorySoak(seed)),
  server: (seed) => runSoak('server', new ServerSoak(seed)),
  generate: (seed) => runSoak('generate', new GenerationSoak(seed), 10),
};

(async () => {
  if (values.help) return console.info(HELP);
  const kinds = positionals.length === 0 ? ['programs', 'workers'] : positionals;
  for (const kind of kinds) if (!Object.hasOwn(KINDS, kind)) throw new Error(`found ${JSON.stringify(kind)}, expected ${Object.keys(KINDS).join(', ')}\n\n${HELP}`);
  const seed = chooseSeed();
  for (const kind of kinds) await KINDS[kind](seed);
  console.info('nothing went wrong');
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
