'use strict';

// The plans of a model for the shapes that its inputs had. Which are kept, beside those of later parts, is decided natively
// (src/program/cache.rs): the most recently used ones.

const native = require('../native.js');
const { dataTypes } = require('../descriptor.js');
const { createGraph, toGraph } = require('../graph.js');
const { begin } = require('../settle.js');
const { OutputPrefetch } = require('./output-prefetch.js');
const { Idle } = require('./idle.js');
const { refusal } = require('./refusal.js');
const { release } = require('./run.js');

/**
 * A plan: what runs a model for inputs of given shapes.
 * @typedef {object} Plan
 * @property {object} graph the MLGraph of the model, or of its first part
 * @property {object} graphState
 * @property {{name: string, type: string, dataType: string, shape: number[], known?: ArrayBuffer}[]} outputs
 * @property {[string, string, string][]} cuts nodes at which the model is cut, if it is
 * @property {boolean} walks whether runs go natively from part to part: of a model that is cut, or of which inputs or outputs are no tensors
 * @property {any[]} shapes
 * @property {number} bytes of the inputs and outputs of its graph
 * @property {number} keptBytes what it keeps beside the weights
 * @property {number} number by which it is counted natively
 * @property {Idle} idle that of all plans of the model
 * @property {OutputPrefetch} prefetch likewise
 * @property {number} running
 */

class Plans {
  #model;
  /** @type {Map<string, Plan>} */
  #plans = new Map();
  /** Their keys, by their numbers. @type {Map<number, string>} */
  #keys = new Map();
  /** @type {Map<string, Promise<Plan>>} */
  #making = new Map();
  /** What runs take and give back, or is got ready for them: of all plans. */
  #pools = { prefetch: new OutputPrefetch(), idle: new Idle(release) };

  /** @param {{handle: number, context: object, contextState: object, label: string, inputs: object[], hasLists: boolean}} model */
  constructor(model) {
    this.#model = model;
  }

  /** The plan for these shapes, if there is one. */
  get(key) {
    const plan = this.#plans.get(key);
    // Of a single one the use counts as well: plans of later parts are beside it.
    if (plan !== undefined && (this.#plans.size > 1 || plan.walks)) this.#leave(native.usePlan(this.#model.handle, plan.number));
    return plan;
  }

  /**
   * The plan for these shapes. Whoever asks for one that is being made waits for that.
   * @param {string} operator
   * @param {string} key
   * @param {any[]} shapes as of readInputs()
   * @returns {Promise<Plan>}
   */
  make(operator, key, shapes) {
    const found = this.get(key);
    if (found !== undefined) return Promise.resolve(found);
    let making = this.#making.get(key);
    if (making === undefined) {
      making = this.#plan(operator, shapes).then(
        (plan) => {
          this.#making.delete(key);
          this.#keep(key, plan);
          return plan;
        },
        (error) => {
          this.#making.delete(key);
          throw error;
        },
      );
      this.#making.set(key, making);
    }
    return making;
  }

  #keep(key, plan) {
    const [number, ...leaving] = native.keepPlan(this.#model.handle, plan.keptBytes);
    plan.number = number;
    this.#plans.set(key, plan);
    this.#keys.set(number, key);
    this.#leave(leaving);
  }

  /** Lets go of plans that are kept no longer, by their numbers. */
  #leave(numbers = []) {
    for (const number of numbers) {
      const key = this.#keys.get(number);
      const plan = this.#plans.get(key);
      if (plan === undefined) continue;
      this.#keys.delete(number);
      this.#plans.delete(key);
      evict(plan);
    }
  }

  /** Lets go of all plans. Runs in flight are completed. */
  clear() {
    for (const plan of this.#plans.values()) retire(plan);
    this.#plans.clear();
    this.#keys.clear();
    this.#pools.prefetch.forget();
  }

  #plan(operator, shapes) {
    const { context, contextState, handle: model, label, hasLists } = this.#model;
    let handle;
    const entry = {
      operator,
      label,
      context: contextState,
      arrive: (planned) => {
        if (planned.refused !== undefined) throw refusal(operator, planned.refused, label);
        const walks = hasLists || planned.cuts.length > 0;
        return createPlan(context, createGraph(contextState, handle, label, planned), { ...planned, walks }, shapes, this.#pools);
      },
      fail: () => contextState.order.destroyGraph(handle),
    };
    return begin(entry, (request) => {
      handle = contextState.order.planOnnx(request, model, shapes, label);
    });
  }
}

/** @returns {Plan} */
function createPlan(context, graph, { modelOutputs, known, cuts, walks, runBytes, keptBytes }, shapes, pools) {
  const values = new Map(known);
  const graphState = toGraph(graph);
  const outputs = modelOutputs.map(([name, dataType, shape, type]) => ({ name, type, dataType: dataTypes[dataType], shape, known: values.get(name) }));
  let bytes = 0;
  for (const { byteLength } of [...graphState.inputs.values(), ...graphState.outputs.values()]) bytes += byteLength;
  return { context, graph, graphState, outputs, cuts, walks, shapes, bytes, runBytes, keptBytes, number: 0, ...pools, running: 0, retired: false };
}

/** Nobody asks for it any more. */
function retire(plan) {
  plan.retired = true;
  plan.idle.forget(plan);
  if (plan.running === 0) plan.graph.destroy();
}

/**
 * Makes room. Whoever has waited for a plan begins to use it some microtasks later, and until then another one that was made at the same
 * time may have taken its place.
 */
function evict(plan) {
  plan.running++;
  setImmediate(() => {
    plan.running--;
    if (plan.running === 0) plan.graph.destroy();
  });
  retire(plan);
}

/** Runs something on a plan, which stays until that has ended. */
async function using(plan, work) {
  plan.running++;
  try {
    return await work(plan);
  } finally {
    plan.running--;
    if (plan.retired && plan.running === 0) plan.graph.destroy();
  }
}

/** Whether it is that of a sequence's tensors; an empty list is that of a tensor or of no tensors, of one input always the same. */
const isList = (shape) => Array.isArray(shape?.[0]);

/** What tells plans apart. */
function keyOf(shapes) {
  let key = '';
  for (const shape of shapes) key += isList(shape) ? `${shape.length}(${shape.join('|')});` : `${shape};`;
  return key;
}

module.exports = { Plans, keyOf, using };
