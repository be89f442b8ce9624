'use strict';

// The Open Inference Protocol over gRPC.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const { createServer, listenGrpc } = require('@webnn-node/serve');
const { fill } = require('./folder.js');

const proto = path.join(__dirname, '..', '..', 'packages', 'serve', 'lib', 'grpc', 'inference.proto');
const { inference } = grpc.loadPackageDefinition(protoLoader.loadSync(proto, { keepCase: true, longs: String, enums: String, defaults: true, oneofs: true }));
const { status: codes } = grpc;

let folder;
let server;
let client;
let port;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-serve-'));
  fill(folder);
  server = await createServer({ models: folder, bodyLimit: 2 ** 20, maxElements: 1000 });
  port = await listenGrpc(server, { port: 0 });
  client = new inference.GRPCInferenceService(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
});
afterAll(async () => {
  client.close();
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

/** Calls a method; rejects with `{ code, details }`. */
const call = (method, request, { metadata = new grpc.Metadata(), ...options } = {}) =>
  new Promise((resolve, reject) => {
    client[method](request, metadata, options, (error, response) => (error ? reject(error) : resolve(response)));
  });
const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);
const x = (array = Float32Array.of(1, 2), shape = [1, 2], datatype = 'FP32') => ({ inputs: [{ name: 'x', datatype, shape }], raw_input_contents: [bytesOf(array)] });

test('tells what the server and its models are', async () => {
  expect(await call('ServerLive', {})).toEqual({ live: true });
  expect(await call('ServerReady', {})).toEqual({ ready: true });
  expect(await call('ServerMetadata', {})).toMatchObject({ name: 'webnn-node', extensions: expect.arrayContaining(['model_repository']) });
  expect(await call('ModelReady', { name: 'double' })).toEqual({ ready: true });
  expect(await call('ModelMetadata', { name: 'versions' })).toMatchObject({
    ...{ name: 'versions', versions: ['1', '2', '10'], platform: 'onnx_onnxv1' },
    inputs: [{ name: 'x', datatype: 'FP32', shape: ['-1', '2'] }],
  });
  expect(await call('ModelConfig', { name: 'double' })).toMatchObject({ config: { input: [{ name: 'x', data_type: 'TYPE_FP32', dims: ['-1', '2'] }] } });
  await expect(call('ModelReady', { name: 'none' })).rejects.toMatchObject({ code: codes.NOT_FOUND });
});

test('runs a model on raw bytes and on typed contents', async () => {
  const raw = await call('ModelInfer', { model_name: 'double', id: 'mine', ...x() });
  expect(raw).toMatchObject({ model_name: 'double', model_version: '1', id: 'mine', outputs: [{ name: 'y', datatype: 'FP32', shape: ['1', '2'] }] });
  expect(Buffer.compare(raw.raw_output_contents[0], bytesOf(Float32Array.of(2, 4)))).toBe(0);
  const typed = await call('ModelInfer', { model_name: 'versions', model_version: '2', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], contents: { fp32_contents: [3, 5] } }] });
  expect(Buffer.compare(typed.raw_output_contents[0], bytesOf(Float32Array.of(9, 25)))).toBe(0);
  const chosen = await call('ModelInfer', { model_name: 'two', outputs: [{ name: 'product' }], ...x() });
  expect(chosen.outputs.map(({ name }) => name)).toEqual(['product']);
});

const types = {
  bool: ['BOOL', Uint8Array.of(1, 0), { bool_contents: [true, false] }],
  uint8: ['UINT8', Uint8Array.of(0, 255), { uint_contents: [0, 255] }],
  uint16: ['UINT16', Uint16Array.of(1, 65535), { uint_contents: [1, 65535] }],
  uint32: ['UINT32', Uint32Array.of(1, 2 ** 32 - 1), { uint_contents: [1, 2 ** 32 - 1] }],
  uint64: ['UINT64', BigUint64Array.of(2n ** 64n - 1n, 5n), { uint64_contents: ['18446744073709551615', 5] }],
  int8: ['INT8', Int8Array.of(-128, 127), { int_contents: [-128, 127] }],
  int16: ['INT16', Int16Array.of(-32768, 32767), { int_contents: [-32768, 32767] }],
  int32: ['INT32', Int32Array.of(-(2 ** 31), 7), { int_contents: [-(2 ** 31), 7] }],
  int64: ['INT64', BigInt64Array.of(-(2n ** 63n), 5n), { int64_contents: ['-9223372036854775808', 5] }],
  float16: ['FP16', Uint16Array.of(0x3c00, 0xc100)],
  bfloat16: ['BF16', Uint16Array.of(0x3f80, 0xc020)],
  float: ['FP32', Float32Array.of(0.5, NaN), { fp32_contents: [0.5, NaN] }],
  double: ['FP64', Float64Array.of(0.5, -2.5), { fp64_contents: [0.5, -2.5] }],
};
test.each(Object.entries(types))('takes and gives %s', async (type, [datatype, array, contents]) => {
  const request = { model_name: `same-${type}`, ...x(array, [2], datatype) };
  const { outputs, raw_output_contents: [raw] } = await call('ModelInfer', request);
  expect(outputs).toMatchObject([{ datatype, shape: ['2'] }]);
  expect(Buffer.compare(raw, bytesOf(array))).toBe(0);
  const typed = { model_name: `same-${type}`, inputs: [{ name: 'x', datatype, shape: [2], contents: contents ?? { fp32_contents: [1, 2] } }] };
  if (contents === undefined) {
    await expect(call('ModelInfer', typed)).rejects.toMatchObject({ code: codes.INVALID_ARGUMENT, details: expect.stringContaining('raw_input_contents') });
    return;
  }
  const answer = await call('ModelInfer', typed);
  expect(Buffer.compare(answer.raw_output_contents[0], bytesOf(array))).toBe(0);
});

test('refuses what is wrong with INVALID_ARGUMENT and a reason', async () => {
  const wrong = [
    [{ ...x(), raw_input_contents: [Buffer.alloc(7)] }, 'found 7 bytes, expected 8'],
    [{ ...x(), raw_input_contents: [Buffer.alloc(8), Buffer.alloc(8)] }, 'expected one for each of the 1 inputs'],
    [{ inputs: [{ name: 'x', datatype: 'BYTES', shape: [1, 2], contents: { bytes_contents: [Buffer.alloc(1)] } }] }, 'BYTES is not supported'],
    [x(undefined, [-1, 2]), 'whole numbers'],
    [x(undefined, ['9223372036854775807', 2]), 'whole numbers'],
    [x(undefined, [2 ** 40, 2 ** 40]), 'too many'],
    [{ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2] }] }, 'found 0 elements'],
    [{ inputs: [{ ...x().inputs[0], contents: { fp32_contents: [1, 2] } }], raw_input_contents: x().raw_input_contents }, 'found both'],
    [{ ...x(), parameters: { sequence_id: { int64_param: 1 } } }, 'sequences'],
    [{ ...x(), outputs: [{ name: 'z' }] }, 'no such output'],
    [{ inputs: [] }, "allowed exactly the model's inputs"],
    [{ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], parameters: { shared_memory_region: { string_param: 'r' } } }] }, 'shared memory is not supported'],
  ];
  for (const [request, details] of wrong) await expect(call('ModelInfer', { model_name: 'double', ...request })).rejects.toMatchObject({ code: codes.INVALID_ARGUMENT, details: expect.stringContaining(details) });
  await expect(call('ModelInfer', { model_name: '../double', ...x() })).rejects.toMatchObject({ code: codes.NOT_FOUND });
  await expect(call('ModelInfer', { model_name: 'double', ...x(new Float32Array(2 ** 19), [2 ** 18, 2]) })).rejects.toMatchObject({ code: codes.RESOURCE_EXHAUSTED });
  await expect(call('SystemSharedMemoryRegister', {})).rejects.toMatchObject({ code: codes.UNIMPLEMENTED, details: expect.stringContaining('shared memory') });
});

test('cancels at the timeout of the request, at the deadline of the call, and when the client cancels', async () => {
  const slow = { model_name: 'slow', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1] }], raw_input_contents: [Buffer.alloc(4)] };
  const failures = server.metrics.statistics.of('slow', '1').failures;
  await expect(call('ModelInfer', { ...slow, parameters: { timeout: { int64_param: 1000 } } })).rejects.toMatchObject({ code: codes.DEADLINE_EXCEEDED });
  expect(failures.REJECTED).toBe(1);
  // On a busy machine a call may be over before it arrives, or the run before it is cancelled.
  for (let ms = 20; failures.CANCELED === 0; ms += 10) await call('ModelInfer', slow, { deadline: Date.now() + ms }).catch(({ code }) => expect(code).toBe(codes.DEADLINE_EXCEEDED));
  const before = failures.CANCELED;
  while (failures.CANCELED === before) {
    const running = client.ModelInfer(slow, () => {});
    while (server.load.running === 0) await setTimeout(1);
    running.cancel();
    while (server.load.running > 0) await setTimeout(1);
  }
});

test('answers each request of a stream, also after one that fails', async () => {
  const stream = client.ModelStreamInfer();
  const answers = [];
  stream.on('data', (answer) => answers.push(answer));
  const ended = new Promise((resolve, reject) => {
    stream.on('end', resolve).on('error', reject);
  });
  for (let i = 0; i < 50; i++) stream.write({ model_name: i === 7 ? 'none' : 'double', id: String(i), ...x(Float32Array.of(i, 0)) });
  stream.end();
  await ended;
  expect(answers.length).toBe(50);
  for (const { error_message: error, infer_response: { id, raw_output_contents: [raw] } } of answers) {
    if (id === '7') expect(error).toContain('no such model');
    else expect([id, error, raw.readFloatLE(0)]).toEqual([id, '', 2 * Number(id)]);
  }
});

test('lists, unloads and loads models, and counts', async () => {
  const { models } = await call('RepositoryIndex', { ready: true });
  expect(models).toEqual(expect.arrayContaining([{ name: 'versions', version: '2', state: 'READY', reason: '' }]));
  await call('RepositoryModelUnload', { model_name: 'versions' });
  await expect(call('ModelInfer', { model_name: 'versions', ...x() })).rejects.toMatchObject({ code: codes.NOT_FOUND });
  await call('RepositoryModelLoad', { model_name: 'versions' });
  await call('ModelInfer', { model_name: 'versions', ...x() });
  await expect(call('RepositoryModelLoad', { model_name: 'double', parameters: { config: { string_param: '{}' } } })).rejects.toMatchObject({ code: codes.UNIMPLEMENTED });
  const { model_stats: [stats] } = await call('ModelStatistics', { name: 'double' });
  expect(Number(stats.inference_stats.success.count)).toBeGreaterThan(40);
  expect((await call('ModelStatistics', {})).model_stats.length).toBeGreaterThan(5);
});

test('has health checks and reflection', async () => {
  const health = grpc.loadPackageDefinition(require('grpc-health-check').protoPath ? protoLoader.loadSync(require('grpc-health-check').protoPath, { keepCase: true, enums: String, defaults: true }) : {});
  const checks = new health.grpc.health.v1.Health(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const check = (service) => new Promise((resolve, reject) => {
    checks.Check({ service }, (error, response) => (error ? reject(error) : resolve(response.status)));
  });
  expect([await check(''), await check('inference.GRPCInferenceService')]).toEqual(['SERVING', 'SERVING']);
  checks.close();
  const folderOfReflection = path.dirname(require.resolve('@grpc/reflection/package.json'));
  const reflection = grpc.loadPackageDefinition(protoLoader.loadSync(path.join(folderOfReflection, 'build', 'proto', 'grpc', 'reflection', 'v1', 'reflection.proto'), { keepCase: true, defaults: true, oneofs: true }));
  const about = new reflection.grpc.reflection.v1.ServerReflection(`127.0.0.1:${port}`, grpc.credentials.createInsecure());
  const stream = about.ServerReflectionInfo();
  const answer = new Promise((resolve, reject) => {
    stream.on('data', resolve).on('error', reject);
  });
  stream.write({ list_services: '' });
  const { list_services_response: { service } } = await answer;
  expect(service.map(({ name }) => name)).toContain('inference.GRPCInferenceService');
  stream.end();
  about.close();
});

test('wants the token, if there is one', async () => {
  const other = await createServer({ models: { double: path.join(folder, 'double.onnx') } });
  const own = await listenGrpc(other, { port: 0, token: 'secret' });
  const guarded = new inference.GRPCInferenceService(`127.0.0.1:${own}`, grpc.credentials.createInsecure());
  const ask = (authorization) => new Promise((resolve) => {
    const metadata = new grpc.Metadata();
    if (authorization !== undefined) metadata.set('authorization', authorization);
    guarded.ModelInfer({ model_name: 'double', ...x() }, metadata, (error) => resolve(error?.code ?? codes.OK));
  });
  expect([await ask(), await ask('Bearer wrong'), await ask('Bearer secret')]).toEqual([codes.UNAUTHENTICATED, codes.UNAUTHENTICATED, codes.OK]);
  guarded.close();
  await other.close();
});
