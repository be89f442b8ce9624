'use strict';

// Channels of node:diagnostics_channel: what happens in this package, for tools that observe programs (docs/profiling.md). Where nobody
// subscribes nothing is made.

const { performance } = require('node:perf_hooks');
const { process } = require('./globals.js');

/** @typedef {import('node:diagnostics_channel').TracingChannel<any, any>} Tracing */
/** @typedef {import('node:diagnostics_channel').Channel} Channel */

const library = requireLibrary();

/** Runtimes and bundles may lack it. @returns {typeof import('node:diagnostics_channel') | undefined} */
function requireLibrary() {
  try {
    const found = require('node:diagnostics_channel');
    return typeof found.tracingChannel === 'function' ? found : undefined;
  } catch {
    return undefined;
  }
}

/** @param {string} name */
const tracing = (name) => library?.tracingChannel(`webnn-node:${name}`);

const channels = { load: tracing('load'), build: tracing('build'), run: tracing('run') };
const [errors, losses, batches] = ['error', 'lost', 'batch'].map((name) => library?.channel(`webnn-node:${name}`));

/** Node 20 has no `hasSubscribers` of a TracingChannel. */
function isWanted({ start, end, asyncStart, asyncEnd, error }) {
  return start.hasSubscribers || end.hasSubscribers || asyncStart.hasSubscribers || asyncEnd.hasSubscribers || error.hasSubscribers;
}

/**
 * Does some work, and publishes when it begins and ends.
 * @template T
 * @param {'load' | 'build' | 'run'} name
 * @param {() => object} describe
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
function traced(name, describe, work) {
  const channel = channels[name];
  return channel === undefined || !isWanted(channel) ? work() : channel.tracePromise(work, describe());
}

/**
 * Publishes an operation that failed.
 * @param {{operator: string, label: string}} entry
 * @param {unknown} error
 */
function failed({ operator, label }, error) {
  if (errors?.hasSubscribers) errors.publish({ operator, label, error });
}

/**
 * Publishes a context that was lost, but not by destroy().
 * @param {{device: string, label: string}} context
 * @param {string} message
 */
function lost({ device, label }, message) {
  if (losses?.hasSubscribers) losses.publish({ device, label, message });
}

/**
 * Publishes requests that a model with `batching` runs as one, when the run begins.
 * @param {() => {label: string, device: string, size: number, rows: number, waited: number}} describe
 */
function batched(describe) {
  if (batches?.hasSubscribers) batches.publish(describe());
}

/**
 * Entries for PerformanceObserver. They are taken out of the timeline at once, which would grow with each run; observers get them nevertheless.
 * @param {string} name
 */
function measure(name) {
  const began = new WeakMap();
  const title = `webnn-node ${name}`;
  channels[name]?.subscribe({
    start(/** @type {any} */ message) {
      began.set(message, performance.now());
    },
    asyncEnd(/** @type {any} */ message) {
      const { operator, label, device, shapes, error } = message;
      const detail = { operator, label, device, shapes, failed: error !== undefined };
      performance.measure(title, { start: began.get(message), end: performance.now(), detail });
      performance.clearMeasures(title);
    },
    end() {},
    asyncStart() {},
    error() {},
  });
}

if (process.env.WEBNN_PERFORMANCE) for (const name of Object.keys(channels)) measure(name);

// Subscribes, if the process is traced.
require('./trace.js');

module.exports = { batched, failed, lost, traced };
