'use strict';

// Runs one-node models here and on onnxruntime-node, and compares.

const { execFileSync } = require('node:child_process');
const { mkdtempSync, readFileSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { loadOnnx } = require('webnn-node/onnx');
const { withContexts } = require('./contexts.js');
const { generator, halfBits, halfValue, seed } = require('./random.js');
const { TYPES, bytesOf, tensor, writeModel } = require('./write.js');

/** An input of a case: `x(shape)` is fed, `c(shape)` is in the model; values are drawn, or given. */
const x = (shape, { type = 'float', low = -2, high = 2, values } = {}) => ({ shape, type, low, high, values, fed: true });
const c = (shape, options) => ({ ...x(shape, options), fed: false });
const ints = (...values) => c([values.length], { type: 'int64', values });

function fill({ shape, type, low, high, values }, random) {
  const count = shape.reduce((product, size) => product * size, 1);
  const { array } = TYPES[type];
  const draw = () => {
    const value = low + (high - low) * random();
    if (type === 'float') return value;
    if (type === 'double') return Math.fround(value);
    if (type === 'float16') return halfBits(value);
    return Math.floor(value);
  };
  const numbers = values ?? Array.from({ length: count }, draw);
  if (type.endsWith('int4')) {
    // The earlier element of two is in the low half of a byte.
    return Uint8Array.from({ length: Math.ceil(count / 2) }, (_, i) => numbers[2 * i] | ((numbers[2 * i + 1] ?? 0) << 4));
  }
  const wide = array === BigInt64Array || array === BigUint64Array;
  return array.from(numbers, (number) => (wide ? BigInt(number) : number));
}

/**
 * The model of a case, what is fed to it, and what onnxruntime-node runs: the same, or nodes that stand for an operator which
 * it does not have on the CPU (`instead`).
 */
function prepare(item, index) {
  const { op, opset = 17, domain = '', attributes = {}, inputs, outputs = 1, instead } = item;
  const random = generator(index);
  const names = inputs.map((input, i) => (input === null ? '' : `i${i}`));
  const arrays = inputs.map((input) => input && fill(input, random));
  const fed = inputs.map((input, i) => ({ ...input, name: names[i], array: arrays[i] })).filter(({ fed: isFed }) => isFed);
  const held = inputs.map((input, i) => ({ ...input, name: names[i], array: arrays[i] })).filter(({ fed: isFed }) => isFed === false);
  const outputNames = Array.isArray(outputs) ? outputs : Array.from({ length: outputs }, (_, i) => `o${i}`);
  const write = (nodes, isOpen = false) =>
    writeModel({
      opset,
      inputs: fed.map(({ name, type, shape }) => ({ name, type, shape: isOpen ? shape.map(() => null) : shape })),
      outputs: outputNames.filter((name) => name !== '').map((name) => ({ name })),
      initializers: held.map(({ name, type, shape, array }) => tensor(name, type, shape, array)),
      nodes,
    });
  const nodes = [{ op, domain, name: 'the node', inputs: names, outputs: outputNames, attributes }];
  const model = write(nodes);
  return { model, open: write(nodes, true), fed, reference: instead ? write(instead) : model };
}

const base64 = (array) => Buffer.from(bytesOf(array)).toString('base64');

/** What onnxruntime-node computes for all cases, in one process. */
function references(prepared) {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-onnx-'));
  const [from, to] = ['cases.json', 'results.json'].map((name) => path.join(folder, name));
  try {
    const cases = prepared.map(({ reference, fed }) => ({
      model: base64(reference),
      inputs: fed.map(({ name, type, shape, array }) => ({ name, type, shape, data: base64(array) })),
    }));
    writeFileSync(from, JSON.stringify(cases));
    execFileSync(process.execPath, [path.join(__dirname, 'reference.js'), from, to], { stdio: ['ignore', 'ignore', 'inherit'] });
    return JSON.parse(readFileSync(to, 'utf8'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function numbers(type, array) {
  return Array.from(array, (value) => (type === 'float16' ? halfValue(value) : Number(value)));
}

/**
 * Compares one case. Tolerances are relative to the largest number, or 1; `apart` is in steps of integers, of which half a
 * step may be rounded either way. Integers are equal otherwise.
 */
async function check(context, { model, open, fed }, reference, { tolerance = 1e-5, apart = 0 } = {}, isOpen = false) {
  if (reference.error !== undefined) throw new Error(`onnxruntime-node refuses the case: ${reference.error}`);
  const loaded = await loadOnnx(context, isOpen ? open : model);
  try {
    const own = (array) => (array instanceof Float64Array ? Float32Array.from(array) : array);
    const values = fed.map(({ name, array, shape }) => [name, isOpen ? { data: own(array), shape } : own(array)]);
    const tensors = await loaded.run(Object.fromEntries(values));
    expect(Object.keys(tensors)).toEqual(reference.map(({ name }) => name));
    const results = Object.fromEntries(Object.entries(tensors).map(([name, tensor]) => [name, tensor.data]));
    for (const { name, type, shape, data } of reference) {
      // These models do not declare the types of their outputs, so `type` is that of the computation.
      const signature = isOpen ? tensors[name] : loaded.outputs.find((output) => output.name === name);
      expect(signature).toMatchObject({ dataType: TYPES[type].webnn, shape });
      const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
      const expected = numbers(type, new TYPES[type].array(bytes.buffer));
      const bits = type === 'float16' ? new Uint16Array(results[name].buffer) : results[name];
      const found = numbers(type, bits);
      expect(found).toHaveLength(expected.length);
      const scale = Math.max(1, ...expected.filter(Number.isFinite).map(Math.abs));
      const relative = { float: tolerance, double: tolerance, float16: Math.max(tolerance, 4e-3) }[type] ?? 0;
      const allowed = Math.max(relative * scale, apart);
      const wrong = expected.findIndex((value, i) => !(Object.is(value, found[i]) || value === found[i] || Math.abs(value - found[i]) <= allowed));
      if (wrong >= 0) {
        throw new Error(`output ${name}[${wrong}] is ${found[wrong]} and should be ${expected[wrong]} (WEBNN_SEED=${seed})`);
      }
    }
  } finally {
    loaded.destroy();
  }
}

/** The elements of a result; those of float16 as their bits. */
const bitsOfTensor = (type, data) => (type === 'float16' ? new Uint16Array(data.buffer, data.byteOffset, data.length) : data);

/** Half of what float16 reaches. */
const HALF = 32752;

/** Operators that ONNX or onnxruntime defines for float32 only. */
const SINGLE = ['DynamicQuantizeLSTM', 'DynamicQuantizeLinear', 'DynamicQuantizeMatMul', 'QLinearConv'];

/** The types of an operator whose special numbers are tried. */
const typesOf = (op) => (SINGLE.includes(op) ? ['float'] : ['float', 'float16']);
const sweeps = process.env.WEBNN_SWEEP === 'all';

/** A GPU in software compiles shaders for each number: the cases of an operator have its types in turn, unless WEBNN_SWEEP=all. */
function typesOnGpu(cases, item) {
  const types = typesOf(item.op);
  const alike = cases.filter(({ op }) => op === item.op);
  return sweeps || alike.length < types.length ? types : [types[(alike.indexOf(item) + seed) % types.length]];
}

/** Inputs whose type is float32 in any case: scales and regions of Resize, scales of Upsample. */
const staysFloat = (op, i) => ['Resize', 'Upsample'].includes(op) && i > 0;

/** Cosines and sines keep their range: what they rotate is an output in float16 too. */
const isRotation = (op, i) => op === 'GroupQueryAttention' && (i === 7 || i === 8);

/**
 * A case in float16 with numbers up to half of its range, and the same in float32. Nothing for cases without such numbers.
 * @returns {[object, object] | undefined}
 */
function inHalves(item, index) {
  const { op, inputs } = item;
  const isFloat = (input, i) => input?.type === 'float' && !staysFloat(op, i);
  if (SINGLE.includes(op) || !inputs.some(isFloat)) return undefined;
  const random = generator(index);
  const bits = inputs.map((input, i) => {
    if (!isFloat(input, i)) return undefined;
    const { low, high, values } = input;
    if (values !== undefined) return toBits('float16', values);
    if (isRotation(op, i)) return [...fill({ ...input, type: 'float16', low: -1, high: 1 }, random)];
    return [...fill({ ...input, type: 'float16', low: low < 0 ? -HALF : low, high: high > 0 ? HALF : high }, random)];
  });
  const variant = (type, value) => {
    const changed = inputs.map((input, i) => (bits[i] ? { ...input, type, values: bits[i].map(value) } : input));
    return prepare({ ...item, inputs: changed, instead: undefined }, index);
  };
  return [variant('float16', (number) => number), variant('float', halfValue)];
}

/** The distance of float16 numbers around a number. */
const unit = (value) => 2 ** (Math.max(Math.floor(Math.log2(Math.abs(value) || 1e-9)), -14) - 10);

/**
 * One operator rounds once: what it makes of float16 is what it makes of the same numbers in float32, rounded. Both of these
 * float32 results may be off by the tolerance, and one rounding lies between.
 */
async function checkHalves(context, [narrow, wide], { tolerance = 1e-5, apart = 0 }) {
  const outcome = async ({ model, fed }) => {
    const loaded = await loadOnnx(context, model);
    try {
      const results = await loaded.run(Object.fromEntries(fed.map(({ name, array }) => [name, array])));
      return Object.entries(results).map(([name, { dataType, data }]) => ({ name, dataType, values: numbers(dataType, bitsOfTensor(dataType, data)) }));
    } finally {
      loaded.destroy();
    }
  };
  const found = await outcome(narrow);
  const expected = await outcome(wide);
  for (const [i, { name, dataType, values }] of found.entries()) {
    const exact = expected[i].values;
    expect(values).toHaveLength(exact.length);
    const scale = Math.max(1, ...exact.filter(Number.isFinite).map(Math.abs));
    const isFloat = dataType.startsWith('float');
    const wrong = exact.findIndex((value, k) => {
      if (Object.is(value, values[k]) || value === values[k]) return false;
      const allowed = isFloat ? tolerance * scale + unit(value) : apart;
      // The nearest number to what is beyond the greatest is infinite.
      if (dataType === 'float16' && Math.abs(value) + tolerance * scale >= 65520 && values[k] === Math.sign(value) * Infinity) return false;
      return !(Math.abs(value - values[k]) <= allowed);
    });
    if (wrong >= 0) throw new Error(`output ${name}[${wrong}] of ${dataType} is ${values[wrong]} and should be ${exact[wrong]} (WEBNN_SEED=${seed})`);
  }
}

/** What sums, products and comparisons of ordinary numbers never meet; and ordinary numbers, large and small. */
const special = (greatest, least) => ({ NaN, Infinity: Infinity, '-Infinity': -Infinity, greatest, least, '-0': -0 });
const SPECIAL = { float: special(3.4028234663852886e38, 1.401298464324817e-45), float16: special(65504, 2 ** -24) };
const ORDINARY = [1e4, -1e4, 0.37, -0.7, 0];

/** Inputs that say how large outputs are. */
const isSize = (op, i) => ['Range', 'MelWeightMatrix', 'NonZero'].includes(op) || staysFloat(op, i);

const WITH_ZEROS = 'products with zeros that the operator defines: a padding, a first state, the sine of 0, a weight';
const MASKED = 'a masked score is a sum with minus infinity, and its weight of 0 a factor';
/** By operator: inputs whose special numbers may show where no ordinary number does, and why. */
const SHOWS = {
  Conv: [[1], WITH_ZEROS],
  AffineGrid: [[0], WITH_ZEROS],
  DequantizeLinear: [[1], WITH_ZEROS],
  DFT: [[0], WITH_ZEROS],
  STFT: [[0, 2], WITH_ZEROS],
  GatherBlockQuantized: [[2], WITH_ZEROS],
  MatMulBnb4: [[0], WITH_ZEROS],
  MatMulNBits: [[0], WITH_ZEROS],
  QuantizeLinear: [[1], 'quotients by zeros of either sign'],
  SkipGroupNorm: [[4], 'a channel of its own whose mean takes the bias away, so that ordinary numbers do not show'],
  QAttention: [[2], 'a bias of keys, which moves all scores of a query alike'],
  ...Object.fromEntries(['LSTM', 'GRU', 'RNN', 'DynamicQuantizeLSTM'].map((op) => [op, [undefined, `${WITH_ZEROS}; gates that are shut`]])),
  ...Object.fromEntries(['Attention', 'MultiHeadAttention', 'GroupQueryAttention'].map((op) => [op, [undefined, MASKED]])),
  Softmax: [[0], 'what vanishes beside the greatest is part of the sum'],
  Clip: [[1, 2], 'bounds'],
  IsNaN: [[0], 'it asks for them'],
  IsInf: [[0], 'it asks for them'],
  SVMClassifier: [[0], 'votes'],
  TopK: [[0], 'places beside infinities'],
};
/** Quantized operators multiply with their scales, and what is quantized may be 0. */
const shows = (op, i) => op.startsWith('QLinear') || (SHOWS[op] !== undefined && (SHOWS[op][0]?.includes(i) ?? true));

/** Operators that choose, count or compare: what a NaN is part of may be a number. */
const CHOOSES = ['Binarizer', 'GridSample', 'Hardmax', 'Imputer', 'Shrink', 'ThresholdedRelu', 'TopK', 'TreeEnsembleClassifier', 'TreeEnsembleRegressor', 'SVMClassifier', 'Clip', 'Attention', 'IsNaN', 'IsInf'];

/**
 * Puts special numbers in the place of one element of each input, which is drawn. What does not depend on that element must stay what
 * it is; dependent are outputs that some ordinary number in its place changes. And what depends on it is NaN where it is.
 */
async function checkSpecial(context, item, index, float) {
  const { op } = item;
  const random = generator(index);
  // In float16 what is drawn is held as bits.
  const toNumber = (type, value) => (type === 'float16' ? halfValue(value) : value);
  const inputs = item.inputs.map((input, i) => (input?.type === 'float' && !staysFloat(op, i) ? { ...input, type: float, values: input.values && toBits(float, input.values) } : input));
  const values = inputs.map((input) => input && Array.from(fill(input, random), (value) => toNumber(input.type, value)));
  const withNumber = (at, place, number) =>
    inputs.map((input, i) => input && { ...input, values: toBits(input.type, i === at ? values[i].with(place, number) : values[i]) });
  const variant = (changed) => prepare({ ...item, inputs: changed, instead: undefined }, 0);
  const wrong = [];
  // What is fed changes no model.
  const { model, fed } = variant(withNumber());
  const whole = await loadOnnx(context, model);
  const named = (inputsFed) => Object.fromEntries(inputsFed.map(({ name, array }) => [name, array instanceof Float64Array ? Float32Array.from(array) : array]));
  const outcomeOf = async (at, place, number) => {
    const changed = withNumber(at, place, number);
    if (inputs[at].fed) return numbersOf(await whole.run({ ...named(fed), [`i${at}`]: fill(changed[at]) }));
    const other = variant(changed);
    const loaded = await loadOnnx(context, other.model);
    try {
      return numbersOf(await loaded.run(named(other.fed)));
    } finally {
      loaded.destroy();
    }
  };
  try {
    for (const [at, input] of inputs.entries()) {
      if (input?.type !== float || values[at].length === 0 || isSize(op, at)) continue;
      const place = Math.floor(random() * values[at].length);
      const found = await differences(op, at, float, values[at][place], (number) => outcomeOf(at, place, number));
      wrong.push(...found.map((what) => `${what} (at ${place} of input ${at}, WEBNN_SEED=${seed})`));
    }
  } finally {
    whole.destroy();
  }
  return wrong;
}

/** What special numbers in the place of one do to what they should not, given what a number makes there of all outputs. */
async function differences(op, at, float, drawn, outcome) {
  const wrong = [];
  const before = await outcome(drawn);
  const others = [];
  for (const number of ORDINARY) others.push(await outcome(number));
  // Whether some ordinary number changes an element at all, and by more than rounding.
  const changes = (isSame) => before.map(({ values: own }, output) => own.map((value, i) => others.some((other) => !isSame(other[output].values[i], value))));
  const [depends, isOf] = [changes((a, b) => a === b), changes(isNear)];
  for (const [name, number] of Object.entries(SPECIAL[float])) {
    for (const [output, { type, values: found }] of (await outcome(number)).entries()) {
      const isFloat = type.startsWith('float');
      const i = found.findIndex((value, k) => {
        if (!depends[output][k]) return !isNear(value, before[output].values[k]) && !shows(op, at);
        return isOf[output][k] && isFloat && Number.isNaN(number) && !Number.isNaN(value) && !CHOOSES.includes(op);
      });
      if (i >= 0) wrong.push(`${name}: element ${i} of output ${output} is ${found[i]}, ${before[output].values[i]} before`);
    }
  }
  return wrong;
}

/** What is computed beside other constants may be rounded in another way. */
const isNear = (a, b) => Object.is(a, b) || a === b || Math.abs(a - b) <= 1e-5 * Math.max(1, Math.abs(b));

/** Numbers as a tensor of a type holds them. */
const toBits = (type, values) => (type === 'float16' ? values.map(bitsOf) : values);
const bitsOf = (value) => {
  if (Number.isFinite(value)) return halfBits(value);
  if (Number.isNaN(value)) return 0x7e00;
  return value > 0 ? 0x7c00 : 0xfc00;
};

/** The numbers of results, by output. */
const numbersOf = (results) =>
  Object.values(results).map(({ dataType, data }) => ({ type: dataType, values: numbers(dataType, bitsOfTensor(dataType, data)) }));

/** Defines the tests of a list of cases. */
function testCases(cases) {
  let context;
  let accelerated;
  let results;
  const prepared = cases.map(prepare);
  beforeAll(() => {
    results = references(prepared);
  });
  withContexts((cpu, gpu) => {
    [context, accelerated] = [cpu, gpu];
  });
  cases.forEach((item, i) => {
    const { op, opset = 17, attributes = {}, inputs, note } = item;
    const shapes = inputs.map((input) => (input === null ? '-' : `${input.type === 'float' ? '' : input.type}[${input.shape}]`));
    const title = `${op}-${opset}(${shapes.join(', ')}) ${JSON.stringify(attributes)}${note ? ` ${note}` : ''}`;
    test(title, async () => {
      await check(context, prepared[i], results[i], item);
      // With all dimensions of its inputs left open it is the same.
      await check(context, prepared[i], results[i], item, true);
    });
    if (inputs.some((input) => input?.type === 'float')) {
      test(`${title} with special numbers`, async () => {
        for (const type of typesOf(op)) expect(await checkSpecial(context, item, i, type)).toEqual([]);
      });
      for (const type of typesOnGpu(cases, item)) {
        test(`${title} with special numbers of ${type} on a GPU`, async () => {
          if (accelerated !== undefined) expect(await checkSpecial(accelerated, item, i, type)).toEqual([]);
        });
      }
    }
    const halves = inHalves(item, i);
    if (halves === undefined) return;
    test(`${title} in float16`, async () => {
      await checkHalves(context, halves, item);
      if (accelerated !== undefined) await checkHalves(accelerated, halves, item);
    });
  });
}

module.exports = { c, ints, prepare, references, testCases, x };
