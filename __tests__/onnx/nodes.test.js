'use strict';

// The node tests of PyPI's package onnx (tests/onnx/nodes.py) for operators whose results depend on values of the run: as they are, and
// with all dimensions of their inputs left open.

const { readFileSync } = require('node:fs');
const path = require('node:path');
const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { halfValue } = require('./random.js');
const { TYPES, opened } = require('./write.js');

const { cases } = JSON.parse(readFileSync(path.join(__dirname, '../../tests/onnx/nodes.json'), 'utf8'));

/** What WebNN and this importer do not have. */
const REFUSED = { test_scan_sum: /as version 8 of the operators has it/ };

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
    const given = inputs.map((input) => [input.name, { data: arrayOf(input), shape: input.shape }]);
    const results = await loaded.run(Object.fromEntries(given.filter(([name]) => loaded.inputs.some((input) => input.name === name))));
    expect(Object.keys(results)).toEqual(outputs.map(({ name }) => name));
    for (const output of outputs) {
      const { name, type, shape } = output;
      expect(results[name]).toMatchObject({ dataType: TYPES[type].webnn, shape });
      const expected = numbers(type, arrayOf(output));
      const found = numbers(type, results[name].data);
      const scale = Math.max(1, ...expected.filter(Number.isFinite).map(Math.abs));
      const relative = { float: ROUNDED.includes(title) ? 1e-4 : 1e-5, double: 1e-5, float16: 1e-3 }[type] ?? 0;
      const allowed = relative * scale;
      const wrong = expected.findIndex((value, i) => !(Object.is(value, found[i]) || value === found[i] || Math.abs(value - found[i]) <= allowed));
      if (wrong >= 0) throw new Error(`output ${name}[${wrong}] is ${found[wrong]} and should be ${expected[wrong]}`);
    }
  } finally {
    loaded.destroy();
  }
}

test.each(cases.map((item) => [item.name, item]))('%s', async (name, item) => {
  const model = Buffer.from(item.model, 'base64');
  if (REFUSED[name] !== undefined) {
    await expect(check(item, model)).rejects.toThrow(REFUSED[name]);
    return;
  }
  await check(item, model);
  await check(item, opened(model));
});
