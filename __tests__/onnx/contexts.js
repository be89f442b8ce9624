'use strict';

const { ml } = require('webnn-node');

/**
 * Makes contexts before the tests of a file, or of a `describe`, and destroys them after: one on the CPU, and one on a GPU, which is
 * undefined where there is none.
 * @param {(cpu: MLContext, gpu: MLContext | undefined) => void} take
 */
function withContexts(take) {
  let cpu;
  let gpu;
  beforeAll(async () => {
    cpu = await ml.createContext({ accelerated: false });
    try {
      gpu = await ml.createContext({ deviceType: 'gpu' });
    } catch (error) {
      console.info(`no GPU is tested: ${error.message}`);
    }
    take(cpu, gpu);
  });
  afterAll(() => {
    cpu.destroy();
    gpu?.destroy();
  });
}

module.exports = { withContexts };
