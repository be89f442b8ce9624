'use strict';

// docs/extensions.md D5: recorded work.

const { ml, MLCommandBuffer, MLCommandEncoder } = require('..');
const { buildAdder, createTensors, float32, read, useContext } = require('./adder.js');

const held = useContext();
const floats = (...values) => Float32Array.from(values);

let adder, a, b, c;
beforeEach(async () => {
  adder = await buildAdder(held.context);
  [a, b, c] = await createTensors(held.context, 3);
});

function record(record, label = '') {
  const encoder = new MLCommandEncoder(held.context);
  encoder.initializeGraph(adder);
  record(encoder);
  return encoder.finish({ label });
}

const fibonacci = () =>
  record((encoder) => {
    encoder.dispatch(adder, { a, b }, { c });
    encoder.dispatch(adder, { a: b, b: c }, { c: a });
    encoder.dispatch(adder, { a: c, b: a }, { c: b });
  });

test('runs in order, and again and again', async () => {
  const commands = fibonacci();
  expect(commands).toBeInstanceOf(MLCommandBuffer);
  held.context.writeTensor(b, floats(1, 1));
  held.context.submit([commands]);
  expect(await read(held.context, b)).toEqual([3, 3]);
  held.context.submit([commands, commands]);
  held.context.submit(new Set([commands]).values());
  expect(await read(held.context, b)).toEqual([233, 233]);
});

test('nothing, and no dispatch', async () => {
  held.context.submit([]);
  held.context.submit([record(() => {})]);
  expect(await read(held.context, a)).toEqual([0, 0]);
});

test('labels', async () => {
  const encoder = new MLCommandEncoder(held.context);
  expect(encoder.finish({ label: 'mine\ud800' }).label).toBe('mine\ufffd');
  expect(record(() => {}).label).toBe('');
});

test('only what was initialized here', async () => {
  const encoder = new MLCommandEncoder(held.context);
  expect(() => encoder.dispatch(adder, { a, b }, { c })).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  encoder.initializeGraph(adder);
  encoder.dispatch(adder, { a, b }, { c });
});

test('nothing after finish()', () => {
  const encoder = new MLCommandEncoder(held.context);
  encoder.initializeGraph(adder);
  encoder.finish();
  for (const call of [
    () => encoder.initializeGraph(adder),
    () => encoder.dispatch(adder, { a, b }, { c }),
    () => encoder.finish(),
  ]) {
    expect(call).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  }
});

test('what does not fit is refused when it is recorded, and the recording goes on', async () => {
  const commands = record((encoder) => {
    expect(() => encoder.dispatch(adder, { a, b }, {})).toThrow(TypeError);
    expect(() => encoder.dispatch(adder, { a, b: a }, { c })).toThrow(TypeError);
    expect(() => encoder.dispatch({}, { a, b }, { c })).toThrow(TypeError);
    expect(() => encoder.dispatch(adder, { a, b })).toThrow(TypeError);
    encoder.dispatch(adder, { a, b }, { c });
  });
  held.context.writeTensor(a, floats(1, 2));
  held.context.submit([commands]);
  expect(await read(held.context, c)).toEqual([1, 2]);
});

test.each([
  ['an input', () => a.destroy(), 'MLTensor'],
  ['an output', () => c.destroy(), 'MLTensor'],
  ['the graph', () => adder.destroy(), 'MLGraph'],
])('when %s was destroyed, nothing of a submission runs', async (_, destroy, what) => {
  const [d] = await createTensors(held.context, 1);
  const other = await buildAdder(held.context);
  const encoder = new MLCommandEncoder(held.context);
  encoder.initializeGraph(other);
  encoder.dispatch(other, { a: b, b: d }, { c: (await createTensors(held.context, 1))[0] });
  const first = encoder.finish();
  const second = record((recording) => recording.dispatch(adder, { a, b }, { c }), 'second');
  held.context.submit([first, second]);
  destroy();
  expect(() => held.context.submit([first, second])).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  expect(() => held.context.submit([first, second])).toThrow(`submit [second]: the ${what}`);
  held.context.submit([first]);
});

test('what was destroyed can be recorded no more', () => {
  const encoder = new MLCommandEncoder(held.context);
  encoder.initializeGraph(adder);
  encoder.dispatch(adder, { a, b }, { c });
  b.destroy();
  expect(() => encoder.dispatch(adder, { a, b }, { c })).toThrow(TypeError);
  expect(() => encoder.finish()).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  adder.destroy();
  expect(() => new MLCommandEncoder(held.context).initializeGraph(adder)).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
});

test('contexts keep apart', async () => {
  const other = await ml.createContext();
  const commands = fibonacci();
  expect(() => other.submit([commands])).toThrow(TypeError);
  expect(() => new MLCommandEncoder(other).initializeGraph(adder)).toThrow(TypeError);
  const encoder = new MLCommandEncoder(other);
  const its = new MLCommandEncoder(other).finish();
  other.destroy();
  expect(() => other.submit([its])).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  expect(() => encoder.finish()).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  expect(() => new MLCommandEncoder(other)).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
});

test('foreign objects', () => {
  expect(() => new MLCommandBuffer()).toThrow('Illegal constructor');
  expect(() => new MLCommandEncoder()).toThrow(TypeError);
  expect(() => new MLCommandEncoder({})).toThrow(TypeError);
  expect(() => held.context.submit()).toThrow(TypeError);
  expect(() => held.context.submit(fibonacci())).toThrow("commandBuffers");
  expect(() => held.context.submit([Object.create(MLCommandBuffer.prototype)])).toThrow('element 0');
  for (const method of ['initializeGraph', 'dispatch', 'finish']) {
    expect(() => MLCommandEncoder.prototype[method].call({}, adder, {}, {})).toThrow(TypeError);
  }
});

test('a recording keeps what it needs', async () => {
  const v8 = require('node:v8');
  const vm = require('node:vm');
  v8.setFlagsFromString('--expose-gc');
  const collect = vm.runInNewContext('gc');
  const output = (await createTensors(held.context, 1))[0];
  const commands = await (async () => {
    const graph = await buildAdder(held.context);
    const [left, right] = await createTensors(held.context, 2);
    held.context.writeTensor(left, floats(1, 2));
    held.context.writeTensor(right, floats(10, 20));
    const encoder = new MLCommandEncoder(held.context);
    encoder.initializeGraph(graph);
    encoder.dispatch(graph, { a: left, b: right }, { c: output });
    return encoder.finish();
  })();
  for (let i = 0; i < 5; i++) {
    collect();
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  held.context.submit([commands]);
  expect(await read(held.context, output)).toEqual([11, 22]);
  expect(float32(2).shape).toEqual([2]);
});
