'use strict';

// A profile of a model's runs: the steps of each, and the same in Chrome's trace format.

const { performance } = require('node:perf_hooks');
const { process } = require('../globals.js');

class OnnxProfile {
  #end;
  #peak;

  /**
   * @param {(profile: OnnxProfile) => void} end
   * @param {() => Promise<import('../onnx.d.ts').OnnxPeak | undefined>} peak
   */
  constructor(end, peak) {
    this.#end = end;
    this.#peak = peak;
    /** @type {import('../onnx.d.ts').OnnxProfiledRun[]} */
    this.runs = [];
  }

  /** Runs that begin later are not profiled. */
  stop() {
    this.#end(this);
  }

  /** What the CPU can do, which is measured at the first call for a context. */
  peak() {
    return this.#peak();
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
  return (steps) => profile.runs.push({ began, ms: performance.now() - began, steps: stepsOf(steps) });
}

/**
 * The steps of a run as script gets them.
 * @param {import('../native').Step[]} list
 * @returns {import('../onnx.d.ts').OnnxProfiledStep[]}
 */
function stepsOf(list) {
  // By graph and number there. A model in parts runs several graphs, and some of them again.
  const positions = new Map(list.map((step, i) => [`${step[10]}:${step[11]}`, i]));
  return list.map(([operator, label, began, ended, implementation, text, multiplications, bytes, dataType, thread, graph, , sources]) => {
    const found = sources.map((source) => positions.get(`${graph}:${source}`)).filter((position) => position !== undefined);
    const times = { began: began / 1e6, ms: (ended - began) / 1e6 };
    return { operator, label, ...times, implementation, text, dataType, multiplications, bytes, thread: thread || 'JavaScript', part: graph, sources: found };
  });
}

module.exports = { OnnxProfile, profileRun, stepsOf };
