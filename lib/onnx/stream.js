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
 * @returns {Stream | undefined}
 */
function streamOf(operator, source) {
  if (typeof source !== 'object' || source === null) return undefined;
  if (isTagged(source, 'Response')) return response(operator, source);
  if (isTagged(source, 'Blob') || isTagged(source, 'File')) return { pieces: source.stream(), total: source.size };
  if (typeof source.read === 'function' && typeof source.fd === 'number') return fileHandle(source);
  if (typeof source[Symbol.asyncIterator] === 'function') return { pieces: source, total: undefined };
  return undefined;
}

/** Objects of any realm and implementation. */
function isTagged(source, name) {
  return Object.prototype.toString.call(source) === `[object ${name}]`;
}

function response(operator, source) {
  if (!source.ok) {
    throw exception('OperationError', `${operator}: source: found a response with status ${source.status}, allowed one that succeeded`);
  }
  if (source.bodyUsed || source.body === null) throw typeError(operator, '', 'source: found a response without a body to read, allowed one that nobody has read');
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
 * Reads a stream to its end. The result is the handle of its bytes, which belongs to the caller.
 * @param {string} operator
 * @param {string} label
 * @param {Stream} stream
 * @param {{signal?: AbortSignal, onProgress?: (progress: {loaded: number, total: number | undefined}) => void}} options
 * @returns {Promise<number>}
 */
async function receive(operator, label, { pieces, total: length }, { signal, onProgress }) {
  const total = typeof length === 'function' ? await length() : length;
  // Before there is a handle: a stream that somebody else reads throws here.
  const iterator = pieces[Symbol.asyncIterator]();
  const handle = natively(() => native.receiveBytes(Number.isSafeInteger(total) && total > 0 ? total : 0));
  let abort;
  const aborted = new Promise((_, reject) => {
    abort = () => reject(signal.reason);
    signal?.addEventListener('abort', abort, { once: true });
  });
  aborted.catch(() => {});
  try {
    signal?.throwIfAborted();
    for (let loaded = 0; ; ) {
      const { done, value } = await Promise.race([iterator.next(), aborted]);
      if (done) return handle;
      const piece = toBytes(operator, label, value);
      natively(() => native.receivePiece(handle, piece));
      loaded += piece.byteLength;
      onProgress?.({ loaded, total });
      signal?.throwIfAborted();
    }
  } catch (error) {
    native.dropReceived(handle);
    // The source is told, and nobody waits for it: it may never answer.
    Promise.resolve(iterator.return?.()).catch(() => {});
    throw error;
  } finally {
    signal?.removeEventListener('abort', abort);
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

module.exports = { receive, streamOf };
