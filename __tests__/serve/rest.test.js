'use strict';

// The Open Inference Protocol over REST, as its specification and Triton's extensions have it.

const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const zlib = require('node:zlib');
const { createServer } = require('@webnn-node/serve');
const { fill } = require('./folder.js');

let folder;
let server;
let origin;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-serve-'));
  fill(folder);
  server = await createServer({ models: folder, bodyLimit: 2 ** 20, maxElements: 1000 });
  origin = await server.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

const get = async (url) => {
  const response = await fetch(origin + url);
  return [response.status, await response.json()];
};
const post = async (url, body, headers = {}) => {
  const response = await fetch(origin + url, { method: 'POST', headers, body: typeof body === 'string' || ArrayBuffer.isView(body) ? body : JSON.stringify(body) });
  return [response.status, await response.json(), response.headers];
};
const infer = (model, request) => post(`/v2/models/${model}/infer`, request);

/** Sends tensors as bytes after the JSON, and reads the answer's. */
async function inferBinary(model, { inputs, ...rest }, bytes) {
  const json = Buffer.from(JSON.stringify({ ...rest, inputs }));
  const headers = { 'Inference-Header-Content-Length': String(json.length), 'Content-Type': 'application/octet-stream' };
  const response = await fetch(`${origin}/v2/models/${model}/infer`, { method: 'POST', headers, body: Buffer.concat([json, ...bytes]) });
  const answer = Buffer.from(await response.arrayBuffer());
  const length = response.headers.get('inference-header-content-length');
  const head = JSON.parse(answer.toString('utf8', 0, length === null ? answer.length : Number(length)));
  return { status: response.status, head, rest: length === null ? undefined : answer.subarray(Number(length)) };
}

test('tells what the server is, and that it lives and is ready', async () => {
  const [status, about] = await get('/v2');
  expect([status, about.name, about.version]).toEqual([200, 'webnn-node', require('../../package.json').version]);
  expect(about.extensions).toEqual(expect.arrayContaining(['binary_tensor_data', 'model_repository']));
  expect(await get('/v2/health/live')).toEqual([200, { live: true }]);
  expect(await get('/v2/health/ready')).toEqual([200, { ready: true }]);
});

test('tells what a model takes, by name and version', async () => {
  const double = {
    ...{ name: 'double', versions: ['1'], platform: 'onnx_onnxv1' },
    inputs: [{ name: 'x', datatype: 'FP32', shape: [-1, 2] }],
    outputs: [{ name: 'y', datatype: 'FP32', shape: [-1, 2] }],
  };
  expect(await get('/v2/models/double')).toEqual([200, double]);
  expect(await get('/v2/models/double/versions/1')).toEqual([200, double]);
  expect(await get('/v2/models/double/ready')).toEqual([200, { name: 'double', ready: true }]);
  expect((await get('/v2/models/double/config'))[1]).toMatchObject({ name: 'double', max_batch_size: 0, input: [{ name: 'x', data_type: 'TYPE_FP32', dims: [-1, 2] }] });
  expect((await get('/v2/models/versions'))[1].versions).toEqual(['1', '2', '10']);
  expect((await get('/v2/models/versions/versions/3'))[0]).toBe(404);
  expect(await get('/v2/models/none/ready')).toEqual([404, { error: 'model "none": there is no such model' }]);
});

test('runs a model on JSON, flat or nested', async () => {
  for (const data of [[1, 2, 3, 4], [[1, 2], [3, 4]]]) {
    const [status, body] = await infer('double', { id: 'my id', inputs: [{ name: 'x', datatype: 'FP32', shape: [2, 2], data }] });
    expect(status).toBe(200);
    expect(body).toEqual({ model_name: 'double', model_version: '1', id: 'my id', outputs: [{ name: 'y', datatype: 'FP32', shape: [2, 2], data: [2, 4, 6, 8] }] });
  }
});

test('runs the version that is asked for, or the latest', async () => {
  const request = { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [3, 5] }] };
  const outputs = async (url) => (await post(url, request))[1].outputs[0].data;
  expect(await outputs('/v2/models/versions/infer')).toEqual([0, 0]);
  expect(await outputs('/v2/models/versions/versions/1/infer')).toEqual([6, 10]);
  expect(await outputs('/v2/models/versions/versions/2/infer')).toEqual([9, 25]);
});

test('answers with the outputs that are asked for, in that order', async () => {
  const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [3, 5] }];
  const names = async (outputs) => (await infer('two', { inputs, outputs }))[1].outputs.map(({ name }) => name);
  expect(await names(undefined)).toEqual(['sum', 'product']);
  expect(await names([{ name: 'product' }])).toEqual(['product']);
  expect(await names([{ name: 'product' }, { name: 'sum' }])).toEqual(['product', 'sum']);
  expect(await infer('two', { inputs, outputs: [{ name: 'other' }] })).toEqual([400, { error: 'output "other": found no such output, allowed "sum", "product"' }, expect.anything()]);
});

const bytesOf = (array) => Buffer.from(array.buffer, array.byteOffset, array.byteLength);

describe('takes and gives each type', () => {
  const types = {
    bool: ['BOOL', Uint8Array.of(1, 0), [true, false]],
    uint8: ['UINT8', Uint8Array.of(0, 255), [0, 255]],
    uint16: ['UINT16', Uint16Array.of(1, 65535), [1, 65535]],
    uint32: ['UINT32', Uint32Array.of(1, 2 ** 32 - 1), [1, 2 ** 32 - 1]],
    uint64: ['UINT64', BigUint64Array.of(2n ** 64n - 1n, 5n), '[18446744073709551615,5]'],
    int8: ['INT8', Int8Array.of(-128, 127), [-128, 127]],
    int16: ['INT16', Int16Array.of(-32768, 32767), [-32768, 32767]],
    int32: ['INT32', Int32Array.of(-(2 ** 31), 7), [-(2 ** 31), 7]],
    int64: ['INT64', BigInt64Array.of(-(2n ** 63n), 9007199254740993n), '[-9223372036854775808,9007199254740993]'],
    float16: ['FP16', Uint16Array.of(0x3c00, 0xc100), [1, -2.5]],
    bfloat16: ['BF16', Uint16Array.of(0x3f80, 0xc020), [1, -2.5]],
    float: ['FP32', Float32Array.of(0.1, -2.5), [Math.fround(0.1), -2.5]],
    double: ['FP64', Float64Array.of(0.5, -2.5), [0.5, -2.5]],
    int4: ['INT8', Int8Array.of(-8, 7), [-8, 7]],
    uint4: ['UINT8', Uint8Array.of(0, 15), [0, 15]],
  };
  test.each(Object.entries(types))('%s', async (type, [datatype, array, list]) => {
    const text = typeof list === 'string' ? list : JSON.stringify(list);
    const model = `same-${type}`;
    expect((await get(`/v2/models/${model}`))[1].inputs).toEqual([{ name: 'x', datatype, shape: [-1] }]);
    const response = await fetch(`${origin}/v2/models/${model}/infer`, { method: 'POST', body: `{"inputs":[{"name":"x","datatype":"${datatype}","shape":[2],"data":${text}}]}` });
    const answer = await response.text();
    expect(answer).toContain(`"datatype":"${datatype}"`);
    expect(answer).toContain(`"data":${text}`);
    const size = array.byteLength;
    const inputs = [{ name: 'x', datatype, shape: [2], parameters: { binary_data_size: size } }];
    // The length of the JSON decides whether the elements are aligned.
    for (const id of ['', '1', '12', '123', '1234']) {
      const { status, head, rest } = await inferBinary(model, { id, inputs, parameters: { binary_data_output: true } }, [bytesOf(array)]);
      expect([status, head.outputs[0]]).toEqual([200, { name: 'y', datatype, shape: [2], parameters: { binary_data_size: size } }]);
      expect(Buffer.compare(rest, bytesOf(array))).toBe(0);
    }
  });

  test('but not BYTES, and no other type than the model has', async () => {
    const ask = async (datatype) => (await infer('double', { inputs: [{ name: 'x', datatype, shape: [1, 2], data: [1, 2] }] })).slice(0, 2);
    expect(await ask('BYTES')).toEqual([400, { error: 'input "x": BYTES is not supported: models of this server have no strings; expected FP32' }]);
    expect(await ask('FP64')).toEqual([400, { error: 'input "x": found datatype "FP64", expected FP32' }]);
  });

  test('elements out of range are refused', async () => {
    const ask = async (type, datatype, data) => (await infer(`same-${type}`, { inputs: [{ name: 'x', datatype, shape: [1], data: [data] }] }))[0];
    const wrong = [['uint8', 'UINT8', 256], ['int8', 'INT8', -129], ['int32', 'INT32', 1.5], ['bool', 'BOOL', 2], ['float', 'FP32', '1'], ['int64', 'INT64', '1x'], ['int64', 'INT64', 1e300], ['int4', 'INT8', 8], ['uint64', 'UINT64', -1], ['int64', 'INT64', true]];
    for (const one of wrong) expect([...one, await ask(...one)]).toEqual([...one, 400]);
  });

  test('numbers that JSON lacks are null', async () => {
    const one = { name: 'x', datatype: 'FP32', shape: [3], parameters: { binary_data_size: 12 } };
    const { head } = await inferBinary('same-float', { inputs: [one] }, [bytesOf(Float32Array.of(NaN, Infinity, -Infinity))]);
    expect(head.outputs[0].data).toEqual([null, null, null]);
  });
});

test('gives some outputs as bytes and some as JSON', async () => {
  const inputs = [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [3, 5] }];
  const outputs = [{ name: 'sum', parameters: { binary_data: true } }, { name: 'product' }];
  const { head, rest } = await inferBinary('two', { inputs, outputs }, []);
  expect(head.outputs).toEqual([
    { name: 'sum', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } },
    { name: 'product', datatype: 'FP32', shape: [1, 2], data: [9, 25] },
  ]);
  expect([...new Float32Array(rest.buffer.slice(rest.byteOffset, rest.byteOffset + 8))]).toEqual([6, 10]);
  const mixed = await inferBinary('two', { inputs, outputs: [{ name: 'sum', parameters: { binary_data: false } }, { name: 'product' }], parameters: { binary_data_output: true } }, []);
  expect(mixed.head.outputs.map(({ data, parameters }) => data ?? parameters)).toEqual([[6, 10], { binary_data_size: 8 }]);
});

test('takes a body without JSON for a model with one input', async () => {
  const headers = { 'Inference-Header-Content-Length': '0' };
  const response = await fetch(`${origin}/v2/models/double/infer`, { method: 'POST', headers, body: bytesOf(Float32Array.of(1, 2, 3, 4)) });
  const length = Number(response.headers.get('inference-header-content-length'));
  const answer = Buffer.from(await response.arrayBuffer());
  expect(JSON.parse(answer.toString('utf8', 0, length)).outputs[0].shape).toEqual([2, 2]);
  const [status, { error }] = await post('/v2/models/double/infer', bytesOf(Float32Array.of(1, 2, 3)), headers);
  expect([status, error]).toEqual([400, 'input "x": found 12 bytes, expected 8 for its shape and FP32']);
});

describe('refuses with 400 and a reason', () => {
  const x = { name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] };
  const huge = '9'.repeat(400);
  const cases = {
    'no JSON': ['{', /no JSON/],
    'a list': ['[]', /no object/],
    'null': ['null', /no object/],
    'nothing': ['', /no JSON/],
    'no inputs': ['{}', /inputs: expected an array/],
    'an input that is a number': ['{"inputs":[1]}', /inputs\[0\]/],
    'an input without a name': [{ inputs: [{ ...x, name: undefined }] }, /name/],
    'an input without a shape': [{ inputs: [{ ...x, shape: undefined }] }, /shape/],
    'an unknown input': [{ inputs: [{ ...x, name: '__proto__' }] }, /no such input, allowed "x"/],
    'an input twice': [{ inputs: [x, x] }, /twice/],
    'no input of the model': [{ inputs: [] }, /allowed exactly the model's inputs 'x'/],
    'a negative size': [{ inputs: [{ ...x, shape: [-1, -2] }] }, /found -1/],
    'a size that is text': [{ inputs: [{ ...x, shape: ['1', 2] }] }, /whole numbers/],
    'a huge size': [`{"inputs":[{"name":"x","datatype":"FP32","shape":[${huge},2],"data":[1]}]}`, /whole numbers/],
    'sizes whose product is huge': [{ inputs: [{ ...x, shape: [2 ** 50, 2 ** 50] }] }, /too many elements/],
    'too many dimensions': [{ inputs: [{ ...x, shape: new Array(10_000).fill(1) }] }, /10000 dimensions/],
    'a shape that the model does not take': [{ inputs: [{ ...x, shape: [2, 1] }] }, /found 1, allowed 2|shape/],
    'too few elements': [{ inputs: [{ ...x, data: [1] }] }, /found 1 elements, expected 2/],
    'too many elements': [{ inputs: [{ ...x, data: [1, 2, 3] }] }, /more elements/],
    'lists nested too deep': [`{"inputs":[{"name":"x","datatype":"FP32","shape":[1,2],"data":${'['.repeat(5000)}1${']'.repeat(5000)}}]}`, /nested/],
    'an element that is text': [{ inputs: [{ ...x, data: ['a', 2] }] }, /found the element "a"/],
    'an id that is a number': [{ id: 1, inputs: [x] }, /id/],
    'parameters that are a list': [{ parameters: [], inputs: [x] }, /parameters/],
    'a timeout that is text': [{ parameters: { timeout: 'soon' }, inputs: [x] }, /timeout/],
    'a sequence': [{ parameters: { sequence_id: 7 }, inputs: [x] }, /sequences/],
    'shared memory': [{ inputs: [{ ...x, data: undefined, parameters: { shared_memory_region: 'r' } }] }, /shared memory is not supported/],
    'bytes that are not there': [{ inputs: [{ ...x, data: undefined, parameters: { binary_data_size: 8 } }] }, /0 bytes are left/],
    'classification': [{ inputs: [x], outputs: [{ name: 'y', parameters: { classification: 2 } }] }, /classification/],
  };
  test.each(Object.entries(cases))('%s', async (_name, [body, message]) => {
    const [status, { error }] = await infer('double', body);
    expect(error).toMatch(message);
    expect(status).toBe(400);
  });

  test('lengths that are wrong', async () => {
    for (const length of ['-1', 'x', '1e3', '99999999', '1.5']) {
      const [status, { error }] = await post('/v2/models/double/infer', JSON.stringify({ inputs: [x] }), { 'Inference-Header-Content-Length': length });
      expect([length, status, error]).toEqual([length, 400, expect.stringContaining('Inference-Header-Content-Length')]);
    }
    const { status } = await inferBinary('double', { inputs: [x] }, [Buffer.alloc(3)]);
    expect(status).toBe(400);
  });
});

test('refuses what is too large, before memory is allocated for it', async () => {
  const many = { name: 'x', datatype: 'FP32', shape: [2 ** 30, 2], data: [1] };
  expect((await infer('double', { inputs: [many] })).slice(0, 2)).toEqual([413, { error: 'input "x": found more elements than the 1000 that a request may have' }]);
  expect((await infer('double', ' '.repeat(2 ** 20 + 1)))[0]).toBe(413);
});

test('takes compressed requests, and refuses those that are larger than they look', async () => {
  const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] });
  const send = async (encoding, bytes) => (await post('/v2/models/double/infer', bytes, { 'Content-Encoding': encoding })).slice(0, 2);
  for (const [encoding, bytes] of [['gzip', zlib.gzipSync(body)], ['deflate', zlib.deflateSync(body)]]) expect(await send(encoding, bytes)).toMatchObject([200, { outputs: [{ data: [2, 4] }] }]);
  expect((await send('gzip', zlib.gzipSync(' '.repeat(2 ** 22))))[0]).toBe(413);
  expect((await send('gzip', Buffer.from(body)))[0]).toBe(400);
  expect((await send('br', Buffer.from(body)))[0]).toBe(501);
});

test('refuses addresses and names that do not exist, also those that look like paths', async () => {
  for (const name of ['..%2F..%2Fetc%2Fpasswd', '%2e%2e', 'double.onnx', '__proto__', 'a'.repeat(400), '%00']) {
    expect([name, (await infer(name, {}))[0]]).toEqual([name, 404]);
    expect([name, (await post(`/v2/repository/models/${name}/load`, ''))[0]]).toEqual([name, 404]);
  }
  expect((await get('/v3'))[0]).toBe(404);
  expect((await get('/v2/models/%ff'))[0]).toBe(400);
});

test('cancels a run after its timeout', async () => {
  const request = { parameters: { timeout: 1 }, inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] };
  const slow = { ...request, inputs: [{ ...request.inputs[0], shape: [1, 1], data: [1] }] };
  const [status, { error }] = await infer('slow', slow);
  expect([status, error]).toEqual([504, 'the run did not end within 0.001 ms']);
  expect((await infer('slow', { ...slow, parameters: { timeout: 0, priority: 1 } }))[0]).toBe(200);
});

test('cancels the run of a client that hangs up', async () => {
  const failures = () => server.metrics.statistics.of('slow', '1').failures.CANCELED;
  const before = failures();
  // On a busy machine the run may be over before its client hangs up.
  while (failures() === before) {
    while (server.load.running > 0) await setTimeout(1);
    const request = http.request(`${origin}/v2/models/slow/infer`, { method: 'POST' });
    const closed = new Promise((resolve) => {
      request.on('error', () => {}).on('close', resolve);
    });
    request.end(JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [1] }] }));
    while (server.load.running === 0) await setTimeout(1);
    request.destroy();
    await closed;
    while (server.load.running > 0) await setTimeout(1);
  }
});

describe('the model repository', () => {
  const states = async (body) => Object.fromEntries((await post('/v2/repository/index', body))[1].map(({ name, version, state }) => [`${name}/${version}`, state]));

  test('is listed, and models are unloaded and loaded', async () => {
    expect(await states('')).toMatchObject({ 'double/1': 'READY', 'versions/2': 'READY' });
    expect(await post('/v2/repository/models/versions/unload', '')).toEqual([200, {}, expect.anything()]);
    expect((await get('/v2/models/versions/ready'))[0]).toBe(404);
    expect(await states({ ready: false })).toMatchObject({ 'double/1': 'READY', 'versions/2': 'UNAVAILABLE' });
    expect(await states({ ready: true })).not.toHaveProperty('versions/2');
    expect(await post('/v2/repository/models/versions/unload', '{}')).toEqual([404, { error: 'model "versions": it is not loaded' }, expect.anything()]);
    expect((await post('/v2/repository/models/versions/load', '{}'))[0]).toBe(200);
    expect((await get('/v2/models/versions/ready'))[0]).toBe(200);
  });

  test('takes no models from requests', async () => {
    const [status, { error }] = await post('/v2/repository/models/double/load', { parameters: { config: '{}', 'file:1/model.onnx': 'AAAA' } });
    expect([status, error]).toEqual([501, 'parameters: found "config", "file:1/model.onnx": models are loaded from the server\'s folder only']);
    expect((await post('/v2/repository/index', { ready: 1 }))[0]).toBe(400);
  });
});

test('refuses pages of other sites', async () => {
  const unload = (from) => post('/v2/repository/models/none/unload', '{}', { origin: from });
  for (const from of ['https://example.org', 'null', `${origin}1`]) expect([from, (await unload(from))[0]]).toEqual([from, 403]);
  expect((await unload(origin))[0]).toBe(404);
});

test('refuses shared memory politely', async () => {
  const [status, { error }] = await post('/v2/systemsharedmemory/region/r/register', { key: '/x', byte_size: 1 });
  expect([status, error]).toEqual([501, 'shared memory: not supported; send the tensors in the request']);
});

test('joins requests that wait, and says so', async () => {
  const statistics = server.metrics.statistics.of('dense', '1');
  const before = statistics.executions;
  const ask = (value) => infer('dense', { inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 1], data: [value] }] });
  const answers = await Promise.all(Array.from({ length: 64 }, (_, i) => ask(i)));
  for (const [i, [status, { outputs }]] of answers.entries()) expect([status, Math.abs(outputs[0].data[0] - i) < 1e-3]).toEqual([200, true]);
  expect(statistics.executions - before).toBeLessThan(64);
  const text = await (await fetch(`${origin}/metrics`)).text();
  expect(Number(/^nv_inference_queue_duration_us\{model="dense",version="1"\} (.*)$/m.exec(text)[1])).toBeGreaterThan(0);
  expect(text).toMatch(/^nv_inference_pending_request_count\{model="dense",version="1"\} 0$/m);
  expect(text).toMatch(/^webnn_batch_size_count\{model="dense",version="1"\} \d/m);
});

test('counts, as Triton does', async () => {
  await infer('two', { inputs: [{ name: 'x', datatype: 'FP32', shape: [3, 2], data: [1, 2, 3, 4, 5, 6] }] });
  await infer('two', { inputs: [] });
  const [, { model_stats: [stats] }] = await get('/v2/models/two/versions/1/stats');
  expect(stats.inference_stats.success.count).toBeGreaterThan(0);
  expect(stats.inference_count).toBeGreaterThanOrEqual(stats.inference_stats.success.count + 2);
  expect(stats.inference_stats.compute_infer.ns).toBeGreaterThan(0);
  expect((await get('/v2/models/stats'))[1].model_stats.length).toBeGreaterThan(5);
  const text = await (await fetch(`${origin}/metrics`)).text();
  for (const name of ['request_success', 'count', 'exec_count', 'request_duration_us', 'compute_infer_duration_us', 'pending_request_count']) {
    expect(text).toMatch(new RegExp(`^nv_inference_${name}\\{model="two",version="1"\\} \\d`, 'm'));
  }
  expect(text).toMatch(/^nv_inference_request_failure\{model="two",version="1",reason="BACKEND"\} [1-9]/m);
  expect(text).toMatch(/^webnn_memory_bytes\{kind="scratch"\} \d/m);
});
