'use strict';

// A network for images, with expansions and depthwise convolutions: prints some of its outputs.

const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');

const SIDE = 224;

async function main() {
  const context = await ml.createContext({ accelerated: false });
  const model = await loadOnnx(context, 'image.onnx');
  const image = Float32Array.from({ length: 3 * SIDE * SIDE }, (_, i) => Math.sin(i / 97) + Math.cos(i / 1013));
  const { classes } = await model.run({ image: { data: image, shape: [1, 3, SIDE, SIDE] } });
  const values = [...classes.data];
  console.log(JSON.stringify({ largest: Math.max(...values.map(Math.abs)), values: values.filter((_, i) => i % 50 === 0) }));
}

main();
