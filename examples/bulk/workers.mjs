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

/** Ends workers at random moments, as a machine does that fails. */
export function killSometimes(workers, mean, seed) {
  console.log(`seed ${seed}`);
  const random = randomFrom(seed);
  let kills = 0;
  let timer;
  const next = () => {
    timer = setTimeout(() => {
      const living = [...workers.all];
      if (living.length > 0 && living[Math.floor(random() * living.length)].kill('SIGKILL')) kills++;
      next();
    }, 2 * mean * 1000 * random());
  };
  next();
  return { stop: () => (clearTimeout(timer), kills) };
}
