'use strict';

// A server of models: the Open Inference Protocol and OpenAI's interface.

const Fastify = require('fastify');
const { ml } = require('webnn-node');
const { ServeError } = require('./errors.js');
const { Metrics } = require('./metrics.js');
const { Registry } = require('./models.js');
const { openai } = require('./openai/index.js');

/**
 * A server that has loaded its models when the promise resolves. `listen()` it; `close()` releases the models.
 * @param {{ models: string | Record<string, string>, context?: any, onnx?: object, versions?: number, logger?: any, bodyLimit?: number }} options
 */
async function createServer({ models, context, onnx, versions, logger = false, bodyLimit = 64 * 2 ** 20 }) {
  const fastify = Fastify({ loggerInstance: logger || undefined, bodyLimit, forceCloseConnections: 'idle' });
  const own = context === undefined ? await ml.createContext({ deviceType: 'cpu' }) : undefined;
  const metrics = new Metrics();
  const given = typeof models === 'string' ? { folder: models } : { models };
  const registry = new Registry({ ...given, context: context ?? own, onnx, versions, log: fastify.log });
  fastify.decorate('registry', registry);
  fastify.decorate('metrics', metrics);
  fastify.setErrorHandler(answerError);
  fastify.addHook('onClose', async () => {
    await registry.close();
    own?.destroy();
  });
  fastify.get('/metrics', async (_request, reply) => {
    reply.type(metrics.register.contentType);
    return metrics.text();
  });
  await fastify.register(openai, { registry, metrics });
  await registry.loadAll();
  await fastify.ready();
  return fastify;
}

function answerError(error, request, reply) {
  const status = error.statusCode ?? 500;
  if (status >= 500) request.log.error({ err: error }, 'a request failed');
  if (error.retryAfter !== undefined) reply.header('retry-after', String(error.retryAfter));
  reply.status(status).send({ error: error.message });
}

module.exports = { ServeError, createServer };
