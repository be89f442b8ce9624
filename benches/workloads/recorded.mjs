// A graph that adds two numbers: what a dispatch costs the JavaScript thread, one by one and recorded.
import { OnnxModel } from '../onnx/model.mjs';

const CHAIN = 1000;

export const metrics = {
  dispatch: 'JS thread, one dispatch with two inputs and one output (onnxruntime-node: one awaited run)',
  recorded: `JS thread, one of ${CHAIN} recorded dispatches in one submit() (onnxruntime-node: one awaited run)`,
  recorded_chain: `one link in a chain of ${CHAIN} that was recorded (onnxruntime-node: one awaited run)`,
};

export const engines = {
  async 'webnn-node'({ threads }) {
    const { openContext, MLCommandEncoder, MLGraphBuilder } = await import('../engines/webnn-node.mjs');
    const context = await openContext({ threads });
    const builder = new MLGraphBuilder(context);
    const scalar = { dataType: 'float32', shape: [1] };
    const graph = await builder.build({ c: builder.add(builder.input('a', scalar), builder.input('b', scalar)) });
    const tensor = () => context.createTensor({ ...scalar, readable: true, writable: true });
    const [one, x, y] = [await tensor(), await tensor(), await tensor()];
    context.writeTensor(one, Float32Array.of(1));
    const zero = Float32Array.of(0);
    const [there, back] = [
      [{ a: x, b: one }, { c: y }],
      [{ a: y, b: one }, { c: x }],
    ];
    const encoder = new MLCommandEncoder(context);
    encoder.initializeGraph(graph);
    for (let i = 0; i < CHAIN; i += 2) {
      encoder.dispatch(graph, ...there);
      encoder.dispatch(graph, ...back);
    }
    const commands = [encoder.finish()];

    async function sum() {
      expect(new Float32Array(await context.readTensor(x))[0], CHAIN);
    }
    return {
      async dispatch(clock) {
        context.writeTensor(x, zero);
        const start = clock();
        for (let i = 0; i < CHAIN; i += 2) {
          context.dispatch(graph, ...there);
          context.dispatch(graph, ...back);
        }
        const elapsed = clock() - start;
        await sum();
        return elapsed / CHAIN;
      },
      async recorded(clock) {
        context.writeTensor(x, zero);
        const start = clock();
        context.submit(commands);
        const elapsed = clock() - start;
        await sum();
        return elapsed / CHAIN;
      },
      async recorded_chain(clock) {
        context.writeTensor(x, zero);
        const start = clock();
        context.submit(commands);
        await sum();
        return (clock() - start) / CHAIN;
      },
    };
  },

  async 'onnxruntime-node'({ threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const model = new OnnxModel();
    model.output('c', model.operator('Add', [model.input('a', [1]), model.input('b', [1])]), [1]);
    const session = await openSession(model.encode(), { threads });
    const one = new Tensor('float32', Float32Array.of(1), [1]);

    async function run(clock) {
      let value = new Tensor('float32', Float32Array.of(0), [1]);
      const start = clock();
      for (let i = 0; i < CHAIN; i++) value = (await session.run({ a: value, b: one })).c;
      const elapsed = clock() - start;
      expect(value.data[0], CHAIN);
      return elapsed / CHAIN;
    }
    return { dispatch: run, recorded: run, recorded_chain: run };
  },
};

// Speed counts only for right answers.
function expect(found, wanted) {
  if (found !== wanted) throw new Error(`recorded: the result is ${found} and should be ${wanted}`);
}
