'use strict';

// The environment of tests on a real WebGPU: Dawn, by the package `webgpu`, on SwiftShader, a driver in software. The driver is where
// VK_DRIVER_FILES says, or where `.ci/run` puts it. Tests find `webgpu`: `gpu` as browsers have it, and an adapter; or why there
// is none.

const { existsSync } = require('node:fs');
const path = require('node:path');
const { TestEnvironment } = require('jest-environment-node');

const DRIVER = path.join(__dirname, '..', '..', 'target', 'swiftshader', 'vk_swiftshader_icd.json');

/** Dawn's loader looks at the variable when it looks for adapters; others of this process are to find what they found before. */
async function withDriver(work) {
  const given = process.env.VK_DRIVER_FILES;
  if (given === undefined && existsSync(DRIVER)) process.env.VK_DRIVER_FILES = DRIVER;
  try {
    return await work();
  } finally {
    if (given === undefined) delete process.env.VK_DRIVER_FILES;
  }
}

async function open() {
  try {
    const { create } = await import('webgpu');
    const gpu = create([]);
    const adapter = await gpu.requestAdapter();
    return adapter ? { gpu, adapter } : { why: 'Dawn finds no adapter' };
  } catch (error) {
    return { why: error.message };
  }
}

class WebGpuEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.global.webgpu = await withDriver(open);
  }

  async teardown() {
    // Dawn works as long as somebody has it.
    this.global.webgpu = undefined;
    await super.teardown();
  }
}

module.exports = WebGpuEnvironment;
