'use strict';

// docs/extensions.md E2–E8 with failures on purpose: an addon that was built for tests makes things fail when it is told to.
// `npm test` builds it; without it there is nothing to test here.

const fs = require('node:fs');
const path = require('node:path');

const addon = path.join(__dirname, '..', 'native', 'faults', `webnn-node.${process.platform}-${process.arch}.node`);
const mockAddon = addon;
jest.mock('../lib/native.js', () => jest.requireActual(mockAddon));

// Only `npm test` builds the addon that can fail on purpose; jest run alone has nothing to test here.
const describeFaults = fs.existsSync(addon) ? describe : describe.skip;
const floats = (...values) => Float32Array.from(values);

describeFaults('failures on purpose', () => {
  let webnn, planFault, context, graph, a, b, c;

  beforeAll(() => {
    webnn = require('..');
    ({ planFault } = require('../lib/native.js'));
  });
  beforeEach(async () => {
    context = await webnn.ml.createContext({ label: 'context' });
    graph = await build();
    [a, b, c] = await Promise.all([1, 2, 3].map(createTensor));
  });
  afterEach(() => context.destroy());

  const descriptor = { dataType: 'float32', shape: [2] };

  /** Three steps that the compiler leaves alone. */
  async function build() {
    const builder = new webnn.MLGraphBuilder(context);
    let x = builder.input('x', descriptor);
    ['one', 'two', 'three'].forEach((label) => {
      x = builder.cumulativeSum(x, 0, { label });
    });
    return builder.build({ y: x }, { label: 'graph' });
  }

  function createTensor() {
    return context.createTensor({ ...descriptor, readable: true, writable: true, label: 'tensor' });
  }

  const dispatch = (x, y, label) => context.dispatch(graph, { x }, { y }, { label });
  const failure = (promise) => promise.then(() => expect('a failure').toBe('there'), (error) => error);

  function chain(error) {
    return error === undefined ? [] : [error, ...chain(error.cause)];
  }

  describe.each([
    ['error', 'failed on purpose'],
    ['panic', 'panicked on purpose'],
    ['scratch', 'cannot allocate'],
  ])('E2, E3, E7: by %s', (kind, said) => {
    test.each([0, 1, 2])('in step %i', async (spared) => {
      planFault('step', kind, spared);
      dispatch(a, b, 'first');
      dispatch(b, c, 'second');
      const error = await failure(context.readTensor(c));
      expect(error).toBeInstanceOf(DOMException);
      const errors = chain(error);
      expect(errors.map(({ name }) => name)).toEqual(['OperationError', 'OperationError', 'OperationError']);
      expect(error.message).toContain('dispatch [second]');
      expect(error.message).toContain('dispatch [first]');
      expect(error.message).toContain(`cumulativeSum [${['one', 'two', 'three'][spared]}]`);
      expect(error.message).toContain(said);
      expect(errors[1].message).toMatch(/^dispatch \[second\]: /);
      expect(errors[2].message).toMatch(/^dispatch \[first\]: /);
      const into = new Float32Array(2);
      expect((await failure(context.readTensor(c, into))).name).toBe('OperationError');
    });
  });

  test('E4: a later success clears, and what was asked before still rejects', async () => {
    planFault('step', 'error', 0);
    dispatch(a, b, 'first');
    const before = failure(context.readTensor(b));
    context.writeTensor(b, floats(1, 2));
    const after = context.readTensor(b);
    expect((await before).name).toBe('OperationError');
    expect(new Float32Array(await after)).toEqual(floats(1, 2));
    dispatch(b, c, 'second');
    expect(new Float32Array(await context.readTensor(c))).toEqual(floats(1, 5));
  });

  test('E4: a failure that nobody reads disturbs nothing', async () => {
    const unhandled = [];
    const listener = (reason) => unhandled.push(reason);
    process.on('unhandledRejection', listener);
    for (const kind of ['error', 'panic', 'scratch', 'memory']) {
      planFault('step', kind, 0);
      dispatch(a, b, kind);
    }
    planFault('write', 'error', 0);
    context.writeTensor(c, floats(1, 2));
    await context.readTensor(a);
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
    process.off('unhandledRejection', listener);
    expect(unhandled).toEqual([]);
  });

  test('E5: a graph without memory says so for good', async () => {
    planFault('step', 'memory', 0);
    dispatch(a, b, 'first');
    expect((await failure(context.readTensor(b))).message).toContain('cannot allocate');
    dispatch(a, c, 'second');
    expect((await failure(context.readTensor(c))).message).toContain('dispatch [second]: the graph can never run again');
    const error = await failure(context.compute(graph, { x: floats(1, 2) }, { y: floats(0, 0) }, { label: 'third' }));
    expect(error.message).toContain('compute [third]: the graph can never run again');
    expect(error.inputs.x).toEqual(floats(1, 2));
    graph = await build();
    dispatch(a, b, '');
    await context.readTensor(b);
  });

  test('E2: a write', async () => {
    planFault('write', 'error', 0);
    context.writeTensor(a, floats(1, 2), { label: 'mine' });
    const error = await failure(context.readTensor(a));
    expect(error.name).toBe('OperationError');
    expect(error.message).toContain('writeTensor [mine]');
  });

  test('E8: a read that fails by itself', async () => {
    planFault('read', 'error', 0);
    expect((await failure(context.readTensor(a))).name).toBe('UnknownError');
    await context.readTensor(a);
  });

  test('a tensor without memory', async () => {
    planFault('allocate', 'memory', 0);
    expect((await failure(createTensor())).message).toMatch(/^createTensor \[tensor\]: /);
    await createTensor();
  });

  test('D3: compute() gives the memory back', async () => {
    planFault('step', 'panic', 1);
    const [x, y] = [floats(1, 2), floats(0, 0)];
    const error = await failure(context.compute(graph, { x }, { y }, { label: 'mine' }));
    expect(error.name).toBe('OperationError');
    expect(error.message).toContain('compute [mine]: cumulativeSum [two]: panicked: panicked on purpose');
    expect([x.length, y.length]).toEqual([0, 0]);
    expect(error.inputs.x).toEqual(floats(1, 2));
    const { outputs } = await context.compute(graph, error.inputs, error.outputs);
    expect(outputs.y).toEqual(floats(1, 5));
  });

  test('E6, B6: the end of the timeline loses the context', async () => {
    planFault('timeline', 'panic', 0);
    dispatch(a, b, '');
    const reading = failure(context.readTensor(b));
    expect((await context.lost).message).toContain('panicked on purpose');
    expect(['InvalidStateError', 'OperationError']).toContain((await reading).name);
    expect(() => dispatch(a, b, '')).toThrow();
  });
});
