'use strict';

// Writes a profile as onnxruntime does: a file of trace events (chrome://tracing, Perfetto), when profiling or the session ends. Times are
// microseconds since the session was requested.

const fs = require('node:fs');
const { performance } = require('node:perf_hooks');
const { threadId } = require('node:worker_threads');
const { process } = require('../globals.js');
const { stepsOf } = require('../onnx/profile.js');

const padded = (number, length = 2) => `${number}`.padStart(length, '0');

/** The name that onnxruntime gives to such a file. */
function nameOf(prefix, date) {
  const day = [date.getFullYear(), padded(date.getMonth() + 1), padded(date.getDate())].join('-');
  const time = [padded(date.getHours()), padded(date.getMinutes()), padded(date.getSeconds())].join('-');
  return `${prefix}_${day}_${time}_${padded(date.getMilliseconds(), 3)}.json`;
}

class Profile {
  #file;
  #origin = performance.now();
  #events = [];
  #hasEnded = false;

  /** @param {string} prefix of the file's name */
  constructor(prefix) {
    this.#file = nameOf(prefix, new Date());
  }

  /** The time, in microseconds. */
  now() {
    return (performance.now() - this.#origin) * 1e3;
  }

  #add(cat, name, began, ended, args = {}) {
    if (this.#hasEnded) return;
    this.#events.push({ cat, pid: process.pid, tid: threadId, dur: Math.round(ended - began), ts: Math.round(began), ph: 'X', name, args });
  }

  /** Something that the session did since then. */
  session(name, began) {
    this.#add('Session', name, began, this.now());
  }

  /**
   * The steps of a run, each of one or several nodes.
   * @param {import('../native').Step[]} steps
   * @param {number} began the run
   */
  steps(steps, began) {
    for (const { operator, label, began: start, ms, implementation, text, dataType, thread } of stepsOf(steps)) {
      const args = { op_name: operator, provider: 'webnn-node', implementation, text, data_type: dataType, thread };
      this.#add('Node', `${label || operator}_kernel_time`, began + start * 1e3, began + (start + ms) * 1e3, args);
    }
  }

  /** Writes the file, the first time. */
  end() {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    fs.writeFileSync(this.#file, `[\n${this.#events.map((event) => JSON.stringify(event)).join(',\n')}\n]\n`);
    this.#events = [];
  }
}

module.exports = { Profile };
