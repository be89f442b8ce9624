'use strict';

// OpenAI's interface: /v1/models, /v1/chat/completions, /v1/completions, /v1/embeddings; and /rerank.

const { setMaxListeners } = require('node:events');
const chat = require('./chat.js');
const completions = require('./completions.js');
const { embeddings } = require('./embeddings.js');
const { ApiError, bodyOf, invalid, toApiError, unknownModel } = require('./errors.js');
const { sendEvents } = require('./events.js');
const { LIMITS, is, read, readBody } = require('./requests.js');
const { rerank } = require('./rerank.js');
const { traceOf, traced } = require('../tracing.js');
const { TextMetrics } = require('./metrics.js');

/** Bytes of a request: text is short, and JSON is parsed on the thread of all requests. */
const BODY = 8 * 2 ** 20;

/** What each kind of model answers. */
const PATHS = { generate: '/v1/chat/completions or /v1/completions', embed: '/v1/embeddings', rerank: '/rerank' };

/**
 * @param {import('fastify').FastifyInstance} fastify
 * @param {{ registry: import('../models.js').Registry, metrics: import('../metrics.js').Metrics, limits?: { text?: Partial<typeof LIMITS> } }} options
 */
async function openai(fastify, { registry, metrics, limits: { text = {} } = {} }) {
  const limits = { ...LIMITS, ...text };
  const decoders = () => textModels(registry).filter(({ hub }) => hub.text.kind === 'generate');
  const counted = new TextMetrics(metrics.register, () => decoders().map(({ name, hub }) => ({ name, model: hub.onnx })));
  fastify.setErrorHandler(answerError);
  // Clients show it with an error.
  fastify.addHook('onRequest', (request, reply, done) => {
    reply.header('x-request-id', requestIdOf(request));
    done();
  });
  const served = { registry, metrics, limits, counted };
  for (const [path, kind] of [['/v1/chat/completions', chat], ['/v1/completions', completions]]) {
    fastify.post(path, { bodyLimit: BODY }, (request, reply) => generated(request, reply, kind, served));
  }
  fastify.post('/v1/embeddings', { bodyLimit: BODY }, (request, reply) => encoded(request, reply, 'embed', embeddings, served));
  for (const path of ['/rerank', '/v1/rerank', '/v2/rerank']) {
    fastify.post(path, { bodyLimit: BODY }, (request, reply) => encoded(request, reply, 'rerank', rerank, served));
  }
  fastify.get('/v1/models', async () => ({ object: 'list', data: textModels(registry).map(aboutModel) }));
  // A name may have slashes.
  fastify.get('/v1/models/*', async (request) => {
    const found = textModels(registry).find(({ name }) => name === request.params['*']);
    if (found === undefined) throw unknownModel(request.params['*']);
    return aboutModel(found);
  });
}

/** The client's own, if it is one. */
function requestIdOf({ headers }) {
  const given = headers['x-request-id'];
  return typeof given === 'string' && /^[\w.:-]{1,128}$/.test(given) ? given : chat.identifier('req_');
}

const textModels = (registry) => registry.latest().filter(({ hub }) => hub?.text !== undefined);

const aboutModel = ({ name, hub }) => ({ id: name, object: 'model', created: hub.loaded, owned_by: 'webnn-node', ...(hub.text.maxLength < Infinity && { max_model_len: hub.text.maxLength }) });

function answerError(error, request, reply) {
  const shown = toApiError(error);
  if (shown.statusCode >= 500) request.log.error({ err: error, trace: traceOf(request.headers) }, 'a request failed');
  if (shown.statusCode === 401) reply.header('www-authenticate', 'Bearer');
  if (shown.retryAfter !== undefined) reply.header('retry-after', String(shown.retryAfter));
  reply.status(shown.statusCode).type('application/json; charset=utf-8').send(bodyOf(shown));
}

/** The name of the model that a request is for. Where only one model is of the kind, a reranker need not be named. */
function nameOf(body, kind, registry) {
  const name = read(body, 'model', is.string, 'the name of a model');
  const ofKind = textModels(registry).filter(({ hub }) => hub.text.kind === kind);
  if (name === undefined) {
    if (kind === 'rerank' && ofKind.length === 1) return ofKind[0].name;
    throw invalid('model', 'model: found none, allowed the name of a model.', 'missing_required_parameter');
  }
  const found = textModels(registry).find((one) => one.name === name);
  if (found === undefined) {
    // A model that is being loaded is an error of its own.
    if (isLoading(name, registry)) throw new ApiError(503, `The model ${JSON.stringify(name)} is being loaded.`, { param: 'model', code: 'model_loading', retryAfter: 1 });
    throw unknownModel(name);
  }
  if (found.hub.text.kind !== kind) throw invalid('model', `model: ${JSON.stringify(name)} answers ${PATHS[found.hub.text.kind]} only.`);
  return name;
}

function isLoading(name, registry) {
  try {
    registry.get(name);
    return false;
  } catch (error) {
    return error.statusCode === 503;
  }
}

/** Aborts when the client hangs up, and when a request takes too long. */
function watch(reply, { timeout }) {
  const gone = new AbortController();
  // Each text of a request listens.
  setMaxListeners(0, gone.signal);
  const timer = setTimeout(() => gone.abort(new ApiError(504, `The request took more than ${timeout} ms.`, { code: 'timeout' })), timeout);
  const close = () => {
    clearTimeout(timer);
    if (!reply.raw.writableFinished) gone.abort(new ApiError(499, 'The client closed the connection.'));
  };
  if (reply.raw.destroyed) close();
  else reply.raw.once('close', close);
  return gone;
}

/** Embeddings and scores. */
async function encoded(request, reply, kind, work, served) {
  const { registry, limits, counted } = served;
  const body = readBody(request.body, limits);
  const name = nameOf(body, kind, registry);
  const { signal } = watch(reply, limits);
  const result = await registry.use(name, undefined, (model) => followed({ request, reply, kind, model, served }, () => work(body, model.hub.text, { limits, signal, name })));
  if (result.usage !== undefined) counted.prompt(name, result.usage.prompt_tokens);
  return result;
}

/** Chats and completions. */
async function generated(request, reply, kind, served) {
  const { registry, limits, counted } = served;
  const body = readBody(request.body, limits);
  const name = nameOf(body, 'generate', registry);
  const gone = watch(reply, limits);
  const about = { id: chat.identifier(kind.prefix), created: Math.floor(Date.now() / 1000), model: name, system_fingerprint: null };
  return registry.use(name, undefined, (loaded) => followed({ request, reply, kind, model: loaded, served }, async () => {
    const model = loaded.hub.text;
    const parsed = await kind.read(body, model, limits, gone.signal);
    const usage = counted.begin(name, parsed);
    const pieces = usage.watch(model.continue(parsed.prompts, { ...parsed, signal: gone.signal }));
    const more = { parsed, about, tokenizer: model.tokenizer };
    if (!parsed.stream) return { ...(await kind.answer(pieces, more)), usage: usage.figures };
    await sendEvents(reply, withUsage(kind, pieces, more, usage), { gone, stall: limits.stall, ticket: request.ticket });
    // The model is in use until the last event is sent.
    await new Promise((resolve) => {
      if (reply.raw.closed || reply.raw.destroyed) resolve();
      else reply.raw.once('close', resolve);
    });
    return reply;
  }));
}

/** OpenTelemetry's names of what is done. */
const OPERATIONS = new Map(/** @type {[any, string][]} */ ([[chat, 'chat'], [completions, 'text_completion'], ['embed', 'embeddings'], ['rerank', 'rerank']]));

/** Work in a span, which is counted as a request of its model. */
async function followed({ request, reply, kind, model: { name, version }, served: { metrics } }, work) {
  const operation = OPERATIONS.get(kind);
  const statistics = metrics.statistics.of(name, version);
  const began = performance.now();
  try {
    const result = await traced(`${operation} ${name}`, request.headers, { 'gen_ai.operation.name': operation, 'gen_ai.request.model': name }, work);
    const ms = performance.now() - began;
    if (reply.raw.destroyed && !reply.raw.writableFinished) statistics.failed('CANCELED', ms);
    else statistics.answered(ms);
    return result;
  } catch (error) {
    statistics.failed(reasonOf(toApiError(error).statusCode), performance.now() - began);
    throw error;
  }
}

/** Why a request failed, as Triton sorts them. */
function reasonOf(status) {
  if (status === 499) return 'CANCELED';
  if (status === 429 || status === 504) return 'REJECTED';
  return status >= 500 ? 'BACKEND' : 'OTHER';
}

/** With `stream_options: { include_usage: true }` a chunk without choices comes last, and the others have no usage. */
async function* withUsage(kind, pieces, more, usage) {
  const { parsed, about } = more;
  for await (const chunk of kind.stream(pieces, more)) yield parsed.usage ? { ...chunk, usage: null } : chunk;
  if (parsed.usage) yield { ...about, object: kind.streamed, choices: [], usage: usage.figures };
}

module.exports = { openai };
