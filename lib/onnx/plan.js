'use strict';

// A plan runs a model for inputs of given shapes.

const { dataTypes } = require('../descriptor.js');
const { toGraph } = require('../graph.js');

/** An output, with its position in the graph, or what is known of it. @typedef {{name: string, type: string, dataType: string, shape: number[],
 *   position?: number, known?: ArrayBuffer}} Output */

class Plan {
  /** The number by which the native side counts it. */
  number = 0;
  /** Whether it was made ahead and is unused. */
  isAhead = false;
  /** How many runs use it. */
  #runs = 0;
  #isRetired = false;

  /**
   * @param {{context: any, hasLists: boolean}} model
   * @param {any} graph the MLGraph of the model, or of its first part
   * @param {any} planned what the native side says of it
   * @param {import('./given.js').Given} given of which the shapes count
   * @param {{idle: import('./idle.js').Idle, prefetch: import('./output-prefetch.js').OutputPrefetch}} pools those of all plans of the model
   */
  constructor({ context, hasLists }, graph, { modelOutputs, known, cuts, runBytes, planBytes }, { shapes, key, lengths }, { idle, prefetch }) {
    const graphState = toGraph(graph);
    this.context = context;
    this.graph = graph;
    this.graphState = graphState;
    this.shapes = shapes;
    this.key = key;
    /** Whether it is for texts that may end earlier. */
    this.hasEnds = lengths !== undefined;
    this.idle = idle;
    this.prefetch = prefetch;
    /** The nodes at which the model is cut. @type {[string, string, string][]} */
    this.cuts = cuts;
    /** Whether the native side runs it part by part: a model that is cut, or of which inputs or outputs are no tensors. */
    this.isProgram = hasLists || cuts.length > 0;
    /** In the order of the graph's inputs. @type {string[]} */
    this.inputNames = [...graphState.inputs.keys()];
    const values = new Map(known);
    /** @type {Output[]} */
    this.outputs = modelOutputs.map(([name, dataType, shape, type]) => {
      return { name, type, dataType: dataTypes[dataType], shape, position: graphState.outputs.get(name)?.position, known: values.get(name) };
    });
    /** Of the graph's inputs and outputs. */
    this.bytes = 0;
    for (const { byteLength } of [...graphState.inputs.values(), ...graphState.outputs.values()]) this.bytes += byteLength;
    /** What a run takes in all. @type {number} */
    this.runBytes = runBytes;
    /** What it keeps beside the weights. @type {number} */
    this.planBytes = planBytes;
  }

  /** A run begins, which ends with {@link leave}: until then the graph stays. */
  enter() {
    this.#runs++;
  }

  leave() {
    this.#runs--;
    if (this.#isRetired && this.#runs === 0) this.graph.destroy();
  }

  /**
   * Waits for a run.
   * @template T
   * @param {Promise<T>} result
   * @returns {Promise<T>}
   */
  async using(result) {
    this.enter();
    try {
      return await result;
    } finally {
      this.leave();
    }
  }

  /** Destroys the graph when no run uses it any more. */
  retire() {
    this.#isRetired = true;
    this.idle.forget(this);
    if (this.#runs === 0) this.graph.destroy();
  }

  /**
   * Retires the plan to make room. A caller that waited for it begins to use it some microtasks later, so the graph stays until then.
   */
  evict() {
    this.enter();
    setImmediate(() => this.leave());
    this.retire();
  }

  /** Keeps a set of tensors for later runs, or says that there are none. */
  keepTensors(tensors) {
    if (this.#isRetired) return false;
    this.idle.put(this, tensors);
    return true;
  }
}

module.exports = { Plan };
