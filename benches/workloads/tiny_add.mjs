// A graph that adds one to one number: nothing but the cost of a call.
import { OnnxModel } from '../onnx/model.mjs';

const CHAIN = 1000;
const BURST = 100;

export const metrics = {
  call: `JS thread, one dispatch (onnxruntime-node: one awaited run)`,
  chain: `one link in a chain of ${CHAIN}`,
  round_trip: 'input in, one dispatch, output out',
};

export const engines = {
  async 'webnn-node'({ threads }) {
    const { openContext, MLGraphBuilder } = await import('../engines/webnn-node.mjs');
    const context = await openContext({ threads });
    const builder = new MLGraphBuilder(context);
    const scalar = { dataType: 'float32', shape: [1] };
    const x = builder.input('x', scalar);
    const graph = await builder.build({ y: builder.add(x, builder.constant(scalar, Float32Array.of(1))) });
    const a = await context.createTensor({ ...scalar, readable: true, writable: true });
    const b = await context.createTensor({ ...scalar, readable: true, writable: true });
    const [there, back] = [
      [{ x: a }, { y: b }],
      [{ x: b }, { y: a }],
    ];
    const zero = Float32Array.of(0);
    const read = async (tensor) => new Float32Array(await context.readTensor(tensor))[0];

    return {
      async call(clock) {
        // The time until dispatch() has returned, and nothing of what happens on the timeline's thread.
        const start = clock();
        for (let i = 0; i < BURST; i++) context.dispatch(graph, ...there);
        const elapsed = clock() - start;
        await read(b);
        return elapsed / BURST;
      },
      async chain(clock) {
        context.writeTensor(a, zero);
        const start = clock();
        for (let i = 0; i < CHAIN; i += 2) {
          context.dispatch(graph, ...there);
          context.dispatch(graph, ...back);
        }
        const sum = await read(a);
        const elapsed = clock() - start;
        expect(sum, CHAIN);
        return elapsed / CHAIN;
      },
      async round_trip(clock) {
        const start = clock();
        context.writeTensor(a, zero);
        context.dispatch(graph, ...there);
        const sum = await read(b);
        const elapsed = clock() - start;
        expect(sum, 1);
        return elapsed;
      },
    };
  },

  async 'onnxruntime-node'({ threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const model = new OnnxModel();
    const x = model.input('x', [1]);
    model.output('y', model.operator('Add', [x, model.constant('one', [1], Float32Array.of(1))]), [1]);
    const session = await openSession(model.encode(), { threads });
    const zero = new Tensor('float32', Float32Array.of(0), [1]);

    return {
      async call(clock) {
        const start = clock();
        await session.run({ x: zero });
        return clock() - start;
      },
      async chain(clock) {
        let value = zero;
        const start = clock();
        for (let i = 0; i < CHAIN; i++) value = (await session.run({ x: value })).y;
        const elapsed = clock() - start;
        expect(value.data[0], CHAIN);
        return elapsed / CHAIN;
      },
      async round_trip(clock) {
        const start = clock();
        const { y } = await session.run({ x: new Tensor('float32', Float32Array.of(0), [1]) });
        const sum = y.data[0];
        const elapsed = clock() - start;
        expect(sum, 1);
        return elapsed;
      },
    };
  },
};

// Speed counts only for right answers.
function expect(found, wanted) {
  if (found !== wanted) throw new Error(`tiny_add: the result is ${found} and should be ${wanted}`);
}
