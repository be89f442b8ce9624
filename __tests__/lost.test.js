'use strict';

// B6, E6, E8: a context that is lost without script's doing. The native side announces it; here a test does, in its place.

const diagnostics = require('node:diagnostics_channel');

let settle, listening, first, handle;

jest.mock('../lib/native.js', () => ({
  ...jest.requireActual('../lib/native.js'),
  initialize: (given) => mockInitialize(given),
}));

function mockInitialize(given) {
  settle = given;
  // The native side holds it weakly.
  listening = (batch) => {
    // It gets nothing where results are put off to the end of a round of the event loop.
    for (let i = 0; i < (batch?.length ?? 0); i += 3) if (batch[i + 2]?.context !== undefined) handle = batch[i + 2].context;
    given(batch);
  };
  first = jest.requireActual('../lib/native.js').initialize(listening);
  return first;
}

const native = require('../lib/native.js');
const { ml, MLGraphBuilder } = require('..');
const { buildAdder, createTensors, float32 } = require('./adder.js');

const invalidState = expect.objectContaining({ name: 'InvalidStateError' });

test('resolves lost, rejects what is pending, and refuses what comes later', async () => {
  const context = await ml.createContext({ deviceType: 'cpu', label: 'mine' });
  const [graph, [a, b, c]] = await Promise.all([buildAdder(context), createTensors(context, 3)]);
  const builder = new MLGraphBuilder(context);
  const reported = [];
  const listener = (message) => reported.push(message);
  diagnostics.subscribe('webnn-node:lost', listener);
  const pending = [context.readTensor(a), context.createTensor(float32(2))];
  settle([first, null, { event: 'lost', context: handle, message: 'the device was unplugged' }]);
  await expect(context.lost).resolves.toEqual({ message: 'the device was unplugged' });
  diagnostics.unsubscribe('webnn-node:lost', listener);
  expect(reported).toEqual([{ device: 'cpu', label: 'mine', message: 'the device was unplugged' }]);
  for (const promise of pending) {
    await expect(promise).rejects.toThrow(invalidState);
    await expect(promise).rejects.toThrow(/the device was unplugged/);
  }
  expect(() => context.dispatch(graph, { a, b }, { c })).toThrow(invalidState);
  expect(() => builder.input('x', float32(2))).toThrow(invalidState);
  await expect(context.createTensor(float32(2))).rejects.toThrow(invalidState);
  await expect(context.readTensor(a)).rejects.toThrow(TypeError);
});

test('is no matter for others, and none when the context was destroyed before', async () => {
  const context = await ml.createContext();
  const lost = handle;
  const other = await ml.createContext();
  const [tensor] = await createTensors(other, 1);
  const reported = [];
  const listener = (message) => reported.push(message);
  diagnostics.subscribe('webnn-node:lost', listener);
  context.destroy();
  settle([first, null, { event: 'lost', context: lost, message: 'late' }]);
  await expect(context.lost).resolves.toEqual({ message: 'destroy() was called on the MLContext' });
  diagnostics.unsubscribe('webnn-node:lost', listener);
  expect(reported).toEqual([]);
  expect((await other.readTensor(tensor)).byteLength).toBe(8);
  other.destroy();
});

describe('A4, E8: the exceptions of what failed later', () => {
  let request, readTensor;

  // The native side never hears of these reads; the test settles them.
  beforeAll(() => {
    ({ readTensor } = native);
    native.readTensor = (given) => {
      request = given;
    };
  });
  afterAll(() => {
    native.readTensor = readTensor;
  });

  /** What a read rejects with whose request ends so. */
  async function failing(code, value) {
    const context = await ml.createContext();
    const [tensor] = await createTensors(context, 1);
    const reading = context.readTensor(tensor);
    settle([request, code, value]);
    const error = await reading.catch((caught) => caught);
    context.destroy();
    return error;
  }

  test.each(['OperationError', 'UnknownError', 'InvalidStateError', 'NotSupportedError'])('%s', async (code) => {
    const error = await failing(code, { message: 'readTensor [t]: why' });
    expect(error).toBeInstanceOf(DOMException);
    expect([error.name, error.message]).toEqual([code, 'readTensor [t]: why']);
    expect(Object.hasOwn(error, 'cause')).toBe(false);
  });

  test.each([['TypeError', TypeError], ['RangeError', RangeError]])('%s', async (code, Class) => {
    const error = await failing(code, { message: 'why' });
    expect(error).toBeInstanceOf(Class);
    expect(error.message).toBe('why');
  });

  test('the chain of causes can be followed', async () => {
    const root = { code: 'OperationError', message: 'dispatch [first]: a kernel failed' };
    const middle = { code: 'OperationError', message: 'dispatch [second]: an input is errored', cause: root };
    const error = await failing('OperationError', { message: 'readTensor: the tensor is errored', cause: middle });
    expect(error.cause).toBeInstanceOf(DOMException);
    expect([error.cause.message, error.cause.cause.message]).toEqual([middle.message, root.message]);
    expect(error.cause.cause.cause).toBeUndefined();
    expect(Object.getOwnPropertyDescriptor(error, 'cause').enumerable).toBe(false);
  });
});
