'use strict';

// The node tests of PyPI's package onnx (tests/onnx/nodes.py) for operators whose results depend on values of the run, and Scan of version
// 8: as they are, and with all dimensions of their inputs left open.

const { readFileSync } = require('node:fs');
const path = require('node:path');
const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { references } = require('./compare.js');
const { halfValue } = require('./random.js');
const { TYPES, opened } = require('./write.js');

const { cases } = JSON.parse(readFileSync(path.join(__dirname, '../../tests/onnx/nodes.json'), 'utf8'));

/** Cases whose values have four digits, of which the last is not exact. */
const ROUNDED = ['test_roialign_aligned_false', 'test_roialign_aligned_true'];

let context;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
});
afterAll(() => context.destroy());

/** The array of a value, in the type that it has here. */
function arrayOf({ type, data }) {
  const array = new TYPES[type].array(Uint8Array.from(Buffer.from(data, 'base64')).buffer);
  return type === 'double' ? Float32Array.from(array) : array;
}

const numbers = (type, array) => Array.from(type === 'float16' ? new Uint16Array(array.buffer) : array, (value) => (type === 'float16' ? halfValue(value) : Number(value)));

async function check({ name: title, inputs, outputs }, model) {
  const loaded = await loadOnnx(context, model);
  try {
    const valueOf = ({ type, nothing, sequence, ...tensor }) => {
      if (nothing) return null;
      return sequence?.map((element) => valueOf({ type, ...element })) ?? { data: arrayOf({ type, ...tensor }), shape: tensor.shape };
    };
    const given = inputs.map((input) => [input.name, valueOf(input)]);
    const results = await loaded.run(Object.fromEntries(given.filter(([name]) => loaded.inputs.some((input) => input.name === name))));
    expect(Object.keys(results)).toEqual(outputs.map(({ name }) => name));
    for (const output of outputs) {
      const { name, type, sequence } = output;
      const list = sequence === undefined ? [results[name]] : results[name];
      expect(list).toHaveLength((sequence ?? [output]).length);
      (sequence ?? [output]).forEach((element, position) => compare(title, `${name}[${position}]`, { type, ...element }, list[position]));
    }
  } finally {
    loaded.destroy();
  }
}

function compare(title, name, element, result) {
  const { type, shape } = element;
  expect(result).toMatchObject({ dataType: TYPES[type].webnn, shape });
  const expected = numbers(type, arrayOf(element));
  const found = numbers(type, result.data);
  const scale = Math.max(1, ...expected.filter(Number.isFinite).map(Math.abs));
  const relative = { float: ROUNDED.includes(title) ? 1e-4 : 1e-5, double: 1e-5, float16: 1e-3 }[type] ?? 0;
  const allowed = relative * scale;
  const wrong = expected.findIndex((value, i) => !(Object.is(value, found[i]) || value === found[i] || Math.abs(value - found[i]) <= allowed));
  if (wrong >= 0) throw new Error(`output ${name}, element ${wrong} is ${found[wrong]} and should be ${expected[wrong]}`);
}

test.each(cases.map((item) => [item.name, item]))('%s', async (name, item) => {
  const model = Buffer.from(item.model, 'base64');
  await check(item, model);
  await check(item, opened(model));
});

/** It refuses lengths of 0. */
const scans = cases.filter(({ name }) => name === 'test_scan_sum' || (name.startsWith('scan_8') && name !== 'scan_8_lengths_of_0'));

test('Scan of version 8 is what onnxruntime-node makes of it', () => {
  const read = (data) => Uint8Array.from(Buffer.from(data, 'base64'));
  const given = ({ name, type, shape, data }) => ({ name, type, shape, array: read(data) });
  const results = references(scans.map(({ model, inputs }) => ({ reference: read(model), fed: inputs.map(given) })));
  expect(scans.length).toBeGreaterThan(4);
  scans.forEach(({ name, outputs }, i) => {
    expect(results[i].error).toBeUndefined();
    for (const output of outputs) {
      const found = results[i].find((result) => result.name === output.name);
      compare(name, output.name, output, { dataType: TYPES[found.type].webnn, shape: found.shape, data: arrayOf(found) });
    }
  });
});
