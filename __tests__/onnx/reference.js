'use strict';

// A process of its own for onnxruntime-node: reads cases from a file, writes results to another. (Within jest its arrays
// would be of another realm.)
//
//   node reference.js CASES RESULTS

const { readFileSync, writeFileSync } = require('node:fs');
const ort = require('onnxruntime-node');
const { TYPES } = require('./write.js');

const NAMES = { float: 'float32', double: 'float64' };

async function main(from, to) {
  const results = [];
  for (const { model, inputs } of JSON.parse(readFileSync(from, 'utf8'))) results.push(await run(model, inputs));
  writeFileSync(to, JSON.stringify(results));
}

async function run(model, inputs) {
  try {
    const session = await ort.InferenceSession.create(Buffer.from(model, 'base64'), { logSeverityLevel: 4, intraOpNumThreads: 1 });
    const feeds = {};
    for (const { name, type, shape, data } of inputs) {
      const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
      feeds[name] = new ort.Tensor(NAMES[type] ?? type, new TYPES[type].array(bytes.buffer), shape);
    }
    const outputs = await session.run(feeds);
    return Object.entries(outputs).map(([name, { type, dims, data }]) => {
      const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString('base64');
      return { name, type: { float32: 'float', float64: 'double' }[type] ?? type, shape: [...dims], data: bytes };
    });
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
}

main(...process.argv.slice(2));
