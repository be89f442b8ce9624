'use strict';

// Models that arrive from streams. Their bytes are collected outside of JavaScript's heap.

const native = require('../native.js');
const { viewable } = require('../buffers.js');
const { exception, nativeError, typeError } = require('../errors.js');
const { show } = require('../show.js');

/** Bytes that are read from a file handle at once. */
const PIECE = 1 << 20;

/**
 * What a model's bytes are read from.
 * @typedef {{pieces: AsyncIterable<unknown>, total: number | undefined | (() => Promise<number>)}} Stream
 */

/**
 * The stream of a source, if it is one: a ReadableStream, a Response, a Blob, a FileHandle of node:fs/promises, or any async iterable.
 * @param {string} operator
 * @param {any} source
 * @param {string} [name] of the source, for messages
 * @returns {Stream | undefined}
 */
function streamOf(operator, source, name = 'source') {
  if (typeof source !== 'object' || source === null) return undefined;
  if (isTagged(source, 'Response')) return response(operator, source, name);
  if (isTagged(source, 'Blob') || isTagged(source, 'File')) return { pieces: source.stream(), total: source.size };
  if (typeof source.read === 'function' && typeof source.fd === 'number') return fileHandle(source);
  if (typeof source[Symbol.asyncIterator] === 'function') return { pieces: source, total: undefined };
  return undefined;
}

/** Objects of any realm and implementation. */
function isTagged(source, name) {
  return Object.prototype.toString.call(source) === `[object ${name}]`;
}

function response(operator, source, name) {
  if (!source.ok) {
    throw exception('OperationError', `${operator}: ${name}: found a response with status ${source.status}, allowed a successful one`);
  }
  if (source.bodyUsed || source.body === null) throw typeError(operator, '', `${name}: found a response whose body is missing or has been read, allowed one with an unread body`);
  // The length of what is sent is not that of what is read if it is compressed.
  const length = source.headers.get('content-encoding') === null ? source.headers.get('content-length') : null;
  return { pieces: source.body, total: length === null ? undefined : Number(length) };
}

function fileHandle(handle) {
  async function* pieces() {
    const buffer = new Uint8Array(PIECE);
    for (let position = 0; ; ) {
      const { bytesRead } = await handle.read(buffer, 0, PIECE, position);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
      position += bytesRead;
    }
  }
  return { pieces: pieces(), total: async () => (await handle.stat()).size };
}

/**
 * Reads streams to their ends, side by side. The results are the handles of their bytes, which belong to the caller. If one fails, all end.
 * @param {string} operator
 * @param {string} label
 * @param {Stream[]} streams
 * @param {{signal?: AbortSignal, progress: import('./progress.js').Progress}} options
 * @returns {Promise<number[]>}
 */
async function receiveAll(operator, label, streams, { signal, progress }) {
  /** @type {(reason: unknown) => void} */
  let stop;
  const stopped = new Promise((_, reject) => {
    stop = reject;
  });
  stopped.catch(() => {});
  const abort = () => stop(signal.reason);
  signal?.addEventListener('abort', abort, { once: true });
  try {
    const totals = await Promise.all(streams.map(({ total }) => (typeof total === 'function' ? total() : total)));
    progress.expect(totals);
    const count = (length) => {
      progress.received(length);
      signal?.throwIfAborted();
    };
    const receiving = streams.map((stream, i) => receive(operator, label, stream.pieces, { total: totals[i], stopped, count }));
    for (const one of receiving) one.catch((error) => stop(error));
    const ended = await Promise.allSettled(receiving);
    const handles = ended.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []));
    if (handles.length === streams.length) return handles;
    for (const handle of handles) native.dropReceived(handle);
    // The reason of the first that failed.
    return await stopped;
  } finally {
    signal?.removeEventListener('abort', abort);
  }
}

/** Reads one. */
async function receive(operator, label, pieces, { total, stopped, count }) {
  // Before there is a handle: a stream that somebody else reads throws here.
  const iterator = pieces[Symbol.asyncIterator]();
  const handle = natively(() => native.receiveBytes(Number.isSafeInteger(total) && total > 0 ? total : 0));
  try {
    for (;;) {
      const { done, value } = await Promise.race([stopped, iterator.next()]);
      if (done) return handle;
      const piece = toBytes(operator, label, value);
      natively(() => native.receivePiece(handle, piece));
      count(piece.byteLength);
    }
  } catch (error) {
    native.dropReceived(handle);
    // The source is told, and nobody waits for it: it may never answer.
    Promise.resolve(iterator.return?.()).catch(() => {});
    throw error;
  }
}

/** Without memory for the bytes there is an `UnknownError`. */
function natively(call) {
  try {
    return call();
  } catch (error) {
    throw nativeError(error);
  }
}

function toBytes(operator, label, piece) {
  const bytes = ArrayBuffer.isView(piece) || isTagged(piece, 'ArrayBuffer') || isTagged(piece, 'SharedArrayBuffer');
  if (!bytes) throw typeError(operator, label, `source: found a stream of ${show(piece)}, allowed one of buffers`);
  return viewable(piece);
}

module.exports = { receiveAll, streamOf };
