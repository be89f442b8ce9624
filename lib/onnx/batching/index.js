'use strict';

// Dynamic batching: runs that wait for the same model are run as one.
//
// One run is under way at a time, but for more urgent ones, which do not wait for it. What arrives meanwhile waits, in families of equal shapes apart from the rows (families.js), and apart from the
// length of a text if texts can be filled up after their ends (../lengths.js). With a delay, a family is ready when it fills a run or one of its
// requests has waited so long. When the run ends, what has gathered of the first family that is ready goes together, of texts those whose lengths are
// nearest to that of the first (grouping.js). Each caller gets its rows of the results in memory of its
// own, up to the end of its text (joined-runs.js). If a joined run fails, each of its requests is run alone, so that the error reaches only the caller
// that has caused it.
//
// Without a delay, runs are joined only as long as that is faster (pace.js).

const { setTimeout, clearTimeout } = require('node:timers');
const { NORMAL } = require('../../scheduling.js');
const { areSame } = require('../given.js');
const { Counts } = require('./counts.js');
const { Families } = require('./families.js');
const { takeGroup } = require('./grouping.js');
const { JoinedRuns } = require('./joined-runs.js');
const { Pace } = require('./pace.js');
const { begins, canBeJoined, leave } = require('./requests.js');
const { RowLayout } = require('./row-layout.js');

/** @typedef {import('../model.js').Model} Model */
/** @typedef {import('../model.js').RunOptions} RunOptions */
/** @typedef {import('../given.js').Given} Given */
/** @typedef {import('../joinable.js').Refused} Refused */
/** @typedef {import('./families.js').Family} Family */
/** @typedef {import('./requests.js').Waiting} Waiting */

/**
 * What requests with the same shapes have in common.
 * @typedef {{shapes: any[], rows: number, length: number, elements: number, family: Family}} Kind
 */

/**
 * A request that batching knows of, until it has ended: its results if it is run here. Otherwise its caller runs it at once; `holds` is its
 * priority if others wait for its end.
 * @typedef {{elements: number, holds: number | undefined, results: Promise<Record<string, any>> | undefined}} Turn
 */

class Batching {
  #model;
  #options;
  #layout;
  #families;
  #joined;
  #counts;
  /** Of the last request. @type {Kind | undefined} */
  #kind;
  /** How many wait. */
  #waiting = 0;
  #pace = new Pace();
  /** The priorities of what is under way: each is more urgent than those before it. @type {number[]} */
  #underWay = [];
  /** Whether a start is due: when the microtasks of this turn have run, or after the delay. */
  #isDue = false;
  #timer;
  /** Starts what waits without the rest of the delay: the model or the context is gone. */
  #hurry = () => this.hurry();
  #isHurried = false;
  /** Whether the run before was one of several callers: then those that follow arrive together, too. */
  #wasJoined = false;

  /**
   * @param {Model} model
   * @param {number[]} axes of the inputs' rows; -1 for an input that has none
   * @param {{axes?: number[], refused?: Refused}} lengths the axes of their lengths, if texts may end earlier
   * @param {{maxSize: number, maxDelay: number, maxElements: number}} options
   */
  constructor(model, axes, lengths, options) {
    this.#model = model;
    this.#options = options;
    this.#layout = new RowLayout(model.inputs, axes, lengths.axes ?? axes.map(() => -1));
    this.#families = new Families(this.#layout);
    this.#counts = new Counts(model);
    this.#joined = new JoinedRuns(model, this.#layout, this.#counts);
    if (lengths.refused !== undefined) this.#joined.refusedLengths.push(lengths.refused);
  }

  /** For script. */
  describe() {
    const named = (axes) => Object.fromEntries(this.#model.inputs.flatMap(({ name }, i) => (axes[i] === -1 ? [] : [[name, axes[i]]])));
    const copies = (list) => list.map((one) => ({ ...one }));
    const { axes, lengths } = this.#layout;
    const ofLengths = { axes: named(lengths), refused: copies(this.#joined.refusedLengths) };
    const refused = copies(this.#joined.refused);
    return { ...this.#options, axes: named(axes), lengths: ofLengths, joins: this.#joins, ...this.#counts.describe(), refused };
  }

  /**
   * A request comes. It runs with others, if that is possible; arrays are copied before this returns.
   * @param {Given} given
   * @param {RunOptions} options
   * @returns {Turn | undefined} for {@link end}; nothing for what has to run alone
   */
  begin(given, options) {
    if (!canBeJoined(given, options)) return undefined;
    const kind = this.#kindOf(given);
    if (kind === undefined || kind.family.of(kind.length).isRefused) return undefined;
    const { rows, elements } = kind;
    this.#counts.request();
    this.#pace.begin();
    // Nothing waits, so this goes at once; or it goes beside others.
    const { priority = NORMAL } = options;
    const joins = this.#joins;
    if (!joins || (this.#mayStart(priority) && !this.#isDue && !this.#wasJoined && this.#options.maxDelay === 0)) {
      this.#counts.single(rows);
      if (joins) this.#underWay.push(priority);
      return { elements, holds: joins ? priority : undefined, results: undefined };
    }
    return { elements, holds: undefined, results: this.#runSoon(kind, given, options) };
  }

  /**
   * A request has ended.
   * @param {Turn} turn
   */
  end({ elements, holds }) {
    this.#pace.end(elements);
    if (holds !== undefined) this.#end(holds);
  }

  /** Whether nothing so urgent is under way. */
  #mayStart(priority) {
    const { length } = this.#underWay;
    return length === 0 || priority < this.#underWay[length - 1];
  }

  /** Looks at the shapes and elements of a request. @returns {Kind | undefined} nothing for what cannot be joined */
  #kindOf(given) {
    const last = this.#kind;
    if (last !== undefined && areSame(last.shapes, given.shapes) && this.#layout.isPlain(given)) return last;
    // The family that was found last is never forgotten; another one may be.
    this.#kind = undefined;
    const rows = this.#layout.rowsOf(given);
    if (!(rows > 0 && rows < this.#options.maxSize)) return undefined;
    const family = this.#families.of(given.shapes);
    const length = this.#layout.lengthOf(given.shapes);
    const elements = this.#layout.elementsOf(family.one, rows, length);
    if (elements > this.#options.maxElements) return undefined;
    this.#kind = { shapes: given.shapes.map((shape) => [...shape]), rows, length, elements, family };
    return this.#kind;
  }

  /** Nobody waits for the rest of the delay any more. */
  hurry() {
    this.#isHurried = true;
    this.#stopTimer();
    this.#start();
  }

  /** Whoever wants runs to wait wants them to be joined. */
  get #joins() {
    return this.#options.maxDelay > 0 || this.#pace.joins;
  }

  /** Runs when nothing is under way, with others that have gathered. */
  #runSoon({ family, rows, length }, given, options) {
    const { label } = this.#model;
    return new Promise((resolve, reject) => {
      const waiting = { given: given.own(), options, label, rows, length, began: performance.now(), priority: options.priority ?? NORMAL, passed: 0, isOver: false, resolve, reject };
      family.add(waiting);
      this.#waiting++;
      options.life?.whenOver(() => {
        waiting.isOver = true;
        if (!family.remove(waiting)) return;
        this.#waiting--;
        leave(waiting);
      });
      if (this.#mayStart(waiting.priority)) this.#startSoon();
    });
  }

  /** What had this priority is not under way any more. */
  #end(priority) {
    this.#underWay.splice(this.#underWay.indexOf(priority), 1);
    this.#start();
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

  /** Starts what has gathered, if nothing so urgent is under way and it has waited long enough. */
  #start() {
    if (this.#waiting === 0) return;
    const family = this.#next();
    if (family === undefined) return;
    this.#stopTimer();
    this.#families.pass(family);
    const taken = takeGroup(family, this.#layout, this.#options);
    this.#waiting -= taken.length;
    const group = taken.filter(begins);
    if (group.length === 0) {
      this.#start();
      return;
    }
    const priority = Math.min(...group.map((waiting) => waiting.priority));
    this.#underWay.push(priority);
    this.#wasJoined = group.length > 1;
    void this.#runGroup(family, group, priority);
  }

  /** The family that is to go next, of those that may start and are full or have a request which has waited long enough. */
  #next() {
    const { maxSize } = this.#options;
    const maxDelay = this.#isHurried ? 0 : this.#options.maxDelay;
    const since = performance.now() - maxDelay;
    const isReady = (one) => maxDelay === 0 || one.rows >= maxSize || one.oldest <= since;
    const mayStart = ({ waiting: [first] }) => this.#mayStart(first.priority);
    const family = this.#families.first((one) => mayStart(one) && isReady(one));
    if (family !== undefined) return family;
    const oldest = this.#families.oldest(mayStart);
    if (oldest < Infinity) this.#startAfter(oldest - since);
    return undefined;
  }

  /** @param {number} ms */
  #startAfter(ms) {
    this.#stopTimer();
    this.#timer = setTimeout(() => {
      this.#stopTimer();
      this.#start();
    }, Math.ceil(ms));
    this.#model.contextState.delayed.add(this.#hurry);
  }

  #stopTimer() {
    clearTimeout(this.#timer);
    this.#model.contextState.delayed.delete(this.#hurry);
  }

  /**
   * @param {Family} family
   * @param {Waiting[]} group
   * @param {number} priority that of the most urgent of them
   */
  async #runGroup(family, group, priority) {
    if (group.length === 1) {
      await this.#settle(group[0]);
      return this.#end(priority);
    }
    let finish;
    try {
      finish = await this.#joined.run(family, group);
    } catch {
      // The error belongs to one of them, which will hear of it.
    }
    if (finish === undefined) {
      await Promise.all(group.map((waiting) => (waiting.isOver ? leave(waiting) : this.#settle(waiting))));
      return this.#end(priority);
    }
    // The next ones compute while the results of these are divided.
    this.#end(priority);
    finish();
  }

  /** Runs one alone. */
  async #settle({ given, options, rows, began, resolve, reject }) {
    this.#counts.single(rows, began);
    try {
      resolve(await this.#model.runAlone(given, options));
    } catch (error) {
      reject(error);
    }
  }
}

module.exports = { Batching };
