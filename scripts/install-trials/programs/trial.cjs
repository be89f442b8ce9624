'use strict';

// A first program, a model, and text: prints the results as one line of JSON.

const path = require('node:path');
const { ml, MLGraphBuilder } = require('webnn-node');
const { generate } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');

async function firstProgram(context) {
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', { dataType: 'float32', shape: [1, 2] });
  const w = builder.constant({ dataType: 'float32', shape: [2, 3] }, new Float32Array([1, 2, 3, 4, 5, -6]));
  const graph = await builder.build({ y: builder.relu(builder.add(builder.matmul(x, w), builder.constant('float32', 1))) });
  const input = await context.createTensor({ dataType: 'float32', shape: [1, 2], writable: true });
  const output = await context.createTensor({ dataType: 'float32', shape: [1, 3], readable: true });
  context.writeTensor(input, new Float32Array([10, 20]));
  context.dispatch(graph, { x: input }, { y: output });
  return [...new Float32Array(await context.readTensor(output))];
}

async function text(context, file) {
  const model = await loadOnnx(context, file);
  const ids = [];
  for await (const { id } of generate(model, [5, 6, 7, 8], { maxNewTokens: 12, temperature: 0, stop: [] })) ids.push(id);
  return { inputs: model.inputs.length, ids };
}

async function main() {
  const context = await ml.createContext({ accelerated: false });
  const file = process.env.TRIAL_MODEL ?? path.join(process.cwd(), 'model.onnx');
  console.log(JSON.stringify({ first: await firstProgram(context), ...(await text(context, file)) }));
}

main();
