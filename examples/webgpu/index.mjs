// Reads a sheet of handwritten digits that never leaves the GPU: a shader draws it, another makes the network's input of it, the
// network runs on the same device, and a third shader draws what it found into the sheet. See README.md.

import { writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { PNG } from 'pngjs';
import { ml } from 'webnn-node';
import { openDevice } from './device.mjs';
import { CELL, draw, mark, scan } from './sheet.mjs';

const require = createRequire(import.meta.url);
const { buildNetwork, CLASSES, LARGEST_PIXEL, PIXELS, SIDE } = require('../digits/network.js');
const { readSafetensors } = require('../digits/safetensors.js');

const COLUMNS = 8;
const ROWS = 6;
const COUNT = COLUMNS * ROWS;
const WIDTH = COLUMNS * CELL.width;
const HEIGHT = ROWS * CELL.height;

const file = process.argv[2] ?? 'digits.png';
const read = (name) => readSafetensors(fileURLToPath(new URL(`../digits/${name}.safetensors`, import.meta.url)));

const { device, name, close } = await openDevice();
const context = await ml.createContext(device);
const graph = await buildNetwork(context, read('weights'), COUNT);
// Tensors that this device can have as buffers.
const images = await context.createExportableTensor({ dataType: 'float32', shape: [COUNT, 1, SIDE, SIDE] }, device);
const probabilities = await context.createExportableTensor({ dataType: 'float32', shape: [COUNT, CLASSES], readable: true }, device);

const { GPUBufferUsage: { STORAGE, COPY_SRC, COPY_DST, MAP_READ }, GPUMapMode } = globalThis;
const test = read('test-images');
const written = buffer(COUNT * PIXELS * 4, STORAGE | COPY_DST);
device.queue.writeBuffer(written, 0, Float32Array.from(test.images.data.subarray(0, COUNT * PIXELS), (pixel) => pixel / LARGEST_PIXEL));
const sheet = buffer(WIDTH * HEIGHT * 4, STORAGE | COPY_SRC);
const picture = buffer(WIDTH * HEIGHT * 4, MAP_READ | COPY_DST);
const pipelines = await Promise.all([draw, scan, mark].map((shader) => pipeline(shader(COLUMNS))));

// Nothing is awaited from here to the end, and nothing is copied: the buffers are the tensors' memory.
const begin = performance.now();
const input = context.exportToGPU(images);
const drawing = device.createCommandEncoder();
pass(drawing, pipelines[0], [written, sheet], [WIDTH / 8, HEIGHT / 8]);
pass(drawing, pipelines[1], [sheet, input], [COLUMNS, ROWS]);
device.queue.submit([drawing.finish()]);
// Back to WebNN, with what the shader wrote.
input.destroy();
context.dispatch(graph, { images }, { probabilities });
const output = context.exportToGPU(probabilities);
const marking = device.createCommandEncoder();
pass(marking, pipelines[2], [output, sheet], [WIDTH / 8, HEIGHT / 8]);
marking.copyBufferToBuffer(sheet, 0, picture, 0, picture.size);
device.queue.submit([marking.finish()]);
output.destroy();
await picture.mapAsync(GPUMapMode.READ);
const milliseconds = performance.now() - begin;

const png = new PNG({ width: WIDTH, height: HEIGHT });
png.data.set(new Uint8Array(picture.getMappedRange()));
writeFileSync(file, PNG.sync.write(png));
const found = new Float32Array(await context.readTensor(probabilities));
const right = Array.from({ length: COUNT }, (_, i) => likeliest(found.subarray(i * CLASSES, (i + 1) * CLASSES)) === test.labels.data[i]);
console.log(`${name}: ${COUNT} digits drawn, read and marked in ${milliseconds.toFixed(1)} ms, ${right.filter(Boolean).length} of them right`);
console.log(`see ${file}`);
context.destroy();
close();

function buffer(size, usage) {
  return device.createBuffer({ size, usage });
}

function pipeline(code) {
  return device.createComputePipelineAsync({ layout: 'auto', compute: { module: device.createShaderModule({ code }) } });
}

function pass(encoder, shader, buffers, [x, y]) {
  const entries = buffers.map((bound, binding) => ({ binding, resource: { buffer: bound } }));
  const recorded = encoder.beginComputePass();
  recorded.setPipeline(shader);
  recorded.setBindGroup(0, device.createBindGroup({ layout: shader.getBindGroupLayout(0), entries }));
  recorded.dispatchWorkgroups(x, y);
  recorded.end();
}

function likeliest(values) {
  return values.indexOf(Math.max(...values));
}
