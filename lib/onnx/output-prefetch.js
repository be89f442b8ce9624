'use strict';

// Allocates memory for the results of a model's next runs; all plans of the model share it. Allocation takes time, which is free while a run is
// under way; and the first use of a page takes longer than filling it.
//
// A result is a whole ArrayBuffer, which then belongs to the caller. So a buffer serves only results of its length.

const { Buffer } = require('node:buffer');
const timers = require('node:timers');
const { exception, named } = require('../errors.js');

// Taken while they are Node's own; a test of script's may replace them later.
const { setImmediate, setTimeout } = timers;

/** Results of more bytes are not kept for a run that may never come, and no more for all plans. */
const MOST = 64 << 20;
/** A plan that was none of the last ones so many runs ago is not expected to run again. */
const RECENT = 4;
/** Results of fewer bytes in all are not kept: to get their memory takes no longer than to keep it. */
const SMALL = 4096;
/** Fewer are used for the first time within no time, and kept for as long as the model. */
const LARGE = 128 << 10;
/** Milliseconds for which large ones are kept after a run. */
const KEPT = 1000;
/** Bytes that are touched in one round of the event loop, some tens of microseconds. */
const SLICE = 128 << 10;
const PAGE = 4096;

/** @typedef {import('../states').GraphState} GraphState */

class OutputPrefetch {
  /** @type {Map<number, ArrayBuffer[]>} by their lengths; those that were wanted longest ago first */
  #buffers = new Map();
  #bytes = 0;
  /** @type {GraphState[]} what ran last */
  #recent = [];
  /** @type {ArrayBuffer[]} whose pages were not used yet */
  #untouched = [];
  #isTouching = false;
  #timer;

  /** Bytes that are there for results to come. */
  get bytes() {
    return this.#bytes;
  }

  /**
   * Memory for the results of a graph, which then belongs to the caller.
   * @param {GraphState} graph
   * @param {string} label for messages
   * @returns {ArrayBuffer[]} by the positions of the graph's outputs
   */
  take(graph, label) {
    const buffers = new Array(graph.outputs.size);
    for (const { position, byteLength } of graph.outputs.values()) {
      buffers[position] = this.#pop(byteLength) ?? allocate(graph, byteLength, label);
    }
    return buffers;
  }

  #pop(byteLength) {
    const same = this.#buffers.get(byteLength);
    if (same === undefined) return undefined;
    const buffer = same.pop();
    if (same.length === 0) this.#buffers.delete(byteLength);
    this.#bytes -= byteLength;
    return buffer;
  }

  /**
   * Gets memory for another run of a graph that has run just now, if that may be expected and is not too much.
   * @param {GraphState} graph
   */
  prepare(graph) {
    let total = 0;
    for (const { byteLength } of graph.outputs.values()) total += byteLength;
    if (total < SMALL) return;
    const isExpected = this.#recent.includes(graph);
    if (this.#recent.push(graph) > RECENT) this.#recent.shift();
    if (!isExpected || total > MOST) return;
    try {
      this.#fill(graph);
    } catch {
      // The next run will say so, if it is still so then.
      return;
    }
    while (this.#bytes > MOST) this.#pop(this.#buffers.keys().next().value);
    if (this.#bytes >= LARGE) {
      // Where all cores compute, kernels would wait for the one whose core this takes.
      if (graph.context.leavesCore) this.#touch();
      this.#timer ??= setTimeout(() => this.forget(), KEPT).unref();
      this.#timer.refresh();
    }
  }

  /** Makes what is missing for one run. */
  #fill(graph) {
    /** How many of a length the run takes. */
    const wanted = new Map();
    for (const { byteLength } of graph.outputs.values()) {
      const count = (wanted.get(byteLength) ?? 0) + 1;
      wanted.set(byteLength, count);
      const same = this.#buffers.get(byteLength) ?? [];
      if (same.length < count) {
        const buffer = allocate(graph, byteLength, '');
        same.push(buffer);
        this.#bytes += byteLength;
        if (byteLength >= SLICE && graph.context.leavesCore) this.#untouched.push(buffer);
      }
      this.#buffers.delete(byteLength);
      this.#buffers.set(byteLength, same);
    }
  }

  forget() {
    this.#buffers.clear();
    this.#bytes = 0;
    this.#untouched = [];
  }

  /** Writes to each page, a few in each round of the event loop, until all are done or runs have taken the memory. */
  #touch() {
    if (this.#isTouching || this.#untouched.length === 0) return;
    this.#isTouching = true;
    let buffer;
    let at = 0;
    const some = () => {
      if (buffer !== this.#untouched.at(-1)) at = 0;
      buffer = this.#untouched.at(-1);
      if (buffer === undefined) {
        this.#isTouching = false;
        return;
      }
      const isThere = this.#buffers.get(buffer.byteLength)?.includes(buffer);
      if (isThere) {
        const bytes = new Uint8Array(buffer);
        const end = Math.min(at + SLICE, bytes.length);
        while (at < end) {
          bytes[at] = 0;
          at += PAGE;
        }
      }
      if (!isThere || at >= buffer.byteLength) {
        this.#untouched.pop();
        buffer = undefined;
      }
      setImmediate(some);
    };
    setImmediate(some);
  }
}

/** Memory for a result; V8 says neither how much nor for what. */
function allocate(graph, byteLength, label) {
  try {
    return memory(graph.context.leavesCore, byteLength);
  } catch {
    throw exception('UnknownError', `${named('run', label)}: cannot allocate ${byteLength} bytes`);
  }
}

/**
 * All of it is written before script sees it, so it need not be zeroed. Where a core is free that is done all the same: kernels
 * then find it in the cache; and very much zeroed memory is new, and costs nothing.
 */
function memory(leavesCore, byteLength) {
  return leavesCore || byteLength < SMALL || byteLength > MOST ? new ArrayBuffer(byteLength) : Buffer.allocUnsafeSlow(byteLength).buffer;
}

module.exports = { MOST, OutputPrefetch };
