'use strict';

// What a caller sees: an error with the status codes of HTTP and gRPC. Other errors are the server's own and are shown as 500.

/** Statuses by what went wrong: HTTP's, and the name of gRPC's. */
const kinds = {
  invalid: [400, 'INVALID_ARGUMENT'],
  unauthorized: [401, 'UNAUTHENTICATED'],
  forbidden: [403, 'PERMISSION_DENIED'],
  missing: [404, 'NOT_FOUND'],
  large: [413, 'RESOURCE_EXHAUSTED'],
  busy: [429, 'RESOURCE_EXHAUSTED'],
  cancelled: [499, 'CANCELLED'],
  failed: [500, 'INTERNAL'],
  unsupported: [501, 'UNIMPLEMENTED'],
  unavailable: [503, 'UNAVAILABLE'],
  late: [504, 'DEADLINE_EXCEEDED'],
};

class ServeError extends Error {
  /**
   * @param {keyof typeof kinds} kind
   * @param {string} message
   * @param {{ retryAfter?: number, cause?: unknown }} [options] `retryAfter` in seconds
   */
  constructor(kind, message, { retryAfter, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = 'ServeError';
    this.kind = kind;
    [this.statusCode, this.grpcStatus] = kinds[kind];
    this.retryAfter = retryAfter;
  }
}

/** What a run rejects with, by the names of its exceptions. */
const byName = {
  TypeError: 'invalid',
  RangeError: 'invalid',
  DataError: 'invalid',
  NotSupportedError: 'invalid',
  InvalidStateError: 'unavailable',
  QuotaExceededError: 'unavailable',
  AbortError: 'cancelled',
  TimeoutError: 'late',
};

/**
 * What a caller sees of an error of a run.
 * @param {any} error
 * @param {AbortSignal} [signal]
 * @returns {ServeError}
 */
function toServeError(error, signal) {
  if (error instanceof ServeError) return error;
  if (signal?.aborted && signal.reason instanceof ServeError) return signal.reason;
  // What a shape would take is the caller's choice.
  const kind = /\(maxBytes\)/.test(error?.message) ? 'invalid' : (byName[error?.name] ?? 'failed');
  return new ServeError(kind, error?.message ?? String(error), { cause: error, retryAfter: kind === 'unavailable' ? 1 : undefined });
}

module.exports = { ServeError, toServeError };
