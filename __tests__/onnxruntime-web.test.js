'use strict';

// A real client of the API: onnxruntime-web with its WebNN execution provider, in plain Node on top of
// webnn-node/register (docs/extensions.md A2 and section 7).

const { execFile } = require('node:child_process');
const path = require('node:path');

const seed = process.env.WEBNN_SEED ?? '20260627';
const LIMIT = 50_000;
const TOLERANCE = 1e-4;

/** Every node of a session is on one provider, or the log lists them by providers. */
const PLACED = /All nodes placed on \[(\w+)\]/;

function run(model) {
  // V8 would go on for half a minute at exit, optimising onnxruntime-web's wasm.
  const args = ['--liftoff-only', path.join(__dirname, 'onnxruntime-web', 'client.mjs'), model, seed];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { timeout: LIMIT, killSignal: 'SIGKILL', maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      // Of the log, the end is what says why.
      if (error) reject(new Error(`${model}, WEBNN_SEED=${seed}: ${error.signal ?? error.code}\n${stderr.slice(-4000)}`));
      else resolve({ ...JSON.parse(stdout), log: stderr });
    });
  });
}

function largestDifference(found, expected) {
  const differences = found.data.map((value, i) => Math.abs(value - expected.data[i]));
  // NaN is the largest of all.
  return differences.reduce((largest, difference) => (difference <= largest ? largest : difference), 0);
}

test.each(['convolutional', 'transformer', 'quantized', 'lstm'])('A2: a %s network runs wholly on WebNN, as on onnxruntime-node', async (model) => {
  const { expected, first, second, tolerance = TOLERANCE, log } = await run(model);
  expect(PLACED.exec(log)?.[1]).toBe('WebNNExecutionProvider');
  expect(second).toEqual(first);
  expect(Object.keys(first)).toEqual(Object.keys(expected));
  for (const [name, output] of Object.entries(expected)) {
    const found = first[name];
    expect({ type: found.type, dims: found.dims }).toEqual({ type: output.type, dims: output.dims });
    const difference = largestDifference(found, output);
    if (!(difference <= tolerance)) throw new Error(`${model}: ${name} differs by ${difference}, allowed ${tolerance} (WEBNN_SEED=${seed})`);
  }
});
