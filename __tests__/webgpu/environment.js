'use strict';

// The environment of tests on a real WebGPU: Dawn, by the package `webgpu`, on SwiftShader, a driver in software (driver.js). Tests find
// `webgpu`: `gpu` as browsers have it, and an adapter; or why there is none.

const { TestEnvironment } = require('jest-environment-node');
const { withDriver } = require('./driver.js');

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

/**
 * At exit Dawn ends the threads of all devices that have not been collected, one after the other, each of which looks only now and then whether
 * it shall end. Jest waits for half a second. All tests have ended then; how processes with Dawn exit is tested in example.test.js.
 */
function exitAtOnce() {
  process.kill(process.pid, 'SIGKILL');
}

class WebGpuEnvironment extends TestEnvironment {
  async setup() {
    await super.setup();
    this.global.webgpu = await withDriver(open);
    // In jest's own process, where a single file runs, its exit code counts.
    const isWorker = process.send !== undefined;
    if (isWorker && !process.listeners('exit').includes(exitAtOnce)) process.on('exit', exitAtOnce);
  }

  async teardown() {
    // Dawn works as long as somebody has it.
    this.global.webgpu = undefined;
    await super.teardown();
  }
}

module.exports = WebGpuEnvironment;
