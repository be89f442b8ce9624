// Runs pipelines in plain Node, with one engine, and writes what they gave and what every session was given and gave:
// `node child.mjs ENGINE FOLDER RESULT JOBS`. ENGINE is onnxruntime, webnn (the symbol) or override (a package in its place); RESULT is a file for v8.deserialize(); JOBS a list
// of [case, dtype] as JSON.
import { writeFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import { serialize } from 'node:v8';
import { CASES } from './cases.mjs';

const [, , engine, folder, target, jobs] = process.argv;
const require = createRequire(import.meta.url);

/** How many sessions onnxruntime's binary made, and how many runs this package's engine computed. */
const counts = { onnxruntime: 0, webnn: 0 };

if (engine === 'webnn') await import('../../lib/transformers.mjs');
if (engine === 'override') {
  // What a package manager's override comes to.
  const { _resolveFilename: resolve } = Module;
  const replacement = require.resolve('../../packages/onnxruntime-node/index.js');
  Module._resolveFilename = (request, ...rest) => {
    if (request === 'onnxruntime-node') return replacement;
    return request.startsWith('webnn-node/') ? require.resolve(`../../lib/${request.slice('webnn-node/'.length)}`) : resolve.call(Module, request, ...rest);
  };
}

// Of the copy that transformers.js imports: require() gives the same modules as its own require() of the package.
const fromTransformers = createRequire(require.resolve('@huggingface/transformers'));
const isBinary = (name) => /[/\\]onnxruntime_binding\.node$/.test(name);
if (engine !== 'override') {
  const { binding } = fromTransformers(fromTransformers.resolve('onnxruntime-node').replace(/index\.js$/, 'binding.js'));
  const Native = binding.InferenceSession;
  binding.InferenceSession = class extends Native {
    constructor(...args) {
      super(...args);
      counts.onnxruntime++;
    }
  };
}
if (engine !== 'onnxruntime') {
  const native = require('../../lib/native.js');
  // Whole models, and the steps of decoders.
  for (const name of ['runOnnx', 'runStep']) {
    const run = native[name];
    native[name] = (...args) => {
      counts.webnn++;
      return run(...args);
    };
  }
}

const ort = globalThis[Symbol.for('onnxruntime')] ?? fromTransformers('onnxruntime-node');
const { create } = ort.InferenceSession;
let runs = [];

const plain = (tensors) =>
  Object.fromEntries(Object.entries(tensors).map(([name, { type, dims, data }]) => [name, { type, dims: [...dims], data: new data.constructor(data) }]));

// transformers.js calls it as a method of this class.
ort.InferenceSession.create = async function (...args) {
  const session = await create.apply(this, args);
  const file = typeof args[0] === 'string' ? args[0].replace(/^.*[/\\]/, '') : undefined;
  const { run } = session;
  session.run = async function (feeds, ...rest) {
    const given = plain(feeds);
    const outputs = await run.call(session, feeds, ...rest);
    // Helper graphs of transformers.js's own have no file.
    runs.push({ file, inputs: given, outputs: plain(outputs) });
    return outputs;
  };
  return session;
};

const { env, pipeline, RawImage } = await import('@huggingface/transformers');
env.allowRemoteModels = false;
env.localModelPath = folder;
env.logLevel = 50;

/** A result without classes. */
function cleaned(value) {
  if (Array.isArray(value)) return value.map(cleaned);
  if (ArrayBuffer.isView(value)) return value;
  if (typeof value !== 'object' || value === null) return value;
  if (value.ort_tensor !== undefined) return { dims: [...value.dims], data: new value.data.constructor(value.data) };
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, cleaned(inner)]));
}

const results = [];
for (const [name, dtype] of JSON.parse(jobs)) {
  const { task = name, model, inputs } = CASES[name];
  runs = [];
  const found = { name, dtype, runs, outputs: [] };
  try {
    const pipe = await pipeline(task, model, { dtype, device: engine === 'webnn' ? 'auto' : 'cpu' });
    for (const args of inputs) {
      const [first, ...rest] = args;
      const input = first.width === undefined ? first : new RawImage(first.data, first.width, first.height, 3);
      found.outputs.push(cleaned(await pipe(input, ...rest)));
    }
    await pipe.dispose();
  } catch (error) {
    found.error = `${error?.stack ?? error}`;
  }
  results.push(found);
}
const binary = Object.keys(require.cache).some(isBinary);
writeFileSync(target, serialize({ results, counts, binary, symbol: Symbol.for('onnxruntime') in globalThis }));
