// The worker processes that this program starts, and how they are killed to see what happens.
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { randomFrom } from './rows.mjs';

const MOST_FAILURES = 5;

/** Worker processes: one that ends is replaced. */
export class Workers {
  #args;
  #isOver = false;
  /** Workers that have ended by themselves. */
  #failures = 0;
  /** @type {Set<import('node:child_process').ChildProcess>} */
  all = new Set();

  constructor(count, args) {
    this.#args = args;
    for (let i = 0; i < count; i++) this.#start();
  }

  #start() {
    const child = fork(fileURLToPath(new URL('worker.mjs', import.meta.url)), this.#args);
    this.all.add(child);
    child.once('exit', (code, signal) => {
      this.all.delete(child);
      if (this.#isOver) return;
      console.error(`a worker has ended: ${signal ?? code}`);
      // What cannot start would not at the next time either.
      if (signal === null && ++this.#failures > MOST_FAILURES) process.exit(1);
      this.#start();
    });
  }

  async stop() {
    this.#isOver = true;
    await Promise.all([...this.all].map((child) => (child.kill('SIGTERM'), once(child, 'exit'))));
  }
}

/** Ends random workers, as a machine does that fails: one whenever about so many jobs have ended. @param {import('node:events').EventEmitter} events of the queue */
export function killSometimes(workers, mean, seed, events) {
  console.log(`seed ${seed}`);
  const random = randomFrom(seed);
  const next = () => 1 + Math.floor(2 * mean * random());
  let kills = 0;
  let left = next();
  const ended = () => {
    if (--left > 0) return;
    left = next();
    const living = [...workers.all];
    if (living.length > 0 && living[Math.floor(random() * living.length)].kill('SIGKILL')) kills++;
  };
  events.on('completed', ended);
  return { stop: () => (events.off('completed', ended), kills) };
}
