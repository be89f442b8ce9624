'use strict';

const { createHash } = require('node:crypto');
const { createReadStream, mkdtempSync, promises, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { tensor, writeModel } = require('./write.js');

const WIDTH = 256;

const digestOf = (algorithm, bytes) => `${algorithm}-${createHash(algorithm).update(bytes).digest('base64')}`;

function inside() {
  const weights = Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => (i % WIDTH === Math.floor(i / WIDTH) ? 2 : 0));
  return tensor('w', 'float', [WIDTH, WIDTH], weights);
}

function bytesOfModel(initializers = [inside()]) {
  return writeModel({
    opset: 21,
    inputs: [{ name: 'x', type: 'float', shape: [1, WIDTH] }],
    outputs: [{ name: 'y' }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    initializers,
  });
}

describe('a model from a stream', () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-streams-'));
  const file = path.join(folder, 'model.onnx');
  const bytes = bytesOfModel();
  const total = bytes.length;
  let context;
  beforeAll(async () => {
    writeFileSync(file, bytes);
    context = await ml.createContext({ deviceType: 'cpu' });
  });
  afterAll(() => {
    context.destroy();
    rmSync(folder, { recursive: true });
  });

  async function* pieces(size) {
    for (let i = 0; i < total; i += size) yield bytes.subarray(i, i + size);
  }

  async function computes(model) {
    const x = Float32Array.from({ length: WIDTH }, (_, i) => i);
    const { y } = await model.run({ x });
    expect(Array.from(y.data)).toEqual(Array.from(x, (value) => 2 * value));
    model.destroy();
  }

  const readable = () => ReadableStream.from(pieces(10_000));
  const sources = {
    'a ReadableStream': [readable, undefined],
    'a Response': [() => new Response(readable(), { headers: { 'content-length': `${total}` } }), total],
    'a compressed Response': [() => new Response(readable(), { headers: { 'content-length': '7', 'content-encoding': 'gzip' } }), undefined],
    'a Blob': [() => new Blob([bytes]), total],
    'a FileHandle': [() => promises.open(file), total],
    'a stream of a file': [() => createReadStream(file, { highWaterMark: 5000 }), undefined],
    'an async iterable': [() => pieces(1), undefined],
  };

  test.each(Object.keys(sources))('%s', async (name) => {
    const [make, known] = sources[name];
    const reported = [];
    const source = await make();
    const integrity = `sha256-${createHash('sha256').update(bytes).digest('base64')}`;
    await computes(await loadOnnx(context, source, { integrity, onProgress: (progress) => reported.push(progress) }));
    expect(reported.at(-1)).toEqual({ loaded: total, total: known });
    expect(reported.map(({ loaded }) => loaded)).toEqual(reported.map(({ loaded }) => loaded).sort((a, b) => a - b));
    // A handle stays its owner's.
    if (name === 'a FileHandle') await source.close();
  });

  test('is refused if it is cut short, breaks off, or is no stream of bytes', async () => {
    async function* broken() {
      yield bytes.subarray(0, 1000);
      throw new Error('the network is gone');
    }
    await expect(loadOnnx(context, broken())).rejects.toThrow('the network is gone');
    async function* short() {
      yield bytes.subarray(0, total - 1);
    }
    await expect(loadOnnx(context, short())).rejects.toThrow(TypeError);
    async function* words() {
      yield 'onnx';
    }
    await expect(loadOnnx(context, words())).rejects.toThrow("found a stream of 'onnx', allowed one of buffers");
    await expect(loadOnnx(context, new Response('no', { status: 404 }))).rejects.toThrow('found a response with status 404');
    const locked = readable();
    locked.getReader();
    await expect(loadOnnx(context, locked)).rejects.toThrow('ReadableStream is locked');
    const huge = new Response(bytes, { headers: { 'content-length': `${2 ** 50}` } });
    await expect(loadOnnx(context, huge)).rejects.toMatchObject({ name: 'UnknownError', message: expect.stringContaining('cannot allocate') });
    const read = new Response(bytes);
    await read.arrayBuffer();
    await expect(loadOnnx(context, read)).rejects.toThrow('a response whose body is missing or has been read');
  });

  test('is cancelled by a signal, and the source hears of it', async () => {
    const controller = new AbortController();
    let isCancelled = false;
    const endless = new ReadableStream({
      pull: (stream) => stream.enqueue(new Uint8Array(1000)),
      cancel: () => (isCancelled = true),
    });
    const onProgress = ({ loaded }) => loaded >= 5000 && controller.abort(new Error('enough'));
    await expect(loadOnnx(context, endless, { signal: controller.signal, onProgress })).rejects.toThrow('enough');
    await new Promise(setImmediate);
    expect(isCancelled).toBe(true);
    // One that never answers does not hold it up.
    const silent = { [Symbol.asyncIterator]: () => ({ next: () => new Promise(() => {}), return: () => new Promise(() => {}) }) };
    const other = new AbortController();
    const loading = loadOnnx(context, silent, { signal: other.signal });
    other.abort(new Error('too late'));
    await expect(loading).rejects.toThrow('too late');
    await expect(loadOnnx(context, file, { signal: other.signal })).rejects.toThrow('too late');
  });

  test('and any other is checked against its digest', async () => {
    const digest = (algorithm) => digestOf(algorithm, bytes);
    const wrong = `sha512-${Buffer.alloc(64).toString('base64')}`;
    for (const integrity of [digest('sha256'), digest('sha384'), `${wrong} ${digest('sha512')}`, `sha256-${Buffer.alloc(32).toString('base64')} ${digest('sha512')}`]) {
      for (const source of [file, bytes, pieces(50_000)]) await computes(await loadOnnx(context, source, { integrity }));
    }
    // Only the strongest counts.
    await expect(loadOnnx(context, file, { integrity: `${digest('sha256')} ${wrong}` })).rejects.toThrow(/integrity: found \d+ bytes with the sha512 digest/);
    await expect(loadOnnx(context, file, { integrity: 'md5-abc' })).rejects.toThrow("options: integrity: found 'md5-abc'");
    await expect(loadOnnx(context, file, { integrity: 'sha256-YWJj' })).rejects.toThrow('options: integrity');
  });

  describe('with external data', () => {
    const outside = Buffer.alloc(4 * WIDTH * WIDTH);
    const weights = new Float32Array(outside.buffer, outside.byteOffset, WIDTH * WIDTH);
    for (let i = 0; i < WIDTH; i++) weights[i * WIDTH + i] = 2;
    const named = (location) => {
      const externalData = Object.entries({ location, offset: 0, length: outside.length }).map(([key, value]) => ({ key, value: String(value) }));
      return { name: 'w', dims: [WIDTH, WIDTH], dataType: 1, dataLocation: 1, externalData };
    };
    const small = bytesOfModel([named('w.data')]);
    const paths = { model: path.join(folder, 'small.onnx'), data: path.join(folder, 'w.data'), elsewhere: path.join(folder, 'elsewhere') };
    beforeAll(() => {
      writeFileSync(paths.model, small);
      writeFileSync(paths.data, outside);
      writeFileSync(paths.elsewhere, outside);
    });

    async function* parts() {
      for (let i = 0; i < outside.length; i += 50_000) yield outside.subarray(i, i + 50_000);
    }
    const both = small.length + outside.length;
    const externals = {
      'a ReadableStream': [() => ReadableStream.from(parts()), undefined],
      'a Response': [() => new Response(outside, { headers: { 'content-length': `${outside.length}` } }), both],
      'a Blob': [() => new Blob([outside]), both],
      'a FileHandle': [() => promises.open(paths.data), both],
      'an async iterable': [() => parts(), undefined],
    };

    test.each(Object.keys(externals))('from %s', async (name) => {
      const [make, total] = externals[name];
      const reported = [];
      const source = await make();
      const options = {
        externalData: { './w.data': source },
        integrity: digestOf('sha256', small),
        externalIntegrity: { 'w.data': digestOf('sha384', outside) },
        onProgress: (progress) => reported.push(progress),
      };
      await computes(await loadOnnx(context, new Blob([small]), options));
      expect(reported.at(-1)).toEqual({ loaded: both, total });
      expect(reported.map(({ loaded }) => loaded)).toEqual(reported.map(({ loaded }) => loaded).sort((a, b) => a - b));
      if (name === 'a FileHandle') await source.close();
    });

    test('from paths and bytes, and files tell their progress', async () => {
      for (const source of [paths.elsewhere, pathToFileURL(paths.elsewhere), outside]) {
        await computes(await loadOnnx(context, small, { externalData: { 'w.data': source } }));
      }
      const reported = [];
      await computes(await loadOnnx(context, paths.model, { onProgress: (progress) => reported.push(progress) }));
      expect(reported.at(-1)).toEqual({ loaded: both, total: both });
      expect(reported.filter(({ loaded, total }) => loaded > total)).toEqual([]);
      const thrown = new Error('not this one');
      const onProgress = () => {
        throw thrown;
      };
      await expect(loadOnnx(context, paths.model, { onProgress })).rejects.toBe(thrown);
    });

    test('is checked, wherever it comes from', async () => {
      const good = { 'w.data': digestOf('sha256', outside) };
      const wrong = { 'w.data': digestOf('sha256', small) };
      const given = [{}, { externalData: { 'w.data': paths.elsewhere } }, { externalData: { 'w.data': outside } }];
      for (const options of [...given, { externalData: { 'w.data': new Blob([outside]) } }]) {
        await computes(await loadOnnx(context, paths.model, { ...options, externalIntegrity: good }));
        const refused = loadOnnx(context, paths.model, { ...options, externalIntegrity: wrong });
        await expect(refused).rejects.toThrow(/externalIntegrity: "w.data": found 262144 bytes with the sha256 digest/);
        const unnamed = loadOnnx(context, paths.model, { ...options, externalIntegrity: { other: good['w.data'] } });
        await expect(unnamed).rejects.toThrow('externalIntegrity: found no digest for the external data "w.data"');
      }
    });

    test('ends with the first stream that fails, and the others hear of it', async () => {
      const controller = new AbortController();
      const cancelled = [];
      const endless = (name) => new ReadableStream({ pull: (stream) => stream.enqueue(new Uint8Array(1000)), cancel: () => cancelled.push(name) });
      async function* broken() {
        yield outside.subarray(0, 1000);
        throw new Error('the network is gone');
      }
      await expect(loadOnnx(context, endless('model'), { externalData: { 'w.data': broken() } })).rejects.toThrow('the network is gone');
      await new Promise(setImmediate);
      expect(cancelled).toEqual(['model']);
      const onProgress = ({ loaded }) => loaded >= 5000 && controller.abort(new Error('enough'));
      const loading = loadOnnx(context, endless('one'), { externalData: { 'w.data': endless('two') }, signal: controller.signal, onProgress });
      await expect(loading).rejects.toThrow('enough');
      await new Promise(setImmediate);
      expect(cancelled.sort()).toEqual(['model', 'one', 'two']);
    });

    test('takes options that are right', async () => {
      const load = (options) => loadOnnx(context, small, options);
      await expect(load({ externalData: 1 })).rejects.toThrow('options: externalData: found 1, allowed an object');
      await expect(load({ externalData: { 'w.data': 1 } })).rejects.toThrow("options: externalData: 'w.data': found 1, allowed");
      await expect(load({ externalIntegrity: 'x' })).rejects.toThrow("options: externalIntegrity: found 'x', allowed an object");
      await expect(load({ externalIntegrity: { 'w.data': 'md5-abc' } })).rejects.toThrow("options: externalIntegrity: 'w.data': found 'md5-abc'");
      await expect(load({ externalIntegrity: { 'w.data': undefined } })).rejects.toThrow("'w.data': found undefined");
    });
  });

  test('takes options that are right', async () => {
    await expect(loadOnnx(context, file, { signal: 1 })).rejects.toThrow('options: signal: found 1, allowed an AbortSignal');
    await expect(loadOnnx(context, file, { onProgress: 1 })).rejects.toThrow('options: onProgress: found 1, allowed a function');
  });
});
