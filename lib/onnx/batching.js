'use strict';

// Dynamic batching: runs that wait for the same model are run as one.
//
// One run is under way at a time. What arrives meanwhile waits, in families of equal shapes apart from the rows, and apart from the length of a
// text if texts can be filled up behind their ends (lengths.js). When the run ends, what has gathered of the oldest family goes together, of texts
// those whose lengths are nearest to that of the first. Each caller gets its rows of the results in memory of its own, up to the end of its text.
// If a joined run fails, each of its requests is run alone, so that the error reaches only the caller that has caused it.
//
// Without a delay, runs are joined only as long as that is faster (batching-pace.js).

const { setTimeout, clearTimeout } = require('node:timers');
const { batched } = require('../diagnostics.js');
const { exception } = require('../errors.js');
const { NORMAL } = require('../scheduling.js');
const { bytesOf, elementCount } = require('./arrays.js');
const { Pace } = require('./batching-pace.js');
const { Given } = require('./given.js');
const { joinRows } = require('./joinable.js');
const { HIDDEN, fitLengths, hiddenFor, isWorthFilling, roundedLength, withLength } = require('./lengths.js');
const { Named, put } = require('./named.js');
const { deliver, usesDevice } = require('./places.js');
const { beginningOf, joinArrays, joinShorter, partOf, withRows } = require('./rows.js');
const { watched } = require('./watch.js');

/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./model.js').Wish} Wish */
/** @typedef {import('./joinable.js').Refused} Refused */
/** @typedef {import('./lengths.js').Fit} Fit */

/**
 * `passed` counts the more urgent ones that went before it; the length is 0 where there is none.
 * @typedef {{given: Given, wish: Wish, rows: number, length: number, began: number, priority: number, passed: number, isOver: boolean,
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

/** What is known of runs of equal shapes apart from the rows. */
class Equal {
  /** Its requests run alone. */
  isRefused = false;
  /** By a number of rows: where those of the outputs are, or nothing if so many cannot be joined. @type {Map<number, Map<string, number> | undefined>} */
  outputs = new Map();
  /** Shorter texts in their place, by their lengths; nothing for one that does not fit. @type {Map<number, Fit | undefined>} */
  fits = new Map();

  /** @param {number[][]} one the shapes for one row */
  constructor(one) {
    this.one = one;
  }
}

/** So many lengths of a family are known at most. */
const MOST_LENGTHS = 1024;

/** Requests of the same shapes apart from the rows, and the length of a text. */
class Family {
  /** The more urgent first, and then in the order of the calls. @type {Waiting[]} */
  waiting = [];
  /** The rows that wait. */
  rows = 0;
  /** By the length. @type {Map<number, Equal>} */
  #equal = new Map();
  /** Lengths that fit into no longer text. @type {Set<number>} */
  unfit = new Set();
  /** Rounded lengths that the model does not take. @type {Set<number>} */
  tooLong = new Set();
  #lengths;

  /**
   * @param {number[][]} one the shapes for one row, and a text without length
   * @param {number[]} lengths the axes of the lengths
   */
  constructor(one, lengths) {
    this.one = one;
    this.#lengths = lengths;
  }

  /** The shapes for one text of a length. */
  oneOf(length) {
    return this.one.map((shape, i) => withLength(shape, this.#lengths[i], length));
  }

  /** What is known of texts of a length. */
  of(length) {
    let equal = this.#equal.get(length);
    if (equal === undefined) {
      if (this.#equal.size >= MOST_LENGTHS) this.#equal.clear();
      equal = new Equal(this.oneOf(length));
      this.#equal.set(length, equal);
    }
    return equal;
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

  /** The length to which texts are filled up, the longest of which has this one. */
  filledFor(longest) {
    const rounded = roundedLength(longest);
    return this.tooLong.has(rounded) ? longest : rounded;
  }

  /** Takes some out. */
  take(group) {
    const gone = new Set(group);
    this.waiting = this.waiting.filter((waiting) => !gone.has(waiting));
    for (const { rows } of group) this.rows -= rows;
    return group;
  }
}

/** So many families without requests are kept. */
const MOST_FAMILIES = 256;
/** So many different reasons are kept for whoever wants to know. */
const MOST_REFUSED = 16;

class Batching {
  #model;
  #axes;
  /** The axes of the lengths; -1 where an input has none. @type {number[]} */
  #lengths;
  /** Why texts of different lengths are not joined. @type {Refused[]} */
  #refusedLengths = [];
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
  #pace = new Pace();
  #counts = { requests: 0, runs: 0, joined: 0, filled: 0 };
  /** @type {Refused[]} */
  #refused = [];

  /**
   * @param {Model} model
   * @param {number[]} axes of the inputs' rows; -1 for an input that has none
   * @param {{axes?: number[], refused?: Refused}} lengths the axes of their lengths, if texts may end earlier
   * @param {{maxSize: number, maxDelay: number, maxElements: number}} options
   */
  constructor(model, axes, lengths, options) {
    this.#model = model;
    this.#axes = axes;
    this.#lengths = lengths.axes ?? axes.map(() => -1);
    if (lengths.refused !== undefined) this.#refusedLengths.push(lengths.refused);
    this.#options = options;
  }

  /** For script. */
  describe() {
    const named = (axes) => Object.fromEntries(this.#model.inputs.flatMap(({ name }, i) => (axes[i] === -1 ? [] : [[name, axes[i]]])));
    const copies = (list) => list.map((one) => ({ ...one }));
    const lengths = { axes: named(this.#lengths), refused: copies(this.#refusedLengths) };
    return { ...this.#options, axes: named(this.#axes), lengths, joins: this.#joins, ...this.#counts, refused: copies(this.#refused) };
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
    const length = this.#lengthOf(given.shapes);
    if (family.of(length).isRefused) return undefined;
    const elements = this.#elementsOf(family, rows, length);
    if (elements > this.#options.maxElements) return undefined;
    this.#counts.requests++;
    this.#pace.begin();
    const results = this.#joins ? this.#runSoon(family, given, wish, rows, length) : this.#runApart(given, wish, rows);
    const end = () => this.#pace.end(elements);
    results.then(end, end);
    return results;
  }

  /** Whoever wants runs to wait wants them to be joined. */
  get #joins() {
    return this.#options.maxDelay > 0 || this.#pace.joins;
  }

  /** Runs when nothing is under way, with others that have gathered. */
  #runSoon(family, given, wish, rows, length) {
    if (!this.#isUnderWay && !this.#isDue && !this.#wasJoined && this.#options.maxDelay === 0) return this.#runFirst(given, wish, rows);
    return new Promise((resolve, reject) => {
      const waiting = { given: given.own(), wish, rows, length, began: performance.now(), priority: wish.priority ?? NORMAL, passed: 0, isOver: false, resolve, reject };
      family.add(waiting);
      wish.life?.whenOver(() => {
        waiting.isOver = true;
        if (family.remove(waiting)) leave(waiting);
      });
      if (!this.#isUnderWay) this.#startSoon();
    });
  }

  /** Runs beside others. */
  async #runApart(given, wish, rows) {
    this.#count(1, rows);
    return await this.#model.runAlone(given, wish);
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
    let rows, length;
    for (let i = 0; i < inputs.length; i++) {
      const [shape, axis, along] = [shapes[i], this.#axes[i], this.#lengths[i]];
      if (!isPlain(inputs[i], values[inputs[i].name], shape)) return undefined;
      if (axis === -1) continue;
      if (shape.length !== inputs[i].shape.length || (rows ?? shape[axis]) !== shape[axis]) return undefined;
      rows = shape[axis];
      if (along === -1) continue;
      if ((length ?? shape[along]) !== shape[along]) return undefined;
      length = shape[along];
    }
    return rows > 0 && rows < this.#options.maxSize ? rows : undefined;
  }

  #familyOf(shapes) {
    if (this.#last !== undefined && this.#areSame(this.#last.one, shapes)) return this.#last;
    const one = shapes.map((shape, i) => withLength(withRows(shape, this.#axes[i], 1), this.#lengths[i], 0));
    const key = one.join(';');
    let family = this.#families.get(key);
    if (family === undefined) {
      family = new Family(one, this.#lengths);
      if (this.#families.size >= MOST_FAMILIES) this.#forget();
      this.#families.set(key, family);
    }
    this.#last = family;
    return family;
  }

  /** The length of a text, or 0. */
  #lengthOf(shapes) {
    const i = this.#lengths.findIndex((axis) => axis !== -1);
    return i === -1 ? 0 : shapes[i][this.#lengths[i]];
  }

  /** Whether shapes are the same apart from the rows, and the length. */
  #areSame(one, shapes) {
    for (let i = 0; i < one.length; i++) {
      if (one[i].length !== shapes[i].length) return false;
      for (let axis = 0; axis < one[i].length; axis++) if (axis !== this.#axes[i] && axis !== this.#lengths[i] && one[i][axis] !== shapes[i][axis]) return false;
    }
    return true;
  }

  #forget() {
    for (const [key, { waiting }] of this.#families) if (waiting.length === 0) this.#families.delete(key);
  }

  /** Of the largest input. */
  #elementsOf(family, rows, length) {
    let most = 0;
    family.one.forEach((shape, i) => {
      if (this.#axes[i] !== -1) most = Math.max(most, rows * elementCount(withLength(shape, this.#lengths[i], length)));
    });
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
   * Takes requests in their order, as many as fit; of texts those first whose lengths are nearest to that of the first one. Each number of rows
   * needs a plan, so powers of two are preferred.
   * @param {Family} family
   * @returns {Waiting[]}
   */
  #take(family) {
    const [first] = family.waiting;
    const group = [first];
    // The lengths between which those of the group are, its rows, and its places.
    let [shortest, longest, rows, places, best] = [first.length, first.length, first.rows, first.rows * first.length, 0];
    for (const waiting of this.#nearest(family)) {
      const [from, to, all] = [Math.min(shortest, waiting.length), Math.max(longest, waiting.length), rows + waiting.rows];
      const filled = from === to ? to : family.filledFor(to);
      const own = places + waiting.rows * waiting.length;
      if (all > this.#options.maxSize || !this.#haveSame(first, waiting)) break;
      if (this.#elementsOf(family, all, filled) > this.#options.maxElements) break;
      // Farther ones of the other side may still do.
      if (from !== to && !isWorthFilling(own, all * filled)) continue;
      group.push(waiting);
      [shortest, longest, rows, places] = [from, to, all, own];
      if (rows === this.#options.maxSize || (rows & (rows - 1)) === 0) best = group.length;
    }
    return family.take(group.slice(0, best || group.length));
  }

  /** The others that wait, of texts the nearest lengths first. */
  #nearest({ waiting, unfit }) {
    const [{ length }, ...others] = waiting;
    if (others.every((other) => other.length === length)) return others;
    const distance = (other) => Math.abs(other.length - length);
    // What is not proved to fit, and a text of no length, goes with its own only.
    const fits = (other) => other.length === length || ![length, other.length].some((one) => one === 0 || unfit.has(one));
    return others.filter(fits).sort((one, other) => distance(one) - distance(other));
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
    for (const { rows, length } of group) if (rows > 1 && !(await this.#canJoin(family.of(length), rows))) return undefined;
    const lengths = [...new Set(group.map(({ length }) => length))];
    const longest = Math.max(...lengths);
    const filled = lengths.length === 1 ? longest : family.filledFor(longest);
    const equal = family.of(filled);
    try {
      if (!(await this.#canJoin(equal, all))) return undefined;
      if (lengths.length > 1 && !(await this.#canFill(family, equal, filled, lengths))) return undefined;
    } catch (error) {
      // A table of places may end before.
      if (filled === longest) throw error;
      family.tooLong.add(filled);
      return await this.#runJoined(family, group);
    }
    const joined = lengths.length > 1 ? this.#fill(family, group, all, filled) : this.#join(group, all);
    batched(() => this.#told(group.length, all, group[0].began));
    const results = await this.#runAll(joined, group);
    this.#counts.runs++;
    this.#counts.joined += group.length;
    if (lengths.length > 1) this.#counts.filled += group.length;
    return () => this.#divide(group, results, equal, all);
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

  /**
   * Whether so many rows are computed as one is.
   * @param {Equal} equal
   * @param {number} rows
   */
  async #canJoin(equal, rows) {
    if (!equal.outputs.has(rows)) {
      const { axes, refused } = await joinRows(this.#model, equal.one, this.#axes, rows);
      equal.outputs.set(rows, axes);
      if (refused !== undefined) {
        equal.isRefused = true;
        note(this.#refused, refused);
      }
    }
    return equal.outputs.get(rows) !== undefined;
  }

  /**
   * Whether texts of these lengths give what they give alone when they are filled up to a length.
   * @param {Family} family
   * @param {Equal} equal of the length to which they are filled up
   * @param {number} filled
   * @param {number[]} lengths
   */
  async #canFill(family, { one, fits }, filled, lengths) {
    const unknown = lengths.filter((length) => length < filled && !fits.has(length));
    if (unknown.length > 0) {
      const found = await fitLengths(this.#model, one, unknown.map((length) => family.oneOf(length)));
      found.forEach(({ fit, refused }, i) => {
        fits.set(unknown[i], fit);
        if (refused === undefined) return;
        family.unfit.add(unknown[i]);
        note(this.#refusedLengths, refused);
      });
    }
    return lengths.every((length) => length === filled || fits.get(length) !== undefined);
  }

  /** What texts of different lengths are given, filled up behind their ends. */
  #fill(family, group, all, filled) {
    const values = new Named();
    const [{ given: first }] = group;
    const shapes = this.#model.inputs.map(({ name, dataType }, i) => {
      const [axis, along] = [this.#axes[i], this.#lengths[i]];
      const shape = withLength(withRows(first.shapes[i], axis, all), along, filled);
      const parts = () => group.map(({ given }) => ({ array: given.values[name], shape: given.shapes[i] }));
      values[name] = axis === -1 ? first.values[name] : joinShorter(dataType, parts(), axis, shape);
      return shape;
    });
    const lengths = group.flatMap(({ rows, length }) => new Array(rows).fill(length));
    values[HIDDEN] = hiddenFor(lengths, filled);
    const given = new Given(shapes, values, false, false);
    given.lengths = { long: family.oneOf(filled), short: family.oneOf(Math.min(...lengths)) };
    return given;
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
  #divide(group, results, { outputs, fits }, all) {
    const axes = outputs.get(all);
    let from = 0;
    for (const waiting of group) {
      const { given, wish, rows, length, resolve, reject } = waiting;
      const fit = fits.get(length);
      from += rows;
      if (waiting.isOver) {
        leave(waiting);
        continue;
      }
      try {
        const own = {};
        for (const [name, result] of Object.entries(results)) {
          if (wish.wanted !== undefined && !wish.wanted.has(name)) continue;
          const [axis, first] = [axes.get(name), from - rows];
          put(own, name, fit === undefined ? partOf(result, axis, first, rows, all) : beginningOf(result, axis, first, rows, all, fit.get(name)));
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

/** Notes a reason, once. */
function note(list, refused) {
  const isKnown = list.some(({ node, reason }) => node === refused.node && reason === refused.reason);
  if (!isKnown && list.length < MOST_REFUSED) list.push(refused);
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
