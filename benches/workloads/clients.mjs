// Many clients of one network: each asks again when it has its result. How fair that is, and how long a small graph takes beside
// a large one.
import { networks } from '../products.mjs';
import { quantile } from '../statistics.mjs';

const NETWORK = { rows: 64, width: 512, layers: 4 };
const SMALL = { rows: 1, width: 64, layers: 1 };
const LARGE = { rows: 256, width: 1024, layers: 60 };
const RUNS_OF_A_CLIENT = 12;

export const metrics = {
  one: 'one run of the network, one after the other',
  mean_of_16: 'the same with 16 clients at once: the time of all runs, divided by their number; not above one',
  least_of_16: 'the same for the client that has the fewest runs in that time, divided by the clients; at most 1.25 of the mean',
  p99_of_16: 'the 99th percentile of the time of a run, divided by the clients; at most 1.5 of one',
  mean_of_64: 'as above with 64 clients',
  least_of_64: 'as above with 64 clients',
  p99_of_64: 'as above with 64 clients',
  beside_p99: 'the 99th percentile of a run of a small graph beside a large one in the same context; at most 5000',
  elsewhere_p99: 'the same with the large one in another context',
};

const prepare = (engine) => async (options) => {
  const context = await networks[engine](options);
  const client = await context(NETWORK);
  // Each has memory of its own.
  const clients = Array.from({ length: 64 }, client);
  const [one] = clients;
  const [small, large] = [(await context(SMALL))(), (await context(LARGE))()];
  const apart = (await (await networks[engine](options))(SMALL))();
  return {
    async one(clock) {
      const start = clock();
      await one();
      return clock() - start;
    },
    ...manyClients(clients, 16),
    ...manyClients(clients, 64),
    beside_p99: (clock) => beside(clock, small, large),
    elsewhere_p99: (clock) => beside(clock, apart, large),
  };
};

export const engines = Object.fromEntries(Object.keys(networks).map((engine) => [engine, prepare(engine)]));

function manyClients(clients, count) {
  const measured = (pick) => async (clock) => pick(await closedLoop(clock, clients.slice(0, count)));
  return {
    [`mean_of_${count}`]: measured(({ mean }) => mean),
    [`least_of_${count}`]: measured(({ least }) => least),
    [`p99_of_${count}`]: measured(({ p99 }) => p99),
  };
}

/** Ends when so many runs have ended that each client could have had its number of them. */
async function closedLoop(clock, clients) {
  const times = [];
  const counts = clients.map(() => 0);
  const wanted = clients.length * RUNS_OF_A_CLIENT;
  const begin = clock();
  let end;
  const client = async (run, i) => {
    while (end === undefined) {
      const start = clock();
      await run();
      const now = clock();
      if (end !== undefined) return;
      times.push(now - start);
      counts[i]++;
      if (times.length === wanted) end = now;
    }
  };
  await Promise.all(clients.map(client));
  const all = end - begin;
  return {
    mean: all / wanted,
    least: all / (Math.max(Math.min(...counts), 0.5) * clients.length),
    p99: quantile(times, 0.99) / clients.length,
  };
}

/** The 99th percentile of a small run's time while a large one is under way. */
async function beside(clock, small, large) {
  let isUnderWay = true;
  const end = large().then(() => (isUnderWay = false));
  const times = [];
  while (isUnderWay) {
    const start = clock();
    await small();
    times.push(clock() - start);
    // Lets timers and other results have their turn.
    await new Promise(setImmediate);
  }
  await end;
  return quantile(times, 0.99);
}
