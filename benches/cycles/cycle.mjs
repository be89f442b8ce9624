// Loads a model, runs it and releases it, here or as a worker.
import { isMainThread, workerData } from 'node:worker_threads';
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';
import { madeUp } from '../real/inputs.mjs';

/** @param {{threads: number}} settings */
export const newContext = ({ threads }) => ml.createContext({ deviceType: 'cpu', numThreads: threads });

export async function cycle(context, file, settings) {
  const model = await loadOnnx(context, file);
  const sizes = (shape) => shape.map((size) => (Number.isNaN(Number(size)) ? size : Number(size)));
  const inputs = madeUp(model.inputs.map(({ name, dataType, shape }) => ({ name, type: dataType, shape: sizes(shape) })), settings);
  await model.run(Object.fromEntries(inputs.map(({ name, shape, array }) => [name, { data: array, shape }])));
  model.destroy();
}

if (!isMainThread) {
  const { file, settings } = workerData;
  const context = await newContext(settings);
  await cycle(context, file, settings);
  context.destroy();
}
