'use strict';

// Traces: a request is a span of OpenTelemetry if its API is installed, a child of that in the request's headers (W3C Trace Context).

const api = requireApi();

/** @returns {typeof import('@opentelemetry/api') | undefined} */
function requireApi() {
  try {
    return require('@opentelemetry/api');
  } catch {
    return undefined;
  }
}

const getter = {
  keys: (headers) => Object.keys(headers),
  get: (headers, key) => headers[key],
};

/** The trace that a request belongs to, for logs. @param {Record<string, any>} headers */
function traceOf({ traceparent }) {
  return typeof traceparent === 'string' ? /^[\da-f]{2}-([\da-f]{32})-[\da-f]{16}-[\da-f]{2}/.exec(traceparent)?.[1] : undefined;
}

/**
 * Does some work in a span.
 * @template T
 * @param {string} name
 * @param {Record<string, any>} headers of the request
 * @param {Record<string, string>} attributes
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
function traced(name, headers, attributes, work) {
  if (api === undefined) return work();
  const parent = api.propagation.extract(api.context.active(), headers, getter);
  const tracer = api.trace.getTracer('@webnn-node/serve');
  return tracer.startActiveSpan(name, { kind: api.SpanKind.SERVER, attributes }, parent, async (span) => {
    try {
      return await work();
    } catch (error) {
      span.recordException(error);
      span.setStatus({ code: api.SpanStatusCode.ERROR, message: error.message });
      throw error;
    } finally {
      span.end();
    }
  });
}

module.exports = { traceOf, traced };
