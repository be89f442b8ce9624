'use strict';

// examples/embeddings with a small model: what it answers, refuses, and lets go of.

const { mkdirSync, cpSync, rmSync, symlinkSync } = require('node:fs');
const http = require('node:http');
const path = require('node:path');
const { once } = require('node:events');
const { spawn } = require('node:child_process');
const { unpackModels } = require('./transformers/models.js');

const ROOT = path.join(__dirname, '..');
let folder;
let server;
let port;

/** The example as somebody has it who installed its packages. */
function install() {
  const target = path.join(folder, 'example');
  cpSync(path.join(ROOT, 'examples', 'embeddings'), target, { recursive: true, filter: (name) => !/node_modules|weights|[/\\]model$/.test(path.relative(ROOT, name)) });
  mkdirSync(path.join(target, 'node_modules', '@huggingface'), { recursive: true });
  symlinkSync(ROOT, path.join(target, 'node_modules', 'webnn-node'), 'junction');
  symlinkSync(path.join(ROOT, 'node_modules', '@huggingface', 'tokenizers'), path.join(target, 'node_modules', '@huggingface', 'tokenizers'), 'junction');
  return target;
}

beforeAll(async () => {
  folder = unpackModels();
  server = spawn(process.execPath, [path.join(install(), 'index.mjs'), '--model', path.join(folder, 'minilm'), '--port', '0'], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout, 'data');
  port = Number(/:(\d+)\s*$/.exec(String(line))[1]);
});

afterAll(async () => {
  if (server?.exitCode === null) {
    server.kill();
    await once(server, 'exit');
  }
  rmSync(folder, { recursive: true, force: true });
});

const post = async (body) => {
  const response = await fetch(`http://127.0.0.1:${port}/embeddings`, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });
  return [response.status, await response.json()];
};
const status = async () => (await fetch(`http://127.0.0.1:${port}/status`)).json();
const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

test('texts become vectors, the same ones alone and among others', async () => {
  const texts = ['the dog runs in the city', 'a cat', 'music, and a king and a queen by the river in winter'];
  const [code, { embeddings }] = await post({ texts });
  expect(code).toBe(200);
  expect(embeddings.map((vector) => vector.length)).toEqual([32, 32, 32]);
  for (const [i, text] of texts.entries()) {
    const [, alone] = await post({ texts: [text] });
    expect(cosine(alone.embeddings[0], embeddings[i])).toBeCloseTo(1, 5);
  }
  expect(cosine(embeddings[0], embeddings[2])).toBeLessThan(0.999);
});

test.each([
  ['no JSON', '{', 400],
  ['no texts', {}, 400],
  ['numbers', { texts: [1] }, 400],
  ['too many', { texts: Array(257).fill('a') }, 413],
  ['too much', { texts: ['a'.repeat(1 << 20)] }, 413],
])('%s is refused', async (_, body, expected) => {
  const [code, { error }] = await post(body);
  expect([code, typeof error]).toEqual([expected, 'string']);
});

test('what a client no longer wants is not computed', async () => {
  const texts = Array.from({ length: 256 }, (_, i) => 'the big dog runs in the old city by the river '.repeat(1 + (i % 5)));
  let now = await status();
  // A client that is late may find nothing left to cancel; then it asks again.
  for (let cancelled = 0; cancelled < 100; ) {
    const before = now.cancelled;
    const request = http.request({ port, method: 'POST', path: '/embeddings' });
    let isOver = false;
    request.on('error', () => {}).on('response', (response) => {
      isOver = true;
      response.resume();
    });
    request.end(JSON.stringify({ texts }));
    do now = await status();
    while (now.waiting < 100 && !isOver);
    request.destroy();
    const [code] = await post({ texts: ['a cat'] });
    expect(code).toBe(200);
    do now = await status();
    while (now.waiting > 0);
    cancelled = now.cancelled - before;
  }
  expect(now.milliseconds.p99).toBeGreaterThanOrEqual(now.milliseconds.p50);
});
