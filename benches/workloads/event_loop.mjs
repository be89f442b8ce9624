// A network of large products, one run after the other: how long it keeps the event loop from a timer of 1 ms.
import { products } from '../products.mjs';

const NETWORK = { rows: 256, width: 1024, layers: 8 };
const RUNS = 5;

export const metrics = {
  gap: 'the longest time between two ticks of a 1 ms timer while the network runs back to back',
};

const prepare = (engine) => async (options) => {
  const run = await products[engine]({ ...options, ...NETWORK });
  return { gap: (clock) => longestGap(clock, run) };
};

export const engines = Object.fromEntries(Object.keys(products).map((engine) => [engine, prepare(engine)]));

async function longestGap(clock, run) {
  let [last, longest] = [clock(), 0];
  const tick = () => {
    const now = clock();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(tick, 1);
  for (let i = 0; i < RUNS; i++) await run();
  clearInterval(timer);
  tick();
  return longest;
}
