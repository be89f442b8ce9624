'use strict';

// Shows the progress of long work on a terminal.

const { statSync } = require('node:fs');
const path = require('node:path');

const { stderr } = process;

const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(0)} MiB`;

/** How much of something is done. @param {number} part from 0 to 1 */
const bar = (part) => `[${'#'.repeat(Math.round(part * 30)).padEnd(30, '.')}] ${Math.round(part * 100)} %`;

/**
 * @template T
 * @param {string} what
 * @param {string} file
 * @param {(onProgress?: (progress: {loaded: number, total: number | undefined}) => void) => Promise<T>} work
 * @returns {Promise<T>}
 */
async function withProgress(what, file, work) {
  if (!stderr.isTTY) return await work();
  const start = performance.now();
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0;
  let done = `(${mib(size)}) …`;
  // The event loop is free meanwhile: everything happens in the background.
  const draw = () => {
    const seconds = ((performance.now() - start) / 1000).toFixed(0);
    stderr.write(`\r${what} ${path.basename(file)} ${done} ${seconds} s, memory ${mib(process.memoryUsage.rss())}\x1b[K`);
  };
  const timer = setInterval(draw, 200);
  try {
    return await work(({ loaded, total }) => {
      if (total > 0) done = `${bar(loaded / total)} of ${mib(total)},`;
      draw();
    });
  } finally {
    clearInterval(timer);
    erase();
  }
}

function erase() {
  stderr.write('\r\x1b[K');
}

/**
 * Shows how models are loaded, one after the other, on a terminal.
 * @returns {((progress: {model: string, number: number, count: number, loaded: number, total: number | undefined}) => void) | undefined}
 */
function modelsProgress() {
  if (!stderr.isTTY) return undefined;
  return ({ model, number, count, loaded, total }) => {
    if (loaded === total) erase();
    else stderr.write(`\rloading ${model} (${number} of ${count}) ${total === undefined ? mib(loaded) : `${bar(loaded / total)} of ${mib(total)}`}\x1b[K`);
  };
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
    stderr.write(`\r${this.#what} ${bar(this.#done / this.#steps)}\x1b[K`);
  }

  end() {
    if (stderr.isTTY) erase();
  }
}

module.exports = { Bar, modelsProgress, withProgress };
