'use strict';

// Warnings of the process, where a machine gives less than was asked for.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { tensor, writeModel } = require('./onnx/write.js');

let folder;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-warnings-'));
  const initializers = [tensor('w', 'uint8', [4, 4], new Uint8Array(16).fill(3))];
  const nodes = [{ op: 'MatMulInteger', name: 'product', inputs: ['x', 'w'], outputs: ['y'] }];
  writeFileSync(path.join(folder, 'integers.onnx'), writeModel({ opset: 17, inputs: [{ name: 'x', type: 'uint8', shape: [1, 4] }], outputs: [{ name: 'y' }], initializers, nodes }));
});
afterAll(() => rmSync(folder, { recursive: true }));

/** The codes and texts of the warnings of a program. */
function warnings(body, { options = [], environment = {} } = {}) {
  const script = `
    const { ml } = require(${JSON.stringify(path.join(__dirname, '..'))});
    const { loadOnnx } = require(${JSON.stringify(path.join(__dirname, '..', 'lib', 'onnx.js'))});
    const found = [];
    process.on('warning', ({ name, code, message }) => found.push([name, code, message]));
    (async () => {
      ${body}
      await new Promise((resolve) => setImmediate(resolve));
      console.log(JSON.stringify(found));
    })();`;
  const { status, stdout, stderr } = spawnSync(process.execPath, [...options, '-e', script], { cwd: folder, encoding: 'utf8', env: { ...process.env, ...environment } });
  expect([status, stderr]).toEqual([0, expect.anything()]);
  return { found: JSON.parse(stdout), stderr };
}

const contexts = (numThreads) => `for (let i = 0; i < 2; i++) await ml.createContext({ deviceType: 'cpu', numThreads: ${numThreads} });`;

test('more threads than cores are told once, with both figures', () => {
  const cores = os.availableParallelism();
  const { found, stderr } = warnings(contexts(cores + 3));
  expect(found).toEqual([['WebNNWarning', 'WEBNN_FEWER_CORES', `numThreads: found ${cores + 3} threads, but this process may use only ${cores} cores`]]);
  expect(stderr).toContain('[WEBNN_FEWER_CORES] WebNNWarning: numThreads');
  expect(warnings(contexts(cores))).toEqual({ found: [], stderr: '' });
  // As the documentation says, for one and for all. Node.js still tells programs of those that it does not print.
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || minor >= 11) expect(warnings(contexts(cores + 3), { options: ['--disable-warning=WEBNN_FEWER_CORES'] }).stderr).toBe('');
  expect(warnings(contexts(cores + 3), { options: ['--no-warnings'] }).stderr).toBe('');
});

test('a model of 8-bit integers on a CPU without instructions for them is told with the number of its products', () => {
  const load = `const context = await ml.createContext({ deviceType: 'cpu' });
    for (let i = 0; i < 2; i++) await loadOnnx(context, 'integers.onnx');`;
  const { found } = warnings(load, { environment: { WEBNN_CPU: 'portable' } });
  expect(found).toEqual([['WebNNWarning', 'WEBNN_NO_VNNI', expect.stringMatching(/^the model has 1 products of 8-bit integers, for which this CPU has no instructions/)]]);
});

test('a GPU in software is told, where there is one', () => {
  const { found } = warnings(`
    const context = await ml.createContext({ deviceType: 'gpu' }).catch(() => undefined);
    if (context?.accelerated === false) found.push('software');
    context?.destroy();`);
  const codes = found.filter((entry) => entry !== 'software').map(([, code]) => code);
  expect(codes).toEqual(found.includes('software') ? ['WEBNN_SOFTWARE_GPU'] : []);
});
