'use strict';

// More of what the package does: `navigator.ml`, a cache of packed weights, onnxruntime-node's interface.

const { mkdtempSync } = require('node:fs');
const path = require('node:path');
require('webnn-node/register');
const { generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');
const { InferenceSession, Tensor } = require('webnn-node/onnxruntime');

const file = path.join(process.cwd(), 'model.onnx');

async function text(options) {
  const context = await navigator.ml.createContext({ accelerated: false });
  const model = await loadOnnx(context, file, options);
  const ids = [];
  for await (const { id } of generate(model, [5, 6, 7, 8], { maxNewTokens: 3, temperature: 0, stop: [] })) ids.push(id);
  return ids.join();
}

async function session() {
  const opened = await InferenceSession.create(file);
  const feeds = {};
  for (const { name, type, shape } of opened.inputMetadata) {
    const sizes = shape.map((size, axis) => (typeof size === 'number' ? size : axis === 2 ? 0 : 1));
    const count = sizes.reduce((product, size) => product * size, 1);
    feeds[name] = new Tensor(type, type === 'int64' ? new BigInt64Array(count) : new Float32Array(count), sizes);
  }
  const results = await opened.run(feeds);
  await opened.release();
  return Object.keys(results).length;
}

async function main() {
  // It is removed with the project: the cache may still be written when texts are there.
  const folder = mkdtempSync(path.join(process.cwd(), 'cache-'));
  const texts = [await text(), await text({ cache: folder }), await text({ cache: folder })];
  if (new Set(texts).size !== 1) throw new Error(`texts differ: ${texts}`);
  console.log(`${texts[0]}; ${await session()} outputs`);
}

main();
