'use strict';

// The steps of work on a GPUDevice, for the watches that want them. The native side has all steps of a watch.

const { performance } = require('node:perf_hooks');
const native = require('./native.js');

/** @type {Set<number>} */
const wanting = new Set();

/** A watch that wants steps. @param {number} watch */
function watchSteps(watch) {
  wanting.add(watch);
}

/** @param {number} watch */
const wantsSteps = (watch) => wanting.has(watch);

/**
 * Notes the steps of a graph that has run.
 * @param {number} watch
 * @param {{described: import('./native').ProgramStep, number: number, began: number, ended: number}[]} steps times of `performance.now()`
 */
function noteSteps(watch, steps) {
  if (!wanting.has(watch)) return;
  const now = performance.now();
  native.noteSteps(watch, steps.map(({ described, number, began, ended }) => {
    const [operator, label, implementation, text, multiplications, bytes, dataType, sources] = described;
    return [operator, label, now - began, now - ended, implementation, text, multiplications, bytes, dataType, 'GPU', number, sources];
  }));
}

/** @param {number} watch */
function forgetSteps(watch) {
  wanting.delete(watch);
}

/**
 * Does work for a watch that the native side has lent because it wants steps; 0 is none.
 * @template T
 * @param {number} watch
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
async function withLent(watch, work) {
  if (watch === 0) return await work();
  watchSteps(watch);
  try {
    return await work();
  } finally {
    forgetSteps(watch);
    native.destroyWatch(watch);
  }
}

module.exports = { forgetSteps, noteSteps, wantsSteps, watchSteps, withLent };
