'use strict';

// Text on a GPU, where there is one.

const { ml } = require('webnn-node');
const { generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');

async function main() {
  const context = await ml.createContext({ deviceType: 'gpu' }).catch(() => undefined);
  const ids = [];
  if (context) {
    const model = await loadOnnx(context, 'model.onnx');
    for await (const { id } of generate(model, [5, 6, 7, 8], { maxNewTokens: 3, temperature: 0, stop: [] })) ids.push(id);
  }
  console.log(context ? ids.join() : 'no GPU');
}

main();
