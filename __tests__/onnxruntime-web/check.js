'use strict';

// Runs a model with client.mjs, in a process of its own, and holds it against onnxruntime-node.

const { execFile } = require('node:child_process');
const path = require('node:path');

const seed = process.env.WEBNN_SEED ?? '20260627';
/** What a process may take; a driver in software compiles shaders of many shapes. */
const LIMITS = { cpu: 50_000, device: 280_000 };
const TOLERANCE = 1e-4;

/** Every node of a session is on one provider, or the log lists them by providers. */
const PLACED = /All nodes placed on \[(\w+)\]/;

function run(model, where) {
  // V8 would go on for half a minute at exit, optimising onnxruntime-web's wasm.
  const args = ['--liftoff-only', path.join(__dirname, 'client.mjs'), model, seed, where];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, args, { timeout: LIMITS[where], killSignal: 'SIGKILL', maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
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

/**
 * @param {string} model of models.mjs
 * @param {'cpu' | 'device'} [where] a context on the CPU, or on a GPUDevice of Dawn's
 */
async function check(model, where = 'cpu') {
  const { expected, first, second, tolerance = TOLERANCE, log } = await run(model, where);
  expect(PLACED.exec(log)?.[1]).toBe('WebNNExecutionProvider');
  expect(second).toEqual(first);
  expect(Object.keys(first)).toEqual(Object.keys(expected));
  for (const [name, output] of Object.entries(expected)) {
    const found = first[name];
    expect({ type: found.type, dims: found.dims }).toEqual({ type: output.type, dims: output.dims });
    const difference = largestDifference(found, output);
    if (!(difference <= tolerance)) throw new Error(`${model}: ${name} differs by ${difference}, allowed ${tolerance} (WEBNN_SEED=${seed})`);
  }
}

module.exports = { check };
