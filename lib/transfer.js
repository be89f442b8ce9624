'use strict';

// Transfers the memory of views away from script, and gives it back as new views: compute() works on the caller's memory in place, on another
// thread.

const { Buffer } = require('node:buffer');
const { types } = require('node:util');
const workers = require('node:worker_threads');
const { bufferOf, byteLength, byteOffset, isDetached } = require('./buffers.js');
const { process, structuredClone } = require('./globals.js');
const { viewName } = require('./show.js');

// As they are when this module is loaded: what script does to the global later must not get hold of the memory.
const constructors = new Map(
  [
    ...['Int8Array', 'Uint8Array', 'Uint8ClampedArray', 'Int16Array', 'Uint16Array', 'Int32Array', 'Uint32Array'],
    ...['BigInt64Array', 'BigUint64Array', 'Float16Array', 'Float32Array', 'Float64Array'],
  ]
    .filter((name) => globalThis[name] !== undefined)
    .map((name) => [name, globalThis[name]]),
);

// Node 20 silently copies a buffer that cannot be detached, and detaches the others of the same call. Later versions
// refuse such a call and detach nothing; they are told by a function that came with that.
const ALL_OR_NOTHING = 'isMarkedAsUntransferable' in workers;

/** Deno detaches what is before the one that it refuses. */
const { isMarkedAsUntransferable } = /** @type {any} */ (workers);
const isRefused = process.versions.deno !== undefined && ALL_OR_NOTHING ? isMarkedAsUntransferable : () => false;

const WASM_PAGE = 65536;

/** Some memory cannot be taken away from script; other memory may have been. */
class NotDetachable extends Error {
  constructor(transferred = undefined) {
    super();
    this.transferred = transferred;
  }
}

/**
 * Transfers every distinct buffer of some views, without copying; the views become detached.
 * @param {ArrayBufferView[]} views
 * @returns {Transferred}
 * @throws {NotDetachable} with what was transferred nevertheless
 */
function transfer(views) {
  const sources = views.map(bufferOf).filter((buffer, i, all) => all.indexOf(buffer) === i);
  const transferred = new Transferred(views);
  if (ALL_OR_NOTHING) {
    if (sources.some(isRefused)) throw new NotDetachable();
    let buffers;
    try {
      buffers = structuredClone(sources, { transfer: sources });
    } catch {
      throw new NotDetachable();
    }
    transferred.note(sources, buffers);
    return transferred;
  }
  // Those that may well be refused go first and one by one, so that mostly nothing was detached when one is.
  const groups = sources.filter(isSuspicious).map((source) => [source]);
  const others = sources.filter((source) => !isSuspicious(source));
  if (others.length > 0) groups.push(others);
  groups.forEach((group) => {
    if (!transferred.note(group, structuredClone(group, { transfer: group }))) throw new NotDetachable(transferred);
  });
  return transferred;
}

/** Whether it looks like the memory of WebAssembly, or the pool of small Buffers. */
function isSuspicious(buffer) {
  const length = byteLength(buffer);
  return length % WASM_PAGE === 0 || length === Buffer.poolSize;
}

/** Views of memory that was transferred. */
class Transferred {
  #views = new Map();
  /** By the buffer that script had. */
  #buffers = new Map();
  #lengths = new Map();

  constructor(views) {
    // A detached view has forgotten where it was.
    views.forEach((view) => {
      this.#lengths.set(bufferOf(view), byteLength(bufferOf(view)));
      this.#views.set(view, { source: bufferOf(view), offset: byteOffset(view), bytes: byteLength(view), make: constructorOf(view) });
    });
  }

  /** Whether all of them were transferred. What was only copied stays script's. */
  note(sources, buffers) {
    const taken = sources.map((source) => this.#isTaken(source));
    sources.forEach((source, i) => taken[i] && this.#buffers.set(source, buffers[i]));
    return !taken.includes(false);
  }

  /** Only buffers that were empty anyway have to be asked, for the price of an exception. */
  #isTaken(source) {
    return this.#lengths.get(source) > 0 ? byteLength(source) === 0 : isDetached(source);
  }

  /** The view of the same kind at the same place of the memory as it is now. */
  view(before) {
    const { source, offset, bytes, make } = this.#views.get(before);
    const buffer = this.#buffers.get(source);
    return buffer === undefined ? before : make(buffer, offset, bytes);
  }
}

/** From a buffer, an offset and a length in bytes to a view of the same kind. */
function constructorOf(view) {
  if (Buffer.isBuffer(view)) return (buffer, offset, bytes) => Buffer.from(buffer, offset, bytes);
  if (!types.isTypedArray(view)) return (buffer, offset, bytes) => new DataView(buffer, offset, bytes);
  const Constructor = constructors.get(viewName(view));
  return (buffer, offset, bytes) => new Constructor(buffer, offset, bytes / Constructor.BYTES_PER_ELEMENT);
}

module.exports = { NotDetachable, transfer };
