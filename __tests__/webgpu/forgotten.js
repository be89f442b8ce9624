'use strict';

// Makes one tensor on a GPUDevice after the other and forgets them, in a process of its own: prints the most bytes of them that were there at one
// time, and those of all.

const { ml } = require('../..');

const [COUNT, BYTES] = [128, 2 ** 24];

async function main() {
  const { create } = await import('webgpu');
  // Dawn works as long as somebody has it.
  const gpu = create([]);
  globalThis.webgpu = gpu;
  const adapter = await gpu.requestAdapter();
  const context = await ml.createContext(await adapter.requestDevice());
  let most = 0;
  for (let i = 0; i < COUNT; i++) {
    await context.createTensor({ dataType: 'uint8', shape: [BYTES] });
    most = Math.max(most, context.memoryUsage().tensors);
  }
  // At exit Dawn would wait for all devices.
  process.stdout.write(JSON.stringify({ most, all: COUNT * BYTES }), () => process.kill(process.pid, 'SIGKILL'));
}

main();
