'use strict';

// npx webnn-node, in processes of its own.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { tensor, writeModel } = require('./onnx/write.js');

const program = path.join(__dirname, '..', 'bin', 'webnn-node.js');

function run(...args) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' });
  return { status, stdout, stderr };
}

let folder;
let model;
beforeAll(() => {
  folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-cli-'));
  model = path.join(folder, 'model.onnx');
  const write = (file, op) =>
    writeFileSync(
      file,
      writeModel({
        opset: 17,
        inputs: [{ name: 'x', type: 'float', shape: ['n', 2] }],
        outputs: [{ name: 'y' }],
        initializers: [tensor('one', 'float', [], Float32Array.of(1))],
        nodes: [{ op, name: 'only', inputs: ['x', 'one'], outputs: ['y'] }],
      }),
    );
  write(model, 'Add');
  write(path.join(folder, 'unsupported.onnx'), 'ImageDecoder');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** A .npy file. */
function npy(name, type, shape, array, order = 'False') {
  const header = `{'descr': '${type}', 'fortran_order': ${order}, 'shape': (${shape.join(', ')},), }`.padEnd(117) + '\n';
  const head = Buffer.concat([Buffer.from('\x93NUMPY\x01\x00', 'latin1'), Buffer.from([header.length & 255, header.length >> 8])]);
  const file = path.join(folder, name);
  writeFileSync(file, Buffer.concat([head, Buffer.from(header), Buffer.from(array.buffer)]));
  return file;
}

test('a terminal shows how much is loaded, until it is', () => {
  const shown = (terminal, ...args) => {
    const { status, stderr } = spawnSync(process.execPath, ['--require', path.join(__dirname, 'processes', terminal), program, ...args], { encoding: 'utf8' });
    expect(status).toBe(0);
    return stderr;
  };
  const add = ['cache', 'add', model, '--dimension', 'n=2', '--folder', path.join(folder, 'cache')];
  for (const args of [['run', model, '--dimension', 'n=2'], ['profile', model, '--dimension', 'n=2', '--repeat', '1'], add]) {
    const stderr = shown('terminal.js', ...args);
    expect(stderr).toMatch(/\r(loading|packing) model\.onnx \[#{30}\] 100 % of \d+ MiB, \d+ s, memory \d+ MiB/);
    expect(stderr.endsWith('\r\x1b[K')).toBe(true);
  }
  expect(shown('no-terminal.js', 'run', model, '--dimension', 'n=2')).toBe('');
});

test('run prints what came out', () => {
  const file = npy('x.npy', '<f4', [2, 2], Float32Array.of(1, 2, 3, 4));
  const { status, stdout } = run('run', model, '--dimension', 'n=2', '--input', `x=${file}`, '--repeat', '2', '--json');
  expect(status).toBe(0);
  const result = JSON.parse(stdout);
  expect(result.outputs).toEqual([{ name: 'y', type: 'float32', dataType: 'float32', shape: [2, 2], values: { min: 2, max: 5, mean: 3.5, notFinite: 0, first: [2, 3, 4, 5] } }]);
  expect(result.runs).toBe(2);
  const text = run('run', model, '--dimension', 'n=2');
  expect(text.status).toBe(0);
  expect(text.stdout).toContain('y  float32[2, 2]');
  // What is not there is not counted: on the CPU runs have no tensors.
  expect(text.stdout).toMatch(/memory: weights and code [\d.]+ MiB, process at its peak [\d.]+ MiB/);
});

test('WEBNN_VERBOSE=dispatch says what was chosen, and which steps were proposed and refused; WEBNN_IMPL what matches nothing', () => {
  const file = path.join(folder, 'convolutions.onnx');
  const nodes = [
    { op: 'Conv', inputs: ['x', 'expand'], outputs: ['expanded'] },
    { op: 'Conv', inputs: ['expanded', 'depthwise'], outputs: ['y'], attributes: { group: 4, kernel_shape: [3, 3] } },
  ];
  const initializers = [tensor('expand', 'float', [4, 2, 1, 1], new Float32Array(8)), tensor('depthwise', 'float', [4, 1, 3, 3], new Float32Array(36))];
  writeFileSync(file, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [1, 2, 5, 5] }], outputs: [{ name: 'y' }], initializers, nodes }));
  const env = { ...process.env, WEBNN_VERBOSE: 'dispatch', WEBNN_IMPL: '-conv.nothing', WEBNN_CPU: 'portable' };
  const { status, stderr } = spawnSync(process.execPath, [program, 'run', file], { encoding: 'utf8', env });
  expect(status).toBe(0);
  const lines = stderr.split('\n');
  const refused = /dispatch: conv2d \+ conv2d \[.*\] -> \[.*\]: refused \(portable, \d+ threads\); not conv\.expand_depthwise: [^;]+; not conv\.scaled_filter: /;
  expect(lines.filter((line) => refused.test(line))).toHaveLength(1);
  expect(lines.filter((line) => /dispatch: conv2d \[.*: conv\.\w+ \(portable, /.test(line))).toHaveLength(2);
  expect(stderr).toContain("WEBNN_IMPL: 'conv.nothing' matches no implementation; there are ");
});

test('run takes a number for all elements of an input, and constants', () => {
  const { status, stdout } = run('run', model, '--dimension', 'n=2', '--input', 'x=2.5', '--json');
  expect(status).toBe(0);
  expect(JSON.parse(stdout).outputs[0].values).toMatchObject({ min: 3.5, max: 3.5 });
  const file = npy('constant.npy', '<f4', [1, 2], Float32Array.of(1, 2));
  const fixed = run('run', model, '--dimension', 'n=1', '--constant', `x=${file}`, '--json');
  expect(JSON.parse(fixed.stdout)).toMatchObject({ inputs: [], outputs: [{ values: { first: [2, 3] } }] });
  const number = run('run', model, '--dimension', 'n=3', '--constant', 'x=0.5', '--json');
  expect(JSON.parse(number.stdout)).toMatchObject({ inputs: [], outputs: [{ shape: [3, 2], values: { min: 1.5, max: 1.5 } }] });
  expect(run('run', model, '--dimension', 'n=3', '--constant', 'w=0.5').status).toBe(2);
  const wrong = run('run', model, '--dimension', 'n=1', '--constant', `w=${file}`);
  expect(wrong).toMatchObject({ status: 1, stderr: expect.stringContaining('"x"') });
  writeFileSync(path.join(folder, 'broken.npy'), 'no array');
  const broken = run('run', model, '--dimension', 'n=1', '--input', `x=${path.join(folder, 'broken.npy')}`);
  expect(broken).toMatchObject({ status: 1, stderr: expect.stringContaining('broken.npy') });
});

test('run takes open dimensions from files, in either order', () => {
  // The same matrix: row by row, and column by column.
  const files = [npy('rows.npy', '<f4', [3, 2], Float32Array.of(1, 2, 3, 4, 5, 6)), npy('columns.npy', '<f4', [3, 2], Float32Array.of(1, 3, 5, 2, 4, 6), 'True')];
  for (const file of files) {
    const { status, stdout } = run('run', model, '--input', `x=${file}`, '--json');
    expect(status).toBe(0);
    expect(JSON.parse(stdout).outputs[0]).toMatchObject({ shape: [3, 2], values: { first: [2, 3, 4, 5, 6, 7] } });
  }
  const other = run('run', model, '--dimension', 'n=2', '--input', `x=${files[0]}`);
  expect(other).toMatchObject({ status: 2, stderr: expect.stringContaining('found float32[3, 2], allowed float32[2, 2]') });
});

test('run takes the shapes of inputs', () => {
  const { status, stdout } = run('run', model, '--shape', 'x=5x2', '--json');
  expect(status).toBe(0);
  expect(JSON.parse(stdout)).toMatchObject({ inputs: [{ name: 'x', shape: [5, 2] }], outputs: [{ shape: [5, 2] }] });
  expect(run('run', model)).toMatchObject({ status: 2, stderr: expect.stringContaining('pass one, such as --shape x=1x2') });
  expect(run('run', model, '--shape', 'x=5y2')).toMatchObject({ status: 2, stderr: expect.stringContaining('expected NAME=SIZExSIZE') });
  expect(run('run', model, '--shape', 'x=5x3')).toMatchObject({ status: 2, stderr: expect.stringContaining('--shape x=5x3: found [5, 3], allowed [n, 2]') });
  expect(run('run', model, '--shape', 'x=10')).toMatchObject({ status: 2, stderr: expect.stringContaining('found [10], allowed [n, 2]') });
  expect(run('run', model, '--shape', 'w=5')).toMatchObject({ status: 2, stderr: expect.stringContaining("the model's inputs are x") });
});

test('run says which scalars are made up', () => {
  const scalars = path.join(folder, 'scalars.onnx');
  const inputs = [{ name: 'x', type: 'float', shape: [2] }, { name: 'rate', type: 'int64', shape: [] }, { name: 'half', type: 'float16', shape: [] }];
  const nodes = ['x', 'rate', 'half'].map((name) => ({ op: 'Identity', inputs: [name], outputs: [`${name} again`] }));
  writeFileSync(scalars, writeModel({ opset: 17, inputs, outputs: nodes.map(({ outputs: [name] }) => ({ name })), nodes }));
  const { status, stdout, stderr } = run('run', scalars, '--json');
  expect(status).toBe(0);
  const [, rate, half] = JSON.parse(stdout).outputs.map(({ values }) => values.first[0]);
  expect(stderr).toBe(`the scalar input rate has a made-up value, ${rate}: set it with --input rate=NUMBER\nthe scalar input half has a made-up value, ${half}: set it with --input half=NUMBER\n`);
  const file = npy('rate.npy', '<i8', [1], BigInt64Array.of(16000n));
  for (const [given, shape] of [['16000', ''], ['16000', '1'], [file, '1x1']]) {
    const named = run('run', scalars, '--input', `rate=${given}`, '--shape', `rate=${shape}`, '--input', 'half=2', '--json');
    expect(named).toMatchObject({ status: 0, stderr: '' });
    expect(JSON.parse(named.stdout).outputs.slice(1).map(({ values }) => values.first)).toEqual([[16000], [2]]);
  }
  expect(run('run', scalars, '--shape', 'rate=2')).toMatchObject({ status: 2, stderr: expect.stringContaining('found [2], allowed []') });
});

test('inspect tells about nodes that are not supported', () => {
  const { status, stdout } = run('inspect', path.join(folder, 'unsupported.onnx'), '--dimension', 'n=1');
  expect(status).toBe(3);
  expect(stdout).toContain('only: ImageDecoder of ai.onnx version 17');
  const fine = run('inspect', model, '--json');
  expect(fine.status).toBe(0);
  expect(JSON.parse(fine.stdout)).toMatchObject({ parameters: 1, unsupported: [], openDimensions: ['n'], cuts: [] });
  expect(run('run', path.join(folder, 'unsupported.onnx'), '--dimension', 'n=1').status).toBe(3);
});

test('devices lists the CPU', () => {
  const { status, stdout } = run('devices', '--json');
  expect(status).toBe(0);
  expect(JSON.parse(stdout).devices[0]).toEqual({ deviceType: 'cpu', available: true, accelerated: false });
  expect(run('devices').stdout).toContain('cpu  ');
});

test('help, and exit codes', () => {
  expect(run('--help')).toMatchObject({ status: 0, stderr: '' });
  for (const command of ['run', 'inspect', 'devices']) expect(run(command, '--help')).toMatchObject({ status: 0, stderr: '' });
  for (const args of [[], ['fly'], ['run'], ['run', model, '--what'], ['run', model, '--repeat', '0'], ['run', model, '--input', 'x'], ['run', model, '--dimension', 'n=x'], ['run', model, '--device', 'abacus'], ['devices', 'x']]) {
    expect([args, run(...args).status]).toEqual([args, 2]);
  }
  expect(run('run', path.join(folder, 'missing.onnx')).status).toBe(1);
  expect(run('run', model).status).toBe(2);
  expect(run('run', model, '--dimension', 'n=1', '--input', 'w=random').status).toBe(2);
});
