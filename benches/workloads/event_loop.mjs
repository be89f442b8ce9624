// A network of large products, one run after the other: how long it keeps the event loop from a timer of 1 ms.
import { OnnxModel } from '../onnx/model.mjs';

const [ROWS, WIDTH, LAYERS, RUNS] = [256, 1024, 8, 5];

export const metrics = {
  gap: 'the longest time between two ticks of a 1 ms timer while the network runs back to back',
};

const weights = Float32Array.from({ length: WIDTH * WIDTH }, (_, i) => Math.sin(i) / Math.sqrt(WIDTH));
const image = () => Float32Array.from({ length: ROWS * WIDTH }, (_, i) => Math.cos(i));

export const engines = {
  async 'webnn-node'({ threads }) {
    const { openContext, MLGraphBuilder } = await import('../engines/webnn-node.mjs');
    const context = await openContext({ threads });
    const builder = new MLGraphBuilder(context);
    const weight = builder.constant({ dataType: 'float32', shape: [WIDTH, WIDTH] }, weights);
    let x = builder.input('x', { dataType: 'float32', shape: [ROWS, WIDTH] });
    for (let i = 0; i < LAYERS; i++) x = builder.relu(builder.gemm(x, weight));
    const graph = await builder.build({ y: x });
    let inputs = { x: image() };
    let outputs = { y: new Float32Array(ROWS * WIDTH) };
    return {
      gap: (clock) =>
        longestGap(clock, async () => {
          ({ inputs, outputs } = await context.compute(graph, inputs, outputs));
        }),
    };
  },

  async 'onnxruntime-node'({ threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const model = new OnnxModel();
    const weight = model.constant('weight', [WIDTH, WIDTH], weights);
    let x = model.input('x', [ROWS, WIDTH]);
    for (let i = 0; i < LAYERS; i++) x = model.operator('Relu', [model.operator('MatMul', [x, weight])]);
    model.output('y', x, [ROWS, WIDTH]);
    const session = await openSession(model.encode(), { threads });
    const input = new Tensor('float32', image(), [ROWS, WIDTH]);
    return { gap: (clock) => longestGap(clock, () => session.run({ x: input })) };
  },
};

async function longestGap(clock, run) {
  let [last, longest] = [clock(), 0];
  const tick = () => {
    const now = clock();
    longest = Math.max(longest, now - last);
    last = now;
  };
  const timer = setInterval(tick, 1);
  for (let i = 0; i < RUNS; i++) await run();
  clearInterval(timer);
  tick();
  return longest;
}
