'use strict';

// What a caller is told: an error with the status codes of HTTP and gRPC. Other errors are the server's own and are shown as 500.

/** Statuses by what went wrong: HTTP's, and the name of gRPC's. */
const kinds = {
  invalid: [400, 'INVALID_ARGUMENT'],
  unauthorized: [401, 'UNAUTHENTICATED'],
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

module.exports = { ServeError };
