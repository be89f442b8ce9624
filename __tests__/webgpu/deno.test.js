'use strict';

// F1 on another WebGPU than Dawn: that of Deno, which runs addons of Node's. In a process of Deno's (deno/program.mjs).

const { spawnSync } = require('node:child_process');
const { existsSync } = require('node:fs');
const path = require('node:path');
const { environment, programOf } = require('../runtimes/programs.js');

const DRIVER = path.join(__dirname, '..', '..', 'target', 'swiftshader', 'vk_swiftshader_icd.json');

test('F1 to F5 on a GPUDevice of Deno\'s', () => {
  const deno = programOf('Deno');
  if (deno === undefined) {
    console.info('Deno is not tested: its package is not installed');
    return;
  }
  const driver = process.env.VK_DRIVER_FILES ?? (existsSync(DRIVER) ? DRIVER : undefined);
  const env = { ...environment, ...(driver && { VK_DRIVER_FILES: driver }) };
  const args = [...deno.args, '--unstable-webgpu', path.join(__dirname, 'deno', 'program.mjs')];
  const { status, stdout, stderr } = spawnSync(deno.program, args, { encoding: 'utf8', timeout: 50_000, env });
  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  const { why, accelerated, ...found } = JSON.parse(stdout.trim().split('\n').at(-1));
  if (why !== undefined) {
    console.info(`Deno is not tested: ${why}`);
    return;
  }
  expect(accelerated).toEqual(expect.any(Boolean));
  expect(found).toEqual({
    softmax: [269, 731, 269, 731],
    sum: [1, 0, 0, 1],
    doubled: [2, 0, 0, 2],
    imported: [2, 4, 6, 8],
    computed: [3, 3, 3, 3],
    left: [0, 0],
    lost: 'string',
    uncaptured: [],
  });
});
