// The network of large products that several workloads run, on either engine.
import { OnnxModel } from './onnx/model.mjs';

/** By engine: networks of one context, or of the sessions that stand for one; each gives as many clients as are wanted. */
export const networks = {
  async 'webnn-node'({ threads }) {
    const { openContext, MLGraphBuilder } = await import('./engines/webnn-node.mjs');
    const context = await openContext({ threads });
    return async ({ rows, width, layers }) => {
      const builder = new MLGraphBuilder(context);
      const weight = builder.constant({ dataType: 'float32', shape: [width, width] }, weights(width));
      let x = builder.input('x', { dataType: 'float32', shape: [rows, width] });
      for (let i = 0; i < layers; i++) x = builder.relu(builder.gemm(x, weight));
      const graph = await builder.build({ y: x });
      return () => {
        let inputs = { x: image(rows, width) };
        let outputs = { y: new Float32Array(rows * width) };
        return async () => {
          ({ inputs, outputs } = await context.compute(graph, inputs, outputs));
        };
      };
    };
  },

  async 'onnxruntime-node'({ threads }) {
    const { openSession, Tensor } = await import('./engines/onnxruntime-node.mjs');
    return async ({ rows, width, layers }) => {
      const model = new OnnxModel();
      const weight = model.constant('weight', [width, width], weights(width));
      let x = model.input('x', [rows, width]);
      for (let i = 0; i < layers; i++) x = model.operator('Relu', [model.operator('MatMul', [x, weight])]);
      model.output('y', x, [rows, width]);
      const session = await openSession(model.encode(), { threads });
      return () => {
        const input = new Tensor('float32', image(rows, width), [rows, width]);
        return async () => {
          await session.run({ x: input });
        };
      };
    };
  },
};

const single = (engine) => async (options) => {
  const open = await networks[engine](options);
  const client = await open(options);
  return client();
};

/** @returns {Promise<() => Promise<void>>} one run, on the results' memory of the run before */
export const products = Object.fromEntries(Object.keys(networks).map((engine) => [engine, single(engine)]));

function weights(width) {
  return Float32Array.from({ length: width * width }, (_, i) => Math.sin(i) / Math.sqrt(width));
}

function image(rows, width) {
  return Float32Array.from({ length: rows * width }, (_, i) => Math.cos(i));
}
