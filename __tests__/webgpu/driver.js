'use strict';

// The driver of tests on a real WebGPU: where VK_DRIVER_FILES says, or SwiftShader where `.ci/run` puts it.

const { existsSync } = require('node:fs');
const path = require('node:path');

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

module.exports = { withDriver };
