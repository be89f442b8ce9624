'use strict';

// The Open Inference Protocol, version 2, over gRPC, with health checks and reflection.

const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const { ReflectionService } = require('@grpc/reflection');
const { HealthImplementation } = require('grpc-health-check');
const { ServeError, toServeError } = require('../errors.js');
const { configureModel, describeModel } = require('../inference.js');
const { infer } = require('../infer.js');
const { describeServer, requireNoParameters } = require('../rest/index.js');
const { guard } = require('../security.js');
const { readRequest, writeResponse } = require('./messages.js');

const SERVICE = 'inference.GRPCInferenceService';
/** Milliseconds in which connections end when all requests have been answered. */
const LAST_WORDS = 1000;

const definition = protoLoader.loadSync(path.join(__dirname, 'inference.proto'), { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true });

/**
 * Speaks gRPC for a server, until that is closed.
 * @param {any} server what `createServer` returns
 * @param {{ host?: string, port: number, token?: string, tls?: { cert: Buffer | string, key: Buffer | string } }} options
 * @returns {Promise<number>} the port
 */
async function listenGrpc(server, { host = '127.0.0.1', port, token, tls }) {
  const { registry, load, limits } = server;
  const { bodyLimit } = limits;
  const own = new grpc.Server({ 'grpc.max_receive_message_length': bodyLimit, 'grpc.max_send_message_length': -1, 'grpc.max_concurrent_streams': 1024 });
  own.addService(/** @type {any} */ (definition[SERVICE]), handlersOf(server, guard(token)));
  const health = new HealthImplementation({ '': 'NOT_SERVING', [SERVICE]: 'NOT_SERVING' });
  health.addToServer(own);
  new ReflectionService(definition).addToServer(own);
  const setStatus = (status) => {
    for (const name of ['', SERVICE]) health.setStatus(name, status);
  };
  server.loaded.then(() => load.isLeaving || setStatus('SERVING'), () => {});
  load.whenLeaving(() => setStatus('NOT_SERVING'));
  const credentials = tls === undefined ? grpc.ServerCredentials.createInsecure() : grpc.ServerCredentials.createSsl(null, [{ cert_chain: Buffer.from(tls.cert), private_key: Buffer.from(tls.key) }]);
  const bound = await new Promise((resolve, reject) => {
    own.bindAsync(`${host.includes(':') ? `[${host}]` : host}:${port}`, credentials, (error, found) => (error ? reject(error) : resolve(found)));
  });
  registry.whenClosing(() => shutDown(own));
  server.log.info(`listening on ${host}:${bound} (gRPC)`);
  return bound;
}

function shutDown(server) {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      server.forceShutdown();
      resolve();
    }, LAST_WORDS);
    server.tryShutdown(() => {
      clearTimeout(timer);
      resolve();
    });
  });
}

/** What a client sees of an error. */
function statusOf(error, log) {
  const shown = error instanceof ServeError ? error : toServeError(error);
  if (shown.kind === 'failed') log.error({ err: error }, 'a request failed');
  return { code: grpc.status[shown.grpcStatus], details: shown.kind === 'failed' && !(error instanceof ServeError) ? 'the server has failed' : shown.message };
}

function handlersOf({ registry, metrics, load, limits, log }, requireToken) {
  const setting = { registry, metrics, limits };
  const admit = ({ metadata }) => requireToken(/** @type {string} */ (metadata.get('authorization')[0]));
  const unary = (work) => async (call, callback) => {
    try {
      admit(call);
      callback(null, await work(call.request, call));
    } catch (error) {
      callback(statusOf(error, log));
    }
  };
  /** Of a request that counts. */
  const counted = async (work) => {
    const ticket = load.accept();
    try {
      ticket.start();
      return await work();
    } finally {
      ticket.end();
    }
  };
  const inferOne = (request, controller, headers) => {
    const { model_name: name, model_version: version, id } = request;
    return counted(() => infer(setting, { name, version, headers, controller, read: () => readRequest(request) }, (model, outputs) => writeResponse(model, id, outputs)));
  };
  const refused = (what) => unary(() => {
    throw new ServeError('unsupported', `${what} not supported`);
  });
  return {
    ServerLive: unary(() => ({ live: true })),
    ServerReady: unary(() => ({ ready: registry.isReady && !load.isLeaving })),
    ModelReady: unary(({ name, version }) => ({ ready: isServed(registry, name, version) })),
    ServerMetadata: unary(describeServer),
    ModelMetadata: unary(({ name, version }) => describeModel(registry.get(name, version), registry.versions(name))),
    ModelConfig: unary(({ name, version }) => ({ config: configureModel(registry.get(name, version)) })),
    ModelStatistics: unary(({ name, version }) => ({ model_stats: statisticsOf(registry, metrics, name, version) })),
    ModelInfer: unary((request, call) => inferOne(request, controllerOf(call), call.metadata.getMap())),
    ModelStreamInfer: (call) => answerStream(call, admit, inferOne, log),
    RepositoryIndex: unary(async ({ ready }) => ({ models: (await registry.list()).filter(({ state }) => !ready || state === 'READY') })),
    RepositoryModelLoad: unary(({ model_name: name, parameters }) => counted(async () => {
      requireNoParameters(parameters);
      await registry.load(name);
      return {};
    })),
    RepositoryModelUnload: unary(({ model_name: name }) => counted(async () => {
      await registry.unload(name);
      return {};
    })),
    ...Object.fromEntries(['Status', 'Register', 'Unregister'].flatMap((what) => ['System', 'Cuda'].map((kind) => [`${kind}SharedMemory${what}`, refused('shared memory: send the tensors in the request;')]))),
    TraceSetting: refused('trace settings:'),
    LogSettings: refused('log settings:'),
  };
}

function isServed(registry, name, version) {
  try {
    return registry.get(name, version) !== undefined;
  } catch (error) {
    if (error.kind === 'unavailable') return false;
    throw error;
  }
}

function statisticsOf(registry, metrics, name, version) {
  const chosen = name === '' ? registry.all() : version === '' ? registry.versions(name).map((one) => registry.get(name, one)) : [registry.get(name, version)];
  if (chosen.length === 0 && name !== '') registry.get(name);
  return chosen.map((model) => metrics.statistics.of(model.name, model.version).describe(model.onnx));
}

/** Aborts when the client has cancelled its call, or its deadline is over. */
function controllerOf(call) {
  const controller = new AbortController();
  call.on('cancelled', () => controller.abort(new ServeError('cancelled', 'the client has cancelled its call')));
  return controller;
}

/** So many requests of a stream are answered at a time; then the client has to wait. */
const MOST_OF_STREAM = 16;

/** Each request of a stream is answered when its run has ended. */
function answerStream(call, admit, inferOne, log) {
  try {
    admit(call);
  } catch (error) {
    call.destroy(Object.assign(new Error(error.message), statusOf(error, log)));
    return;
  }
  // Each of its requests listens.
  call.setMaxListeners(0);
  const headers = call.metadata.getMap();
  let running = 0;
  let isOver = false;
  const answer = async (request) => {
    running++;
    if (running >= MOST_OF_STREAM) call.pause();
    try {
      call.write({ error_message: '', infer_response: await inferOne(request, controllerOf(call), headers) });
    } catch (error) {
      const { details } = statusOf(error, log);
      call.write({ error_message: details, infer_response: { model_name: request.model_name, model_version: request.model_version, id: request.id } });
    }
    running--;
    call.resume();
    if (isOver && running === 0) call.end();
  };
  call.on('data', (request) => void answer(request));
  call.on('end', () => {
    isOver = true;
    if (running === 0) call.end();
  });
  call.on('error', () => {});
}

module.exports = { listenGrpc };
