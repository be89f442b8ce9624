'use strict';

// The plans of a model for the shapes that its inputs had. Which are kept, beside those of later parts, is decided natively
// (src/program/cache.rs): the most recently used ones.

const native = require('../native.js');
const { dataTypes } = require('../descriptor.js');
const { createGraph, toGraph } = require('../graph.js');
const { begin } = require('../settle.js');
const { OutputPrefetch } = require('./output-prefetch.js');
const { Ahead } = require('./ahead.js');
const { Idle } = require('./idle.js');
const { refusal } = require('./refusal.js');
const { release } = require('./run.js');

/**
 * A plan: what runs a model for inputs of given shapes.
 * @typedef {object} Plan
 * @property {object} graph the MLGraph of the model, or of its first part
 * @property {object} graphState
 * @property {string} key by which it is found
 * @property {string[]} inputNames in the order of the graph's inputs
 * @property {{name: string, type: string, dataType: string, shape: number[], position?: number, known?: ArrayBuffer}[]} outputs with their
 *   positions in the graph, or what is known of them
 * @property {[string, string, string][]} cuts nodes at which the model is cut, if it is
 * @property {boolean} walks whether runs go natively from part to part: of a model that is cut, or of which inputs or outputs are no tensors
 * @property {any[]} shapes
 * @property {number} bytes of the inputs and outputs of its graph
 * @property {number} keptBytes what it keeps beside the weights
 * @property {number} number by which it is counted natively
 * @property {Idle} idle that of all plans of the model
 * @property {OutputPrefetch} prefetch likewise
 * @property {number} running
 * @property {boolean} isAhead whether it was made ahead, and nobody has used it yet
 */

class Plans {
  #model;
  /** @type {Map<string, Plan>} */
  #plans = new Map();
  /** The one that was found last. @type {Plan | undefined} */
  #last;
  /** Their keys, by their numbers. @type {Map<number, string>} */
  #keys = new Map();
  /** @type {Map<string, Promise<Plan>>} */
  #making = new Map();
  /** What runs take and give back, or is got ready for them: of all plans. */
  #pools = { prefetch: new OutputPrefetch(), idle: new Idle(release) };
  /** Where several lengths are met, plans of others are made while nothing runs; not on GPUs, where one plan has all lengths' shaders. */
  #ahead;
  /** That of the one that is being made. @type {Promise<void> | undefined} */
  #makingAhead;
  /** Plans had to go: none is made ahead any more, since it would take the place of one that was wanted. */
  #isFull = false;
  #isClosed = false;

  /**
   * @param {{handle: number, context: object, contextState: object, label: string, inputs: object[], hasLists: boolean, hasSteps: boolean,
   *   running?: number}} model
   */
  constructor(model) {
    this.#model = model;
    if (model.contextState.device === 'cpu' && !model.hasSteps && !model.hasLists) this.#ahead = new Ahead(model.inputs);
  }

  /**
   * The plan for these shapes, if there is one.
   * @param {any[]} shapes as of readInputs()
   */
  find(shapes) {
    const isLast = this.#last !== undefined && areSame(this.#last.shapes, shapes);
    return this.get(isLast ? this.#last.key : keyOf(shapes));
  }

  /** The plan of a key, if there is one. */
  get(key) {
    const plan = this.#plans.get(key);
    // Of a single one the use counts as well: plans of later parts are beside it.
    if (plan !== undefined && (this.#plans.size > 1 || plan.walks)) this.#leave(native.usePlan(this.#model.handle, plan.number));
    if (plan?.isAhead) {
      plan.isAhead = false;
      this.#ahead.used();
      this.#ahead.met(plan.shapes);
    }
    this.#last = plan;
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
          this.#ahead?.met(shapes);
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

  /**
   * Nothing runs: makes a plan ahead, if one is worth it, and another one if still nothing runs then. Whoever wants a plan that is being
   * made so does not wait for it, since it has the lowest priority.
   * @returns {Promise<void> | undefined} when none is being made; nothing where there is none to make
   */
  makeAhead() {
    if (this.#makingAhead !== undefined) return this.#makingAhead;
    const first = this.#nextAhead();
    if (first === undefined) return undefined;
    const work = async () => {
      for (let shapes = first; shapes !== undefined; shapes = this.#nextAhead()) {
        try {
          const plan = await this.#plan('run', shapes, true);
          const key = keyOf(shapes);
          if (this.#isClosed || this.#isFull || this.#plans.has(key) || this.#making.has(key)) retire(plan);
          else {
            plan.isAhead = true;
            this.#ahead.made();
            this.#keep(key, plan);
          }
        } catch {
          // Refused, or the context is gone: whoever asks for it hears of that.
        }
      }
    };
    this.#makingAhead = work().finally(() => (this.#makingAhead = undefined));
    return this.#makingAhead;
  }

  /** Ends when no plan is being made that nobody asked for. */
  async ended() {
    await this.#makingAhead;
  }

  /** The shapes for the next one, if it may be made now. */
  #nextAhead() {
    const isIdle = this.#making.size === 0 && !(this.#model.running > 0) && !this.#model.contextState.lost;
    if (this.#ahead === undefined || !isIdle || this.#isFull || this.#isClosed) return undefined;
    for (;;) {
      const shapes = this.#ahead.next();
      if (shapes === undefined || !this.#plans.has(keyOf(shapes))) return shapes;
    }
  }

  #keep(key, plan) {
    const [number, ...leaving] = native.keepPlan(this.#model.handle, plan.keptBytes);
    plan.number = number;
    plan.key = key;
    this.#plans.set(key, plan);
    this.#keys.set(number, key);
    this.#leave(leaving);
  }

  /** Lets go of plans that are kept no longer, by their numbers. */
  #leave(numbers = []) {
    for (const number of numbers) {
      this.#isFull = true;
      const key = this.#keys.get(number);
      const plan = this.#plans.get(key);
      if (plan === undefined) continue;
      this.#keys.delete(number);
      this.#plans.delete(key);
      if (plan === this.#last) this.#last = undefined;
      if (plan.isAhead) this.#ahead.gone();
      evict(plan);
    }
  }

  /** Lets go of all plans. Runs in flight are completed. */
  clear() {
    this.#isClosed = true;
    for (const plan of this.#plans.values()) retire(plan);
    this.#plans.clear();
    this.#last = undefined;
    this.#keys.clear();
    this.#pools.prefetch.forget();
  }

  #plan(operator, shapes, isAhead = false) {
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
      handle = contextState.order.planOnnx(request, model, shapes, label, isAhead);
    });
  }
}

/** @returns {Plan} */
function createPlan(context, graph, { modelOutputs, known, cuts, walks, runBytes, keptBytes }, shapes, pools) {
  const values = new Map(known);
  const graphState = toGraph(graph);
  const inputNames = [...graphState.inputs.keys()];
  const outputs = modelOutputs.map(([name, dataType, shape, type]) => {
    return { name, type, dataType: dataTypes[dataType], shape, position: graphState.outputs.get(name)?.position, known: values.get(name) };
  });
  let bytes = 0;
  for (const { byteLength } of [...graphState.inputs.values(), ...graphState.outputs.values()]) bytes += byteLength;
  const sizes = { bytes, runBytes, keptBytes };
  return { context, graph, graphState, key: '', inputNames, outputs, cuts, walks, shapes, ...sizes, number: 0, ...pools, running: 0, retired: false, isAhead: false };
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

/** Waits for what has begun to run on a plan, which stays until that has ended. */
async function using(plan, result) {
  plan.running++;
  try {
    return await result;
  } finally {
    leave(plan);
  }
}

/** One of those that run on a plan has ended. */
function leave(plan) {
  plan.running--;
  if (plan.retired && plan.running === 0) plan.graph.destroy();
}

/** Whether it is that of a sequence's tensors; an empty list is that of a tensor or of no tensors, of one input always the same. */
const isList = (shape) => Array.isArray(shape?.[0]);

/** Whether they are surely the same; lists of shapes may be and not be found so. */
function areSame(left, right) {
  for (let i = 0; i < right.length; i++) {
    const [one, other] = [left[i], right[i]];
    if (one === other) continue;
    if (one === undefined || other === undefined || one.length !== other.length) return false;
    for (let axis = 0; axis < one.length; axis++) if (one[axis] !== other[axis]) return false;
  }
  return true;
}

/** What tells plans apart. */
function keyOf(shapes) {
  let key = '';
  for (const shape of shapes) key += isList(shape) ? `${shape.length}(${shape.join('|')});` : `${shape};`;
  return key;
}

module.exports = { Plans, keyOf, leave, using };
