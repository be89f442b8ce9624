// LiteRT.js in plain Node, on top of webnn-node/register.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import vm from 'node:vm';
import { MLContext } from 'webnn-node';
import 'webnn-node/register';

const require = createRequire(import.meta.url);

/** LiteRT.js calls WebNN from WebAssembly and waits there: that takes JavaScript Promise Integration. */
export const hasPromiseIntegration = 'Suspending' in WebAssembly;

/**
 * How many graphs were dispatched. What WebNN does not take, be it all of a model, LiteRT.js computes with kernels of its own, and
 * says so in its log only.
 */
export const dispatches = { count: 0 };

function countDispatches() {
  const { dispatch } = MLContext.prototype;
  MLContext.prototype.dispatch = function (...given) {
    dispatches.count += 1;
    return dispatch.apply(this, given);
  };
}

/**
 * What the loader misses in Node. It runs scripts as a worker of a browser does, with `importScripts()`, and finds what they
 * define in `self`; Emscripten's script then sees that this is Node, and wants what a module of CommonJS has.
 * @param {string} folder of the scripts
 */
function becomeWorker(folder) {
  globalThis.self = globalThis;
  globalThis.importScripts = (...files) => {
    for (const file of files) vm.runInThisContext(readFileSync(file, 'utf8'), { filename: file });
  };
  globalThis.require = require;
  globalThis.__dirname = folder;
  globalThis.__filename = path.join(folder, 'index.js');
}

/** @returns {Promise<typeof import('@litertjs/core')>} ready to load models */
export async function loadLiteRt() {
  if (!hasPromiseIntegration) {
    throw new Error('LiteRT.js needs WebAssembly.Suspending for WebNN: use Node.js 26, or 24 with --experimental-wasm-jspi');
  }
  const folder = path.join(path.dirname(require.resolve('@litertjs/core')), '..', 'wasm');
  becomeWorker(folder);
  countDispatches();
  const litert = await import('@litertjs/core');
  await litert.loadLiteRt(folder, { jspi: true });
  return litert;
}
