'use strict';

// The plans of a model, by the shapes of its inputs. The native side counts them together with those of later parts, and keeps the most recently
// used ones (src/program/plan_cache.rs).

const timers = require('node:timers');
const native = require('../native.js');
const { destroyWatch, giveUp } = require('../cancelling.js');
const { exception } = require('../errors.js');
const { createGraph } = require('../graph.js');
const { createWatch } = require('../scheduling.js');
const { traced } = require('../diagnostics.js');
const { begin } = require('../settle.js');
const { OutputPrefetch } = require('./output-prefetch.js');
const { Ahead } = require('./ahead.js');
const { Given, areSame } = require('./given.js');
const { Idle } = require('./idle.js');
const { Plan } = require('./plan.js');
const { refusal } = require('./refusal.js');
const { release } = require('./run.js');

// Taken while they are Node's own; a test of script's may replace them later.
const { clearTimeout, setTimeout } = timers;
/** Of a timer. */
const LONGEST = 2 ** 31 - 1;

/**
 * A plan that is being made, and how many wait for it.
 * @typedef {{plan: Promise<Plan>, watch: number, waiting: number, isOver: boolean, isGivenUp: boolean}} Making
 */

class Plans {
  #model;
  /** @type {Map<string, Plan>} */
  #plans = new Map();
  /** The one that was found last. @type {Plan | undefined} */
  #last;
  /** Their keys, by their numbers. @type {Map<number, string>} */
  #keys = new Map();
  /** Those that are being made, by their keys. @type {Map<string, Making>} */
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
  /** Until somebody looks for plans that nobody uses any more. */
  #timer;

  /** @param {import('./model.js').Model} model */
  constructor(model) {
    this.#model = model;
    if (model.contextState.device === 'cpu' && !model.hasSteps && !model.hasLists) this.#ahead = new Ahead(model.inputs);
  }

  /**
   * Says that sizes of dimensions are numbers of rows: no plan is made ahead for others.
   * @param {(number | string)[]} names
   */
  expectRows(names) {
    this.#ahead?.leaveOut(names);
  }

  /**
   * The plan for these shapes, if there is one.
   * @param {Given} given
   */
  find(given) {
    const isLast = this.#last !== undefined && this.#last.hasEnds === (given.lengths !== undefined) && areSame(this.#last.shapes, given.shapes);
    return this.#get(isLast ? this.#last.key : given.key);
  }

  /** The plan of a key, if there is one. */
  #get(key) {
    const plan = this.#plans.get(key);
    // Nothing is kept for a context that is lost; what runs there is refused.
    if (this.#model.contextState.lost) return plan;
    // Of a single one the use counts as well: plans of later parts are beside it.
    if (plan !== undefined && (this.#plans.size > 1 || plan.isProgram)) this.#evict(native.usePlan(this.#model.handle, plan.number));
    if (plan?.isAhead) {
      plan.isAhead = false;
      this.#ahead.used();
      this.#ahead.met(plan.shapes);
    }
    this.#last = plan;
    return plan;
  }

  /**
   * The plan for these shapes. Several callers wait for one plan together.
   * @param {string} operator
   * @param {Given} given
   * @param {import('./watch.js').Life} [life] If all who wait have given up, the plan is not made.
   * @returns {Promise<Plan>}
   */
  make(operator, given, life = undefined) {
    const { key } = given;
    const found = this.#get(key);
    if (found !== undefined) return Promise.resolve(found);
    let making = this.#making.get(key);
    if (making === undefined) {
      making = this.#startMaking(operator, given);
      this.#making.set(key, making);
    }
    making.waiting += 1;
    life?.whenOver(() => this.#stopWaiting(key, making));
    return making.plan;
  }

  /** @returns {Making} */
  #startMaking(operator, given) {
    const { key, shapes } = given;
    const watch = createWatch({});
    const end = () => {
      if (this.#making.get(key) === making) this.#making.delete(key);
      destroyWatch(watch);
      making.isOver = true;
    };
    const plan = this.#plan(operator, given, { watch }).then(
      (plan) => {
        end();
        if (making.isGivenUp) {
          // It was nearly there.
          plan.retire();
          throw givenUp();
        }
        this.#keep(plan);
        if (given.lengths === undefined) this.#ahead?.met(shapes);
        return plan;
      },
      (error) => {
        end();
        throw error;
      },
    );
    /** @type {Making} */
    const making = { plan, watch, waiting: 0, isOver: false, isGivenUp: false };
    return making;
  }

  /** Somebody does not wait any more. Whoever asks for the plan later has it made again. */
  #stopWaiting(key, making) {
    making.waiting -= 1;
    if (making.waiting > 0 || making.isOver) return;
    this.#making.delete(key);
    making.isGivenUp = true;
    giveUp(making.watch, givenUp());
  }

  /**
   * Call this when nothing runs. Makes plans ahead, one after the other, as long as nothing runs. A caller that needs such a plan does not wait for
   * it, since it has the lowest priority.
   * @returns {Promise<void> | undefined} when none is being made; nothing where there is none to make
   */
  makeAhead() {
    if (this.#makingAhead !== undefined) return this.#makingAhead;
    const first = this.#nextAhead();
    if (first === undefined) return undefined;
    const work = async () => {
      for (let next = first; next !== undefined; next = this.#nextAhead()) {
        try {
          const plan = await this.#plan('run', next, { isAhead: true });
          if (this.#isClosed || this.#isFull || this.#plans.has(next.key) || this.#making.has(next.key)) plan.retire();
          else {
            plan.isAhead = true;
            this.#ahead.created();
            this.#keep(plan);
          }
        } catch {
          // Refused, or the context is gone: a run with these shapes will fail in the same way.
        }
      }
    };
    this.#makingAhead = work().finally(() => (this.#makingAhead = undefined));
    return this.#makingAhead;
  }

  /** Resolves when no plan is being made ahead. */
  async ended() {
    await this.#makingAhead;
  }

  /** What the next one is for, if it may be made now. @returns {Given | undefined} */
  #nextAhead() {
    const isIdle = this.#making.size === 0 && !this.#model.isRunning && !this.#model.contextState.lost;
    if (this.#ahead === undefined || !isIdle || this.#isFull || this.#isClosed) return undefined;
    for (;;) {
      const shapes = this.#ahead.next();
      if (shapes === undefined) return undefined;
      const given = new Given(shapes, {}, false, false);
      if (!this.#plans.has(given.key)) return given;
    }
  }

  #keep(plan) {
    // While it was the only one nobody has noted its uses.
    if (this.#plans.size === 1) for (const { number } of this.#plans.values()) this.#evict(native.usePlan(this.#model.handle, number));
    const [number, ...leaving] = native.keepPlan(this.#model.handle, plan.planBytes);
    plan.number = number;
    this.#plans.set(plan.key, plan);
    this.#keys.set(number, plan.key);
    this.#evict(leaving);
    if (this.#timer === undefined) this.#expire();
  }

  /** Plans that no run has used for a while go, and there is a timer while others may. */
  #expire() {
    this.#timer = undefined;
    if (this.#isClosed || this.#model.contextState.lost) return;
    const [next, ...leaving] = native.expirePlans(this.#model.handle);
    this.#leave(leaving);
    if (next >= 0) this.#timer = setTimeout(() => this.#expire(), Math.min(next + 1, LONGEST)).unref();
  }

  /** Evicts plans because there are too many, by their numbers. */
  #evict(numbers = []) {
    if (numbers.length > 0) this.#isFull = true;
    this.#leave(numbers);
  }

  /** Evicts plans, by their numbers. */
  #leave(numbers) {
    for (const number of numbers) {
      const key = this.#keys.get(number);
      const plan = this.#plans.get(key);
      // The model's only plan stays: it has no other way to run.
      if (plan === undefined || plan === this.#model.only) continue;
      this.#keys.delete(number);
      this.#plans.delete(key);
      if (plan === this.#last) this.#last = undefined;
      if (plan.isAhead) this.#ahead.gone();
      plan.evict();
    }
  }

  /** Retires all plans. Runs in flight complete. */
  clear() {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const plan of this.#plans.values()) plan.retire();
    this.#plans.clear();
    this.#last = undefined;
    this.#keys.clear();
    this.#pools.prefetch.forget();
  }

  #plan(operator, given, { isAhead = false, watch = 0 }) {
    this.#model.requireContext(operator);
    const { contextState, handle: model, label } = this.#model;
    let handle;
    const entry = {
      operator,
      label,
      context: contextState,
      arrive: (planned) => {
        if (planned.refused !== undefined) throw refusal(operator, planned.refused, label);
        return new Plan(this.#model, createGraph(contextState, handle, label, planned), planned, given, this.#pools);
      },
      fail: () => contextState.order.destroyGraph(handle),
    };
    const work = () =>
      begin(entry, (request) => {
        handle = contextState.order.planOnnx(request, model, given.shapes, label, isAhead, watch, given.lengths?.long, given.lengths?.short);
      });
    return traced('build', () => ({ operator, label, device: contextState.device, shapes: given.shapes, isAhead }), work);
  }
}

/** Nobody hears of it. */
function givenUp() {
  return exception('AbortError', 'nobody waits for the plan any more');
}

module.exports = { Plans };
