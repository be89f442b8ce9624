'use strict';

// A profile of a model's runs: the steps of each, and the same in Chrome's trace format.

const { performance } = require('node:perf_hooks');
const { process } = require('../globals.js');

class OnnxProfile {
  #end;

  /** @param {(profile: OnnxProfile) => void} end */
  constructor(end) {
    this.#end = end;
    /** @type {import('../onnx.d.ts').OnnxProfiledRun[]} */
    this.runs = [];
  }

  /** Runs that begin later are not profiled. */
  stop() {
    this.#end(this);
  }

  /**
   * Trace events; times in microseconds. Runs that overlap have tracks of their own.
   * @returns {{traceEvents: object[], displayTimeUnit: string}}
   */
  toJSON() {
    const busyUntil = [];
    const traceEvents = [];
    for (const { began, ms, steps } of [...this.runs].sort((a, b) => a.began - b.began)) {
      const free = busyUntil.findIndex((until) => until <= began);
      const tid = free < 0 ? busyUntil.length : free;
      busyUntil[tid] = began + ms;
      const add = (cat, name, at, length, args) => traceEvents.push({ ph: 'X', pid: process.pid, tid, cat, name, ts: at * 1e3, dur: length * 1e3, args });
      add('run', 'run', began, ms, {});
      for (const { operator, began: at, ms: length, ...args } of steps) add('step', operator, began + at, length, args);
    }
    return { traceEvents, displayTimeUnit: 'ms' };
  }
}

/**
 * What takes the steps of a run that begins now.
 * @param {OnnxProfile} profile
 * @returns {(steps: import('../native').Step[]) => void}
 */
function profileRun(profile) {
  const began = performance.now();
  return (steps) => profile.runs.push({ began, ms: performance.now() - began, steps: steps.map(stepOf) });
}

function stepOf([operator, label, began, ended, implementation, text, multiplications, bytes]) {
  return { operator, label, began: began / 1e6, ms: (ended - began) / 1e6, implementation, text, multiplications, bytes };
}

module.exports = { OnnxProfile, profileRun };
