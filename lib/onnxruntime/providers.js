'use strict';

// Execution providers: `cpu`, `webgpu` and `webnn` are contexts of this package. Sessions with equal options share a context: its threads, and
// tensors on its device.

const { toContext } = require('../context.js');
const { ml } = require('../ml.js');
const { isGPUDevice } = require('../webgpu/device.js');
const { isObject } = require('./session-options.js');

/** @typedef {{name: string, context: object, state: object}} Provider */

/** Contexts by what was asked for; a session keeps its own. @type {Map<string, WeakRef<object>>} */
const contexts = new Map();
/** @type {Map<string, Promise<object>>} */
const making = new Map();

/**
 * @param {{deviceType?: string, powerPreference?: string, numThreads?: number, fpMath?: string, performance?: 'latency' | 'throughput' | number}} options of a context
 * @returns {Promise<object>} the MLContext
 */
function contextFor(options) {
  const key = JSON.stringify([options.deviceType, options.powerPreference, options.numThreads, options.fpMath, options.performance]);
  const found = contexts.get(key)?.deref();
  if (found !== undefined && !toContext(found).lost) return Promise.resolve(found);
  let creating = making.get(key);
  if (creating === undefined) {
    creating = ml.createContext(options).then((context) => {
      contexts.set(key, new WeakRef(context));
      return context;
    }).finally(() => making.delete(key));
    making.set(key, creating);
  }
  return creating;
}

/** The context of a GPUDevice of the program's; sessions on it share it. @type {WeakMap<object, Promise<object>>} */
const ofDevices = new WeakMap();

async function contextOn(device) {
  const found = await ofDevices.get(device)?.catch(() => undefined);
  if (found !== undefined && !toContext(found).lost) return found;
  const creating = ml.createContext(device);
  ofDevices.set(device, creating);
  return creating;
}

const webgpuStrings = [
  ...['preferredLayout', 'validationMode', 'weightLoadAcceleration'],
  ...['storageBufferCacheMode', 'uniformBufferCacheMode', 'queryResolveBufferCacheMode', 'defaultBufferCacheMode'],
];
const webgpuBooleans = ['enableRobustness', 'enableMatmulFp32Accumulation'];

/** None but `device` changes anything; they are held against what they may be. */
function checkWebgpu(options) {
  const invalid = (what) => new TypeError(`Invalid argument: ${what}`);
  for (const [name, value] of Object.entries(options)) {
    if (webgpuStrings.includes(name)) {
      if (typeof value !== 'string') throw invalid(`"${name}" must be a string.`);
    } else if (webgpuBooleans.includes(name)) {
      if (typeof value !== 'boolean') throw invalid(`"${name}" must be a boolean.`);
    } else if (name === 'device') {
      if (value !== undefined && !isGPUDevice(value)) throw invalid('"device" must be a GPUDevice.');
    } else if (name === 'forceCpuNodeNames') {
      if (!Array.isArray(value)) throw invalid('"forceCpuNodeNames" must be a string array.');
      if (!value.every((text) => typeof text === 'string')) throw invalid('elements of "forceCpuNodeNames" must be strings.');
    } else if (name !== 'name') throw invalid(`WebGPU EP has an unrecognized option: '${name}'.`);
  }
}

/** What each provider makes of its options and the number of threads that the session wants. */
const PROVIDERS = {
  cpu: ({ fpMath, performance }, numThreads) => contextFor({ deviceType: 'cpu', numThreads, fpMath, performance }),
  async webgpu({ device }) {
    if (device !== undefined) return contextOn(device);
    const context = await contextFor({ deviceType: 'gpu' });
    if (toContext(context).device !== 'gpu') throw new Error('Failed to get a WebGPU adapter: No supported adapters');
    return context;
  },
  async webnn({ context, deviceType = 'cpu', powerPreference, numThreads, fpMath, performance }, threads) {
    if (context !== undefined && context !== null) return context;
    return contextFor({ deviceType, powerPreference, numThreads: numThreads ?? threads, fpMath, performance });
  },
};

const names = Object.keys(PROVIDERS);

/** As far as it is known without a model. */
function checkOptions({ name, options }, position) {
  if (name === 'webgpu') checkWebgpu(options);
  if (name === 'webnn' && options.context !== undefined && options.context !== null) {
    try {
      toContext(options.context);
    } catch (cause) {
      throw new TypeError(`Invalid argument: sessionOptions.executionProviders[${position}].context must be an MLContext of webnn-node.`, { cause });
    }
  }
}

/** @returns {{name: string, options: object}[]} */
function requested({ executionProviders }) {
  const list = executionProviders || [];
  if (!Array.isArray(list)) throw new TypeError('Invalid argument: sessionOptions.executionProviders must be an array.');
  return list.map((entry) => (isObject(entry) ? { name: entry.name, options: entry } : { name: typeof entry === 'string' ? entry : undefined, options: {} }));
}

/**
 * The first of the providers that a session asks for and that is available; those which are not are dropped with a warning.
 * @param {object} options of the session
 * @returns {Promise<Provider>}
 */
async function provider(options) {
  const list = requested(options);
  const failures = [];
  let found;
  for (const [position, entry] of list.entries()) {
    if (!names.includes(entry.name)) {
      failures.push({ name: entry.name, reason: 'backend not found.' });
      continue;
    }
    if (found !== undefined) continue;
    checkOptions(entry, position);
    try {
      found = { name: entry.name, context: await contextOf(entry, options) };
    } catch (error) {
      // Of a wrong type, such as a number of threads.
      if (error instanceof TypeError) throw error;
      failures.push({ name: entry.name, reason: `${error}` });
    }
  }
  if (list.length === 0) found = { name: 'default', context: await contextOf({ name: 'cpu', options: {} }, options) };
  if (found === undefined) {
    throw new Error(`no available backend found. ERR: ${failures.map(({ name, reason }) => `[${name}] ${reason}`).join(', ')}`);
  }
  for (const { name, reason } of failures) {
    console.warn(`removing requested execution provider "${name}" from session options because it is not available: ${reason}`);
  }
  return { ...found, state: toContext(found.context) };
}

/** The number of threads is checked with the other options, before anything is computed. */
function contextOf({ name, options }, { intraOpNumThreads: threads }) {
  const numThreads = Number.isInteger(threads) && threads > 0 && threads < 2 ** 32 ? threads : 0;
  return PROVIDERS[name](options, numThreads);
}

/** As onnxruntime-node's: what can be asked for. */
const listSupportedBackends = () => names.map((name) => ({ name, bundled: true }));

module.exports = { listSupportedBackends, provider };
