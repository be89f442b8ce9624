'use strict';

// A server of models: the Open Inference Protocol and OpenAI's interface.

const { fastify: Fastify, LogController } = require('fastify');
const { ml } = require('webnn-node');
const { ServeError } = require('./errors.js');
const { listenGrpc } = require('./grpc/index.js');
const { Load } = require('./load.js');
const { Metrics } = require('./metrics.js');
const { isPage, page } = require('./page/index.js');
const { Receiving } = require('./receiving.js');
const { Registry } = require('./models.js');
const { openai } = require('./openai/index.js');
const { rest } = require('./rest/index.js');
const { guard, requireOwnOrigin } = require('./security.js');
const { serve } = require('./serve.js');
const { traceOf } = require('./tracing.js');

const defaults = {
  /** Bytes of a request. */
  bodyLimit: 64 * 2 ** 20,
  /** Elements of all inputs of a request. */
  maxElements: 2 ** 26,
  /** Requests that are answered at a time. */
  maxInFlight: 256,
  maxConnections: 4096,
  /** Bytes of all requests that have not arrived yet. */
  maxReceiving: 2 ** 30,
  /** Milliseconds of a run, if the request does not say. */
  timeout: 60_000,
  /** Milliseconds in which a request must have arrived. */
  requestTimeout: 60_000,
};

/** Answered without a token, and while the server is full or shuts down. */
const isProbe = (url) => url === '/v2/health/live' || url === '/v2/health/ready';

/**
 * A server; `listen()` it. Its models are loaded when the promise resolves, or with `waits: false` when `server.loaded` does.
 * @param {import('../index.js').ServeOptions} options
 */
async function createServer({ models, name, context, deviceType = 'cpu', numThreads, performance, memoryLimit, onnx, speculate, promptCache, versions, logger, token, https, waits = true, onProgress, ...given }) {
  const limits = { ...defaults, ...given };
  const { bodyLimit, maxConnections, requestTimeout } = limits;
  const fastify = Fastify({
    ...(logger === undefined ? {} : { loggerInstance: logger }),
    ...(https === undefined ? {} : { https }),
    bodyLimit,
    logController: new LogController({ disableRequestLogging: true }),
    forceCloseConnections: 'idle',
    requestTimeout,
    routerOptions: { maxParamLength: 512, ignoreTrailingSlash: true },
  });
  fastify.server.maxConnections = maxConnections;
  const own = context === undefined ? await ml.createContext({ deviceType, numThreads, performance, memoryLimit, label: 'serve' }) : undefined;
  const metrics = new Metrics();
  const load = new Load(limits);
  const receiving = new Receiving(limits);
  const whenLoaded = (model) => metrics.statistics.of(model.name, model.version).follow(model.onnx, model.hub?.text);
  const registry = new Registry({ ...sourceOf(models, name), context: context ?? own, onnx, generation: { speculate, promptCache }, versions, log: fastify.log, whenLoaded, onProgress });
  metrics.follow({ registry, load, context: context ?? own });
  const isReady = () => registry.isReady && !load.isLeaving;
  fastify.decorate('registry', registry);
  fastify.decorate('metrics', metrics);
  fastify.decorate('load', load);
  fastify.decorate('receiving', receiving);
  fastify.decorate('limits', limits);
  addHooks(fastify, { load, receiving, token });
  fastify.addHook('onClose', async () => {
    await registry.close();
    own?.destroy();
  });
  fastify.get('/metrics', async (_request, reply) => {
    reply.type(metrics.register.contentType);
    return metrics.text();
  });
  const setting = { registry, metrics, load, limits, context: context ?? own, isReady };
  await fastify.register(rest, setting);
  await fastify.register(openai, setting);
  await fastify.register(page, setting);
  const loaded = registry.loadAll();
  fastify.decorate('loaded', loaded);
  try {
    if (waits) await loaded;
    // Whoever does not wait looks at it later.
    else loaded.catch(() => {});
  } catch (error) {
    await fastify.close();
    throw error;
  }
  return fastify;
}

/** A folder of models, one model by a name, or several. */
function sourceOf(models, name) {
  if (name !== undefined) return { models: { [name]: models } };
  return typeof models === 'string' ? { folder: models } : { models };
}

function addHooks(fastify, { load, receiving, token }) {
  const requireToken = guard(token);
  const admit = (request, reply) => {
    const { url } = request.routeOptions;
    if (isProbe(url) || isPage(url)) return;
    requireOwnOrigin(request.headers);
    requireToken(request.headers.authorization);
    if (request.method !== 'POST') return;
    try {
      const ticket = load.accept();
      request.ticket = ticket;
      const { socket } = request.raw;
      receiving.add(socket);
      // No hook tells of a client that hangs up.
      reply.raw.once('close', () => {
        receiving.delete(socket);
        ticket.end();
      });
    } catch (error) {
      // Its body is not read.
      reply.header('connection', 'close');
      throw error;
    }
  };
  fastify.decorateRequest('ticket', null);
  // With callbacks: promises would cost more than what the hooks do.
  fastify.addHook('onRequest', (request, reply, done) => done(errorOf(() => admit(request, reply))));
  fastify.addHook('preHandler', ({ raw, ticket }, _reply, done) => {
    receiving.delete(raw.socket);
    done(errorOf(() => ticket?.start()));
  });
  fastify.addHook('onClose', async () => receiving.close());
  fastify.addHook('onResponse', (request, reply, done) => {
    const { method, url, headers, log } = request;
    if (log.isLevelEnabled?.('debug')) log.debug({ method, url, status: reply.statusCode, ms: reply.elapsedTime, trace: traceOf(headers) }, 'answered');
    done();
  });
  fastify.setErrorHandler(answerError);
  fastify.setNotFoundHandler((_request, reply) => {
    reply.status(404).send({ error: 'there is no such address' });
  });
}

/** @param {() => void} work @returns {Error | undefined} */
function errorOf(work) {
  try {
    work();
    return undefined;
  } catch (error) {
    return error;
  }
}

function answerError(error, request, reply) {
  const status = error.statusCode ?? 500;
  const { method, url, headers } = request;
  const isShown = error instanceof ServeError || status < 500;
  if (!isShown || error.kind === 'failed') request.log.error({ err: error, method, url, trace: traceOf(headers) }, 'a request failed');
  else request.log.debug({ method, url, status, reason: error.message, trace: traceOf(headers) }, 'a request was refused');
  if (error.retryAfter !== undefined) reply.header('retry-after', String(error.retryAfter));
  if (status === 401) reply.header('www-authenticate', 'Bearer');
  // What went wrong inside is in the log only.
  reply.status(status).send({ error: isShown ? error.message : 'the server has failed' });
}

module.exports = { ServeError, createServer, defaults, listenGrpc, serve };
