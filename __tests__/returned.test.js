'use strict';

// Memory that was used for a while is the system's again.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { WIDTH, fourProducts } = require('./onnx/four-products.js');

const program = path.join(__dirname, 'processes', 'returned.js');

// Debian's package is libjemalloc2.
const places = ['/usr/lib', '/usr/local/lib'].flatMap((folder) => [folder, path.join(folder, `${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu`)]);
const jemalloc = places.map((folder) => path.join(folder, 'libjemalloc.so.2')).find((file) => fs.existsSync(file));
if (process.platform === 'linux' && jemalloc === undefined) console.warn('no libjemalloc.so.2 is installed, so its tests are skipped');

const allocators = [["the system's allocator", {}, process.platform === 'linux'], ['jemalloc', { LD_PRELOAD: jemalloc }, jemalloc !== undefined]];

describe.each(allocators)('resident memory with %s', (_, env, isThere) => {
  function measure(...args) {
    return JSON.parse(execFileSync(process.execPath, ['--expose-gc', program, ...args.map(String)], { encoding: 'utf8', env: { ...process.env, ...env } }));
  }
  const test = isThere ? globalThis.test : globalThis.test.skip;

  test('is what it was soon after a burst of writes', () => {
    const { before, highest, after } = measure('burst', 100);
    expect(highest - before).toBeGreaterThan(16 << 20);
    expect(after - before).toBeLessThan(24 << 20);
  }, 60_000);

  test('does not grow while models come and go', () => {
    const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-returned-'));
    const model = path.join(folder, 'model.onnx');
    fs.writeFileSync(model, fourProducts());
    // 4 MiB each time. What the allocator and V8 keep differs from process to process by as much as is allowed.
    const growth = () => {
      const { before, after } = measure('cycles', model, WIDTH, 100);
      return after / before;
    };
    let least = growth();
    for (let again = 0; again < 2 && least >= 1.05; again++) least = Math.min(least, growth());
    fs.rmSync(folder, { recursive: true });
    expect(least).toBeLessThan(1.05);
  }, 180_000);
});

// Another C library, and an allocator in its place, give free memory back as they like.
const isGlibc = process.platform === 'linux' && process.report.getReport().header.glibcVersionRuntime !== undefined && process.env.LD_PRELOAD === undefined;

(isGlibc ? test : test.skip)('small blocks of a context that has gone are the system\'s again, though others are between them', () => {
  const { before, after } = JSON.parse(execFileSync(process.execPath, ['--expose-gc', program, 'blocks', '64'], { encoding: 'utf8' }));
  expect(before).toBeGreaterThan(64 << 20);
  expect(after).toBeLessThan(before - (16 << 20));
}, 120_000);
