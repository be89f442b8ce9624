'use strict';

// WEBNN_TRACE=file.json: writes what happens in this process, in Chrome's trace format (an array of events), for Perfetto.
//
// The file is written in whole events. It can be opened while the process runs, and if it is killed: the format does not require the end of the
// array. What was not written yet, of the last moment, is lost then.

const fs = require('node:fs');
const os = require('node:os');
const { performance } = require('node:perf_hooks');
const { clearTimeout, setTimeout } = require('node:timers');
const { threadId } = require('node:worker_threads');
const { process } = require('./globals.js');
const { stepsOf } = require('./onnx/profile.js');
const { emitWarning } = require('./warnings.js');

/** Characters that are kept, and milliseconds, before they are written. */
const [MOST_KEPT, LONGEST] = [1 << 16, 200];
const MOST_BYTES = 256 * 2 ** 20;
/** The track of script; threads of the package follow. */
const SCRIPT = 1;

/** Microseconds, to the nanosecond. */
const micros = (ms) => Math.round(ms * 1e6) / 1e3;

/** In one millisecond one unit is 10^3 in a second. */
const perSecond = (units, ms) => (ms > 0 ? Number((units / ms / 1e6).toFixed(2)) : 0);

/** `${pid}` stands for the number of the process. Each worker has a file of its own. */
function fileOf(name) {
  const own = name.replaceAll('${pid}', `${process.pid}`);
  return threadId === 0 ? own : own.replace(/(\.[^./\\]*)?$/, (extension) => `.${threadId}${extension}`);
}

class Trace {
  #file;
  #most;
  #kept = '';
  #bytes = 0;
  #timer;
  /** The tracks of threads: when the last slice of each ends. @type {Map<string, {tid: number, until: number}[]>} */
  #tracks = new Map();
  #lastTrack = SCRIPT;
  #lastId = 0;
  #running = 0;

  /**
   * @param {typeof import('node:diagnostics_channel')} diagnostics
   * @param {string} file
   * @param {number} most bytes
   */
  constructor(diagnostics, file, most) {
    this.#file = fs.openSync(file, 'w');
    this.#most = most;
    this.#write('[\n');
    const { model = 'unknown' } = os.cpus()[0] ?? {};
    this.#add({ ph: 'M', name: 'process_name', args: { name: `webnn-node in Node.js ${process.versions.node}` } });
    this.#add({ ph: 'M', name: 'process_labels', args: { labels: `${model.trim()}, ${os.availableParallelism()} cores` } });
    this.#nameTrack(SCRIPT, 'script', 0);
    for (const name of ['load', 'build', 'run']) this.#listen(diagnostics.tracingChannel(`webnn-node:${name}`), name);
    diagnostics.subscribe('webnn-node:batch', (/** @type {any} */ message) => this.#batch(message));
    diagnostics.subscribe('webnn-node:error', (/** @type {any} */ message) => this.#point('error', message));
    diagnostics.subscribe('webnn-node:lost', (/** @type {any} */ message) => this.#point('lost', message));
    process.once('exit', () => this.#end());
  }

  #nameTrack(tid, name, place) {
    this.#add({ ph: 'M', tid, name: 'thread_name', args: { name } });
    this.#add({ ph: 'M', tid, name: 'thread_sort_index', args: { sort_index: place } });
  }

  /** Times in milliseconds. */
  #slice(tid, cat, name, began, ms, args) {
    this.#add({ ph: 'X', tid, cat, name, ts: micros(began), dur: micros(ms), args });
  }

  /** Slices that may overlap others, each on a track of its own. */
  #span(cat, name, began, ended, args) {
    const id = ++this.#lastId;
    this.#add({ ph: 'b', tid: SCRIPT, id, cat, name, ts: micros(began), args });
    this.#add({ ph: 'e', tid: SCRIPT, id, cat, name, ts: micros(ended) });
  }

  #point(name, { operator, label, device, message, error }) {
    const args = { operator, label, device, message: error === undefined ? message : `${error?.message ?? error}` };
    this.#add({ ph: 'i', s: 't', tid: SCRIPT, cat: 'error', name, ts: micros(performance.now()), args });
  }

  /** A call of script is a slice, what follows from it a span. */
  #listen(channel, name) {
    const under = new WeakMap();
    channel.subscribe({
      start: (message) => {
        const id = ++this.#lastId;
        const began = performance.now();
        const { operator, label, device, shapes, file, isAhead, sequences, lengths } = message;
        const args = { operator, device, shapes, file, isAhead, sequences, lengths };
        const title = label === '' || label === undefined ? name : `${name} ${label}`;
        under.set(message, { id, began, title });
        this.#add({ ph: 'b', tid: SCRIPT, id, cat: name, name: title, ts: micros(began), args });
        if (name === 'run') this.#count(1);
      },
      end: (message) => {
        const { began, title } = under.get(message);
        this.#slice(SCRIPT, 'call', title, began, performance.now() - began);
      },
      asyncStart: (message) => {
        const { id, title } = under.get(message);
        this.#add({ ph: 'e', tid: SCRIPT, id, cat: name, name: title, ts: micros(performance.now()), args: { failed: message.error !== undefined } });
        if (name === 'run') this.#count(-1);
      },
      asyncEnd() {},
      error() {},
    });
  }

  #count(change) {
    this.#running += change;
    this.#add({ ph: 'C', tid: SCRIPT, name: 'runs under way', ts: micros(performance.now()), args: { runs: this.#running } });
  }

  #batch({ label, size, rows, waited }) {
    const now = performance.now();
    this.#span('batch', `batch ${label}`.trim(), now - waited, now, { size, rows, waited });
  }

  /**
   * What notes the steps of work that begins now, if it has some.
   * @param {import('./states').Entry} entry
   * @returns {((steps: import('./native').Step[]) => void) | undefined}
   */
  noteOf({ operator, label, context, peak = context?.peak }) {
    if (operator !== 'dispatch' && operator !== 'compute') return undefined;
    const began = performance.now();
    return (steps) => this.steps(label, began, stepsOf(steps), peak);
  }

  /**
   * The steps of a run.
   * @param {string} label
   * @param {number} began when the run was asked for
   * @param {import('./onnx.d.ts').OnnxProfiledStep[]} steps
   * @param {import('./onnx.d.ts').OnnxPeak | undefined} peak
   */
  steps(label, began, steps, peak) {
    if (steps.length === 0) return;
    const first = began + steps[0].began;
    this.#span('queue', `queued ${label}`.trim(), began, first, {});
    const tids = new Map();
    for (const { operator, began: at, ms, implementation, text, multiplications, bytes, thread, dataType } of steps) {
      if (!tids.has(thread)) tids.set(thread, this.#track(thread, first, steps));
      const [gflops, gbs] = [perSecond(2 * multiplications, ms), perSecond(bytes, ms)];
      this.#slice(tids.get(thread), 'step', operator, began + at, ms, { model: label, text, implementation, dataType, gflops, gbs, peak });
    }
  }

  /** The track of a thread. Those of several contexts may have the same name. */
  #track(thread, from, steps) {
    const last = steps[steps.length - 1];
    const until = from - steps[0].began + last.began + last.ms;
    const tracks = this.#tracks.get(thread) ?? [];
    this.#tracks.set(thread, tracks);
    let track = tracks.find((one) => one.until <= from);
    if (track === undefined) {
      track = { tid: ++this.#lastTrack, until };
      tracks.push(track);
      this.#nameTrack(track.tid, tracks.length === 1 ? thread : `${thread} (${tracks.length})`, track.tid);
    }
    track.until = until;
    return track.tid;
  }

  #add(event) {
    this.#write(`${JSON.stringify({ pid: process.pid, ...event })},\n`);
  }

  #write(text) {
    if (this.#file === undefined) return;
    this.#kept += text;
    if (this.#kept.length >= MOST_KEPT) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), LONGEST).unref();
  }

  /** Writes whole events. A file that is full, or cannot be written, ends the trace and not the process. */
  #flush() {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const text = this.#kept;
    this.#kept = '';
    if (this.#file === undefined || text === '') return;
    try {
      const bytes = Buffer.from(text);
      if (this.#bytes + bytes.length > this.#most) return this.#close(`the trace of WEBNN_TRACE has ${this.#most} bytes, and does not grow further (WEBNN_TRACE_BYTES)`);
      for (let written = 0; written < bytes.length; ) written += fs.writeSync(this.#file, bytes, written);
      this.#bytes += bytes.length;
    } catch (error) {
      this.#close(`the trace of WEBNN_TRACE cannot be written: ${error.message}`);
    }
  }

  #close(reason) {
    emitWarning('WEBNN_TRACE', reason);
    this.#finish();
  }

  #finish() {
    const last = JSON.stringify({ pid: process.pid, tid: SCRIPT, ph: 'i', s: 'p', cat: 'trace', name: 'the trace ends', ts: micros(performance.now()) });
    const file = this.#file;
    this.#file = undefined;
    try {
      fs.writeSync(file, `${last}\n]\n`);
      fs.closeSync(file);
    } catch {
      // It can be opened without its end.
    }
  }

  #end() {
    this.#flush();
    if (this.#file !== undefined) this.#finish();
  }
}

function openTrace() {
  const name = process.env.WEBNN_TRACE;
  if (!name) return undefined;
  const most = Number(process.env.WEBNN_TRACE_BYTES);
  try {
    // Runtimes may lack it.
    return new Trace(require('node:diagnostics_channel'), fileOf(name), most > 0 ? most : MOST_BYTES);
  } catch (error) {
    emitWarning('WEBNN_TRACE', `the trace of WEBNN_TRACE cannot be written: ${error.message}`);
    return undefined;
  }
}

/** Where the process has one. */
const trace = openTrace();

module.exports = { trace };
