// A model by loadOnnx(), with a folder of packed weights.
import { createRequire } from 'node:module';
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';

const native = createRequire(import.meta.url)('../../lib/native.js');

export async function open(threads) {
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: threads });
  const load = async (file, cache) => {
    const model = await loadOnnx(context, file, { cache });
    const sizes = (shape) => shape.map((size) => (Number.isNaN(Number(size)) ? size : Number(size)));
    const metadata = model.inputs.map(({ name, dataType, shape }) => ({ name, type: dataType, shape: sizes(shape) }));
    const run = (inputs) => model.run(Object.fromEntries(inputs.map(({ name, shape, array }) => [name, { data: array, shape }])));
    return { metadata, run };
  };
  return { load, finish: () => native.finishCache() };
}
