'use strict';

// The timeline of a context on a GPUDevice (docs/extensions.md F1).
//
// The device belongs to the JavaScript thread, so all of its work happens there: a method has submitted its work to the device's queue when it returns.
// The queue is the timeline: later work, of WebNN or of script, comes later on the device. So an exported buffer contains what was dispatched before,
// and nothing waits except copies through the host (order.js). The native side compiles and lowers to WGSL on its threads; the result is a program
// (src/backend/wgpu/program.rs), which executable.js puts on the device.
//
// The functions are those of the native addon (`Timeline` in native.d.ts), so the rest of lib/ sees no difference. Handles are objects here: a
// `DeviceTensor`, an `Executable`, a list of recorded dispatches. Constant tensors are on the native side, because their bytes go into graphs.

const { setImmediate } = require('node:timers/promises');
const { types } = require('node:util');
const native = require('../native.js');
const { bytesOf } = require('../buffers.js');
const { givenUp } = require('../cancelling.js');
const { bufferFor } = require('../descriptor.js');
const { named } = require('../errors.js');
const { ask, events, settle } = require('../settle.js');
const { show } = require('../show.js');
const { Waiting } = require('../waiting.js');
const { COPY_DST, COPY_SRC, LIMITS, STORAGE, bufferSize, checked, isSoftware, readBytes, usableFeatures, writeBytes } = require('./device.js');
const { MOST_KNOWN, refusal } = require('./checks.js');
const { Part, Pipelines, createExecutable } = require('./executable.js');
const { GraphMemory } = require('./graph-memory.js');
const { Completion, failed, inherited } = require('./completion.js');
const { NONE, askFor, askForMany, doubtsOf, failureIn } = require('./findings.js');
const { DeviceTasks } = require('./device-tasks.js');
const { Timestamps } = require('./timestamps.js');

/** @typedef {import('../native').Cause} Cause */

const FINE = new Completion();
const USAGE = STORAGE | COPY_SRC | COPY_DST;

/** A tensor's memory. */
class DeviceTensor {
  /** Until it is there. @type {GPUBuffer | undefined} */
  buffer = undefined;
  /** All of it. @type {InstanceType<typeof Part> | undefined} */
  #whole;
  completion = FINE;
  /** WebGPU has it: it goes when it is given back. */
  exported = false;
  gone = false;
  /** What the host has written, if that is little and nothing else was written since. @type {Uint8Array | undefined} */
  known = undefined;
  /** Whether what it has was computed well. @type {import('./findings').Doubts} */
  doubts = NONE;
  /** Its memory is script's, who may write to it. */
  isAdopted = false;

  /**
   * @param {import('../native').DataType} dataType
   * @param {readonly number[]} shape
   * @param {string} label
   */
  constructor(dataType, shape, label) {
    this.dataType = dataType;
    this.shape = shape;
    this.byteLength = bufferFor(dataType, shape).byteLength;
    this.label = label;
  }

  /** As graphs have it. */
  get whole() {
    return (this.#whole ??= new Part(this.buffer));
  }

  /** WebGPU gives it back, with what it wrote. */
  takeBack() {
    this.exported = false;
    this.completion = FINE;
    this.known = undefined;
    this.doubts = NONE;
    if (this.gone) destroyBuffer(this.buffer);
  }
}

class DeviceTimeline {
  #handle;
  /** The bytes in use on the device; the native side adds its own, and reports all to V8 (docs/extensions.md C16). */
  #held = { tensors: 0, graphs: 0, scratch: 0 };
  /** Work that the device has not done. */
  #waiting;
  /** What of it came after the last question whether all is done, and whether that is unanswered. */
  #unasked = 0;
  #isAsking = false;
  /** @type {Set<DeviceTensor>} */
  #tensors = new Set();
  /** @type {Set<InstanceType<typeof import('./executable').Executable>>} */
  #graphs = new Set();
  #pipelines;
  /** Of graphs. */
  #memory = new GraphMemory((kind, bytes) => this.#hold(kind, bytes));
  /** What models that are cut ask for. */
  #tasks;
  #ended = false;

  /**
   * @param {GPUDevice} device
   * @param {number} handle the native side's context: it has limits, builders and constant tensors
   * @param {InstanceType<typeof Waiting>} [waiting]
   */
  constructor(device, handle, waiting = new Waiting()) {
    this.device = device;
    this.#handle = handle;
    this.#waiting = waiting;
    this.#pipelines = pipelinesOf(device);
    this.#tasks = new DeviceTasks(this, handle);
  }

  /** @param {(message: string) => void} tell must not keep the context alive */
  whenLost(tell) {
    const lost = ({ message, reason }) => tell(`the device was lost: ${message || reason || 'no reason was given'}`);
    this.device.lost.then(lost, () => {});
  }

  /** Counts bytes before there is memory for them, or those that are gone. Throws if the context may not hold them. */
  #hold(kind, bytes) {
    const held = { ...this.#held };
    held[kind] += bytes;
    native.setDeviceMemory(this.#handle, held.tensors, held.graphs, held.scratch);
    this.#held = held;
  }

  /**
   * Gives work to the device's queue, unless too much of it waits there.
   * @template T
   * @param {string} operator
   * @param {string} label
   * @param {number} count
   * @param {() => T} give
   * @returns {T}
   */
  #give(operator, label, count, give) {
    this.#waiting.admit(operator, label, count);
    this.#unasked += count;
    try {
      return give();
    } finally {
      this.#askWhenDone();
    }
  }

  /** Asks when all that was given is done; one question at a time. */
  #askWhenDone() {
    if (this.#isAsking) return;
    this.#isAsking = true;
    const asked = this.#unasked;
    this.#unasked = 0;
    const done = () => {
      this.#isAsking = false;
      this.#waiting.done(asked);
      if (this.#unasked > 0) this.#askWhenDone();
    };
    // A device that is lost has nothing to do.
    this.device.queue.onSubmittedWorkDone().then(done, done);
  }

  createTensor(request, context, dataType, shape, readable, writable, label) {
    native.checkTensor(context, dataType, shape, 'createTensor', label);
    const storage = new DeviceTensor(dataType, shape, label);
    try {
      this.#hold('tensors', storage.byteLength);
    } catch (error) {
      throw { code: error.code, message: `${named('createTensor', label)}: ${error.message}` };
    }
    const { complaint } = checked(this.device, () => this.#allocate(storage));
    complaint.then((failure) => settle(request, failure && { ...failure, message: `${named('createTensor', label)}: ${failure.message}` }));
    return storage;
  }

  #allocate(storage) {
    const { byteLength, label } = storage;
    storage.buffer = this.device.createBuffer({ label, size: bufferSize(byteLength), usage: USAGE });
    this.#tensors.add(storage);
  }

  /** Another tensor with what one has now. */
  copyOf(tensor) {
    const copy = new DeviceTensor(tensor.dataType, tensor.shape, tensor.label);
    this.#hold('tensors', copy.byteLength);
    this.#copy(tensor, copy, () => this.#allocate(copy));
    return copy;
  }

  shareTensor(tensor, to) {
    this.#copy(tensor, to);
  }

  /**
   * Parts of tensors to others.
   * @param {{from: DeviceTensor, first: number, to: DeviceTensor, at: number, length: number}[]} copies
   * @returns {Promise<void>} rejected with a Cause
   */
  async copyParts(copies) {
    const { complaint } = this.#give('run', '', 1, () => checked(this.device, () => {
      const encoder = this.device.createCommandEncoder();
      copies.forEach(({ from, to }) => Object.assign(to, { known: undefined, doubts: doubtsOf([to.doubts, from.doubts]) }));
      copies.forEach(({ from, first, to, at, length }) => encoder.copyBufferToBuffer(from.buffer, first, to.buffer, at, length));
      this.device.queue.submit([encoder.finish()]);
    }));
    const refused = await complaint;
    if (refused !== undefined) throw failed('run', '', refused);
  }

  /** On the device, after all earlier work. */
  #copy(from, to, prepare = () => {}) {
    const copy = () => {
      prepare();
      const encoder = this.device.createCommandEncoder({ label: to.label });
      encoder.copyBufferToBuffer(from.buffer, 0, to.buffer, 0, bufferSize(from.byteLength));
      this.device.queue.submit([encoder.finish()]);
    };
    const { complaint } = this.#give('run', to.label, 1, () => checked(this.device, copy));
    to.known = from.known;
    to.doubts = doubtsOf([from.doubts]);
    to.completion = Completion.of(complaint, [from.completion], {
      own: (failure) => failed('run', to.label, failure),
      inherited: (failure) => inherited('run', to.label, 'a tensor is errored', failure),
    });
    if (from.completion.failure !== undefined) to.completion = Completion.failed(inherited('run', to.label, 'a tensor is errored', from.completion.failure));
  }

  /** What a model has computed and given away. */
  tensorOfNumber(_context, _dataType, _shape, number) {
    return this.#tasks.take(number);
  }

  /** A tensor whose memory is a GPUBuffer of script's, which stays script's. */
  adopt(buffer, dataType, shape, label) {
    const storage = new DeviceTensor(dataType, shape, label);
    storage.buffer = buffer;
    storage.isAdopted = true;
    return storage;
  }

  createConstantTensor(request, context, dataType, shape, bytes, label) {
    return native.createConstantTensor(request, context, dataType, shape, bytes, label);
  }

  destroyTensor(tensor) {
    if (typeof tensor === 'number') {
      native.destroyTensor(tensor);
      return;
    }
    if (!this.#tensors.delete(tensor)) return;
    this.#hold('tensors', -tensor.byteLength);
    tensor.gone = true;
    if (!tensor.exported) destroyBuffer(tensor.buffer);
  }

  writeTensor(tensor, bytes, label) {
    const now = unshared(bytesOf(bytes));
    tensor.known = now.byteLength <= MOST_KNOWN && !tensor.isAdopted ? now.slice() : undefined;
    tensor.doubts = NONE;
    const { complaint } = this.#give('writeTensor', label, 1, () => checked(this.device, () => writeBytes(this.device, tensor.buffer, now)));
    tensor.completion = Completion.of(complaint, [], {
      own: (failure) => failed('writeTensor', label, failure),
      inherited: (failure) => failure,
    });
  }

  readTensor(request, tensor, into) {
    const { completion } = tensor;
    const doubts = doubtsOf([tensor.doubts]);
    const read = () => ({ bytes: readBytes(this.device, tensor.buffer, tensor.byteLength, `readTensor ${tensor.label}`), ask: askFor(doubts) });
    const { result, complaint } = this.#give('readTensor', '', 1, () => checked(this.device, read));
    this.#settle(request, async () => {
      const cause = (await completion.end()) ?? (await result.ask());
      if (cause?.given !== undefined || cause?.code === 'TimeoutError') throw cause;
      if (cause !== undefined) {
        throw { code: 'OperationError', message: `readTensor: the tensor is errored: ${cause.message}`, cause };
      }
      await arrival(result.bytes, complaint, new Uint8Array(into));
    });
  }

  build(request, builder, names, operands, label, watch) {
    return this.#make(request, label, (inner) => ({ program: native.buildProgram(inner, builder, names, operands, label, watch) }));
  }

  /** As of the native side, which has the plan; its graph is here. */
  planOnnx(request, model, shapes, label, ahead, watch, long, short) {
    return this.#make(request, label, (inner) => {
      const [program, plan, number] = native.planOnnx(inner, model, shapes, label, ahead, watch, long, short);
      return { program, plan, number };
    });
  }

  /** Runs a model in parts: its work comes as tasks. It gets a copy of each tensor, as that is now. */
  runOnnx(request, model, { plan }, shapes, values, kept, label, seed, maxBytes, watch) {
    const lent = [];
    const lend = (value) => {
      if (!(value instanceof DeviceTensor)) return value;
      const [handle, number] = native.lendTensor(this.#handle, value.dataType, value.shape);
      lent.push(handle);
      this.#tasks.lend(number, this.copyOf(value));
      return handle;
    };
    try {
      const given = values.map((value) => (Array.isArray(value) ? value.map(lend) : lend(value)));
      native.runOnnx(request, model, plan, shapes, given, kept, label, seed, maxBytes, watch);
    } finally {
      // The run has a share of them.
      lent.forEach((handle) => native.destroyTensor(handle));
    }
  }

  /** There is something that models ask for. */
  serveTasks() {
    this.#tasks.serve();
  }

  /**
   * A graph: what the native side makes of it, and that on the device.
   * @param {number} request
   * @param {string} label
   * @param {(request: number) => {program: number, plan?: number, number?: number}} start
   */
  #make(request, label, start) {
    this.#waiting.admit('build', label);
    let program;
    const handle = this.newGraph();
    let imported;
    try {
      imported = ask((inner) => {
        let number;
        ({ program, plan: handle.plan, number } = start(inner));
        if (number !== undefined) this.#tasks.adopt(number, handle);
      });
    } catch (error) {
      this.#waiting.done();
      throw error;
    }
    this.#settle(request, async () => {
      try {
        const found = await imported;
        // A model of which everything is known has nothing to run.
        if (found.program !== undefined) await this.open(handle, program, found.program, found.inputs.length, label);
        return found;
      } finally {
        this.#waiting.done();
        native.destroyProgram(program);
      }
    });
    return handle;
  }

  /** The handle of a graph that is being made; a plan of the native side's may belong to it. */
  newGraph() {
    return { executable: undefined, plan: undefined, destroyed: false };
  }

  /** Puts a program on the device. */
  async open(handle, program, description, inputs, label) {
    const stop = () => {
      if (handle.destroyed || this.#ended) throw { code: 'InvalidStateError', message: 'it was destroyed' };
    };
    stop();
    const source = sourceOf(program);
    const executable = await createExecutable(this.device, this.#pipelines, source, description, inputs, label, this.#memory, stop).catch((failure) => {
      const code = failure.code === 'QuotaExceededError' ? failure.code : 'OperationError';
      throw failure.code === undefined ? failure : { ...failure, code, message: `${named('build', label)}: ${failure.message}` };
    });
    handle.executable = executable;
    this.#graphs.add(executable);
    if (handle.destroyed || this.#ended) this.destroyGraph(handle);
  }

  destroyGraph(graph) {
    graph.destroyed = true;
    const { executable, plan } = graph;
    if (plan !== undefined) {
      graph.plan = undefined;
      native.destroyGraph(plan);
    }
    if (executable !== undefined && this.#graphs.delete(executable)) executable.destroy();
  }

  /** What was given up before is not submitted. What is submitted cannot be given up any more, and is as good as done. */
  dispatch(_context, { executable }, tensors, label, watch = 0, request = undefined) {
    const dispatch = this.#dispatchOf(executable, tensors, label, watch);
    const { times } = dispatch;
    const given = givenUp(watch);
    if (given === undefined && (watch === 0 || native.beginWork(watch))) {
      this.#give('dispatch', label, 1, () => this.#submit([dispatch]));
    } else {
      const what = named('dispatch', label || executable.label);
      const overdue = { code: 'TimeoutError', message: `${what}: it had not begun in time (timeout)` };
      const completion = Completion.failed(given === undefined ? overdue : { code: 'AbortError', message: `${what}: it was cancelled by its signal`, given });
      dispatch.outputs.forEach((tensor) => Object.assign(tensor, { completion, doubts: NONE, known: undefined }));
    }
    if (request === undefined) return;
    if (times === undefined) settle(request, undefined);
    else times.reported.then(() => settle(request, undefined));
  }

  #dispatchOf(executable, tensors, label, watch) {
    const [inputs, outputs] = [tensors.slice(0, executable.inputs), tensors.slice(executable.inputs)];
    return { executable, inputs, outputs, label, times: Timestamps.of(this.device, executable, watch) };
  }

  /**
   * A dispatch of a run of the native side's, which cancels that itself.
   * @returns {Promise<void> | undefined} ends when the watch has the steps, if it wants them
   */
  dispatchFor({ executable }, tensors, watch) {
    const dispatch = this.#dispatchOf(executable, tensors, '', watch);
    this.#give('dispatch', '', 1, () => this.#submit([dispatch]));
    return dispatch.times?.reported;
  }

  /** Dispatches that follow each other, as one command buffer. */
  #submit(dispatches) {
    const { device } = this;
    const runs = [];
    /** @type {(complaint: Promise<Cause | undefined>) => void} */
    let tell = () => {};
    /** Of all of them: they are one submission. @type {Promise<Cause | undefined>} */
    const complaint = new Promise((resolve) => {
      tell = resolve;
    });
    for (const { executable, inputs, outputs, label, times } of dispatches) {
      const shown = label || executable.label;
      const known = inputs.map((tensor) => tensor.known);
      let doubts = doubtsOf(inputs.map((tensor) => tensor.doubts));
      const cause = executable.failure ?? inputs.find(({ completion }) => completion.failure !== undefined)?.completion.failure ?? failureIn(doubts);
      let completion;
      const outside = cause === undefined ? refusal(executable.checks, known) : undefined;
      if (outside !== undefined) {
        completion = Completion.failed(failed('dispatch', shown, outside));
      } else if (cause !== undefined) {
        const what = executable.failure === undefined ? 'an input is errored' : 'the graph can never run again';
        completion = Completion.failed(inherited('dispatch', shown, what, cause));
      } else {
        const isKnown = known.map((bytes) => bytes !== undefined);
        const found = executable.look(isKnown);
        if (found !== undefined) doubts = doubtsOf([doubts, [found]]);
        runs.push({ executable, inputs, outputs, shown, isKnown, found, doubts, times });
        completion = Completion.of(complaint, inputs.map((tensor) => tensor.completion), {
          own: (failure) => {
            if (failure.code === 'UnknownError') executable.failure ??= failure;
            return failed('dispatch', shown, failure);
          },
          inherited: (failure) => inherited('dispatch', shown, 'an input is errored', failure),
        });
      }
      outputs.forEach((tensor) => Object.assign(tensor, { completion, doubts, known: undefined }));
    }
    if (runs.length === 0) return;
    const recorded = checked(device, () => {
      const encoder = device.createCommandEncoder({ label: runs[0].shown });
      for (const { executable, inputs, outputs, shown, isKnown, found, times } of runs) {
        executable.record(encoder, inputs.map((tensor) => tensor.whole), outputs.map((tensor) => tensor.whole), shown, isKnown, found, times);
      }
      device.queue.submit([encoder.finish()]);
      runs.forEach(({ times }) => times?.submitted());
      runs.forEach(({ doubts }) => askForMany(doubts));
    });
    tell(recorded.complaint);
  }

  /**
   * Inputs are copied to the device and wanted outputs back. What models ask for may also be on parts of tensors, which a failure leaves
   * as they were but for what was to be written.
   */
  compute(request, _context, { executable }, inputs, outputs, label, watch = 0) {
    const { device } = this;
    const shown = label || executable.label;
    if (executable.failure !== undefined) {
      settle(request, inherited('compute', shown, 'the graph can never run again', executable.failure));
      return;
    }
    const given = (input) => (input instanceof Part ? input : bytesOf(input));
    const doubts = doubtsOf(inputs.map((input) => (input instanceof Part ? input.doubts : NONE)));
    const outside = failureIn(doubts) ?? refusal(executable.checks, inputs.map((input) => (input instanceof Part ? undefined : bytesOf(input))));
    if (outside !== undefined) {
      settle(request, failed('compute', shown, outside));
      return;
    }
    const wanted = (output) => (output instanceof Part ? output : output !== undefined);
    const times = Timestamps.of(device, executable, watch);
    const start = () => executable.start(inputs.map(given), outputs.map(wanted), shown, doubts, times);
    const { result: { reads, ask }, complaint } = this.#give('compute', label, 1, () => checked(device, start));
    this.#settle(request, async () => {
      const wrong = [];
      await Promise.all(reads.map((read, i) => read && read(bytesOf(outputs[i])).catch((error) => void wrong.push(error))));
      const refused = await complaint;
      if (refused !== undefined) {
        if (refused.code === 'UnknownError') executable.failure ??= refused;
        throw failed('compute', shown, refused);
      }
      await times?.reported;
      const found = await ask();
      if (found !== undefined) throw failed('compute', shown, found);
      if (wrong.length > 0) throw failed('compute', shown, { code: 'OperationError', message: wrong[0].message });
    });
  }

  createCommandBuffer(_context, graphs, counts, tensors, labels, _object) {
    let at = 0;
    return counts.map((count, i) => {
      const own = tensors.slice(at, (at += count));
      const { executable } = graphs[i];
      return { executable, inputs: own.slice(0, executable.inputs), outputs: own.slice(executable.inputs), label: labels[i] };
    });
  }

  destroyCommandBuffer() {}

  /** Recorded dispatches, and GPUCommandBuffers of script's between them (docs/extensions.md F5). */
  submit(_context, buffers) {
    const count = buffers.reduce((sum, commands) => sum + (Array.isArray(commands) ? commands.length : 1), 0);
    this.#give('submit', '', count, () => this.#submitAll(buffers));
  }

  #submitAll(buffers) {
    let waiting = [];
    const flush = () => {
      if (waiting.length > 0) this.#submit(waiting);
      waiting = [];
    };
    buffers.forEach((commands) => {
      if (Array.isArray(commands)) {
        waiting = waiting.concat(commands);
        return;
      }
      flush();
      // Not in an error scope: what is wrong with it is script's to hear.
      this.device.queue.submit([commands]);
    });
    flush();
  }

  /** What is destroyed is gone at once here. */
  awaitContext(request) {
    settle(request, undefined);
  }

  memoryUsage(context) {
    return native.memoryUsage(context);
  }

  destroyContext(context) {
    this.#ended = true;
    this.#tensors.forEach((tensor) => this.destroyTensor(tensor));
    this.#graphs.forEach((executable) => this.destroyGraph({ executable }));
    native.destroyContext(context);
  }

  forgetContext(context) {
    this.destroyContext(context);
    native.forgetContext(context);
  }

  /** Settles a request with what work gives, or with the Cause that it throws. */
  #settle(request, work) {
    work().then(
      (value) => settle(request, undefined, value),
      (error) => settle(request, error.code === undefined || typeof error.code === 'number' ? { code: 'OperationError', message: `${error?.message ?? error}` } : error),
    );
  }
}

/**
 * Texts and constants of a program that the native side has.
 * @returns {import('./executable').Source}
 */
function sourceOf(program) {
  return {
    shaderText: (shader) => native.shaderText(program, shader),
    steps: () => native.programSteps(program),
    copyConstant: (constant, offset, into) => native.copyConstant(program, constant, offset, into),
  };
}

/** The bytes of a read, where the device did not complain; a failure of a readback by itself (docs/extensions.md E8). */
async function arrival(read, complaint, into) {
  let lost;
  try {
    await read(into);
  } catch (error) {
    lost = error;
  }
  const refused = await complaint;
  if (refused !== undefined) throw { code: 'UnknownError', message: `readTensor: ${refused.message}` };
  if (lost !== undefined) throw { code: 'UnknownError', message: `readTensor: the device's memory cannot be read: ${lost.message}` };
}

/** A GPUBuffer's own `destroy()`: an exported one has another. */
function destroyBuffer(buffer) {
  Reflect.apply(Object.getPrototypeOf(buffer).destroy, buffer, []);
}

/** WebGPU takes no shared memory. */
function unshared(bytes) {
  return types.isSharedArrayBuffer(bytes.buffer) ? bytes.slice() : bytes;
}

/** The contexts of a device share its pipelines. @type {WeakMap<GPUDevice, InstanceType<typeof Pipelines>>} */
const pipelines = new WeakMap();

function pipelinesOf(device) {
  let found = pipelines.get(device);
  if (found === undefined) pipelines.set(device, (found = new Pipelines()));
  return found;
}

/** Members of a device that are used, beside those that identify it. */
const MEMBERS = ['features', 'limits', 'lost', 'createBuffer', 'createBindGroup', 'createShaderModule', 'createComputePipelineAsync', 'pushErrorScope', 'popErrorScope'];

/**
 * The timeline of a device.
 * @param {GPUDevice} device
 * @param {object} [options]
 * @param {InstanceType<typeof Waiting>} [options.waiting]
 * @param {number} [options.memoryLimit] -1 for none
 * @returns {Promise<{timeline: DeviceTimeline, handle: number, accelerated: boolean}>} rejected with a Cause
 */
async function openDevice(device, { waiting, memoryLimit = -1 } = {}) {
  const missing = MEMBERS.filter((name) => device[name] === undefined || device[name] === null);
  if (missing.length > 0) {
    throw { code: 'TypeError', message: `createContext: gpuDevice: found an object without ${missing.join(', ')}, allowed a GPUDevice` };
  }
  const limits = LIMITS.map((name) => {
    const limit = device.limits[name];
    if (typeof limit === 'number' && limit >= 1) return limit;
    throw { code: 'TypeError', message: `createContext: gpuDevice: limits: ${name}: found ${show(limit)}, allowed a number from 1` };
  });
  const { half, subgroups } = await usableFeatures(device);
  /** @type {{message: string} | undefined} */
  let lost;
  device.lost.then((info) => {
    lost = info;
  }, () => {});
  await setImmediate();
  if (lost !== undefined) {
    throw { code: 'InvalidStateError', message: `createContext: gpuDevice: found a GPUDevice that was lost (${lost.message}), allowed one that still exists` };
  }
  const handle = native.createDeviceContext(events, half, subgroups, limits, memoryLimit);
  return { timeline: new DeviceTimeline(device, handle, waiting), handle, accelerated: !isSoftware(device) };
}

module.exports = { DeviceTimeline, DeviceTensor, destroyBuffer, openDevice };
