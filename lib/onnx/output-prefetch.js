'use strict';

// Memory for the results of a model's next run. To get it takes time, which is free while another run is under way, and its
// pages take longer to be used for the first time than to be filled.

const { Buffer } = require('node:buffer');
const timers = require('node:timers');
const { exception, named } = require('../errors.js');

// Taken while they are Node's own; a test of script's may replace them later.
const { setImmediate, setTimeout } = timers;

/** Results of more bytes are not kept for a run that may never come. */
const MOST = 64 << 20;
/** Fewer are used for the first time within no time, and kept for as long as the model. */
const LARGE = 128 << 10;
/** Milliseconds for which large ones are kept after a run. */
const KEPT = 1000;
/** Bytes that are touched in one round of the event loop, some tens of microseconds. */
const SLICE = 128 << 10;
const PAGE = 4096;

/** @typedef {import('../states').GraphState} GraphState */

class OutputPrefetch {
  /** @type {ArrayBuffer[] | undefined} by the positions of the graph's outputs */
  #buffers;
  #timer;

  /**
   * What is there, which then belongs to the caller.
   * @param {GraphState} graph
   * @param {string} label for messages
   */
  take(graph, label) {
    const buffers = this.#buffers ?? allocate(graph, label);
    this.#buffers = undefined;
    return buffers;
  }

  /**
   * Gets it for the next run, if that is not too much.
   * @param {GraphState} graph
   */
  prepare(graph) {
    let total = 0;
    for (const { byteLength } of graph.outputs.values()) total += byteLength;
    if (this.#buffers !== undefined || total > MOST) return;
    try {
      this.#buffers = allocate(graph, '');
    } catch {
      // The next run will say so, if it is still so then.
      return;
    }
    if (total >= LARGE) {
      // Where all cores compute, kernels would wait for the one whose core this takes.
      if (graph.context.leavesCore) this.#touch(this.#buffers);
      this.#timer ??= setTimeout(() => this.forget(), KEPT).unref();
      this.#timer.refresh();
    }
  }

  forget() {
    this.#buffers = undefined;
  }

  /** Writes to each page, a few in each round of the event loop, until all are done or a run has taken the memory. */
  #touch(buffers) {
    const left = buffers.filter(({ byteLength }) => byteLength >= SLICE).map((buffer) => new Uint8Array(buffer));
    let at = 0;
    const some = () => {
      const bytes = left.at(-1);
      if (this.#buffers !== buffers || bytes === undefined) return;
      const end = Math.min(at + SLICE, bytes.length);
      while (at < end) {
        bytes[at] = 0;
        at += PAGE;
      }
      if (end === bytes.length) {
        left.pop();
        at = 0;
      }
      setImmediate(some);
    };
    setImmediate(some);
  }
}

/** Memory for results; V8 says neither how much nor for what. */
function allocate(graph, label) {
  const buffers = new Array(graph.outputs.size);
  for (const { position, byteLength } of graph.outputs.values()) {
    try {
      buffers[position] = memory(graph.context.leavesCore, byteLength);
    } catch {
      throw exception('UnknownError', `${named('run', label)}: ${byteLength} bytes of memory cannot be had`);
    }
  }
  return buffers;
}

/**
 * All of it is written before script sees it, so it need not be zeroed. Where a core is free that is done all the same: kernels
 * then find it in the cache; and very much zeroed memory is new, and costs nothing.
 */
function memory(leavesCore, byteLength) {
  return leavesCore || byteLength > MOST ? new ArrayBuffer(byteLength) : Buffer.allocUnsafeSlow(byteLength).buffer;
}

module.exports = { OutputPrefetch };
