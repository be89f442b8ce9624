'use strict';

// Carries out the tasks of the native side's programs on a GPUDevice (src/node/device_tasks.rs): models that are cut run there. The tasks go to the
// context's timeline in their order, and the end of each is reported. Programs call tensors and graphs by numbers.

const { withLent } = require('../device-steps.js');
const native = require('../native.js');
const { ask } = require('../settle.js');
const { Part } = require('./executable.js');
const { Completion } = require('./completion.js');
const { TimeSlices } = require('./time-slices.js');

const NO_MEMORY = 'the memory of a value could not be had';

class DeviceTasks {
  #timeline;
  #context;
  /** What tensors have, which several share: nothing is written twice. @type {Map<number, {storage: any, uses: number}>} */
  #tensors = new Map();
  /** Those that are being made. @type {Set<Promise<void>>} */
  #unsure = new Set();
  /** Dispatches whose steps somebody wants, and does not have yet. @type {Set<Promise<void>>} */
  #pendingSteps = new Set();
  /** Handles of the timeline. @type {Map<number, any>} */
  #graphs = new Map();
  #isServing = false;

  /**
   * @param {InstanceType<typeof import('./timeline').DeviceTimeline>} timeline
   * @param {number} context the native side's
   */
  constructor(timeline, context) {
    this.#timeline = timeline;
    this.#context = context;
  }

  /** Names a graph of the timeline. */
  adopt(number, graph) {
    this.#graphs.set(number, graph);
  }

  /** Carries out all tasks that there are, in slices. */
  async serve() {
    if (this.#isServing) return;
    this.#isServing = true;
    const slices = new TimeSlices();
    try {
      for (;;) {
        const tasks = native.takeTasks(this.#context);
        if (tasks.length === 0) return;
        for (const [kind, ...given] of tasks) {
          await slices.next();
          this[kind](...given);
        }
      }
    } catch {
      // The context is gone; the native side rejects what waits.
    } finally {
      this.#isServing = false;
    }
  }

  /** Names a tensor of the timeline that models are given. */
  lend(number, storage) {
    this.#tensors.set(number, { storage, uses: 1 });
  }

  /** Gives a tensor to somebody who may write to it. */
  take(number) {
    const { storage, uses } = this.#tensors.get(number);
    if (uses > 1) {
      const copy = this.#timeline.copyOf(storage);
      this.destroyTensor(number);
      return copy;
    }
    this.#tensors.delete(number);
    return storage;
  }

  /** Reports how something ends: with buffers, or with the Cause that it throws. The result is fulfilled then. */
  #report(number, work) {
    const tell = (code, message, buffers) => {
      try {
        native.finishTask(this.#context, number, code, message, buffers);
      } catch {
        // The context is gone.
      }
    };
    return work().then((buffers) => tell('', '', buffers), ({ code, message }) => tell(typeof code === 'string' ? code : 'OperationError', `${message}`, []));
  }

  createTensor(number, tensor, dataType, shape) {
    const creation = this.#report(number, async () => {
      await ask((request) => {
        this.lend(tensor, this.#timeline.createTensor(request, this.#context, dataType, shape, true, true, ''));
      });
      return [];
    });
    this.#unsure.add(creation);
    creation.then(() => this.#unsure.delete(creation));
  }

  shareTensor(number, tensor, to) {
    this.#report(number, async () => {
      const shared = present(this.#tensors.get(tensor), NO_MEMORY);
      shared.uses += 1;
      this.#tensors.set(to, shared);
      return [];
    });
  }

  /** All that was asked for before has been done, or it is known why not. */
  catchUp(number) {
    this.#report(number, async () => {
      await Promise.all([...this.#unsure, ...this.#pendingSteps]);
      return [];
    });
  }

  writeTensor(tensor, bytes) {
    this.#attempt([tensor], () => this.#timeline.writeTensor(this.#storage(tensor), bytes, ''));
  }

  readTensor(number, tensor) {
    this.#report(number, async () => {
      const storage = this.#storage(tensor);
      const buffer = new ArrayBuffer(storage.byteLength);
      await ask((request) => this.#timeline.readTensor(request, storage, buffer));
      // Whoever has the results has the steps that computed them.
      await Promise.all(this.#pendingSteps);
      return [buffer];
    });
  }

  open(number, graph, program, description, inputs, label) {
    const handle = this.#timeline.newGraph();
    this.#graphs.set(graph, handle);
    this.#report(number, async () => {
      try {
        await this.#timeline.open(handle, program, description, inputs, label);
      } finally {
        native.destroyProgram(program);
      }
      return [];
    });
  }

  dispatch(graph, tensors, watch) {
    const noted = withLent(watch, async () => {
      /** @type {Promise<void> | undefined} */
      let steps;
      this.#attempt(tensors, () => (steps = this.#timeline.dispatchFor(this.#graph(graph), tensors.map((tensor) => this.#storage(tensor)), watch)));
      await steps;
    });
    if (watch === 0) return;
    this.#pendingSteps.add(noted);
    noted.then(() => this.#pendingSteps.delete(noted));
  }

  compute(number, graph, inputs, wanted, watch) {
    this.#report(number, () => withLent(watch, async () => {
      const handle = this.#graph(graph);
      const part = (/** @type {any[]} */ [tensor, first]) => partOf(this.#sound(tensor), first);
      const given = inputs.map((input) => (Array.isArray(input) ? part(input) : input));
      const outputs = handle.executable.outputLengths.map((length, i) => {
        if (Array.isArray(wanted[i])) {
          this.#sound(wanted[i][0]).known = undefined;
          return part(wanted[i]);
        }
        return wanted[i] ? new ArrayBuffer(length) : undefined;
      });
      await ask((request) => this.#timeline.compute(request, this.#context, handle, given, outputs, '', watch));
      return outputs.map((output) => (output instanceof Part ? undefined : output));
    }));
  }

  copy(number, copies) {
    this.#report(number, async () => {
      const named = copies.map(([from, first, to, at, length]) => ({ from: this.#sound(from), first, to: this.#sound(to), at, length }));
      await this.#timeline.copyParts(named);
      return [];
    });
  }

  destroyTensor(tensor) {
    const held = this.#tensors.get(tensor);
    this.#tensors.delete(tensor);
    if (held !== undefined && --held.uses === 0) this.#timeline.destroyTensor(held.storage);
  }

  destroyGraph(graph) {
    const handle = this.#graphs.get(graph);
    this.#graphs.delete(graph);
    if (handle !== undefined) this.#timeline.destroyGraph(handle);
  }

  #storage(tensor) {
    return present(this.#tensors.get(tensor), NO_MEMORY).storage;
  }

  /** One that is not errored. */
  #sound(tensor) {
    const storage = this.#storage(tensor);
    const { failure } = storage.completion;
    if (failure !== undefined) throw { code: 'OperationError', message: `a tensor is errored: ${failure.message}` };
    return storage;
  }

  #graph(graph) {
    const handle = this.#graphs.get(graph);
    return present(handle?.executable && handle, 'the graph was destroyed');
  }

  /** Does work that no promise waits for. If it fails, the tensors that it uses become errored, so reads of them fail. */
  #attempt(tensors, work) {
    try {
      work();
    } catch (error) {
      const failure = { code: 'OperationError', message: `${error.message}` };
      for (const tensor of tensors) {
        const held = this.#tensors.get(tensor);
        if (held !== undefined) held.storage.completion = Completion.failed(failure);
      }
    }
  }
}

/** What is not known of a tensor is not known of its parts. */
function partOf(storage, first) {
  const part = new Part(storage.buffer, first);
  part.doubts = storage.doubts;
  return part;
}

function present(value, message) {
  if (value === undefined) throw { code: 'OperationError', message };
  return value;
}

module.exports = { DeviceTasks };
