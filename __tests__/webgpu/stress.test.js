/**
 * @jest-environment ./__tests__/webgpu/environment.js
 */
'use strict';

// Random programs with tensors that are rented to WebGPU and given back in between, beside a model that does one thing after the
// other; and work until a device is lost.

const webnn = require('../..');
const { importExternalBuffer } = require('../../lib/webgpu.js');
const { KINDS, runProgram } = require('../stress/programs.js');
const { chooseSeed } = require('../stress/random.js');
const { buildAdder, createTensors } = require('../adder.js');
const { newContext, newDevice, onDevice } = require('./device.js');

const seed = chooseSeed();

describe.each(Object.keys(KINDS))('F3: random programs on %s read what a sequential model reads, and no promise stays pending', (kind) => {
  onDevice('on a context of the device', async () => {
    const device = await newDevice();
    for (let i = 0; i < 4; i++) await runProgram(webnn, seed + i, 120, { kind, device, target: device, importExternalBuffer });
  });

  onDevice('on a context of the device, which is lost in the end', async () => {
    for (let i = 0; i < 2; i++) {
      const device = await newDevice();
      await runProgram(webnn, seed + i, 60, { kind, device, target: device, importExternalBuffer, end: () => device.destroy() });
    }
  });

  onDevice('on a context of another device', async () => {
    const [device, target] = [await newDevice(), await newDevice()];
    for (let i = 0; i < 2; i++) await runProgram(webnn, seed + i, 120, { kind, device, target, importExternalBuffer });
  });

  onDevice('on the CPU', async () => {
    const device = await newDevice();
    for (let i = 0; i < 2; i++) await runProgram(webnn, seed + i, 120, { kind, device, target: { accelerated: false }, importExternalBuffer });
  });
});

onDevice('a device that is lost in the middle leaves nothing pending', async () => {
  for (let round = 0; round < 4; round++) {
    const { context, device } = await newContext();
    const graph = await buildAdder(context);
    const [a, b, c, d] = await createTensors(context, 4);
    const shared = await context.createTensor({ dataType: 'float32', shape: [2], readable: true, writable: true, importableToWebGPU: true });
    const pending = [importExternalBuffer(device, { source: shared })];
    for (let i = 0; i < 40; i++) {
      if (i === 10 * round + 5) device.destroy();
      try {
        context.dispatch(graph, { a: i % 2 ? a : shared, b }, { c: i % 3 ? c : d });
      } catch (error) {
        expect(error.name).toMatch(/^(InvalidStateError|TypeError)$/);
      }
      pending.push(context.readTensor(i % 3 ? c : d), context.compute(graph, { a: new Float32Array(2), b: new Float32Array(2) }, { c: new Float32Array(2) }));
      if (i % 7 === 0) await new Promise((resolve) => {
        setImmediate(resolve);
      });
    }
    await context.lost;
    const ended = await Promise.allSettled(pending);
    for (const { status, reason } of ended) if (status === 'rejected') expect(reason.name).toMatch(/^(InvalidStateError|TypeError|OperationError|UnknownError)$/);
  }
});
