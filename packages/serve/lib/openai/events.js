'use strict';

// Server-sent events, as OpenAI's API writes them.

const { Readable } = require('node:stream');
const { bodyOf, toApiError } = require('./errors.js');

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;

/**
 * Sends objects as events. Nothing is sent before there is the first one, so what fails until then has a status of its own.
 * @param {import('fastify').FastifyReply} reply
 * @param {AsyncGenerator<object, void, void>} objects
 * @param {{gone: AbortController, stall: number, ticket?: { rest(): void, wake(): void }}} options who cancels the work, how long a client may take to
 *   read, and the request's place among those under way
 */
async function sendEvents(reply, objects, { gone, stall, ticket }) {
  const first = await objects.next();
  const { signal } = gone;
  async function* lines() {
    try {
      if (!first.done) {
        yield event(first.value);
        for await (const value of objects) yield event(value);
      }
      signal.throwIfAborted();
      yield 'data: [DONE]\n\n';
    } catch (error) {
      if (!signal.aborted) reply.log.error({ err: error }, 'a stream failed');
      yield event(bodyOf(toApiError(error)));
    }
  }
  const readable = Readable.from(watched(lines(), { stall, ticket, giveUp: (error) => readable.destroy(error) }), { objectMode: false });
  // A stream that ends before anybody has read from it ends nothing else.
  const end = () => void objects.return().catch(() => {});
  readable.once('close', () => {
    gone.abort(new Error('the stream was closed'));
    end();
  });
  signal.addEventListener('abort', end, { once: true });
  reply.type('text/event-stream; charset=utf-8').header('cache-control', 'no-cache').header('x-accel-buffering', 'no');
  return reply.send(readable);
}

/** Milliseconds after which a client that does not read leaves its place to others. */
const PATIENCE = 1000;

/** A client that does not read keeps memory of its sequence, so it is given up. */
async function* watched(lines, { stall, ticket, giveUp }) {
  for await (const line of lines) {
    const resting = setTimeout(() => ticket?.rest(), PATIENCE);
    const timer = setTimeout(() => giveUp(new Error(`the client has not read for ${stall} ms`)), stall);
    try {
      yield line;
    } finally {
      clearTimeout(resting);
      clearTimeout(timer);
      ticket?.wake();
    }
  }
}

module.exports = { sendEvents };
