'use strict';

// Errors in OpenAI's form: { error: { message, type, param, code } }.

/** What a client sees. Everything else is an error of the server, and its text stays in the log. */
class ApiError extends Error {
  /**
   * @param {number} status
   * @param {string} message
   * @param {{type?: string, param?: string | null, code?: string | null, retryAfter?: number}} [more] `retryAfter` in seconds
   */
  constructor(status, message, { type, param = null, code = null, retryAfter } = {}) {
    super(message);
    this.name = 'ApiError';
    this.statusCode = status;
    this.type = type ?? (status >= 500 ? 'server_error' : status === 429 ? 'rate_limit_error' : 'invalid_request_error');
    this.param = param;
    this.code = code;
    this.retryAfter = retryAfter;
  }
}

/** A value of the request that is not allowed. */
const invalid = (param, message, code = 'invalid_value') => new ApiError(400, message, { param, code });

/** A feature that this server does not have. */
const unsupported = (param, message) => new ApiError(400, message, { param, code: 'unsupported_parameter' });

const unknownModel = (name) => new ApiError(404, `The model ${JSON.stringify(name)} does not exist.`, { param: 'model', code: 'model_not_found' });

const tooLong = (param, found, most, what = 'tokens') =>
  new ApiError(400, `This model's maximum context length is ${most} tokens, but ${param} has ${found} ${what}.`, { param, code: 'context_length_exceeded' });

/** No text has so many characters for each of its tokens, so a longer one need not be tokenized to be refused. */
const CHARACTERS_PER_TOKEN = 16;
const mostCharacters = (tokens) => tokens * CHARACTERS_PER_TOKEN;

/** Whether webnn-node refused work for lack of memory. Steps that were taken together fail with an OperationError that says so. */
const isOutOfMemory = (error) => error?.name === 'QuotaExceededError' || (error?.name === 'OperationError' && error.message.includes('the memoryLimit of'));

/** Words of OpenAI's API, by status, for errors that have none. */
const CODES = { 401: 'invalid_api_key', 429: 'rate_limit_exceeded' };

/**
 * The error that a client sees.
 * @param {any} error what was thrown
 * @returns {ApiError}
 */
function toApiError(error) {
  if (error instanceof ApiError) return error;
  if (isOutOfMemory(error)) return new ApiError(503, 'The server does not have enough memory for this request now.', { code: 'out_of_memory', retryAfter: 1 });
  if (error?.code === 'ERR_CONSTRAINT') return new ApiError(400, `The output cannot be constrained further: ${error.message}.`, { code: 'constraint_too_complex' });
  // Fastify's own, such as for a body that is no JSON or too large, and errors of other plugins with a status.
  const { statusCode: status, message, code = CODES[status] ?? null, retryAfter } = error ?? {};
  if (Number.isInteger(status) && status >= 400 && status !== 500) return new ApiError(status, message, { code, retryAfter });
  return new ApiError(500, 'The server had an error while processing the request.');
}

const bodyOf = ({ message, type, param, code }) => ({ error: { message, type, param, code } });

module.exports = { ApiError, bodyOf, invalid, isOutOfMemory, mostCharacters, toApiError, tooLong, unknownModel, unsupported };
