'use strict';

// How large shaders are, on a device that only takes notes. Drivers put functions into every place that calls them, some of them
// whatever it costs: SwiftShader's compiler took minutes for products whose elements were read and stored in 32 places each, where
// others took milliseconds. So what counts is the text with every call replaced by what it calls.

const { readFileSync, readdirSync } = require('node:fs');
const path = require('node:path');
const { ml, MLGraphBuilder } = require('../..');
const { describeGraph } = require('../vectors/run.js');
const { notingDevice } = require('./noting-device.js');

/** Characters of a shader as it is, with all calls replaced, and of variables of one invocation that are arrays. */
const MOST = 10 << 10;
const MOST_INLINED = 20 << 10;
const MOST_PRIVATE = 64;

/** Bodies of functions by name. */
function functionsOf(code) {
  const starts = [...code.matchAll(/\bfn (\w+)\(/g)];
  return new Map(starts.map(({ 1: name, index }, i) => [name, code.slice(index, starts[i + 1]?.index)]));
}

function inlinedSize(code) {
  const functions = functionsOf(code);
  const known = new Map();
  const size = (name) => {
    if (!known.has(name)) {
      const body = functions.get(name);
      // Not its own name, which comes first.
      const calls = [...body.matchAll(/\b(\w+)\(/g)].slice(1).filter(({ 1: called }) => functions.has(called) && called !== name);
      known.set(name, calls.reduce((sum, { 1: called }) => sum + size(called), body.length));
    }
    return known.get(name);
  };
  return size('main');
}

function check({ label, code }) {
  expect({ label, isLong: code.length > MOST }).toEqual({ label, isLong: false });
  const inlined = inlinedSize(code);
  expect({ label, inlined: Math.max(inlined, MOST_INLINED) }).toEqual({ label, inlined: MOST_INLINED });
  for (const { 1: count } of code.matchAll(/^\s*var \w+\s*[:=] array<\w+(?:<\w+>)?, (\d+)>/gm)) {
    expect({ label, elements: Math.max(Number(count), MOST_PRIVATE) }).toEqual({ label, elements: MOST_PRIVATE });
  }
}

/** Memory of the arena, which kernels may write, must not be bound twice. */
function checkGroup(entries) {
  const arena = entries.filter(({ buffer }) => buffer.label.endsWith('(values in between)'));
  arena.forEach(({ offset, size }, i) => {
    const others = arena.slice(0, i).filter((other) => offset < other.offset + other.size && other.offset < offset + size);
    expect({ offset, size, others }).toEqual({ offset, size, others: [] });
  });
}

test('calls are counted with what they call', () => {
  const [a, aa, main] = ['fn a(x: u32) -> u32 { return x; }\n', 'fn aa(x: u32) -> u32 { return a(a(x)); }\n', 'fn main() { aa(1u); }'];
  expect(inlinedSize(a + aa + main)).toBe(main.length + aa.length + 2 * a.length);
});

const tensor = (dataType, ...shape) => ({ dataType, shape });

/** Networks' own sizes, with which products are divided in every way. */
const GRAPHS = {
  matmul: (b, type) => b.matmul(b.input('a', tensor(type, 4, 200, 300)), b.input('b', tensor(type, 4, 300, 180))),
  'matmul of small matrices': (b, type) => b.matmul(b.input('a', tensor(type, 9, 8)), b.input('b', tensor(type, 8, 7))),
  'matmul of a vector': (b, type) => b.matmul(b.input('a', tensor(type, 2, 300)), b.input('b', tensor(type, 300, 180))),
  conv2d: (b, type) => b.gelu(b.conv2d(b.input('x', tensor(type, 1, 64, 28, 28)), b.input('w', tensor(type, 64, 64, 3, 3)), { padding: [1, 1, 1, 1] })),
  convTranspose2d: (b, type) => b.convTranspose2d(b.input('x', tensor(type, 1, 1, 3, 3)), b.input('w', tensor(type, 1, 2, 3, 3)), { strides: [2, 2] }),
  gru: (b, type) => b.gru(b.input('x', tensor(type, 2, 3, 3)), b.input('w', tensor(type, 1, 15, 3)), b.input('r', tensor(type, 1, 15, 5)), 2, 5)[0],
  lstm: (b, type) => b.lstm(b.input('x', tensor(type, 2, 3, 3)), b.input('w', tensor(type, 1, 20, 3)), b.input('r', tensor(type, 1, 20, 5)), 2, 5)[0],
};

describe.each([[[]], [['shader-f16', 'subgroups']]])('on a device with the features %j', (features) => {
  test.each(Object.keys(GRAPHS))('%s', async (name) => {
    const { device, shaders } = notingDevice(features);
    const context = await ml.createContext(device);
    for (const type of ['float32', 'float16']) {
      const builder = new MLGraphBuilder(context);
      await builder.build({ y: GRAPHS[name](builder, type) });
    }
    expect(shaders.length).toBeGreaterThan(0);
    shaders.forEach(check);
    // What only naga knows.
    for (const { code } of shaders) {
      expect(code).not.toMatch(/coop_mat|enable wgpu/);
      expect(/subgroup/.test(code)).toBe(/enable subgroups;/.test(code));
    }
    context.destroy();
  });
});

/** Operators that are given one value as several operands. */
const TWICE = {
  add: (b, y) => b.add(y, y),
  mul: (b, y) => b.mul(y, y),
  equal: (b, y) => b.equal(y, y),
  where: (b, y) => b.where(b.cast(y, 'uint8'), y, y),
  matmul: (b, y) => b.matmul(y, y),
  gemm: (b, y) => b.gemm(y, y, { c: y }),
  concat: (b, y) => b.concat([y, y, y], 0),
  prelu: (b, y) => b.prelu(y, y),
  layerNormalization: (b, y) => b.layerNormalization(y, { axes: [0, 1], scale: y, bias: y }),
  conv2d: (b, y) => {
    const image = b.reshape(y, [1, 1, 8, 8]);
    return b.conv2d(image, image);
  },
  gru: (b, y) => {
    const weights = b.reshape(y, [1, 16, 4]);
    const part = b.slice(weights, [0, 0, 0], [1, 12, 4]);
    return b.gru(b.reshape(y, [1, 16, 4]), part, part, 1, 4)[0];
  },
  scatterElements: (b, y) => b.scatterElements(y, b.cast(y, 'int32'), y, { axis: 0 }),
  gatherElements: (b, y) => {
    const at = b.cast(y, 'int32');
    return b.gatherElements(at, at, { axis: 0 });
  },
};

test.each(Object.keys(TWICE))('one value as several operands of %s is bound once', async (name) => {
  const { device, groups } = notingDevice();
  const context = await ml.createContext(device);
  const builder = new MLGraphBuilder(context);
  // A product keeps its kernel from joining the operator.
  const y = builder.matmul(builder.input('x', tensor('float32', 8, 8)), builder.input('w', tensor('float32', 8, 8)));
  const made = TWICE[name](builder, y);
  const end = made.dataType === 'uint8' ? builder.cast(made, 'float32') : made;
  await builder.build({ z: builder.softmax(builder.reshape(builder.cast(end, 'float32'), [1, end.shape.reduce((a, b) => a * b, 1)]), 1) });
  expect(groups.length).toBeGreaterThan(0);
  groups.forEach(checkGroup);
  context.destroy();
});

const folder = process.env.WEBNN_VECTORS;
(folder ? test : test.skip)('of the conformance vectors', async () => {
  const { device, groups, shaders } = notingDevice();
  const context = await ml.createContext(device);
  for (const file of readdirSync(folder).filter((name) => name.endsWith('.json'))) {
    for (const vector of JSON.parse(readFileSync(path.join(folder, file), 'utf8')).slice(0, 8)) {
      if (vector.contradicts !== undefined) continue;
      const builder = new MLGraphBuilder(context);
      await builder.build(describeGraph(builder, vector.graph));
    }
  }
  expect(shaders.length).toBeGreaterThan(200);
  shaders.forEach(check);
  groups.forEach(checkGroup);
  context.destroy();
});
