'use strict';

// Every method and option, as functions of the package: what each gives or throws is compared between onnxruntime-node and
// webnn-node/onnxruntime.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { TYPES, identity, single, sums, tensor, value } = require('./models.js');
const { rows: narrow } = require('./narrow.js');
const { rows: scalars } = require('./scalars.js');

/** @type {Record<string, (ort: typeof import('onnxruntime-common')) => unknown>} */
const rows = {};

/** Rows of which the messages differ, and only the classes of the errors are compared. */
const otherwords = new Set();

const create = (...args) => (ort) => ort.InferenceSession.create(...args);
const created = (...args) => async (ort) => {
  const session = await ort.InferenceSession.create(...args);
  return [session.inputNames, session.outputNames, session.inputMetadata, session.outputMetadata];
};

// The model.
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-onnxruntime-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true }));
const file = (name, bytes) => {
  fs.writeFileSync(path.join(folder, name), bytes);
  return path.join(folder, name);
};
const inBuffer = new Uint8Array(sums.length + 20);
inBuffer.set(sums, 7);
const models = {
  path: [file('sums.onnx', sums)],
  'a Uint8Array': [sums],
  'a Buffer': [Buffer.from(sums)],
  'an ArrayBuffer': [Uint8Array.from(sums).buffer],
  'a view': [inBuffer.subarray(7, 7 + sums.length)],
  'an offset and a length': [inBuffer.buffer, 7, sums.length],
  'an offset, a length and options': [inBuffer.buffer, 7, sums.length, {}],
  'a path and options': [file('sums.onnx', sums), {}],
};
for (const [name, args] of Object.entries(models)) rows[`create: ${name}`] = created(...args);
const badModels = {
  nothing: [],
  null: [null],
  'a number': [1],
  'a DataView': [new DataView(new ArrayBuffer(8))],
  'an array': [[1, 2]],
  'a URL': [new URL('file:///model.onnx')],
  'a missing file': ['/this/is/no/model.onnx'],
  'no path': [''],
  'a negative offset': [sums.buffer, -1],
  'an offset of 1.5': [sums.buffer, 1.5],
  'an offset beyond': [sums.buffer, 1e9],
  'a negative length': [sums.buffer, 0, -1],
  'a length of 0': [sums.buffer, 0, 0],
  'a length beyond': [sums.buffer, 0, 1e9],
  'a length that is a string': [sums.buffer, 0, '1'],
  'options that are a string, of a path': ['model.onnx', 'cpu'],
  'options that are null, of a path': ['model.onnx', null],
  'options that are a string, of bytes': [sums, 'cpu'],
  'options that are a string, of a buffer': [sums.buffer, 'cpu'],
  'options that are a string, of a part': [inBuffer.buffer, 7, sums.length, 'cpu'],
};
for (const [name, args] of Object.entries(badModels)) rows[`create: ${name}`] = create(...args);
const noModels = { garbage: [new Uint8Array([1, 2, 3, 4])], text: [Buffer.from('hello world')], 'a model without a graph': [new Uint8Array([8, 9])] };
for (const [name, args] of Object.entries(noModels)) rows[`create: ${name}`] = create(...args);
// Messages name the file, which is another one in each process.
const otherModels = { 'no bytes': [new Uint8Array(0)], 'a folder': [folder], 'a file that is none': [file('none.onnx', 'none')], 'an empty file': [file('empty.onnx', '')] };
for (const [name, args] of Object.entries(otherModels)) {
  rows[`create: ${name}`] = create(...args);
  otherwords.add(`create: ${name}`);
}
for (const [name, node] of Object.entries({ 'an operator that is none': { op: 'Bogus' }, 'an unknown value': { op: 'Abs', initializers: [{ name: 'zz' }] } })) {
  rows[`create: ${name}`] = create(single({ inputs: [value('x', 'float', 2)], output: value('y', 'float', 2), ...node, ...(node.initializers && { inputs: [] }) }));
  otherwords.add(`create: ${name}`);
}

// Options of sessions.
const options = {
  executionProviders: [[], null, undefined, ['cpu'], [{ name: 'cpu' }], [{ name: 'cpu', useArena: true }], ['nope'], ['nope', 'cpu'], [{ name: 'nope' }, 'cpu'], [1], [{}]],
  intraOpNumThreads: [1, 2, 0, 'x', 1.5, -1, 2 ** 33, 1234567.5, 1e-5, NaN, -Infinity, null, undefined],
  interOpNumThreads: [1, 'x', 1.5, -1, undefined],
  graphOptimizationLevel: ['disabled', 'basic', 'extended', 'layout', 'all', 0, 'bad', null, undefined],
  enableCpuMemArena: [true, false, 0, undefined],
  enableMemPattern: [true, false, 0, undefined],
  executionMode: ['sequential', 'parallel', 0, 'bad', undefined],
  optimizedModelFilePath: [0, undefined],
  extra: [{}, { session: { disable_prepacking: '1' } }, 0, 'x', null, { a: 1 }, { a: { b: 1 } }],
  logId: ['x', 0],
  logSeverityLevel: [0, 2, 4, 'x', 1.5, 7, -1, undefined],
  logVerbosityLevel: [0, 'x'],
  enableProfiling: [false, 0, true, undefined],
  profileFilePrefix: ['x', 0],
  freeDimensionOverrides: [null, undefined, {}, { other: 2 }],
  externalData: [null, undefined, [], 0, {}, [0], [{}], [{ path: 1 }], [{ path: 'x' }], [{ path: 'x', data: 1 }], [{ path: 'x', data: new Uint8Array(2) }]],
  preferredOutputLocation: [null, undefined, 'cpu', { c: 'cpu' }, 0, 'nope', { other: 'cpu' }, { c: 1 }, { c: 'nope' }],
  enableGraphCapture: [true, 0],
  unknown: [1],
};
for (const [name, values] of Object.entries(options)) {
  for (const option of values) rows[`${name}: ${typeof option === 'number' ? option : JSON.stringify(option)}`] = created(sums, { [name]: option });
}
rows['executionProviders: a string'] = create(sums, { executionProviders: 'cpu' });
otherwords.add('executionProviders: a string');
rows['enableProfiling: a prefix that is a number'] = create(sums, { enableProfiling: true, profileFilePrefix: 1 });
otherwords.add('enableProfiling: a prefix that is a number');
const webgpu = (option) => create(sums, { executionProviders: [{ name: 'webgpu', ...option }] });
for (const option of [{ other: 1 }, { preferredLayout: 1 }, { forceCpuNodeNames: 1 }, { forceCpuNodeNames: [1] }, { enableRobustness: 1 }, { validationMode: 0 }]) {
  rows[`webgpu: ${JSON.stringify(option)}`] = webgpu(option);
}

// What a session tells.
const metadata = {
  'sizes without names': { op: 'Abs', inputs: [value('x', 'float', null, 3)], output: value('y', 'float', null, null) },
  'nothing declared': { op: 'Abs', inputs: [value('x', 'float', 'n', 'm')] },
  'nothing declared, known sizes': { op: 'Abs', inputs: [value('x', 'float', 2, 4)] },
  'other names declared': { op: 'Abs', inputs: [value('x', 'float', 'n', 'm')], output: value('y', 'float', 'p', 'q') },
  'a name for a known size': { op: 'Abs', inputs: [value('x', 'float', 'n', 4)], output: value('y', 'float', 'p', 'q') },
  'partly declared': { op: 'Transpose', inputs: [value('x', 'float', 'n', 'm', 5)], output: value('y', 'float', null, 'other', null), attributes: { perm: [2, 0, 1] } },
  'sums of sizes': { op: 'Concat', inputs: [value('x', 'float', 'n', 'm'), value('z', 'float', 'n', 'k')], attributes: { axis: 1 } },
  'declared sums of sizes': { op: 'Concat', inputs: [value('x', 'float', 'n', 'm'), value('z', 'float', 'n', 'k')], output: value('y', 'float', 'n', 'm + k'), attributes: { axis: 1 } },
  'a product': { op: 'MatMul', inputs: [value('x', 'float', 'n', 'm', 8), value('z', 'float', 8, 5)] },
  'a shape': { op: 'Shape', inputs: [value('x', 'float', 'n', 'm', 8)] },
  'what only a run can tell': { op: 'NonZero', inputs: [value('x', 'float', 'n', 'm')], output: value('y', 'int64', 2, 'nz') },
  'a scalar': { op: 'Abs', inputs: [value('x', 'float')], output: value('y', 'float') },
};
for (const [name, node] of Object.entries(metadata)) rows[`metadata: ${name}`] = created(single(node));
rows['metadata: an input with a value'] = created(single({ op: 'Add', inputs: [value('x', 'float', 2), value('w', 'float', 2)], output: value('y', 'float', 2), initializers: [] }));

// Runs.
const scalar = single({ op: 'Add', inputs: [value('x', 'float'), value('w', 'float', 2)], output: value('y', 'float', 2) });
for (const [name, dims, numbers] of [['[]', [], [3]], ['[1]', [1], [3]]]) {
  rows[`run: a scalar of shape ${name}`] = async (ort) => {
    const session = await ort.InferenceSession.create(scalar);
    return seen(await session.run({ x: new ort.Tensor('float32', numbers, dims), w: new ort.Tensor('float32', [1, 2], [2]) }));
  };
}
const feedsOf = ({ Tensor }) => ({ a: new Tensor('float32', [1, 2, 3], [1, 3]), b: new Tensor('float32', [4, 5, 6], [1, 3]) });
const seen = (results) => Object.entries(results).map(([name, { type, dims, location, size, data }]) => [name, type, dims, location, size, data.constructor.name, [...data].map(String)]);
/** A run; what is passed follows from the feeds. */
const run = (pass = () => [], change = (feeds) => feeds) => async (ort) => {
  const session = await ort.InferenceSession.create(sums);
  const feeds = feedsOf(ort);
  return seen(await session.run(change(feeds, ort), ...pass(ort)));
};
const with_ = (b) => run(undefined, (feeds, ort) => ({ ...feeds, b: b(ort, feeds.b) }));
Object.assign(rows, {
  run: run(),
  'run: more feeds than inputs': run(undefined, (feeds) => ({ ...feeds, other: feeds.a })),
  'run: a feed of undefined': run(undefined, ({ a }) => ({ a, b: undefined })),
  'run: a missing feed': run(undefined, ({ a }) => ({ a })),
  'run: no feeds': run(undefined, () => undefined),
  'run: feeds of null': run(undefined, () => null),
  'run: feeds that are a tensor': run(undefined, ({ a }) => a),
  'run: feeds that are an array': run(undefined, ({ a }) => [a]),
  'run: a feed of null': with_(() => null),
  'run: a feed that is a number': with_(() => 1),
  'run: a feed that is a string': with_(() => 'x'),
  'run: another type': with_(({ Tensor }) => new Tensor('int32', [1, 2, 3], [1, 3])),
  'run: another rank': with_(({ Tensor }) => new Tensor('float32', [1, 2, 3], [3])),
  'run: another size': with_(({ Tensor }) => new Tensor('float32', [1, 2], [1, 2])),
  'run: other rows': with_(({ Tensor }) => new Tensor('float32', [1, 2, 3, 4, 5, 6], [2, 3])),
  'run: rows of nothing': run(undefined, (_, { Tensor }) => ({ a: new Tensor('float32', [], [0, 3]), b: new Tensor('float32', [], [0, 3]) })),
  'run: a tensor that was disposed': with_((_, b) => (b.dispose(), b)),
  'run: a view of more': with_(({ Tensor }) => new Tensor('float32', new Float32Array([0, 0, 1, 2, 3, 0]).subarray(2, 5), [1, 3])),
  'run: a pinned tensor': with_(({ Tensor }, b) => Tensor.fromPinnedBuffer('float32', b.data, [1, 3])),
  'run: a texture': with_(({ Tensor }) => Tensor.fromTexture({}, { width: 1, height: 1 })),
  'run: members of a tensor': with_((_, { data }) => ({ type: 'float32', dims: [1, 3], location: 'cpu', data })),
  'run: no location': with_((_, { data }) => ({ type: 'float32', dims: [1, 3], data })),
  'run: no such location': with_((_, { data }) => ({ type: 'float32', dims: [1, 3], location: 'x', data })),
  'run: no dims': with_((_, { data }) => ({ type: 'float32', location: 'cpu', data })),
  'run: dims that are no array': with_((_, { data }) => ({ type: 'float32', dims: 3, location: 'cpu', data })),
  'run: dims of strings': with_((_, { data }) => ({ type: 'float32', dims: [1, '3'], location: 'cpu', data })),
  'run: a negative dim': with_((_, { data }) => ({ type: 'float32', dims: [1, -3], location: 'cpu', data })),
  'run: a broken dim': with_((_, { data }) => ({ type: 'float32', dims: [1, 1.5], location: 'cpu', data })),
  'run: more dims than data': with_((_, { data }) => ({ type: 'float32', dims: [2, 3], location: 'cpu', data })),
  'run: no type': with_((_, { data }) => ({ dims: [1, 3], location: 'cpu', data })),
  'run: no such type': with_((_, { data }) => ({ type: 'x', dims: [1, 3], location: 'cpu', data })),
  'run: data that are an array': with_(() => ({ type: 'float32', dims: [1, 3], location: 'cpu', data: [1, 2, 3] })),
  'run: data of another type': with_(() => ({ type: 'float32', dims: [1, 3], location: 'cpu', data: new Int32Array(3) })),
  'run: one name': run(() => [['d']]),
  'run: names in another order': run(() => [['d', 'c']]),
  'run: a name twice': run(() => [['d', 'd']]),
  'run: no name': run(() => [[]]),
  'run: another name': run(() => [['x']]),
  'run: names that are numbers': run(() => [[1]]),
  'run: null for an output': run(() => [{ d: null }]),
  'run: null for all outputs': run(() => [{ c: null, d: null }]),
  'run: null for another output': run(() => [{ x: null }]),
  'run: undefined for an output': run(() => [{ d: undefined }]),
  'run: fetches of null': run(() => [null]),
  'run: fetches that are a number': run(() => [1]),
  'run: fetches that are a tensor': run(({ Tensor }) => [new Tensor('float32', [1, 2, 3], [1, 3])]),
  'run: options of null': run(() => [['c'], null]),
  'run: options that are a number': run(() => [['c'], 1]),
  'run: options behind null outputs': run(() => [{ c: null }, { tag: 1 }]),
});
for (const option of [{}, { logSeverityLevel: 2 }, { logSeverityLevel: 'x' }, { logSeverityLevel: 8 }, { logSeverityLevel: 1.5 }, { logSeverityLevel: undefined }, { tag: 'x' }, { tag: 1 }, { terminate: false }, { extra: { a: { b: '1' } } }, { logVerbosityLevel: 0 }, { other: 1 }]) {
  const name = `run: ${JSON.stringify(option)}${Object.values(option).includes(undefined) ? ' undefined' : ''}`;
  rows[name] = run(() => [option]);
  rows[`${name}, with names`] = run(() => [['c'], option]);
}
for (const name of ['data of another type', 'a negative dim']) otherwords.add(`run: ${name}`);

/** An output of the caller's: what the results and the caller's memory have. */
const into = (make) => async (ort) => {
  const session = await ort.InferenceSession.create(sums);
  const memory = new Float32Array(8);
  const target = make(ort, memory);
  const results = await session.run(feedsOf(ort), { c: target, d: null });
  return [seen(results), [...memory]];
};
rows['run: into a tensor'] = into(({ Tensor }, memory) => new Tensor('float32', memory.subarray(0, 3), [1, 3]));
rows['run: into the middle of memory'] = into(({ Tensor }, memory) => new Tensor('float32', memory.subarray(2, 5), [1, 3]));
rows['run: into a tensor of another type'] = into(({ Tensor }) => new Tensor('int32', [0, 0, 0], [1, 3]));
rows['run: into a tensor of another rank'] = into(({ Tensor }, memory) => new Tensor('float32', memory.subarray(0, 3), [3]));
rows['run: into a tensor of another size'] = into(({ Tensor }, memory) => new Tensor('float32', memory.subarray(0, 4), [1, 4]));
rows['run: into a tensor of other rows'] = into(({ Tensor }, memory) => new Tensor('float32', memory.subarray(0, 6), [2, 3]));
otherwords.add('run: into a tensor of other rows');

// Types.
const elements = {
  bool: [new Uint8Array([1, 0, 0, 1, 0]), 'bool'],
  double: [new Float64Array([1.5, -2, 3, 4, 5]), 'float64'],
  float: [new Float32Array([1.5, -2, 3, 4, 5]), 'float32'],
  float16: [new Uint16Array([0x3c00, 0xbc00, 0, 0x7bff, 1]), 'float16'],
  int8: [new Int8Array([1, -2, 3, 127, -128]), 'int8'],
  int16: [new Int16Array([1, -2, 3, 32767, -32768]), 'int16'],
  int32: [new Int32Array([1, -2, 3, 4, -5]), 'int32'],
  int64: [new BigInt64Array([1n, -2n, 3n, 2n ** 62n, -(2n ** 62n)]), 'int64'],
  uint8: [new Uint8Array([1, 2, 3, 4, 255]), 'uint8'],
  uint16: [new Uint16Array([1, 2, 3, 4, 65535]), 'uint16'],
  uint32: [new Uint32Array([1, 2, 3, 4, 0xffffffff]), 'uint32'],
  uint64: [new BigUint64Array([1n, 2n, 3n, 4n, 2n ** 63n]), 'uint64'],
};
for (const [type, [data, name]] of Object.entries(elements)) {
  rows[`type: ${type}`] = async (ort) => {
    const session = await ort.InferenceSession.create(identity(type));
    return [session.inputMetadata, session.outputMetadata, seen(await session.run({ x: new ort.Tensor(name, data, [1, 5]) }))];
  };
}

// Arithmetic on integers of 16 bits, which overflows as it does there, and on doubles.
for (const type of ['int16', 'uint16', 'double']) {
  const [, name] = elements[type];
  const { array } = TYPES[type];
  const numbers = array.of(1, 2, 200, 40000);
  const others = tensor('c', type, [4], array.of(3, 2, 400, 30000));
  const shape = [value('x', type, 4)];
  const operators = { Add: 'xc', Sub: 'xc', Mul: 'xc', Div: 'xc', Equal: 'xc', Less: 'xc', Min: 'xc', Max: 'xc', Clip: 'x', Abs: 'x', Sign: 'x', Identity: 'x' };
  for (const [op, names] of Object.entries(operators)) {
    // There is no implementation there.
    if (type !== 'double' && (op === 'Min' || op === 'Max')) continue;
    // In float32 a quotient has fewer digits (docs/onnxruntime.md).
    if (type === 'double' && op === 'Div') continue;
    const isTruth = op === 'Equal' || op === 'Less';
    const node = { op, inputs: shape, output: value('y', isTruth ? 'bool' : type, 4), initializers: names === 'xc' ? [others] : [] };
    const model = single(node);
    rows[`${op} of ${type}`] = async (ort) => seen(await (await ort.InferenceSession.create(model)).run({ x: new ort.Tensor(name, numbers, [4]) }));
  }
  const cast = single({ op: 'Cast', inputs: [value('x', 'float', 4)], output: value('y', type, 4), attributes: { to: TYPES[type].number } });
  rows[`Cast to ${type}`] = async (ort) => seen(await (await ort.InferenceSession.create(cast)).run({ x: new ort.Tensor('float32', [1.5, -2.5, 200, 40000], [4]) }));
}

Object.assign(rows, narrow, scalars);
otherwords.add('scalars: beside caches: [0]');

// Tensors: onnxruntime-common's own, as its tests have them.
const described = (tensor) => [tensor.type, tensor.dims, tensor.size, tensor.location, tensor.data.constructor.name, Array.from(tensor.data, String)];
const make = (...args) => ({ Tensor }) => described(new Tensor(...args));
const constructions = {
  'a typed array': [new Float32Array([1, 2, 3, 4]), [2, 2]],
  'a typed array without dims': [new Int16Array([1, 2, 3])],
  'numbers': ['float64', [1, 2, 3, 4], [2, 2]],
  'numbers for int64': ['int64', [1, 2, 3, 4], [2, 2]],
  'bigints for uint64': ['uint64', [1n, 2n], [2]],
  'numbers for float16': ['float16', [1, 2, 3, 4], [2, 2]],
  'bits for float16': ['float16', new Uint16Array([1, 2]), [2]],
  'truth values': [[true, false], [2]],
  'truth values by type': ['bool', [true, false], [2]],
  'bytes for bool': ['bool', new Uint8Array([1, 0]), [2]],
  'clamped bytes': [new Uint8ClampedArray([1, 2]), [2]],
  'clamped bytes for int8': ['int8', new Uint8ClampedArray([1, 2]), [2]],
  'bytes for int4': ['int4', new Uint8Array([1, 2]), [3]],
  'numbers for int4': ['int4', [1, 2], [3]],
  'strings': [['a', 'b'], [2]],
  'an object': ['float32', {}, [2]],
  'a buffer': ['float32', new ArrayBuffer(8), [2]],
  'another array': ['float32', new Int32Array(2), [2]],
  'no such type': ['x', [1], [1]],
  'an empty list': [[]],
  'dims that are an object': ['float32', [1], {}],
  'dims of strings': ['float32', [1, 2], [1, '2']],
  'a broken dim': ['float32', [1], [1.5]],
  'a negative dim': ['float32', [1], [-1]],
  'more dims than data': ['float32', [1], [2]],
};
for (const [name, args] of Object.entries(constructions)) rows[`Tensor: ${name}`] = make(...args);
Object.assign(rows, {
  'Tensor: reshape()': ({ Tensor }) => described(new Tensor('float32', [1, 2, 3, 4], [4]).reshape([2, 2])),
  'Tensor: reshape() to another size': ({ Tensor }) => described(new Tensor('float32', [1, 2, 3, 4], [4]).reshape([3])),
  'Tensor: getData()': async ({ Tensor }) => [...(await new Tensor('float32', [1, 2], [2]).getData())],
  'Tensor: data after dispose()': ({ Tensor }) => {
    const made = new Tensor('float32', [1, 2], [2]);
    made.dispose();
    return made.data;
  },
});

// The end of a session, and what is beside sessions.
const session = (use) => async (ort) => use(await ort.InferenceSession.create(sums), ort);
Object.assign(rows, {
  'release()': session((made) => made.release()),
  'release() twice': session(async (made) => {
    await made.release();
    await made.release();
  }),
  'run() after release()': session(async (made, ort) => {
    await made.release();
    await made.run(feedsOf(ort));
  }),
  'run() of nothing after release()': session(async (made) => {
    await made.release();
    await made.run({});
  }),
  'names after release()': session(async (made) => {
    await made.release();
    return [made.inputNames, made.outputMetadata];
  }),
  'startProfiling() and endProfiling()': session((made) => [made.startProfiling(), made.endProfiling()]),
  'endProfiling() after release()': session(async (made) => {
    await made.release();
    made.endProfiling();
  }),
  'names cannot be set': session((made) => {
    made.inputNames = ['x'];
  }),
  'several runs at once': session(async (made, ort) => (await Promise.all([1, 2, 3, 4].map(() => made.run(feedsOf(ort))))).map(seen)),
  'instances': session(async (made, ort) => {
    const { c } = await made.run(feedsOf(ort));
    return [made instanceof ort.InferenceSession, c instanceof ort.Tensor, c.constructor === ort.Tensor, made.constructor.name, Object.keys(made)];
  }),
  'listSupportedBackends(): cpu is the first': (ort) => ort.listSupportedBackends()[0],
  'env.versions': (ort) => [ort.env.versions.common, ort.env.versions.node],
  'env.logLevel': (ort) => ort.env.logLevel,
  'env.logLevel of a wrong value': (ort) => {
    ort.env.logLevel = 'x';
  },
});

module.exports = { otherwords, rows };
