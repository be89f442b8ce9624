'use strict';

// https://www.w3.org/TR/webnn/#api-mlcontext

const { types } = require('node:util');
const { isMainThread } = require('node:worker_threads');
const native = require('./native.js');
const { bindTensors } = require('./bindings.js');
const { executionModes, requireBlocking } = require('./blocking.js');
const { bufferSource, bytesOf, validateBuffer, viewable } = require('./buffers.js');
const { beginWatched, signalMember } = require('./cancelling.js');
const { submit, toAnyCommandBuffer } = require('./command-buffer.js');
const { compute, computeSync } = require('./compute.js');
const { lost, traced } = require('./diagnostics.js');
const { leavesCore, warnOfFewerCores } = require('./cores.js');
const { constantTensorDescriptor, tensorDescriptor } = require('./descriptor.js');
const { folderOfEnvironment } = require('./disk-cache.js');
const { CONTEXT_LOST, conversionError, exception, invalidState, named, nativeError, typeError } = require('./errors.js');
const { process } = require('./globals.js');
const { toGraph } = require('./graph.js');
const { graphArguments, labelled, namedTensors, runOptions } = require('./graph-arguments.js');
const { construct, expose, illegalUnless, interfaceType, receiverOf, requireArguments } = require('./interface.js');
const graphCache = require('./graph-cache.js');
const { copyLimits } = require('./limits.js');
const { Order } = require('./order.js');
const { Queue } = require('./queue.js');
const { NORMAL, USUAL, isScheduled, priorityMember, scheduleOf, timeoutMember } = require('./scheduling.js');
const { begin, listen, refuseAll, unlisten, whenLost } = require('./settle.js');
const { createTensor, isDestroyed, tensorState, toTensor } = require('./tensor.js');
const { habits } = require('./event-loop-polling.js');
const { argument, dictionary, isObject, sequence } = require('./webidl.js');
const { trace } = require('./trace.js');
const { emitWarning } = require('./warnings.js');
const { toGPUDevice } = require('./webgpu/device.js');
const { exportToGPU, isExported, requireDevice } = require('./webgpu/sharing.js');

const collected = new FinalizationRegistry(({ order, handle }) => {
  unlisten(handle);
  order.timeline.forgetContext(handle);
});

let stateOf;

class MLContext {
  #state;

  constructor(key = undefined, state = undefined) {
    illegalUnless(key);
    this.#state = state;
  }

  get accelerated() {
    return self(this, 'accelerated').accelerated;
  }

  get lost() {
    try {
      return self(this, 'lost').whenLost;
    } catch (error) {
      return Promise.reject(error);
    }
  }

  get label() {
    return self(this, 'label').label;
  }

  /** An extension: how products of float32 may be computed (docs/extensions.md B7). */
  get fpMath() {
    return self(this, 'fpMath').fpMath;
  }

  dispatch(_graph, _inputs, _outputs, _options = undefined) {
    const context = self(this, 'dispatch');
    const { graph, tensors, label, schedule: given } = dispatchArguments(context, arguments);
    const schedule = scheduleOf(context, given);
    // A trace has the steps.
    if (isScheduled(schedule) || context.queue !== undefined || trace !== undefined) {
      dispatchWatched(context, graph, tensors, label, schedule);
      return;
    }
    try {
      context.order.dispatch(context.handle, graph.handle, tensors, graph.inputs.size, label);
    } catch (error) {
      throw nativeError(error);
    }
  }

  createTensor(descriptor) {
    try {
      const context = self(this, 'createTensor');
      try {
        requireArguments(arguments, 1);
        descriptor = argument('descriptor', descriptor, tensorDescriptor);
      } catch (error) {
        throw conversionError(error, 'createTensor');
      }
      return newTensor('createTensor', context, descriptor);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Of the Candidate Recommendation Draft of 10 September 2026 (docs/extensions.md F2). */
  createExportableTensor(descriptor, gpuDevice) {
    try {
      const context = self(this, 'createExportableTensor');
      try {
        requireArguments(arguments, 2);
        descriptor = argument('descriptor', descriptor, tensorDescriptor);
        gpuDevice = argument('gpuDevice', gpuDevice, toGPUDevice);
      } catch (error) {
        throw conversionError(error, 'createExportableTensor');
      }
      const create = () => newTensor('createExportableTensor', context, descriptor, gpuDevice);
      // The context is lost with its own device.
      if (gpuDevice === context.gpuDevice) return create();
      return requireDevice('createExportableTensor', descriptor.label, gpuDevice).then(create);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** Likewise: the tensor as a GPUBuffer, or a promise of one where it has to be copied (docs/extensions.md F2). */
  exportToGPU(tensor) {
    const context = self(this, 'exportToGPU');
    try {
      requireArguments(arguments, 1);
      tensor = argument('tensor', tensor, toTensor);
    } catch (error) {
      throw conversionError(error, 'exportToGPU');
    }
    try {
      requireUsable('exportToGPU', tensor.label, context, tensor);
      return exportToGPU(tensor);
    } catch (error) {
      // Where the tensor's text has a promise.
      if (tensor.sharing === 'exportable') return Promise.reject(error);
      throw error;
    }
  }

  createConstantTensor(descriptor, inputData) {
    try {
      const context = self(this, 'createConstantTensor');
      try {
        requireArguments(arguments, 2);
        descriptor = argument('descriptor', descriptor, constantTensorDescriptor);
        argument('inputData', inputData, bufferSource);
      } catch (error) {
        throw conversionError(error, 'createConstantTensor');
      }
      const { label } = descriptor;
      if (context.lost) throw invalidState('createConstantTensor', label, CONTEXT_LOST);
      const tensor = tensorState(context, descriptor, true);
      requireBuffer('createConstantTensor', label, "inputData", inputData, tensor);
      return begin(creation('createConstantTensor', tensor), (request) => {
        tensor.handle = context.order.createConstantTensor(request, context.handle, tensor.dataType, tensor.shape, viewable(inputData), label);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** With options, which are an extension, in the place of the memory or after it (docs/extensions.md C19). */
  readTensor(tensor, outputData = undefined, options = undefined) {
    try {
      const context = self(this, 'readTensor');
      let bringsBuffer = arguments.length > 1;
      let schedule = USUAL;
      try {
        requireArguments(arguments, 1);
        tensor = argument('tensor', tensor, toTensor);
        if (arguments.length === 2) {
          ({ bringsBuffer, schedule } = argument('outputData', outputData, bufferOrOptions));
        } else if (bringsBuffer) {
          argument('outputData', outputData, bufferSource);
          schedule = argument('options', options, readOptions);
        }
      } catch (error) {
        throw conversionError(error, 'readTensor');
      }
      const { label } = tensor;
      requireReadable('readTensor', context, tensor);
      if (bringsBuffer) requireBuffer('readTensor', label, "outputData", outputData, tensor, 'Int8Array');
      schedule.signal?.throwIfAborted();
      const buffer = allocate('readTensor', label, tensor.buffer.byteLength);
      const arrive = bringsBuffer ? () => copyInto(outputData, buffer, tensor) : () => buffer;
      return beginWatched({ operator: 'readTensor', label, context, object: tensor, soon: true, memory: buffer, arrive }, schedule, (request, watch) => {
        context.order.readTensor(request, tensor.handle, buffer, watch);
      });
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** An extension: blocks until the bytes are there (docs/extensions.md D4). */
  readTensorSync(tensor) {
    const context = self(this, 'readTensorSync');
    requireBlocking('readTensorSync', context);
    try {
      requireArguments(arguments, 1);
      tensor = argument('tensor', tensor, toTensor);
    } catch (error) {
      throw conversionError(error, 'readTensorSync');
    }
    requireReadable('readTensorSync', context, tensor);
    const buffer = new ArrayBuffer(tensor.buffer.byteLength);
    try {
      native.readTensorSync(tensor.handle, buffer);
    } catch (error) {
      throw nativeError(error);
    }
    return buffer;
  }

  writeTensor(tensor, inputData, options = undefined) {
    const context = self(this, 'writeTensor');
    let label = '';
    try {
      requireArguments(arguments, 2);
      tensor = argument('tensor', tensor, toTensor);
      argument('inputData', inputData, bufferSource);
      if (options !== undefined) ({ label } = argument('options', options, labelled));
    } catch (error) {
      throw conversionError(error, 'writeTensor', label);
    }
    requireUsable('writeTensor', label, context, tensor);
    requireHere('writeTensor', label, tensor);
    if (!tensor.writable) {
      throw typeError('writeTensor', label, "tensor: found an MLTensor that is not writable, allowed one created with {writable: true}");
    }
    requireBuffer('writeTensor', label, "inputData", inputData, tensor);
    try {
      context.order.writeTensor(tensor.handle, viewable(inputData), label);
    } catch (error) {
      throw nativeError(error);
    }
  }

  /** An extension: runs a graph on the caller's memory, in place (docs/extensions.md D1). */
  compute(_graph, _inputs, _outputs, _options = undefined) {
    try {
      const context = self(this, 'compute');
      return traced('run', () => ({ operator: 'compute', label: context.label, device: context.device }), () => compute(context, arguments));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** An extension: the same while the calling thread waits, and script keeps its memory (docs/extensions.md D4). */
  computeSync(_graph, _inputs, _outputs, _options = undefined) {
    const context = self(this, 'computeSync');
    requireBlocking('computeSync', context);
    return computeSync('computeSync', context, arguments);
  }

  /** An extension: enqueues what an MLCommandEncoder recorded (docs/extensions.md D5). */
  submit(buffers) {
    const context = self(this, 'submit');
    try {
      requireArguments(arguments, 1);
      buffers = argument('commandBuffers', buffers, sequence(toAnyCommandBuffer(context)));
    } catch (error) {
      throw conversionError(error, 'submit');
    }
    submit(context, buffers);
  }

  /** An extension: the ways to execute a graph that there are here (docs/extensions.md D6). */
  get executionModes() {
    return executionModes(self(this, 'executionModes'));
  }

  opSupportLimits() {
    const context = self(this, 'opSupportLimits');
    context.limits ??= native.opSupportLimits(context.handle);
    return copyLimits(context.limits);
  }

  /** Of the cache explainer, as are the next three (docs/extensions.md C23). */
  saveGraph(key, graph) {
    try {
      const context = self(this, 'saveGraph');
      try {
        requireArguments(arguments, 2);
        key = argument('key', key, graphCache.graphKey);
        graph = argument('graph', graph, toGraph);
      } catch (error) {
        throw conversionError(error, 'saveGraph');
      }
      return graphCache.save(context, key, graph);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  loadGraph(_key) {
    try {
      const context = self(this, 'loadGraph');
      return graphCache.load(context, keyArgument('loadGraph', arguments));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  listGraphs() {
    try {
      return graphCache.list(self(this, 'listGraphs'));
    } catch (error) {
      return Promise.reject(error);
    }
  }

  deleteGraph(_key) {
    const context = self(this, 'deleteGraph');
    graphCache.remove(context, keyArgument('deleteGraph', arguments));
  }

  /** An extension: resolves when another run may be asked for (docs/extensions.md C21). */
  ready() {
    try {
      const context = self(this, 'ready');
      if (context.lost) throw invalidState('ready', '', CONTEXT_LOST);
      return context.queue?.ready() ?? Promise.resolve();
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /** An extension: the bytes in use (docs/extensions.md C11). */
  memoryUsage() {
    return usage(self(this, 'memoryUsage'));
  }

  destroy() {
    const context = self(this, 'destroy');
    if (!context.lost) lose(context, 'destroy() was called on the MLContext');
  }

  static {
    stateOf = (value) => (typeof value === 'object' && value !== null && #state in value ? value.#state : undefined);
  }
}

expose(MLContext, stateOf);
const self = receiverOf('MLContext', stateOf);

/** The only argument of loadGraph() and deleteGraph(). */
function keyArgument(operator, given) {
  try {
    requireArguments(given, 1);
    return argument('key', given[0], graphCache.graphKey);
  } catch (error) {
    throw conversionError(error, operator);
  }
}

/** The arguments of dispatch(), with the tensors as the native side has them. */
function dispatchArguments(context, given) {
  const { graph, inputs, outputs, label, schedule } = graphArguments('dispatch', given, namedTensors, runOptions);
  if (graph.context !== context) {
    throw typeError('dispatch', label, "graph: found an MLGraph of another MLContext, allowed one that was built for this one");
  }
  if (graph.destroyed || context.lost) {
    throw invalidState('dispatch', label, "graph: found an MLGraph that was destroyed or whose MLContext was lost, allowed one that still exists");
  }
  return { graph, tensors: bindTensors('dispatch', label, context, graph, inputs, outputs), label, schedule };
}

/** Settled when the dispatch has ended. */
const dispatchEntry = (label) => ({ operator: 'dispatch', label, context: undefined, isOurs: true, arrive: () => undefined });

/** A dispatch that may be dropped, which its tensors then tell. Its request is settled when it has ended. */
function dispatchWatched(context, graph, tensors, label, schedule) {
  schedule.signal?.throwIfAborted();
  const leave = context.queue?.enter('dispatch', label);
  const entry = { ...dispatchEntry(label), peak: context.peak, ended: leave };
  let done;
  try {
    done = beginWatched(entry, schedule, (request, watch) => {
      context.order.dispatch(context.handle, graph.handle, tensors, graph.inputs.size, label, watch, request);
    });
  } catch (error) {
    leave?.();
    throw error;
  }
  // Who reads the tensors hears of it.
  done.catch(() => {});
}

/**
 * dispatch() for what watches it.
 * @param {any} context an MLContext
 * @param {ArrayLike<unknown>} given the arguments of dispatch()
 * @param {number} watch
 * @returns {Promise<void>} ends with it
 */
function dispatchUnder(context, given, watch) {
  const state = toContext(context);
  const { graph, tensors, label } = dispatchArguments(state, given);
  return begin(dispatchEntry(label), (request) => state.order.dispatch(state.handle, graph.handle, tensors, graph.inputs.size, label, watch, request));
}

/** Options of readTensor(). */
const readOptions = dictionary([priorityMember, signalMember, timeoutMember]);

/** The last argument of readTensor() with two: memory, or options, of which there is one at least. The specification has no options here. */
function bufferOrOptions(value) {
  if (!isObject(value) || ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) {
    bufferSource(value);
    return { bringsBuffer: true, schedule: USUAL };
  }
  const schedule = readOptions(value);
  if (!isScheduled(schedule)) bufferSource(value);
  return { bringsBuffer: false, schedule };
}

/** The first two steps of readTensor() and writeTensor(). */
function requireUsable(operator, label, context, tensor) {
  if (tensor.context !== context) {
    throw typeError(operator, label, "tensor: found an MLTensor of another MLContext, allowed one that was created by this one");
  }
  if (isDestroyed(tensor)) {
    throw typeError(operator, label, "tensor: found an MLTensor that was destroyed or whose MLContext was lost, allowed one that still exists");
  }
}

function requireHere(operator, label, tensor) {
  if (!isExported(tensor)) return;
  throw typeError(operator, label, "tensor: found an MLTensor that is exported to WebGPU, allowed one whose buffer was given back by its destroy()");
}

function requireReadable(operator, context, tensor) {
  requireUsable(operator, tensor.label, context, tensor);
  requireHere(operator, tensor.label, tensor);
  if (tensor.readable) return;
  throw typeError(operator, tensor.label, "tensor: found an MLTensor that is not readable, allowed one created with {readable: true}");
}

function requireBuffer(operator, label, place, source, tensor, bytes = undefined) {
  const problem = validateBuffer(source, tensor.buffer, bytes);
  if (problem !== undefined) throw typeError(operator, label, `${place}: ${problem}`);
}

/** The steps of createTensor() after its conversions. */
function newTensor(operator, context, descriptor, gpuDevice = undefined) {
  const { label, readable, writable } = descriptor;
  if (context.lost) throw invalidState(operator, label, CONTEXT_LOST);
  const tensor = tensorState(context, descriptor, false, gpuDevice);
  return begin(creation(operator, tensor), (request) => {
    tensor.handle = context.order.createTensor(request, context.handle, tensor.dataType, tensor.shape, readable, writable, label);
  });
}

/** Memory for a read; V8 says neither how much nor for what. */
function allocate(operator, label, byteLength) {
  try {
    return new ArrayBuffer(byteLength);
  } catch {
    throw exception('UnknownError', `${named(operator, label)}: cannot allocate ${byteLength} bytes`);
  }
}

/** The entry of a tensor in the making; script gets the object when its memory is there. */
function creation(operator, tensor) {
  return {
    operator,
    label: tensor.label,
    context: tensor.context,
    arrive: () => createTensor(tensor),
    fail: () => tensor.context.order.destroyTensor(tensor.handle),
  };
}

/** The bytes are there; the caller's memory was right at the call, and may have been detached or resized since. */
function copyInto(outputData, buffer, tensor) {
  requireBuffer('readTensor', tensor.label, "outputData, after the call", outputData, tensor, 'Int8Array');
  bytesOf(outputData).set(new Uint8Array(buffer));
}

/** "To lose an MLContext". Its graphs and tensors are destroyed by being those of a lost context. */
function lose(context, message) {
  context.lost = true;
  context.resolveLost({ message });
  refuseAll(context, message);
  context.queue?.end(invalidState('ready', '', CONTEXT_LOST));
  for (const hurry of context.delayed) hurry();
  unlisten(context.handle);
  context.order.destroyContext(context.handle);
}

function usage({ order, handle }) {
  return order.memoryUsage(handle);
}

/** The device or the system took it away. */
function loseUnasked(context, message) {
  lost(context, message);
  lose(context, message);
}

whenLost(loseUnasked);

// Drivers crash when they are in use while the process takes itself apart. Workers end before the main thread does. All copies
// of this module in a thread share the native functions, and so one listener.
function leaveDevicesAtExit() {
  const { leaveDevices } = native;
  if (isMainThread && !process.listeners('exit').includes(leaveDevices)) process.on('exit', leaveDevices);
}

/**
 * @param {number} handle
 * @param {boolean} accelerated
 * @param {'cpu' | 'gpu'} device
 * @param {string} label
 * @param {number} numThreads 0 for all that there are
 * @param {'strict' | 'bf16'} fpMath a permission, of which only the CPU has a use
 * @param {{priority?: number, timeout?: number, maxQueue?: number, cache?: string}} [options] how its runs are done that say nothing else, how many of
 *   them there may be, and the folder that keeps its graphs
 */
function createContext(handle, accelerated, device, label, numThreads, fpMath, { priority, timeout, maxQueue, cache } = {}) {
  if (device === 'gpu') leaveDevicesAtExit();
  const state = contextState(handle, accelerated, device, label, native);
  state.leavesCore = leavesCore(numThreads);
  if (device === 'cpu') {
    state.fpMath = fpMath;
    warnOfFewerCores(numThreads);
  } else if (!accelerated) {
    emitWarning('WEBNN_SOFTWARE_GPU', 'the only GPU is emulated by software on the CPU; a context of deviceType \'cpu\' is many times faster');
  }
  if (priority !== undefined) state.priority = priority;
  state.timeout = timeout;
  if (cache !== undefined) state.cache = cache;
  if (maxQueue !== undefined) state.queue = new Queue(maxQueue);
  state.habits = habits(state.leavesCore);
  return contextObject(state);
}

/**
 * A context on a GPUDevice of script's.
 * @param {number} handle
 * @param {boolean} accelerated
 * @param {InstanceType<typeof import('./webgpu/timeline').DeviceTimeline>} timeline
 */
function createDeviceContext(handle, accelerated, timeline) {
  const state = contextState(handle, accelerated, 'gpu', '', timeline);
  state.gpuDevice = timeline.device;
  const weak = new WeakRef(state);
  timeline.whenLost((message) => {
    const context = weak.deref();
    if (context !== undefined && !context.lost) loseUnasked(context, message);
  });
  return contextObject(state);
}

function contextState(handle, accelerated, device, label, timeline) {
  return {
    handle, accelerated, device, label, order: new Order(timeline),
    fpMath: 'strict', lost: false, limits: undefined, leavesCore: true, habits: undefined, gpuDevice: undefined,
    priority: NORMAL, timeout: undefined, queue: undefined, delayed: new Set(), peak: undefined, cache: folderOfEnvironment(),
  };
}

function contextObject(state) {
  state.whenLost = new Promise((resolve) => {
    state.resolveLost = resolve;
  });
  // What refers to the state thereby keeps the object, and so the native context, alive.
  state.object = new MLContext(construct, state);
  collected.register(state.object, { order: state.order, handle: state.handle });
  listen(state);
  return state.object;
}

const toContext = interfaceType('MLContext', stateOf);

/**
 * The only argument of a constructor.
 * @param {string} name of the interface
 * @param {IArguments} given
 * @param {unknown} context
 */
function contextArgument(name, given, context) {
  try {
    requireArguments(given, 1);
    return argument('context', context, toContext);
  } catch (error) {
    throw conversionError(error, name);
  }
}

/** The same, of a context that is not lost. */
function liveContextArgument(name, given, context) {
  const state = contextArgument(name, given, context);
  if (state.lost) throw invalidState(name, '', `context: ${CONTEXT_LOST}`);
  return state;
}

module.exports = { MLContext, contextArgument, createContext, createDeviceContext, dispatchUnder, liveContextArgument, toContext };
