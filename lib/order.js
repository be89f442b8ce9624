'use strict';

// Orders work in front of a context's timeline. A timeline executes work in the order of the calls. Work that must not begin yet, because a tensor
// is rented to WebGPU (docs/extensions.md F3), waits here until the tensor is back. If nothing is rented, all work is passed on at once.
//
// A timeline is the native addon, or that of a context on a GPUDevice (webgpu/timeline.js). Both have the same functions, on handles of their own.
//
// Waiting work is a *job* with the tensors and graphs that it uses. A job waits for conflicting earlier jobs: a writer for all of them, a reader for
// the last writer. Work without a conflict is no job: it is passed on at once. So every job here waits for a rental, directly or not.

const { bytesOf } = require('./buffers.js');
const { settle } = require('./settle.js');
const { Waiting } = require('./waiting.js');

/** @typedef {import('./native').Timeline} Timeline */
/** @typedef {{waits: number, dependents: Set<Job>, uses: [Uses, boolean][], work: () => void, lasts?: boolean}} Job */

/** The unfinished jobs that use a tensor or a graph. */
class Uses {
  /** @type {Job | undefined} */
  writer = undefined;
  /** @type {Set<Job>} Those after the last writer. */
  readers = new Set();

  constructor(map, key) {
    this.map = map;
    this.key = key;
  }

  remove(job) {
    this.readers.delete(job);
    if (this.writer === job) this.writer = undefined;
    if (this.writer === undefined && this.readers.size === 0 && this.map.get(this.key) === this) this.map.delete(this.key);
  }
}

class Order {
  /** By handle. @type {Map<unknown, Uses>} */
  #tensors = new Map();
  /** @type {Map<unknown, Uses>} */
  #graphs = new Map();
  /** What command buffers use, by handle. */
  #recorded = new Map();
  #ended = false;
  #kept;

  /**
   * @param {Timeline} timeline
   * @param {InstanceType<typeof Waiting>} [kept] counts what is kept here
   */
  constructor(timeline, kept = new Waiting()) {
    this.timeline = timeline;
    this.#kept = kept;
  }

  createTensor(request, context, dataType, shape, readable, writable, label) {
    return this.timeline.createTensor(request, context, dataType, shape, readable, writable, label);
  }

  createConstantTensor(request, context, dataType, shape, bytes, label) {
    return this.timeline.createConstantTensor(request, context, dataType, shape, bytes, label);
  }

  destroyTensor(tensor) {
    this.#add(() => this.timeline.destroyTensor(tensor), { writes: [tensor] });
  }

  /** The bytes are copied before it returns. */
  writeTensor(tensor, bytes, label) {
    let now = bytes;
    const work = () => this.timeline.writeTensor(tensor, now, label);
    if (!this.#add(work, { operator: 'writeTensor', label, writes: [tensor] })) now = bytesOf(bytes).slice();
  }

  readTensor(request, tensor, buffer, watch) {
    this.#add(() => this.timeline.readTensor(request, tensor, buffer, watch), { operator: 'readTensor', reads: [tensor], request });
  }

  build(request, builder, names, operands, label, watch) {
    return this.timeline.build(request, builder, names, operands, label, watch);
  }

  /**
   * The plan of a model for inputs of these shapes: its handle is that of a graph.
   * @param {Parameters<Timeline['planOnnx']>} given
   */
  planOnnx(...given) {
    return this.timeline.planOnnx(...given);
  }

  /**
   * A run of a model in parts.
   * @param {number[]} tensors those of its inputs that are some
   * @param {Parameters<Timeline['runOnnx']>} given
   */
  runOnnx(tensors, ...given) {
    const [request, , graph, , , , label] = given;
    this.#add(() => this.timeline.runOnnx(...given), { operator: 'run', label, reads: tensors, graphs: [graph], request });
  }

  /** Gives another tensor what one has. */
  shareTensor(tensor, to) {
    this.#add(() => this.timeline.shareTensor(tensor, to), { operator: 'run', reads: [tensor], writes: [to] });
  }

  destroyGraph(graph) {
    this.#add(() => this.timeline.destroyGraph(graph), { ends: [graph] });
  }

  /** The first of the tensors, so many as it says, are inputs. With a watch there is a request. */
  dispatch(context, graph, tensors, inputs, label, watch = undefined, request = undefined) {
    const work = () => this.timeline.dispatch(context, graph, tensors, label, watch, request);
    if (this.#isIdle()) work();
    else this.#add(work, { operator: 'dispatch', label, reads: tensors.slice(0, inputs), writes: tensors.slice(inputs), graphs: [graph], request });
  }

  compute(request, context, graph, inputs, outputs, label, watch) {
    this.#add(() => this.timeline.compute(request, context, graph, inputs, outputs, label, watch), { operator: 'compute', label, graphs: [graph], request });
  }

  /** As native.js has it; `inputs` says of each dispatch how many of its tensors are inputs. */
  createCommandBuffer(context, graphs, counts, tensors, labels, object, inputs) {
    const handle = this.timeline.createCommandBuffer(context, graphs, counts, tensors, labels, object);
    const [reads, writes] = [new Set(), new Set()];
    let at = 0;
    counts.forEach((count, i) => {
      tensors.slice(at, at + inputs[i]).forEach((tensor) => reads.add(tensor));
      tensors.slice(at + inputs[i], at + count).forEach((tensor) => writes.add(tensor));
      at += count;
    });
    this.#recorded.set(handle, { reads, writes, graphs: new Set(graphs) });
    return handle;
  }

  destroyCommandBuffer(buffer) {
    this.#recorded.delete(buffer);
    this.#add(() => this.timeline.destroyCommandBuffer(buffer), { writes: [recorded(buffer)] });
  }

  /** The buffers are handles, or GPUCommandBuffers where the timeline takes those; what they use is not known here. */
  submit(context, buffers) {
    const work = () => this.timeline.submit(context, buffers);
    if (this.#isIdle()) {
      work();
      return;
    }
    const all = (part) => buffers.flatMap((buffer) => [...(this.#recorded.get(buffer)?.[part] ?? [])]);
    this.#add(work, { operator: 'submit', reads: [...all('reads'), ...buffers.map(recorded)], writes: all('writes'), graphs: all('graphs') });
  }

  /** Settles once everything asked for before has been looked at. What was destroyed is gone then. */
  awaitContext(request, context) {
    this.timeline.awaitContext(request, context);
  }

  memoryUsage(context) {
    return this.timeline.memoryUsage(context);
  }

  /** Drops waiting work: its promises are rejected already. */
  destroyContext(context) {
    this.#ended = true;
    this.#tensors.clear();
    this.#graphs.clear();
    this.timeline.destroyContext(context);
  }

  /**
   * Holds back all later work that uses a tensor, until the result is called. `begin` is called when earlier work has been passed on: mostly at
   * once.
   * @param {unknown} tensor
   * @param {() => void} begin
   * @returns {() => void}
   */
  holdBack(tensor, begin) {
    let isOver = false;
    let hasBegun = false;
    const work = () => {
      hasBegun = true;
      if (!isOver) begin();
    };
    /** @type {Job} */
    const job = { waits: 0, dependents: new Set(), uses: [[this.#uses(this.#tensors, tensor), true]], work, lasts: true };
    if (!this.#register(job)) work();
    return () => {
      if (isOver) return;
      isOver = true;
      // Before its turn it keeps its place: what waits for it may also have to wait for those before it.
      if (hasBegun) this.#finish(job);
      else job.lasts = false;
    };
  }

  /** Whether work on a tensor waits, or the tensor is rented. */
  isAwaited(tensor) {
    return this.#tensors.has(tensor);
  }

  #isIdle() {
    return this.#tensors.size === 0 && this.#graphs.size === 0;
  }

  #uses(map, key) {
    let uses = map.get(key);
    if (uses === undefined) map.set(key, (uses = new Uses(map, key)));
    return uses;
  }

  /** Executes work, now or when its turn comes. Returns whether it was now. Work without an operator's name cannot be refused. */
  #add(work, { operator = undefined, label = '', reads = [], writes = [], graphs = [], ends = [], request = undefined }) {
    if (this.#isIdle() || !this.#conflicts(reads, writes, graphs, ends)) {
      work();
      return true;
    }
    if (operator !== undefined) this.#kept.admit(operator, label);
    const written = new Set(writes);
    /** @type {[Uses, boolean][]} */
    const uses = [];
    written.forEach((key) => uses.push([this.#uses(this.#tensors, key), true]));
    new Set(reads).forEach((key) => written.has(key) || uses.push([this.#uses(this.#tensors, key), false]));
    new Set(graphs).forEach((key) => uses.push([this.#uses(this.#graphs, key), false]));
    ends.forEach((key) => uses.push([this.#uses(this.#graphs, key), true]));
    const counted = () => {
      if (operator !== undefined) this.#kept.done();
      work();
    };
    this.#register({ waits: 0, dependents: new Set(), uses, work: guarded(counted, request) });
    return false;
  }

  #conflicts(reads, writes, graphs, ends) {
    return (
      reads.some((key) => this.#tensors.get(key)?.writer !== undefined) ||
      writes.some((key) => this.#tensors.has(key)) ||
      graphs.some((key) => this.#graphs.get(key)?.writer !== undefined) ||
      ends.some((key) => this.#graphs.has(key))
    );
  }

  /** Registers what a job uses. Returns whether it has to wait. */
  #register(job) {
    for (const [uses, writes] of job.uses) {
      const before = writes ? [...uses.readers, uses.writer] : [uses.writer];
      for (const other of before) {
        if (other === undefined || other === job || other.dependents.has(job)) continue;
        other.dependents.add(job);
        job.waits += 1;
      }
      if (writes) {
        uses.writer = job;
        uses.readers = new Set();
      } else uses.readers.add(job);
    }
    return job.waits > 0;
  }

  #finish(first) {
    const finished = [first];
    for (const job of finished) {
      job.uses.forEach(([uses]) => uses.remove(job));
      for (const dependent of job.dependents) {
        dependent.waits -= 1;
        if (dependent.waits > 0 || this.#ended) continue;
        dependent.work();
        if (!dependent.lasts) finished.push(dependent);
      }
      job.dependents.clear();
    }
  }
}

/** What stands for a command buffer among tensors: the numbers of both may be the same. */
function recorded(buffer) {
  return typeof buffer === 'number' ? -buffer : buffer;
}

/** Work that is executed later cannot throw: its request fails instead. */
function guarded(work, request) {
  return () => {
    try {
      work();
    } catch (error) {
      if (request !== undefined) settle(request, error);
    }
  };
}

module.exports = { Order };
