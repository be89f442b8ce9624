'use strict';

// Pipelines of transformers.js in plain Node on this engine (`webnn-node/transformers`), beside onnxruntime-node: small models of the
// architectures that it runs, as its exporter writes them (transformers/make-models.py). The two engines run in processes of
// their own, and what every session was given and gave is compared (transformers/child.mjs).

const { readFileSync, rmSync } = require('node:fs');
const path = require('node:path');
const { deserialize } = require('node:v8');
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');
const { largestError, meanError, pairs, tokensDiffer } = require('./transformers/compare.js');
const { unpackModels } = require('./transformers/models.js');

const CHILD = path.join(__dirname, 'transformers', 'child.mjs');
const TASKS = [
  'feature-extraction',
  'text-classification',
  'token-classification',
  'question-answering',
  'zero-shot-classification',
  'fill-mask',
  'summarization',
  'translation',
  'text2text-generation',
  'text-generation',
  'text-generation-llama',
  'image-classification',
  'image-classification-resnet',
  'object-detection',
  'object-detection-yolos',
  'automatic-speech-recognition',
  'automatic-speech-recognition-ctc',
];
const DTYPES = {
  'feature-extraction': ['fp16', 'int8', 'uint8', 'q8', 'q4', 'q4f16', 'bnb4', 'q2', 'q2f16'],
  'image-classification': ['fp16', 'int8', 'uint8', 'q8', 'q4', 'q4f16', 'bnb4', 'q2', 'q2f16'],
  'image-classification-resnet': ['fp16', 'q8', 'uint8'],
  'text-generation-llama': ['fp16', 'int8', 'q8', 'q4', 'q4f16', 'bnb4', 'q2', 'q2f16'],
  'text2text-generation': ['fp16', 'q8', 'q4', 'q4f16'],
  'automatic-speech-recognition': ['fp16', 'q8', 'q4', 'q4f16'],
};
const REFUSED = [
  ['feature-extraction', 'q1'],
  ['feature-extraction', 'q1f16'],
];
const LIMIT = 300_000;

const jobs = [...TASKS.map((name) => [name, 'fp32']), ...Object.entries(DTYPES).flatMap(([name, dtypes]) => dtypes.map((dtype) => [name, dtype]))];
let folder;
let ours;
let theirs;
/** With a package in onnxruntime-node's place: transformers.js finds its devices, and no binary. */
let instead;
const INSTEAD = [
  ['feature-extraction', 'fp32'],
  ['text-generation-llama', 'q4'],
  ['object-detection', 'fp32'],
  ['automatic-speech-recognition', 'fp32'],
];

async function runChild(engine, list) {
  const target = path.join(folder, `${engine}.bin`);
  await promisify(execFile)(process.execPath, [CHILD, engine, folder, target, JSON.stringify(list)], { timeout: LIMIT });
  return deserialize(readFileSync(target));
}

beforeAll(async () => {
  folder = unpackModels();
  [ours, theirs] = await Promise.all([runChild('webnn', [...jobs, ...REFUSED]), runChild('onnxruntime', jobs)]);
  instead = await runChild('override', INSTEAD);
}, LIMIT);

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const of = ({ results }, name, dtype) => results.find((result) => result.name === name && result.dtype === dtype);

test('each engine computed its own', () => {
  expect(ours.counts).toMatchObject({ onnxruntime: 0 });
  expect(ours.counts.webnn).toBeGreaterThan(300);
  expect(theirs.counts.onnxruntime).toBeGreaterThan(50);
  expect(theirs.counts.webnn).toBe(0);
  expect([ours.symbol, theirs.symbol, instead.symbol]).toEqual([true, false, false]);
  // transformers.js loads the binary in any case, unless another package is there in its place.
  expect([ours.binary, theirs.binary, instead.binary]).toEqual([true, true, false]);
});

test.each(INSTEAD)('%s in %s with a package in the place of onnxruntime-node', (name, dtype) => {
  const [found, expected] = [of(instead, name, dtype), of(ours, name, dtype)];
  expect(found.error).toBeUndefined();
  expect(found.outputs).toEqual(expected.outputs);
});

test.each(TASKS)('%s in float32', (name) => {
  const [found, expected] = [of(ours, name, 'fp32'), of(theirs, name, 'fp32')];
  expect([found.error, expected.error]).toEqual([undefined, undefined]);
  const compared = pairs(found.runs, expected.runs);
  // All of them, so the tokens are identical.
  expect([found.runs.length, compared.length]).toEqual([expected.runs.length, expected.runs.length]);
  const errors = compared.flatMap(([a, b]) => Object.keys(b.outputs).map((output) => [output, largestError(a.outputs[output], b.outputs[output])]));
  expect(errors.filter(([, error]) => !(error <= 1e-4))).toEqual([]);
  expect(rounded(found.outputs)).toEqual(rounded(expected.outputs));
});

test.each(Object.entries(DTYPES).flatMap(([name, dtypes]) => dtypes.map((dtype) => [name, dtype])))('%s in %s', (name, dtype) => {
  const [found, expected, exact] = [of(ours, name, dtype), of(theirs, name, dtype), of(theirs, name, 'fp32')];
  expect([found.error, expected.error]).toEqual([undefined, undefined]);
  expect(tokensDiffer(found.runs, expected.runs)).toBeUndefined();
  // Of both, as far as they were given what the float32 model was.
  const lists = [found, expected].map(({ runs }) => pairs(runs, exact.runs));
  const count = Math.min(...lists.map(({ length }) => length));
  expect(count).toBeGreaterThan(0);
  const [error, theirError] = lists.map((list) => meanError(list.slice(0, count)));
  expect(error).toBeLessThanOrEqual(1.1 * theirError + 1e-6);
});

test.each(REFUSED)('%s in %s is refused by name', (name, dtype) => {
  expect(of(ours, name, dtype).error).toMatch(/MatMulNBits.*1 bits are not supported/);
});

/** Numbers that are not whole to three digits. */
function rounded(value) {
  if (typeof value === 'number') return Number.isInteger(value) ? value : Number(value.toFixed(3));
  if (ArrayBuffer.isView(value)) return Array.from(value, rounded);
  if (Array.isArray(value)) return value.map(rounded);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, rounded(inner)]));
}
