'use strict';

// What a long load is doing, for people who look at a terminal.

const { stderr } = process;

/**
 * @template T
 * @param {string} what
 * @param {Promise<T>} work
 * @returns {Promise<T>}
 */
async function withProgress(what, work) {
  if (!stderr.isTTY) return work;
  const start = performance.now();
  // The event loop is free meanwhile: everything happens in the background.
  const timer = setInterval(() => {
    const seconds = ((performance.now() - start) / 1000).toFixed(0);
    const memory = (process.memoryUsage.rss() / 2 ** 20).toFixed(0);
    stderr.write(`\r${what} … ${seconds} s, ${memory} MiB\x1b[K`);
  }, 200);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    stderr.write('\r\x1b[K');
  }
}

module.exports = { withProgress };
