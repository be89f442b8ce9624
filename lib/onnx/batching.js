'use strict';

// Dynamic batching: runs that wait for the same model are run as one.
//
// One run is under way at a time. What arrives meanwhile waits, in families of equal shapes apart from the rows. When the run ends, what has
// gathered of the oldest family goes together. Each caller gets its rows of the results in memory of its own. If a joined run fails, each of its
// requests is run alone, so that the error reaches only the caller that has caused it.

const { setTimeout, clearTimeout } = require('node:timers');
const { batched } = require('../diagnostics.js');
const { exception } = require('../errors.js');
const { NORMAL } = require('../scheduling.js');
const { bytesOf, elementCount } = require('./arrays.js');
const { Given } = require('./given.js');
const { joinRows } = require('./joinable.js');
const { Named, put } = require('./named.js');
const { deliver, usesDevice } = require('./places.js');
const { joinArrays, partOf, withRows } = require('./rows.js');
const { watched } = require('./watch.js');

/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./model.js').Wish} Wish */
/** @typedef {import('./joinable.js').Refused} Refused */

/**
 * `passed` counts the more urgent ones that went before it.
 * @typedef {{given: Given, wish: Wish, rows: number, elements: number, began: number, priority: number, passed: number, isOver: boolean,
 *   resolve: (results: any) => void, reject: (reason: unknown) => void}} Waiting
 */

/** So many may go before a less urgent request. */
const PASSED = 8;

/** Whether a request goes before another one. */
function isBefore(one, other) {
  if (one.priority === other.priority) return one.began < other.began;
  const isMoreUrgent = one.priority < other.priority;
  return (isMoreUrgent ? other : one).passed < PASSED === isMoreUrgent;
}

/** Requests of the same shapes apart from the rows. */
class Family {
  /** The more urgent first, and then in the order of the calls. @type {Waiting[]} */
  waiting = [];
  /** The rows that wait. */
  rows = 0;
  /** Its requests run alone. */
  isRefused = false;
  /** By a number of rows: where those of the outputs are, or nothing if so many cannot be joined. @type {Map<number, Map<string, number> | undefined>} */
  outputs = new Map();

  /** @param {number[][]} one the shapes for one row */
  constructor(one) {
    this.one = one;
  }

  add(waiting) {
    let at = this.waiting.length;
    while (at > 0 && isBefore(waiting, this.waiting[at - 1])) this.waiting[--at].passed++;
    this.waiting.splice(at, 0, waiting);
    this.rows += waiting.rows;
  }

  /** Whether it still waited. */
  remove(waiting) {
    const at = this.waiting.indexOf(waiting);
    if (at === -1) return false;
    this.waiting.splice(at, 1);
    this.rows -= waiting.rows;
    return true;
  }
}

/** So many families without requests are kept. */
const MOST_FAMILIES = 256;
/** So many different reasons are kept for whoever wants to know. */
const MOST_REFUSED = 16;

class Batching {
  #model;
  #axes;
  #options;
  /** @type {Map<string, Family>} */
  #families = new Map();
  /** The one that was found last. @type {Family | undefined} */
  #last;
  #isUnderWay = false;
  /** Whether a start is due: when the microtasks of this turn have run, or after the delay. */
  #isDue = false;
  #timer;
  /** Whether the run before was one of several callers: then those that follow arrive together, too. */
  #wasJoined = false;
  #counts = { requests: 0, runs: 0, joined: 0 };
  /** @type {Refused[]} */
  #refused = [];

  /**
   * @param {Model} model
   * @param {number[]} axes of the inputs' rows; -1 for an input that has none
   * @param {{maxSize: number, maxDelay: number, maxElements: number}} options
   */
  constructor(model, axes, options) {
    this.#model = model;
    this.#axes = axes;
    this.#options = options;
  }

  /** For script. */
  describe() {
    const axes = Object.fromEntries(this.#model.inputs.flatMap(({ name }, i) => (this.#axes[i] === -1 ? [] : [[name, this.#axes[i]]])));
    return { ...this.#options, axes, ...this.#counts, refused: this.#refused.map((one) => ({ ...one })) };
  }

  /**
   * Runs with others, if that is possible. Arrays are copied before this returns.
   * @param {Given} given
   * @param {Wish} wish
   * @returns {Promise<Record<string, any>> | undefined} nothing for what has to run alone
   */
  run(given, wish) {
    const rows = this.#rowsOf(given, wish);
    if (rows === undefined) return undefined;
    const family = this.#familyOf(given.shapes);
    if (family.isRefused) return undefined;
    const elements = this.#elementsOf(given);
    if (elements > this.#options.maxElements) return undefined;
    this.#counts.requests++;
    if (!this.#isUnderWay && !this.#isDue && !this.#wasJoined && this.#options.maxDelay === 0) return this.#runFirst(given, wish, rows);
    return new Promise((resolve, reject) => {
      const waiting = { given: given.own(), wish, rows, elements, began: performance.now(), priority: wish.priority ?? NORMAL, passed: 0, isOver: false, resolve, reject };
      family.add(waiting);
      wish.life?.whenOver(() => {
        waiting.isOver = true;
        if (family.remove(waiting)) leave(waiting);
      });
      if (!this.#isUnderWay) this.#startSoon();
    });
  }

  /** Nothing waits, so this goes at once. */
  async #runFirst(given, wish, rows) {
    this.#count(1, rows);
    this.#isUnderWay = true;
    try {
      return await this.#model.runAlone(given, wish);
    } finally {
      this.#end();
    }
  }

  #end() {
    this.#isUnderWay = false;
    this.#start();
  }

  /** The rows of a request; nothing if it has to run alone. */
  #rowsOf(given, wish) {
    if (!canBeJoined(given, wish)) return undefined;
    const { shapes, values } = given;
    const { inputs } = this.#model;
    let rows;
    for (let i = 0; i < inputs.length; i++) {
      const [shape, axis] = [shapes[i], this.#axes[i]];
      if (!isPlain(inputs[i], values[inputs[i].name], shape)) return undefined;
      if (axis === -1) continue;
      if (shape.length !== inputs[i].shape.length || (rows ?? shape[axis]) !== shape[axis]) return undefined;
      rows = shape[axis];
    }
    return rows > 0 && rows < this.#options.maxSize ? rows : undefined;
  }

  #familyOf(shapes) {
    if (this.#last !== undefined && this.#areSame(this.#last.one, shapes)) return this.#last;
    const one = shapes.map((shape, i) => withRows(shape, this.#axes[i], 1));
    const key = one.join(';');
    let family = this.#families.get(key);
    if (family === undefined) {
      family = new Family(one);
      if (this.#families.size >= MOST_FAMILIES) this.#forget();
      this.#families.set(key, family);
    }
    this.#last = family;
    return family;
  }

  /** Whether shapes are the same apart from the rows. */
  #areSame(one, shapes) {
    for (let i = 0; i < one.length; i++) {
      if (one[i].length !== shapes[i].length) return false;
      for (let axis = 0; axis < one[i].length; axis++) if (axis !== this.#axes[i] && one[i][axis] !== shapes[i][axis]) return false;
    }
    return true;
  }

  #forget() {
    for (const [key, { waiting }] of this.#families) if (waiting.length === 0) this.#families.delete(key);
  }

  /** Of the largest input. */
  #elementsOf({ shapes }) {
    let most = 0;
    for (let i = 0; i < shapes.length; i++) if (this.#axes[i] !== -1) most = Math.max(most, elementCount(shapes[i]));
    return most;
  }

  /** Starts when those that are called in this turn have gathered. */
  #startSoon() {
    if (this.#isDue) return;
    this.#isDue = true;
    process.nextTick(() => {
      this.#isDue = false;
      this.#start();
    });
  }

  /** Starts what has gathered, if nothing is under way and it has waited long enough. */
  #start() {
    if (this.#isUnderWay) return;
    const family = this.#next();
    if (family === undefined) return;
    clearTimeout(this.#timer);
    this.#pass(family);
    const group = this.#take(family).filter(begins);
    if (group.length === 0) {
      this.#start();
      return;
    }
    this.#isUnderWay = true;
    this.#wasJoined = group.length > 1;
    void this.#runGroup(family, group);
  }

  /** Others are passed over by what goes next. */
  #pass({ waiting: [next] }) {
    for (const { waiting } of this.#families.values()) if (waiting[0]?.priority > next.priority) waiting[0].passed++;
  }

  /** The family that is to go next: of the most urgent the one that has waited longest, or one that is full. */
  #next() {
    const { maxSize, maxDelay } = this.#options;
    let oldest;
    for (const family of this.#families.values()) {
      if (family.waiting.length === 0) continue;
      if (maxDelay > 0 && family.rows >= maxSize) return family;
      if (oldest === undefined || isBefore(family.waiting[0], oldest.waiting[0])) oldest = family;
    }
    if (oldest === undefined || maxDelay === 0) return oldest;
    const left = maxDelay - (performance.now() - oldest.waiting[0].began);
    if (left <= 0) return oldest;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#start(), Math.ceil(left));
    return undefined;
  }

  /**
   * Takes requests in their order, as many as fit. Each number of rows needs a plan, so powers of two are preferred.
   * @param {Family} family
   * @returns {Waiting[]}
   */
  #take(family) {
    const { maxSize, maxElements } = this.#options;
    const [first] = family.waiting;
    let [rows, elements, count, best] = [0, 0, 0, 0];
    for (const waiting of family.waiting) {
      rows += waiting.rows;
      elements += waiting.elements;
      if (count > 0 && (rows > maxSize || elements > maxElements || !this.#haveSame(first, waiting))) break;
      count++;
      if (count > 1 && (rows === maxSize || (rows & (rows - 1)) === 0)) best = count;
    }
    const group = family.waiting.splice(0, best || count);
    for (const waiting of group) family.rows -= waiting.rows;
    return group;
  }

  /** Whether two requests have the same values for inputs without rows. */
  #haveSame({ given: one }, { given: other }) {
    return this.#model.inputs.every(({ name }, i) => {
      return this.#axes[i] !== -1 || Buffer.compare(bytesOf(one.values[name]), bytesOf(other.values[name])) === 0;
    });
  }

  /**
   * @param {Family} family
   * @param {Waiting[]} group
   */
  async #runGroup(family, group) {
    if (group.length === 1) return await this.#runOne(group[0]);
    let finish;
    try {
      finish = await this.#runJoined(family, group);
    } catch {
      // The error belongs to one of them, which will hear of it.
    }
    if (finish === undefined) {
      await Promise.all(group.map((waiting) => (waiting.isOver ? leave(waiting) : this.#settle(waiting))));
      return this.#end();
    }
    // The next ones compute while the results of these are divided.
    this.#end();
    finish();
  }

  async #runOne(waiting) {
    await this.#settle(waiting);
    this.#end();
  }

  /** Runs one alone. */
  async #settle({ given, wish, rows, began, resolve, reject }) {
    this.#count(1, rows, began);
    try {
      resolve(await this.#model.runAlone(given, wish));
    } catch (error) {
      reject(error);
    }
  }

  /**
   * @param {Family} family
   * @param {Waiting[]} group
   * @returns {Promise<(() => void) | undefined>} what gives each caller its results; nothing if they cannot be joined
   */
  async #runJoined(family, group) {
    let all = 0;
    for (const { rows } of group) all += rows;
    // Of each caller's rows as well: they are computed as those of one are.
    for (const rows of new Set([all, ...group.map((waiting) => waiting.rows)])) if (rows > 1 && !(await this.#canJoin(family, rows))) return undefined;
    const joined = this.#join(group, all);
    batched(() => this.#told(group.length, all, group[0].began));
    const results = await this.#runAll(joined, group);
    this.#counts.runs++;
    this.#counts.joined += group.length;
    return () => this.#divide(group, results, family.outputs.get(all), all);
  }

  /** Counts a run, and tells who wants to know. */
  #count(size, rows, began = undefined) {
    this.#counts.runs++;
    batched(() => this.#told(size, rows, began));
  }

  #told(size, rows, began) {
    const { label, contextState } = this.#model;
    return { label, device: contextState.device, size, rows, waited: began === undefined ? 0 : performance.now() - began };
  }

  /** As urgent as the most urgent of them. */
  async #runAll(given, group) {
    const wanted = wantedOf(group);
    const priority = Math.min(...group.map((waiting) => waiting.priority));
    const work = (watch) => this.#model.runAlone(given, { wanted, watch });
    return await (priority === NORMAL ? work(0) : watched(undefined, work, undefined, { priority }));
  }

  /** Whether so many rows are computed as one is. */
  async #canJoin(family, rows) {
    if (!family.outputs.has(rows)) {
      const { axes, refused } = await joinRows(this.#model, family.one, this.#axes, rows);
      family.outputs.set(rows, axes);
      if (refused !== undefined) this.#refuse(family, refused);
    }
    return family.outputs.get(rows) !== undefined;
  }

  #refuse(family, refused) {
    family.isRefused = true;
    const isKnown = this.#refused.some(({ node, reason }) => node === refused.node && reason === refused.reason);
    if (!isKnown && this.#refused.length < MOST_REFUSED) this.#refused.push(refused);
  }

  /** What they are given, one after the other. */
  #join(group, all) {
    const values = new Named();
    const [{ given: first }] = group;
    const shapes = this.#model.inputs.map(({ name, dataType }, i) => {
      const axis = this.#axes[i];
      const parts = group.map(({ given }) => ({ array: given.values[name], shape: given.shapes[i] }));
      values[name] = axis === -1 ? first.values[name] : joinArrays(dataType, parts, axis);
      return withRows(first.shapes[i], axis, all);
    });
    return new Given(shapes, values, false, false);
  }

  /** Gives each caller its results. */
  #divide(group, results, axes, all) {
    let from = 0;
    for (const waiting of group) {
      const { given, wish, rows, resolve, reject } = waiting;
      from += rows;
      if (waiting.isOver) {
        leave(waiting);
        continue;
      }
      try {
        const own = {};
        for (const [name, result] of Object.entries(results)) {
          if (wish.wanted === undefined || wish.wanted.has(name)) put(own, name, partOf(result, axes.get(name), from - rows, rows, all));
        }
        resolve(wish.places === undefined ? own : deliver(this.#model, own, wish.places, given));
      } catch (error) {
        reject(error);
      }
    }
  }
}

/** Whether a request is still wanted when its turn comes; if it is, it is not overdue any more. */
function begins(waiting) {
  const { life } = waiting.wish;
  if (life === undefined || life.begin()) return true;
  leave(waiting);
  return false;
}

/** Ends a request whose caller has given up, which has heard of that already. */
function leave({ reject }) {
  reject(exception('AbortError', 'the caller has given up'));
}

/** Whether a run may be one of several: what it is given and gives is in memory, and it has no limit or seed of its own. */
function canBeJoined({ hasKept, hasTensors }, { seed, maxBytes, places, isAlone }) {
  return !hasKept && !hasTensors && !isAlone && seed === undefined && maxBytes === undefined && !usesDevice(places);
}

/** Whether a value is an array of whole elements. */
const isPlain = ({ dataType }, array, shape) => ArrayBuffer.isView(array) && !dataType.endsWith('int4') && array.length === elementCount(shape);

/** The outputs that one of them wants; nothing for all. */
function wantedOf(group) {
  if (group.some(({ wish }) => wish.wanted === undefined)) return undefined;
  return new Set(group.flatMap(({ wish }) => [...wish.wanted]));
}

module.exports = { Batching };
