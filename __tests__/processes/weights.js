'use strict';

// weights.js MODEL WIDTH: how many bytes more are resident at most, and in the end, when a model is opened and run for one row of
// that width and for four.
// What the process itself and a small model take is there before.

const { readFileSync, writeFileSync } = require('node:fs');
const { loadOnnx } = require('../../lib/onnx.js');
const { tensor, writeModel } = require('../onnx/write.js');
const { open } = require('./work.js');

const status = (name) => 1024 * Number(new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'latin1'))[1]);

async function run(context, model, width) {
  const loaded = await loadOnnx(context, model);
  for (const rows of [1, 4]) {
    const { y } = await loaded.run({ x: { data: new Float32Array(rows * width).fill(0.5), shape: [rows, width] } });
    if (!y.data.every(Number.isFinite)) throw new Error('found no numbers');
  }
  return loaded;
}

async function main() {
  const context = await open({ numThreads: 1 });
  const small = writeModel({
    opset: 21,
    inputs: [{ name: 'x', type: 'float', shape: ['rows', 32] }],
    outputs: [{ name: 'y' }],
    nodes: [{ op: 'MatMul', inputs: ['x', 'w'], outputs: ['y'] }],
    initializers: [tensor('w', 'float', [32, 32], new Float32Array(1024).fill(0.1))],
  });
  const kept = [await run(context, small, 32)];
  // From here on the greatest counts.
  writeFileSync('/proc/self/clear_refs', '5');
  const before = status('VmRSS');
  kept.push(await run(context, process.argv[2], Number(process.argv[3])));
  console.log(JSON.stringify({ peak: status('VmHWM') - before, resident: status('VmRSS') - before, kept: kept.length }));
}

main();
