'use strict';

// When the steps of a run begin and end on a device that has the feature `timestamp-query`, for whoever watches the run. Each step has a pass of its
// own then, since a device tells the times of passes.

const { performance } = require('node:perf_hooks');
const { noteSteps, wantsSteps } = require('../device-steps.js');
const { COPY_DST, COPY_SRC, readBytes } = require('./device.js');

const QUERY_RESOLVE = 0x200;
/** Steps of a set of queries, and the bytes of the times of a step. */
const STEPS = 2048;
const EACH = 16;

/** What has to be added to a device's milliseconds to have those of `performance.now()`. @type {WeakMap<GPUDevice, number>} */
const zeros = new WeakMap();

class Timestamps {
  #device;
  #executable;
  #watch;
  /** @type {GPUQuerySet[]} */
  #sets = [];
  /** The numbers of the steps in the order of their passes. @type {number[]} */
  #steps = [];
  /** @type {GPUBuffer | undefined} */
  #resolved = undefined;
  /** Settled when the watch has been told of a run that was submitted. */
  reported = Promise.resolve();

  /**
   * @param {GPUDevice} device
   * @param {InstanceType<typeof import('./executable').Executable>} executable
   * @param {number} watch
   */
  constructor(device, executable, watch) {
    this.#device = device;
    this.#executable = executable;
    this.#watch = watch;
  }

  /**
   * Nothing where nobody wants to know, or the device does not tell.
   * @param {GPUDevice} device
   * @param {InstanceType<typeof import('./executable').Executable>} executable
   * @param {number} watch
   */
  static of(device, executable, watch) {
    return executable.steps !== undefined && wantsSteps(watch) ? new Timestamps(device, executable, watch) : undefined;
  }

  /** What the pass of the next step has to write. @param {number} step */
  next(step) {
    const at = this.#steps.length % STEPS;
    if (at === 0) this.#sets.push(this.#device.createQuerySet({ type: 'timestamp', count: 2 * STEPS }));
    this.#steps.push(step);
    return { querySet: this.#sets.at(-1), beginningOfPassWriteIndex: 2 * at, endOfPassWriteIndex: 2 * at + 1 };
  }

  /** After the last pass. @param {GPUCommandEncoder} encoder */
  finish(encoder) {
    const all = this.#steps.length;
    if (all === 0) return;
    this.#resolved = this.#device.createBuffer({ label: 'timestamps', size: all * EACH, usage: QUERY_RESOLVE | COPY_SRC | COPY_DST });
    this.#sets.forEach((set, i) => encoder.resolveQuerySet(set, 0, 2 * Math.min(STEPS, all - i * STEPS), this.#resolved, i * STEPS * EACH));
  }

  /** The run has been submitted. */
  submitted() {
    if (this.#resolved === undefined) return;
    const now = performance.now();
    const read = readBytes(this.#device, this.#resolved, this.#resolved.size, 'timestamps');
    // Of a device that is lost nothing is known.
    this.reported = read().then((bytes) => this.#tell(now, bytes), () => {}).finally(() => this.#release());
  }

  #tell(submitted, bytes) {
    const times = Array.from(new BigUint64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8), (time) => Number(time) / 1e6);
    const zero = zeroOf(this.#device, submitted, times);
    noteSteps(this.#watch, this.#steps.map((number, i) => {
      const [began, ended] = [times[2 * i], Math.max(times[2 * i], times[2 * i + 1])];
      return { described: this.#executable.steps[number], number, began: began + zero, ended: ended + zero };
    }));
  }

  #release() {
    this.#resolved.destroy();
    this.#sets.forEach((set) => set.destroy());
  }
}

/** A run begins on the device after it was submitted, at once on one that had nothing to do, and has ended before script hears of that. */
function zeroOf(device, submitted, times) {
  const [least, most] = [submitted - times[0], performance.now() - times.at(-1)];
  const zero = Math.min(Math.max(zeros.get(device) ?? least, least), most);
  zeros.set(device, zero);
  return zero;
}

module.exports = { Timestamps };
