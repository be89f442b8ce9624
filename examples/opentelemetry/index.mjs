// Runs a model for several clients, and prints the spans and metrics: node index.mjs MODEL.onnx
import { context, trace } from '@opentelemetry/api';
import { ml } from 'webnn-node';
import { loadOnnx } from 'webnn-node/onnx';
import { printMetrics, register } from './print.mjs';

const [, , file] = process.argv;
if (file === undefined) {
  console.error('node index.mjs MODEL.onnx');
  process.exit(2);
}

register();
await import('./telemetry.mjs');

const [CLIENTS, REQUESTS] = [4, 3];
const tracer = trace.getTracer('example');

/** Ones, with 1 for each open dimension. */
function inputsOf(model) {
  const arrays = { float32: Float32Array, int32: Int32Array, int64: BigInt64Array, uint8: Uint8Array };
  return Object.fromEntries(
    model.inputs.map(({ name, dataType, shape }) => {
      const sizes = shape.map((size) => (typeof size === 'number' ? size : 1));
      const array = new arrays[dataType](sizes.reduce((product, size) => product * size, 1));
      return [name, { data: array.fill(dataType === 'int64' ? 1n : 1), shape: sizes }];
    }),
  );
}

/** What a server does for a request. */
async function handle(model, inputs, options) {
  const span = tracer.startSpan('request');
  try {
    return await context.with(trace.setSpan(context.active(), span), () => model.run(inputs, options));
  } finally {
    span.end();
  }
}

const device = await ml.createContext({ deviceType: 'cpu' });
const model = await loadOnnx(device, file, { label: 'example', batching: { maxSize: 8 } });
const inputs = inputsOf(model);
const client = async () => {
  for (let i = 0; i < REQUESTS; i++) await handle(model, inputs);
};
await Promise.all(Array.from({ length: CLIENTS }, client));
// A failure is a span, too: this run takes more memory than it may.
await handle(model, inputs, { maxBytes: 1 }).catch(() => {});
model.destroy();
device.destroy();
printMetrics();
