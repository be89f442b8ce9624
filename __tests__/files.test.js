'use strict';

// Files that script names: only regular ones, and links to them, are read. Others are refused at once: a device may have no end, and a pipe nobody who
// writes to it.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { pathToFileURL } = require('node:url');
const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, loadAdapter } = require('../lib/generate.js');
const { adapter, adapterFile } = require('./generate/adapters.js');
const { decoder } = require('./generate/decoders.js');

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-node-files-'));
const at = (name) => path.join(folder, name);

let context;
let model;
let cache;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  fs.writeFileSync(at('model.onnx'), decoder('GroupQueryAttention'));
  fs.writeFileSync(at('small.onnx_adapter'), adapterFile(adapter(2, 1).parameters));
  model = await loadOnnx(context, at('model.onnx'));
  cache = new GenerationCache();
  for await (const token of generate(model, [1, 2, 3], { maxNewTokens: 2, cache })) expect(token.sequence).toBe(0);
  await cache.save(at('talk.cache'));
});
afterAll(() => {
  context.destroy();
  fs.rmSync(folder, { recursive: true });
});

/** By name: a file that it reads, and what reads one. */
const readers = {
  loadAdapter: ['small.onnx_adapter', (file) => loadAdapter(file)],
  'loadAdapter of a URL': ['small.onnx_adapter', (file) => loadAdapter(pathToFileURL(file)), 'loadAdapter'],
  'GenerationCache.load': ['talk.cache', (file) => GenerationCache.load(model, file), 'load'],
  loadOnnx: ['model.onnx', (file) => loadOnnx(context, file)],
  'loadOnnx with map': ['model.onnx', (file) => loadOnnx(context, file, { map: true }), 'loadOnnx'],
};

/** What is no regular file, by what it is. */
const others = { 'a folder': folder };
if (process.platform !== 'win32') {
  execFileSync('mkfifo', [at('pipe')]);
  fs.symlinkSync(at('pipe'), at('link to a pipe'));
  Object.assign(others, { 'a pipe': at('pipe'), 'a device': '/dev/zero' });
}

describe.each(Object.entries(readers))('%s', (name, [file, read, operator = name]) => {
  test('refuses what is no regular file', async () => {
    for (const [found, other] of Object.entries(others)) {
      const message = `${other} is not a regular file but ${found}`;
      await expect(read(other)).rejects.toMatchObject({ name: 'OperationError', message: expect.stringContaining(message) });
      await expect(read(other)).rejects.toThrow(new RegExp(`^${operator}\\b`));
    }
  });

  test('refuses what is not there', async () => {
    const missing = at('missing');
    const refused = await read(missing).catch((error) => error);
    expect(refused).toMatchObject({ name: 'OperationError', message: expect.stringContaining(`${missing} cannot be read: `) });
    expect(refused.message).toMatch(new RegExp(`^${operator}\\b`));
  });

  // On Windows only administrators may make links.
  (process.platform === 'win32' ? test.skip : test)('follows links', async () => {
    fs.symlinkSync(at(file), at(`link of ${name}`));
    const found = await read(at(`link of ${name}`));
    found.destroy();
    await expect(read(at('link to a pipe'))).rejects.toThrow('is not a regular file but a pipe');
  });
});

test('saving takes the place of nothing but a file', async () => {
  for (const [found, other] of Object.entries(others)) await expect(cache.save(other)).rejects.toThrow(`${other} is not a regular file but ${found}`);
  await cache.save(at('talk.cache'));
});
