'use strict';

// W3C trace context, from the headers of requests to the SDK of OpenTelemetry and to the log.

const { tracingChannel } = require('node:diagnostics_channel');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const api = require('@opentelemetry/api');
const { InMemorySpanExporter, NodeTracerProvider, SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-node');
const { createServer, listenGrpc } = require('@webnn-node/serve');
const { twice } = require('./folder.js');
const { fillText } = require('./openai/folders.js');

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = 'b7ad6b7169203331';
const traceparent = `00-${TRACE}-${PARENT}-01`;

const exporter = new InMemorySpanExporter();
let folder;
let server;
let origin;
const log = [];
beforeAll(async () => {
  new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-tracing-'));
  fs.writeFileSync(path.join(folder, 'double.onnx'), twice('Add'));
  fillText(folder);
  const note = (about, text) => log.push({ ...about, text });
  const logger = { info: note, warn: note, error: note, debug: note, trace: note, fatal: note, child: () => logger };
  server = await createServer({ models: folder, logger });
  origin = await server.listen({ port: 0, host: '127.0.0.1' });
});
afterEach(() => exporter.reset());
afterAll(async () => {
  await server.close();
  api.trace.disable();
  api.context.disable();
  api.propagation.disable();
  fs.rmSync(folder, { recursive: true });
});

const post = (url, body, headers = { traceparent }) => fetch(origin + url, { method: 'POST', headers: { 'content-type': 'application/json', ...headers }, body: JSON.stringify(body) });
const infer = (shape, headers) => post('/v2/models/double/infer', { inputs: [{ name: 'x', datatype: 'FP32', shape, data: [1, 2] }] }, headers);
const about = (span) => {
  const { name, parentSpanContext: parent, status, attributes } = span;
  return { name, trace: span.spanContext().traceId, parent: parent?.spanId, isRemote: parent?.isRemote, failed: status.code === api.SpanStatusCode.ERROR, attributes };
};
const spans = () => exporter.getFinishedSpans().map(about);

test('an inference is a child of the span in its headers, or begins a trace', async () => {
  expect((await infer([1, 2])).status).toBe(200);
  expect((await infer([1, 3])).status).toBe(400);
  expect((await infer([1, 2], {})).status).toBe(200);
  expect((await infer([1, 2], { traceparent: '00-nonsense' })).status).toBe(200);
  const child = { name: 'infer double', trace: TRACE, parent: PARENT, isRemote: true, attributes: { 'webnn.model': 'double', 'webnn.version': '1' } };
  expect(spans()).toMatchObject([{ ...child, failed: false }, { ...child, failed: true }, { name: 'infer double', failed: false }, { name: 'infer double', failed: false }]);
  for (const { trace, parent } of spans().slice(2)) expect([parent, trace === TRACE]).toEqual([undefined, false]);
});

test('the span is active while the model runs, so what is observed of the run is its child', async () => {
  const seen = [];
  const channel = tracingChannel('webnn-node:run');
  const subscribers = { start: () => seen.push(api.trace.getActiveSpan()?.spanContext()), end() {}, asyncStart() {}, asyncEnd() {}, error() {} };
  channel.subscribe(subscribers);
  await infer([1, 2]);
  channel.unsubscribe(subscribers);
  expect(seen).toMatchObject([{ traceId: TRACE, spanId: exporter.getFinishedSpans()[0].spanContext().spanId }]);
});

test('gRPC has it in its metadata', async () => {
  const port = await listenGrpc(server, { port: 0 });
  const { inference } = grpc.loadPackageDefinition(protoLoader.loadSync(path.join(__dirname, '..', '..', 'packages', 'serve', 'lib', 'grpc', 'inference.proto'), { keepCase: true, longs: String, defaults: true, oneofs: true }));
  const client = new inference.GRPCInferenceService(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const metadata = new grpc.Metadata();
  metadata.set('traceparent', traceparent);
  await new Promise((resolve, reject) => {
    const request = { model_name: 'double', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2] }], raw_input_contents: [Buffer.alloc(8)] };
    client.ModelInfer(request, metadata, (error) => (error ? reject(error) : resolve()));
  });
  client.close();
  expect(spans()).toMatchObject([{ name: 'infer double', trace: TRACE, parent: PARENT, failed: false }]);
});

test('requests for text have spans, too, also if they are streamed or refused', async () => {
  const messages = [{ role: 'user', content: 'say A' }];
  await (await post('/v1/chat/completions', { model: 'chat', messages, max_tokens: 4 })).text();
  await (await post('/v1/chat/completions', { model: 'chat', messages, max_tokens: 4, stream: true })).text();
  await (await post('/v1/completions', { model: 'chat', prompt: 'A', max_tokens: 2 })).text();
  await (await post('/v1/embeddings', { model: 'embed', input: 'a b' })).text();
  expect((await post('/v1/completions', { model: 'chat', prompt: 'A', max_tokens: -2 })).status).toBe(400);
  while (spans().length < 5) await new Promise(setImmediate);
  const found = spans();
  expect(found.every(({ trace, parent }) => trace === TRACE && parent === PARENT)).toBe(true);
  expect(found.map(({ name, failed }) => [name, failed]).sort()).toEqual([['chat chat', false], ['chat chat', false], ['embeddings embed', false], ['text_completion chat', false], ['text_completion chat', true]].sort());
  expect(found[0].attributes).toMatchObject({ 'gen_ai.operation.name': 'chat', 'gen_ai.request.model': 'chat' });
});

test('the log names the trace of a request that was refused', async () => {
  await infer([1, 3]);
  expect(log).toContainEqual(expect.objectContaining({ status: 400, trace: TRACE }));
});
