/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// The suites of the API with contexts on a GPUDevice in the place of others.

const { ml } = require('../..');
const { requiredLimits } = require('../../lib/webgpu.js');
const { adapter, newDevice } = require('./device.js');

const SUITES = 'buffers,builder,builder-memory,commands,compute,context,dispatch,fusion,garbage,interfaces,large-graphs,messages,operators,stress,timeline,webidl,wrong-inputs'.split(',');

/** Where the tests of a suite are, if not in the file of its name. */
const FILES = { garbage: '../garbage/collected.js' };

/** Tests that say something else there: the beginnings of their names by their suites, each with the reason. */
const EXCEPTIONS = {
  context: { 'the CPU is not accelerated': 'it is a GPU' },
  compute: { 'the process does not grow by them': 'bytes are copied to the device and back' },
  interfaces: { 'an object says what it is': 'createContext() is replaced here' },
  webidl: { 'of createContext()': 'createContext() is replaced here' },
  'wrong-inputs': { 'a tensor larger than the memory': 'the limits of the device refuse it before' },
};

const found = new Set();

/** Why a test is left out, if it is. */
function exception(suite, name) {
  const [start, why] = Object.entries(EXCEPTIONS[suite] ?? {}).find(([beginning]) => name.startsWith(beginning)) ?? [];
  if (start !== undefined) found.add(`${suite}: ${start}`);
  return why;
}

/** Registers a suite, without its exceptions. */
function register(suite) {
  const { test: original } = globalThis;
  const choose = (name) => (exception(suite, name) === undefined ? original : original.skip);
  const replaced = (name, ...rest) => choose(name)(name, ...rest);
  replaced.skip = original.skip;
  replaced.each = (table) => (name, ...rest) => choose(name).each(table)(name, ...rest);
  globalThis.test = replaced;
  try {
    require(FILES[suite] ?? `../${suite}.test.js`);
  } finally {
    globalThis.test = original;
  }
}

const original = ml.createContext;

beforeAll(() => {
  // A context each, as the suites expect, for whoever asks for none in particular.
  ml.createContext = async (...given) => {
    const isPlain = given.every((options) => typeof options === 'object' && Object.keys(options ?? {}).every((name) => name === 'accelerated'));
    if (!isPlain) return Reflect.apply(original, ml, given);
    return Reflect.apply(original, ml, [await newDevice({ requiredLimits: requiredLimits(adapter) })]);
  };
});
afterAll(() => delete ml.createContext);

if (adapter) {
  for (const suite of SUITES) describe(suite, () => register(suite));
  test('every exception is a test', () => {
    const all = Object.entries(EXCEPTIONS).filter(([suite]) => SUITES.includes(suite)).flatMap(([suite, names]) => Object.keys(names).map((name) => `${suite}: ${name}`));
    expect([...found].sort()).toEqual(all.sort());
  });
} else {
  test('there is no device', () => {});
}
