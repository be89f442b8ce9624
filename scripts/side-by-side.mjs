// Runs steps of tests side by side: many take one core, such as those that compile shaders for a GPU in software.
import { availableParallelism } from 'node:os';

/** With more at a time, tests that use several threads would wait for each other. */
const atATime = Math.min(2, availableParallelism());

/**
 * Begins the steps in their order, two at a time if there are two cores. What they print has their names in front.
 *
 * @param {import('./tally.mjs').Tally} tally
 * @param {Record<string, (tally: object) => Promise<void>>} steps by name
 */
export async function runSideBySide(tally, steps) {
  const waiting = Object.entries(steps);
  const goOn = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const [name, step] = next;
      await step(atATime > 1 ? tally.beside(name) : tally);
    }
  };
  await Promise.all(Array.from({ length: atATime }, goOn));
}
