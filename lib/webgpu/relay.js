'use strict';

// What programs of the native side, which run models that are cut, ask of a device of script's (src/node/relay.rs): their tasks are
// carried out on the context's timeline, in their order, and how each ended is reported. What programs call tensors and graphs are numbers.

const native = require('../native.js');
const { ask } = require('../settle.js');
const { Fate } = require('./fate.js');
const { Turns } = require('./turns.js');

class Relay {
  #timeline;
  #context;
  /** @type {Map<number, any>} */
  #tensors = new Map();
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

  /** Carries out all that there is, in turns. */
  async serve() {
    if (this.#isServing) return;
    this.#isServing = true;
    const turns = new Turns();
    try {
      for (;;) {
        const tasks = native.takeTasks(this.#context);
        if (tasks.length === 0) return;
        for (const [kind, ...given] of tasks) {
          await turns.next();
          this[kind](...given);
        }
      }
    } catch {
      // The context is gone; the native side has told whoever waits.
    } finally {
      this.#isServing = false;
    }
  }

  /** Reports how something ends: with buffers, or with the Cause that it throws. */
  #report(number, work) {
    const tell = (code, message, buffers) => {
      try {
        native.finishTask(this.#context, number, code, message, buffers);
      } catch {
        // The context is gone.
      }
    };
    work().then((buffers) => tell('', '', buffers), ({ code, message }) => tell(typeof code === 'string' ? code : 'OperationError', `${message}`, []));
  }

  createTensor(number, tensor, dataType, shape) {
    this.#report(number, async () => {
      await ask((request) => {
        this.#tensors.set(tensor, this.#timeline.createTensor(request, this.#context, dataType, shape, true, true, ''));
      });
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

  dispatch(graph, tensors) {
    this.#attempt(tensors, () => this.#timeline.dispatch(this.#context, this.#graph(graph), tensors.map((tensor) => this.#storage(tensor)), ''));
  }

  compute(number, graph, inputs, wanted) {
    this.#report(number, async () => {
      const handle = this.#graph(graph);
      const outputs = handle.executable.outputLengths.map((length, i) => (wanted[i] ? new ArrayBuffer(length) : undefined));
      await ask((request) => this.#timeline.compute(request, this.#context, handle, inputs, outputs, ''));
      return outputs;
    });
  }

  destroyTensor(tensor) {
    const storage = this.#tensors.get(tensor);
    this.#tensors.delete(tensor);
    if (storage !== undefined) this.#timeline.destroyTensor(storage);
  }

  destroyGraph(graph) {
    const handle = this.#graphs.get(graph);
    this.#graphs.delete(graph);
    if (handle !== undefined) this.#timeline.destroyGraph(handle);
  }

  #storage(tensor) {
    return present(this.#tensors.get(tensor), 'the memory of a value could not be had');
  }

  #graph(graph) {
    const handle = this.#graphs.get(graph);
    return present(handle?.executable && handle, 'the graph was destroyed');
  }

  /** Does what nobody waits for: where it fails, the tensors that it uses are errored, and whoever reads them hears of it. */
  #attempt(tensors, work) {
    try {
      work();
    } catch (error) {
      const failure = { code: 'OperationError', message: `${error.message}` };
      for (const tensor of tensors) {
        const storage = this.#tensors.get(tensor);
        if (storage !== undefined) storage.fate = Fate.failed(failure);
      }
    }
  }
}

function present(value, message) {
  if (value === undefined) throw { code: 'OperationError', message };
  return value;
}

module.exports = { Relay };
