'use strict';

// Results of models with inputs that reference.py wrote, strict and by way of bfloat16: node ours.cjs FOLDER MODEL...

const fs = require('node:fs');
const path = require('node:path');
const { ml } = require('../..');
const { loadOnnx } = require('../../lib/onnx.js');

const ARRAYS = { float32: Float32Array, int64: BigInt64Array };

async function main([folder, ...models]) {
  for (const fpMath of ['strict', 'bf16']) {
    const context = await ml.createContext({ deviceType: 'cpu', fpMath });
    for (const file of models) {
      const name = path.basename(file, '.onnx');
      const model = await loadOnnx(context, file);
      const inputs = fs.readdirSync(folder).filter((one) => one.startsWith(`${name}.`) && one.includes('.in.'));
      for (const number of new Set(inputs.map((one) => one.split('.')[1]))) {
        const feed = {};
        for (const { name: key, dataType } of model.inputs) {
          const bytes = fs.readFileSync(path.join(folder, `${name}.${number}.in.${key}`));
          feed[key] = new ARRAYS[dataType](bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
        }
        const [{ data }] = Object.values(await model.run(feed));
        fs.writeFileSync(path.join(folder, `${name}.${number}.${fpMath}`), data);
      }
      model.destroy();
    }
    context.destroy();
  }
}

main(process.argv.slice(2));
