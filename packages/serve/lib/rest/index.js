'use strict';

// The Open Inference Protocol, version 2, over REST, with the extensions of Triton that are listed here.

const { ServeError } = require('../errors.js');
const { configureModel, describeModel } = require('../inference.js');
const { controllerOf, infer } = require('../infer.js');
const { version } = require('../../package.json');
const { HEADER, inflate, readInference, readObject, writeInference } = require('./body.js');

const EXTENSIONS = ['binary_tensor_data', 'model_configuration', 'model_repository', 'parameters', 'schedule_policy', 'statistics'];

const describeServer = () => ({ name: 'webnn-node', version, extensions: EXTENSIONS });

/**
 * @param {import('fastify').FastifyInstance} fastify
 * @param {import('../infer.js').Setting & { load: import('../load.js').Load, isReady: () => boolean }} setting
 */
async function rest(fastify, setting) {
  // Requests say what they are by their headers; many clients name no type.
  fastify.removeAllContentTypeParsers();
  const most = fastify.initialConfig.bodyLimit;
  fastify.addContentTypeParser('*', { parseAs: 'buffer' }, async ({ headers }, body) => inflate(body, headers['content-encoding'], most));
  addHealth(fastify, setting);
  addModels(fastify, setting);
  addRepository(fastify, setting);
  addRefused(fastify);
}

function addHealth(fastify, { isReady }) {
  fastify.get('/v2', async () => describeServer());
  fastify.get('/v2/health/live', async () => ({ live: true }));
  fastify.get('/v2/health/ready', async (_request, reply) => {
    const ready = isReady();
    reply.status(ready ? 200 : 503);
    return { ready };
  });
}

function addModels(fastify, setting) {
  const { registry, metrics } = setting;
  const forModel = (path, work) => {
    for (const url of [`/v2/models/:model${path}`, `/v2/models/:model/versions/:version${path}`]) fastify.get(url, async ({ params }, reply) => work(params, reply));
  };
  forModel('', ({ model, version }) => describeModel(registry.get(model, version), registry.versions(model)));
  forModel('/ready', ({ model, version }) => ({ name: registry.get(model, version).name, ready: true }));
  forModel('/config', ({ model, version }) => configureModel(registry.get(model, version)));
  forModel('/stats', ({ model, version }) => {
    const chosen = version === undefined ? registry.versions(model) : [version];
    if (chosen.length === 0) registry.get(model);
    return { model_stats: chosen.map((one) => statisticsOf(metrics, registry.get(model, one))) };
  });
  fastify.get('/v2/models/stats', async () => ({ model_stats: registry.all().map((model) => statisticsOf(metrics, model)) }));
  const answer = (request, reply) => answerInference(setting, request, reply);
  for (const url of ['/v2/models/:model/infer', '/v2/models/:model/versions/:version/infer']) fastify.post(url, answer);
}

const statisticsOf = (metrics, { name, version, onnx }) => metrics.statistics.of(name, version).describe(onnx);

async function answerInference(setting, request, reply) {
  const { model: name, version } = request.params;
  let asked;
  const read = ({ onnx }) => (asked = readInference(request.body, request.headers[HEADER], onnx));
  const inference = { name, version, headers: request.headers, controller: controllerOf(reply.raw), read };
  const { body, headerLength } = await infer(setting, inference, (model, outputs) => {
    const { id, binary } = asked;
    const choices = new Map(asked.outputs.map((output) => [output.name, output.parameters?.binary_data]));
    return writeInference({ model_name: model.name, model_version: model.version, id }, outputs, (output) => choices.get(output) ?? binary);
  });
  if (headerLength === undefined) reply.type('application/json');
  else reply.type('application/octet-stream').header(HEADER, headerLength);
  return reply.send(body);
}

function addRepository(fastify, { registry }) {
  fastify.post('/v2/repository/index', async ({ body }) => {
    const { ready = false } = readObject(body);
    if (typeof ready !== 'boolean') throw new ServeError('invalid', 'ready: expected true or false');
    return (await registry.list()).filter(({ state }) => !ready || state === 'READY');
  });
  fastify.post('/v2/repository/models/:model/load', async ({ body, params }) => {
    const { parameters } = readObject(body);
    requireNoParameters(parameters);
    await registry.load(params.model);
    return {};
  });
  fastify.post('/v2/repository/models/:model/unload', async ({ body, params }) => {
    readObject(body);
    await registry.unload(params.model);
    return {};
  });
}

/** A model comes from its files only. @param {Record<string, unknown> | undefined} parameters */
function requireNoParameters(parameters) {
  const names = Object.keys(parameters ?? {});
  if (names.length > 0) throw new ServeError('unsupported', `parameters: found ${names.map((name) => JSON.stringify(name.slice(0, 80))).join(', ')}: models are loaded from the server's folder only`);
}

/** Extensions of Triton that clients may try. */
function addRefused(fastify) {
  const refused = { systemsharedmemory: 'shared memory', cudasharedmemory: 'shared memory', trace: 'trace settings', logging: 'log settings' };
  for (const [path, what] of Object.entries(refused)) {
    fastify.all(`/v2/${path}/*`, async () => {
      throw new ServeError('unsupported', `${what}: not supported${what === 'shared memory' ? '; send the tensors in the request' : ''}`);
    });
    fastify.all(`/v2/${path}`, async () => {
      throw new ServeError('unsupported', `${what}: not supported`);
    });
  }
}

module.exports = { EXTENSIONS, describeServer, requireNoParameters, rest };
