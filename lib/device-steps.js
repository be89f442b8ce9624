'use strict';

// The steps of work on a GPUDevice, by the watch that wants them. The native side has those of all other work.

const { performance } = require('node:perf_hooks');
const native = require('./native.js');

/** @typedef {import('./native').Step} Step */

/** @type {Map<number, {made: number, graphs: number, steps: Step[]}>} */
const watches = new Map();

/** A watch is made that wants them. @param {number} watch */
function watchSteps(watch) {
  watches.set(watch, { made: performance.now(), graphs: 0, steps: [] });
}

/** @param {number} watch */
const wantsSteps = (watch) => watches.has(watch);

/**
 * Notes the steps of a graph that has run.
 * @param {number} watch
 * @param {{described: import('./native').ProgramStep, number: number, began: number, ended: number}[]} steps times of `performance.now()`
 */
function noteSteps(watch, steps) {
  const watched = watches.get(watch);
  if (watched === undefined) return;
  const graph = watched.graphs++;
  const since = (time) => Math.max(0, time - watched.made) * 1e6;
  for (const { described, number, began, ended } of steps) {
    const [operator, label, implementation, text, multiplications, bytes, dataType, sources] = described;
    watched.steps.push([operator, label, since(began), since(ended), implementation, text, multiplications, bytes, dataType, 'GPU', graph, number, sources]);
  }
}

/** All steps so far. @param {number} watch @returns {Step[]} */
function takeSteps(watch) {
  return [...native.takeSteps(watch), ...(watches.get(watch)?.steps.splice(0) ?? [])];
}

/** @param {number} watch */
function forgetSteps(watch) {
  watches.delete(watch);
}

module.exports = { forgetSteps, noteSteps, takeSteps, wantsSteps, watchSteps };
