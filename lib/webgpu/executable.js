'use strict';

// Puts a program of the native side on a device: pipelines, constants, the arena, and the passes that a run records.
//
// Making one takes as long as the driver's compiler. It is done in slices of a few milliseconds: the implementation parses a shader on this thread
// and compiles it on another; constants are written in pieces.

const { named } = require('../errors.js');
const { COPY_DST, COPY_SRC, PIECE, STORAGE, UNIFORM, bufferSize, checked, readBytes, writeBytes } = require('./device.js');
const { Findings, NONE, askFor, doubtsOf } = require('./findings.js');
const { TimeSlices } = require('./time-slices.js');

// Which buffer a binding is a part of, in the native side's numbers.
const INPUT = 0;
const OUTPUT = 1;
const CONSTANT = 2;
const ARENA = 3;
const FINDINGS = 5;

/** @typedef {{kind: number, position: number, offset: number, size: number}} Memory */
/** @typedef {InstanceType<typeof import('./graph-memory').Shared>} Shared */
/** @typedef {InstanceType<typeof import('./timestamps').Timestamps>} Timestamps */
/** @typedef {{constants: (Shared | undefined)[], arena: Shared | undefined, sizes: Shared | undefined}} Own what a graph has on the device */
/**
 * `places` is the input that the dispatch only copies to its place in an output, if it does nothing else; `looksAt` the input of indices
 * that it only looks at.
 * @typedef {{pipeline: GPUComputePipeline, step: number, grid: number[], places: number | undefined, looksAt: number | undefined, memory: Memory[], fixed: GPUBindGroup | undefined}} Dispatch
 */

/**
 * Where texts and constants of a program are, which are large.
 * @typedef {object} Source
 * @property {(shader: number) => string} shaderText
 * @property {() => import('../native').ProgramStep[]} steps
 * @property {(constant: number, offset: number, into: Uint8Array) => void} copyConstant fills the view from an offset on
 */

/** Pipelines of a device by the text of their shaders: equal layers of a network share one, and so do graphs. */
class Pipelines {
  /** Oldest first. @type {Map<string, Promise<GPUComputePipeline>>} */
  #kept = new Map();
  #length = 0;

  /** The most text of which pipelines are kept for graphs to come. */
  static MOST = 1 << 21;

  /**
   * @param {GPUDevice} device
   * @param {string} label
   * @param {string} code
   */
  get(device, label, code) {
    const found = this.#kept.get(code);
    if (found !== undefined) return found;
    const pipeline = make(device, label, code);
    this.#kept.set(code, pipeline);
    this.#length += code.length;
    for (const [oldest] of this.#kept) {
      if (this.#length <= Pipelines.MOST) break;
      this.#remove(oldest);
    }
    pipeline.catch(() => this.#remove(code));
    return pipeline;
  }

  #remove(code) {
    if (this.#kept.delete(code)) this.#length -= code.length;
  }
}

async function make(device, label, code) {
  const { result, complaint } = checked(device, () => {
    const module = device.createShaderModule({ label, code });
    return device.createComputePipelineAsync({ label, layout: 'auto', compute: { module, entryPoint: 'main' } });
  });
  /** @type {Error | undefined} */
  let wrong;
  const pipeline = await result.catch((error) => {
    wrong = error;
  });
  const refused = await complaint;
  if (refused) throw refused;
  if (pipeline === undefined) throw { code: 'OperationError', message: `the device refuses the shader of ${label}: ${wrong?.message}` };
  return pipeline;
}

/** The passes of a run: one for all dispatches, or with times one for each step. */
class Passes {
  #encoder;
  #label;
  #times;
  /** @type {GPUComputePass | undefined} */
  #pass = undefined;
  #step = -1;

  /**
   * @param {GPUCommandEncoder} encoder
   * @param {string} label
   * @param {Timestamps | undefined} times
   */
  constructor(encoder, label, times) {
    this.#encoder = encoder;
    this.#label = label;
    this.#times = times;
  }

  /** That of the next dispatch. @param {number} step */
  next(step) {
    if (this.#pass !== undefined && (this.#times === undefined || step === this.#step)) return this.#pass;
    this.end();
    this.#step = step;
    this.#pass = this.#encoder.beginComputePass({ label: this.#label, timestampWrites: this.#times?.next(step) });
    return this.#pass;
  }

  end() {
    this.#pass?.end();
  }
}

/** Memory of an input or output: what begins at an offset in a buffer. */
class Part {
  /**
   * @param {GPUBuffer} buffer
   * @param {number} offset
   */
  constructor(buffer, offset = 0) {
    /** @type {import('./findings').Doubts} */
    this.doubts = NONE;
    this.buffer = buffer;
    this.offset = offset;
  }

  /** Whether this begins so many bytes after another one. */
  follows({ buffer, offset }, distance) {
    return this.buffer === buffer && this.offset === offset + distance;
  }
}

class Executable {
  /** Why it can never run again. @type {import('../native').Cause | undefined} */
  failure = undefined;
  destroyed = false;
  /** Of the last run. */
  #bound = { parts: [], groups: [] };

  /**
   * @param {GPUDevice} device
   * @param {string} label
   * @param {Dispatch[]} dispatches
   * @param {Own} own
   * @param {number[]} outputLengths
   * @param {number} inputs
   * @param {import('./checks').Check[]} checks
   * @param {import('./checks').Check[]} findings what the device looks for
   * @param {Source} source
   */
  constructor(device, label, dispatches, own, outputLengths, inputs, checks, findings, source) {
    this.device = device;
    this.label = label;
    this.dispatches = dispatches;
    this.own = own;
    this.outputLengths = outputLengths;
    this.inputs = inputs;
    this.checks = checks;
    this.findings = findings;
    // What profiles say of them, if the device tells their times.
    this.steps = device.features.has('timestamp-query') ? source.steps() : undefined;
  }

  /**
   * Records a run.
   * @param {GPUCommandEncoder} encoder
   * @param {Part[]} inputs
   * @param {Part[]} outputs
   * @param {string} label
   * @param {boolean[]} known inputs in which all indices are known to be within
   * @param {InstanceType<typeof Findings> | undefined} findings of `look()`
   * @param {Timestamps} [times]
   */
  record(encoder, inputs, outputs, label, known, findings, times = undefined) {
    const parts = [...inputs, ...outputs];
    const { groups } = this.#bind(parts);
    const found = findings?.begin(label);
    const passes = new Passes(encoder, label || this.label, times);
    this.dispatches.forEach((dispatch, i) => {
      const { pipeline, step, grid: [x, y, z], places, looksAt, memory, fixed } = dispatch;
      if (looksAt !== undefined && known[looksAt]) return;
      if (places !== undefined) {
        const { position, offset } = memory.find(({ kind }) => kind === OUTPUT);
        if (inputs[places].follows(outputs[position], offset)) return;
      }
      const pass = passes.next(step);
      pass.setPipeline(pipeline);
      pass.setBindGroup(0, fixed ?? groups[i] ?? group(this.device, dispatch, this.own, parts, this.inputs, found));
      pass.dispatchWorkgroups(x, y, z);
    });
    passes.end();
    times?.finish(encoder);
  }

  /**
   * What a run will find, where it has to look.
   * @param {boolean[]} known inputs in which all indices are known to be within
   */
  look(known) {
    const looks = ({ looksAt, memory }) => leaves(memory) && !(looksAt !== undefined && known[looksAt]);
    return this.findings.length > 0 && this.dispatches.some(looks) ? new Findings(this.device, this.findings) : undefined;
  }

  /**
   * Runs on bytes of the host, which are copied to the device, and back, and on parts of tensors. What the device complains of is the
   * caller's to look for.
   * @param {(Uint8Array | Part)[]} inputs indices from the host are within
   * @param {(boolean | Part)[]} wanted
   * @param {string} label
   * @param {import('./findings').Doubts} before what is not known of the inputs
   * @param {Timestamps} [times]
   * @returns {{reads: (ReturnType<typeof readBytes> | undefined)[], ask: ReturnType<typeof askFor>}} for each output that is wanted what
   * brings its bytes, and what brings the failure of a run that they were computed by
   */
  start(inputs, wanted, label, before, times = undefined) {
    const { device } = this;
    const own = [];
    const make = (length, usage) => {
      own.push(device.createBuffer({ label, size: bufferSize(length), usage: STORAGE | usage }));
      return new Part(own.at(-1));
    };
    const given = inputs.map((input) => {
      if (input instanceof Part) return input;
      const entry = make(input.byteLength, COPY_DST);
      writeBytes(device, entry.buffer, input);
      return entry;
    });
    // Later steps may read outputs that are not wanted.
    const taken = this.outputLengths.map((length, i) => (wanted[i] instanceof Part ? wanted[i] : make(length, COPY_SRC)));
    const encoder = device.createCommandEncoder({ label });
    const known = inputs.map((input) => !(input instanceof Part));
    const found = this.look(known);
    this.record(encoder, given, taken, label, known, found, times);
    device.queue.submit([encoder.finish()]);
    times?.submitted();
    const reads = this.outputLengths.map((length, i) => (wanted[i] === true ? readBytes(device, taken[i].buffer, length, label) : undefined));
    // What was submitted keeps them.
    own.forEach((one) => one.destroy());
    return { reads, ask: askFor(doubtsOf([before, found ? [found] : []])) };
  }

  /** Runs on the same tensors share their bind groups. */
  #bind(parts) {
    const last = this.#bound;
    if (last.parts.length === parts.length && parts.every((part, i) => part.follows(last.parts[i], 0))) return last;
    const groups = this.dispatches.map((dispatch) => (dispatch.fixed || leaves(dispatch.memory) ? undefined : group(this.device, dispatch, this.own, parts, this.inputs)));
    this.#bound = { parts, groups };
    return this.#bound;
  }

  destroy() {
    if (this.destroyed) return;
    this.destroyed = true;
    this.#bound = { parts: [], groups: [] };
    release(this.own);
  }
}

function release({ constants, arena, sizes }) {
  [...constants, arena, sizes].forEach((one) => one?.release());
}

/** Whether it leaves what was found: in memory of the run's. */
function leaves(memory) {
  return memory.some(({ kind }) => kind === FINDINGS);
}

function group(device, { pipeline, memory }, { constants, arena, sizes }, parts, inputs, found = undefined) {
  const whole = ({ kind, position }) => {
    if (kind === CONSTANT) return constants[position];
    return kind === ARENA ? arena : sizes;
  };
  const entries = memory.map(({ kind, position, offset, size }, binding) => {
    if (kind === FINDINGS) return { binding, resource: { buffer: found, offset, size } };
    if (kind >= CONSTANT) return { binding, resource: { buffer: whole({ kind, position }).buffer, offset, size } };
    const part = parts[kind === INPUT ? position : inputs + position];
    return { binding, resource: { buffer: part.buffer, offset: part.offset + offset, size } };
  });
  return device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries });
}

/** A check as the native side describes it. @returns {import('./checks').Check} */
function checkOf([input, dataType, sizes, fromEnd, shape, label]) {
  return { input, dataType, sizes, fromEnd, shape, label };
}

/** Reads the numbers of dispatches (src/node/programs.rs). */
function parse(buffer) {
  const numbers = new Float64Array(buffer);
  const dispatches = [];
  for (let i = 0; i < numbers.length;) {
    const [step, shader, x, y, z, places, looksAt, count] = numbers.subarray(i, i + 8);
    i += 8;
    const memory = [];
    for (let k = 0; k < count; k++, i += 4) {
      const [kind, position, offset, length] = numbers.subarray(i, i + 4);
      memory.push({ kind, position, offset, size: bufferSize(length) });
    }
    const input = (number) => (number > 0 ? number - 1 : undefined);
    dispatches.push({ step, shader, grid: [x, y, z], places: input(places), looksAt: input(looksAt), memory });
  }
  return dispatches;
}

/**
 * Puts a program on a device.
 * @param {GPUDevice} device
 * @param {Pipelines} pipelines
 * @param {Source} source
 * @param {any} description as native.buildProgram() gives it
 * @param {number} inputs how many inputs it has
 * @param {string} label
 * @param {InstanceType<typeof import('./graph-memory').GraphMemory>} store
 * @param {() => void} ask throws if it is no longer wanted
 * @returns {Promise<Executable>} rejected with a Cause
 */
async function createExecutable(device, pipelines, source, description, inputs, label, store, ask) {
  const slices = new TimeSlices();
  // Many builds may end at once.
  await slices.next();
  const { steps, stepLabels, shaders, constants, sizes, arenaLength, outputLengths, model, identities } = description;
  const parsed = parse(description.dispatches);
  const firstStep = new Map();
  parsed.forEach(({ shader, step }) => firstStep.has(shader) || firstStep.set(shader, step));
  const compiling = [];
  for (let shader = 0; shader < shaders.length; shader++) {
    await slices.next();
    ask();
    const step = firstStep.get(shader);
    const pipeline = pipelines.get(device, shaders[shader], source.shaderText(shader));
    compiling.push(pipeline.catch((failure) => {
      throw { ...failure, message: `${named(steps[step], stepLabels[step])}: ${failure.message}` };
    }));
    compiling[shader].catch(() => {});
  }
  const own = { constants: [], arena: undefined, sizes: undefined };
  try {
    const used = new Set(parsed.flatMap(({ memory }) => memory.filter(({ kind }) => kind === CONSTANT).map(({ position }) => position)));
    // The same memory for all pieces: much that is soon garbage would make V8 collect it in long turns.
    const piece = new Uint8Array(constants.reduce((most, length) => Math.max(most, Math.min(length, PIECE)), 0));
    for (const [position, byteLength] of constants.entries()) {
      const make = () => upload(device, source, position, byteLength, { label, piece, slices, ask });
      const name = model === undefined ? undefined : `${model} ${identities[position]}`;
      own.constants.push(used.has(position) ? await store.constant(name, byteLength, make) : undefined);
    }
    if (parsed.some(({ memory }) => memory.some(({ kind }) => kind === ARENA))) {
      own.arena = await store.arena(model, arenaLength, () => buffer(device, arenaLength, STORAGE, `${label} (values in between)`));
    }
    if (sizes.byteLength > 0) {
      own.sizes = await store.constant(undefined, sizes.byteLength, () => buffer(device, sizes.byteLength, UNIFORM | COPY_DST, `${label} (sizes)`));
      writeBytes(device, own.sizes.buffer, new Uint8Array(sizes));
    }
    const ready = await Promise.all(compiling);
    /** @type {Dispatch[]} */
    const dispatches = [];
    const add = ({ step, shader, grid, places, looksAt, memory }) => {
      const dispatch = { pipeline: ready[shader], step, grid, places, looksAt, memory, fixed: undefined };
      if (memory.every(({ kind }) => kind >= CONSTANT && kind !== FINDINGS)) dispatch.fixed = group(device, dispatch, own, [], inputs);
      dispatches.push(dispatch);
    };
    const checks = [];
    while (dispatches.length < parsed.length) {
      await slices.next();
      ask();
      const { complaint } = checked(device, () => {
        do add(parsed[dispatches.length]);
        while (dispatches.length < parsed.length && !slices.isOver);
      });
      checks.push(complaint);
    }
    const refused = (await Promise.all(checks)).find((failure) => failure !== undefined);
    if (refused) throw refused;
    const [known, found] = [description.checks, description.findings].map((list) => list.map(checkOf));
    return new Executable(device, label, dispatches, own, outputLengths, inputs, known, found, source);
  } catch (error) {
    release(own);
    throw error;
  }
}

/**
 * @param {GPUDevice} device
 * @returns {Promise<GPUBuffer>} rejected with a Cause
 */
async function buffer(device, byteLength, usage, label) {
  requireSize(device, byteLength);
  const { result, complaint } = checked(device, () => device.createBuffer({ label, size: bufferSize(byteLength), usage }));
  const refused = await complaint;
  if (refused) throw refused;
  return result;
}

/** A refusal that says what to do; the device's own would not. */
function requireSize({ limits: { maxBufferSize } }, byteLength) {
  if (byteLength <= maxBufferSize) return;
  throw {
    code: 'UnknownError',
    message: `cannot allocate ${byteLength} bytes on the device: found maxBufferSize ${maxBufferSize}; pass requiredLimits() of webnn-node/webgpu to requestDevice() for more`,
  };
}

/** Piece by piece: memory that is mapped when it is made is cleared at once, on this thread. */
async function upload(device, source, constant, byteLength, { label, piece, slices, ask }) {
  await slices.next();
  const result = await buffer(device, byteLength, STORAGE | COPY_DST, `${label} (constant ${constant})`);
  try {
    for (let offset = 0; offset < byteLength; offset += PIECE) {
      await slices.next();
      ask();
      const part = piece.subarray(0, Math.min(PIECE, byteLength - offset));
      source.copyConstant(constant, offset, part);
      writeBytes(device, result, part, offset);
    }
    return result;
  } catch (error) {
    result.destroy();
    throw error;
  }
}

module.exports = { Executable, Part, Pipelines, buffer, createExecutable };
