'use strict';

// Programs with WEBNN_TRACE, in processes of their own.

const { spawnSync } = require('node:child_process');
const path = require('node:path');

const root = path.join(__dirname, '..', '..');
/** A program that waits for what never comes is killed. */
const LIMIT = 50_000;

/**
 * Runs a program in a folder with `model.onnx`. It has `ml`, `MLGraphBuilder`, `loadOnnx`, `trace` (of lib/trace.js), a context and the model.
 * @param {string} folder
 * @param {string} body
 * @param {string} trace WEBNN_TRACE
 * @param {{ deviceType?: string, options?: object, environment?: Record<string, string> }} [more] `options` of loadOnnx()
 */
function runTraced(folder, body, trace, { deviceType = 'cpu', options = {}, environment = {} } = {}) {
  const [all, onnx, own] = ['.', 'lib/onnx.js', 'lib/trace.js'].map((name) => JSON.stringify(path.join(root, name)));
  const script = `
    const { ml, MLGraphBuilder } = require(${all});
    const { loadOnnx } = require(${onnx});
    const { trace } = require(${own});
    (async () => {
      const context = await ml.createContext({ deviceType: '${deviceType}' });
      const model = await loadOnnx(context, 'model.onnx', ${JSON.stringify({ label: 'small', ...options })});
      ${body}
    })();`;
  return spawnSync(process.execPath, ['-e', script], { cwd: folder, encoding: 'utf8', timeout: LIMIT, env: { ...process.env, WEBNN_TRACE: trace, ...environment } });
}

/** Dispatches a graph and computes it, and ends when the trace has the steps of both: of a GPU they come after the results. */
const dispatchAndCompute = `
  const waiting = new Set(['dispatched', 'computed']);
  const alive = setInterval(() => {}, 1000);
  const { steps } = trace;
  trace.steps = function (label, ...rest) {
    steps.call(this, label, ...rest);
    waiting.delete(label);
    if (waiting.size === 0) clearInterval(alive);
  };
  const builder = new MLGraphBuilder(context);
  const descriptor = { dataType: 'float32', shape: [4] };
  const graph = await builder.build({ c: builder.add(builder.input('a', descriptor), builder.input('b', descriptor)) });
  const [a, b, c] = await Promise.all([1, 2, 3].map(() => context.createTensor({ ...descriptor, readable: true, writable: true })));
  context.dispatch(graph, { a, b }, { c }, { label: 'dispatched' });
  await context.readTensor(c);
  await context.compute(graph, { a: new Float32Array(4), b: new Float32Array(4) }, { c: new Float32Array(4) }, { label: 'computed' });`;

module.exports = { dispatchAndCompute, runTraced };
