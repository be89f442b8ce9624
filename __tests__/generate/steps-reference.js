'use strict';

// Steps of decoders (steps.js) by onnxruntime-node: a list of {kind, steps} as JSON on the standard input, numbers on the standard output.

const { readFileSync } = require('node:fs');
const ort = require('onnxruntime-node');
const { decoder } = require('./decoders.js');
const { numbersOf, runSteps } = require('./steps.js');

async function main() {
  const found = [];
  for (const { kind, steps } of JSON.parse(readFileSync(0, 'utf8'))) {
    const session = await ort.InferenceSession.create(decoder(kind), { intraOpNumThreads: 1, graphOptimizationLevel: 'disabled', logSeverityLevel: 3 });
    const make = (type, data, shape) => new ort.Tensor(type, data, shape);
    found.push(numbersOf(await runSteps(session.inputMetadata, steps, (feeds) => session.run(feeds), make)));
    await session.release();
  }
  process.stdout.write(JSON.stringify(found));
}

main();
