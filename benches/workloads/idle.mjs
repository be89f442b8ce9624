// A small network with pauses of 20 ms between its runs: what the threads burn while there is nothing to do. More than one
// thread shows it best.
import { setTimeout as pause } from 'node:timers/promises';
import { products } from '../products.mjs';

const NETWORK = { rows: 32, width: 256, layers: 2 };
const PAUSE_MS = 20;

export const metrics = {
  cycle: `processor time of one run of a small network and a pause of ${PAUSE_MS} ms, of all threads; ${PAUSE_MS * 1000} is a whole core`,
};

const prepare = (engine) => async (options) => {
  const run = await products[engine]({ ...options, ...NETWORK });
  return {
    cycle: async () => {
      const before = process.cpuUsage();
      await run();
      await pause(PAUSE_MS);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    },
  };
};

export const engines = Object.fromEntries(Object.keys(products).map((engine) => [engine, prepare(engine)]));
