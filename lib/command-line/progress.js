'use strict';

// Shows the progress of long work on a terminal.

const { statSync } = require('node:fs');
const path = require('node:path');

const { stderr } = process;

/**
 * @template T
 * @param {string} what
 * @param {string} file
 * @param {Promise<T>} work
 * @returns {Promise<T>}
 */
async function withProgress(what, file, work) {
  if (!stderr.isTTY) return work;
  const start = performance.now();
  const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  // The event loop is free meanwhile: everything happens in the background.
  const timer = setInterval(() => {
    const seconds = ((performance.now() - start) / 1000).toFixed(0);
    stderr.write(`\r${what} ${path.basename(file)} (${mib(size)}) … ${seconds} s, memory ${mib(process.memoryUsage.rss())}\x1b[K`);
  }, 200);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    stderr.write('\r\x1b[K');
  }
}

/** Shows how much is done, on a terminal. */
class Bar {
  #what;
  #steps;
  #done = 0;

  /**
   * @param {string} what
   * @param {number} steps
   */
  constructor(what, steps) {
    this.#what = what;
    this.#steps = steps;
  }

  step() {
    this.#done++;
    if (!stderr.isTTY) return;
    const part = this.#done / this.#steps;
    stderr.write(`\r${this.#what} [${'#'.repeat(Math.round(part * 30)).padEnd(30, '.')}] ${Math.round(part * 100)} %\x1b[K`);
  }

  end() {
    if (stderr.isTTY) stderr.write('\r\x1b[K');
  }
}

module.exports = { Bar, withProgress };
