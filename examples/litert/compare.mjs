// One model on WebNN and on LiteRT.js's own kernels: outputs, times, and how often WebNN was asked.
import { dispatches } from './litert.mjs';

const product = (shape) => shape.reduce((a, b) => a * b, 1);

/** Numbers from 0 to 1, the same each time, as the pixels of a picture are. */
function pixels(count) {
  let state = 1;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  });
}

/** Runs the model on inputs that are the same for each accelerator; of several runs the fastest is timed. */
async function run(litert, bytes, options, runs) {
  const before = dispatches.count;
  const model = await litert.loadAndCompile(bytes, options);
  const inputs = model.getInputDetails().map(({ name, dtype, shape }) => {
    if (dtype !== 'float32') throw new Error(`input '${name}': found ${dtype}, allowed float32`);
    return new litert.Tensor(pixels(product([...shape])), [...shape]);
  });
  let outputs = [];
  let fastest = Infinity;
  for (let i = 0; i < runs; i++) {
    const start = performance.now();
    const results = await model.run(inputs);
    outputs = [];
    for (const result of results) {
      const here = await result.moveTo('wasm');
      outputs.push(here.toTypedArray().slice());
      here.delete();
    }
    fastest = Math.min(fastest, performance.now() - start);
  }
  inputs.forEach((input) => input.delete());
  model.delete();
  return { outputs, milliseconds: fastest, dispatches: dispatches.count - before };
}

/**
 * @param {typeof import('@litertjs/core')} litert
 * @param {Uint8Array} bytes of a .tflite file
 * @param {{ runs?: number }} [options]
 */
export async function compare(litert, bytes, { runs = 10 } = {}) {
  const own = await run(litert, bytes, { accelerator: 'wasm' }, runs);
  const webnn = await run(litert, bytes, { accelerator: 'webnn', webNNOptions: { devicePreference: 'cpu' } }, runs);
  return { own, webnn };
}
