'use strict';

// Another real client of the API: LiteRT.js, as examples/litert/ runs it. It needs JavaScript Promise Integration, which Node.js 26
// has, and 24 with a flag; `npm run test:nodes -- 26 litert` fetches one.

const { execFile, spawnSync } = require('node:child_process');
const path = require('node:path');

const LIMIT = 50_000;

// Rounding errors of sums in another order: at random, and each layer's as large as the first's. The network has 37 convolutions, the
// longest with 96 products for each output.
const TOLERANCE = 37 * Math.sqrt(96) * 2 ** -24;

const knows = "process.exit('Suspending' in WebAssembly ? 0 : 1)";
const flags = [[], ['--experimental-wasm-jspi']].find((some) => spawnSync(process.execPath, [...some, '-e', knows]).status === 0);

function run(...args) {
  // V8 would go on for long at exit, optimising LiteRT.js's wasm.
  const options = [...flags, '--liftoff-only', path.join(__dirname, 'litert', 'client.mjs'), ...args];
  return new Promise((resolve, reject) => {
    execFile(process.execPath, options, { timeout: LIMIT, killSignal: 'SIGKILL', maxBuffer: 1 << 26 }, (error, stdout, stderr) => {
      const result = /^RESULT (.*)$/m.exec(stdout)?.[1];
      if (error || !result) reject(new Error(`${error?.signal ?? error?.code}\n${stderr.slice(-4000)}`));
      else resolve({ ...JSON.parse(result), log: stdout });
    });
  });
}

const model = 'face_detection_short_range.tflite';

if (flags === undefined) console.info(`LiteRT.js is not tested: Node.js ${process.versions.node} has no WebAssembly.Suspending`);
const withPromiseIntegration = flags === undefined ? test.skip : test;

withPromiseIntegration('A2: a model of LiteRT runs wholly on WebNN, as on kernels of its own', async () => {
  const { own, webnn, log } = await run(model);
  expect(log).toContain('number of nodes in the graph: 164, number of nodes supported by WebNN: 164');
  expect(own.dispatches).toBe(0);
  expect(webnn.dispatches).toBe(2);
  expect(webnn.outputs.map((output) => output.length)).toEqual([896 * 16, 896]);
  webnn.outputs.forEach((output, i) => {
    const largest = Math.max(...own.outputs[i].map(Math.abs));
    const differences = output.map((value, j) => Math.abs(value - own.outputs[i][j]));
    expect(largest).toBeGreaterThan(1);
    expect(differences.every((difference) => difference <= TOLERANCE * largest)).toBe(true);
  });
});

withPromiseIntegration('what WebNN does not take LiteRT.js computes by itself, and no dispatch is counted', async () => {
  const { own, webnn, log } = await run(model, 'nothing');
  expect(log).toContain('number of nodes supported by WebNN: 0');
  expect(webnn).toEqual(own);
  expect(webnn.dispatches).toBe(0);
});
