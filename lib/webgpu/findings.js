'use strict';

// Results of the checks of indices that only the device has (src/backend/wgpu/lower/checks.rs). They are read together with something that was
// computed from the indices. Until then every output of a run carries the run's findings, and so do results of later runs that use it.

const { dataTypes } = require('../descriptor.js');
const { describe } = require('./checks.js');
const { COPY_SRC, STORAGE, readBytes } = require('./device.js');

/** @typedef {import('./checks').Check} Check */
/** @typedef {import('../native').Cause} Cause */

/** Where the finding of a number begins, and the words that it takes: of src/backend/wgpu/program.rs. */
const ALIGNMENT = 256;

/** Runs whose findings are asked for where nothing is read: what is computed of so many has a list of all. */
const MOST_UNKNOWN = 64;

/** Those of a run. */
class Findings {
  #device;
  #checks;
  /** Once the run has been recorded. @type {GPUBuffer | undefined} */
  #buffer = undefined;
  /** @type {Promise<void> | undefined} */
  #asked = undefined;
  isKnown = false;
  /** Once they are known, if one was outside. @type {Cause | undefined} */
  failure = undefined;

  /**
   * @param {GPUDevice} device
   * @param {Check[]} checks
   */
  constructor(device, checks) {
    this.#device = device;
    this.#checks = checks;
  }

  get #byteLength() {
    return this.#checks.length * ALIGNMENT;
  }

  /** Zeros where the run leaves them. */
  begin(label) {
    this.#buffer = this.#device.createBuffer({ label, size: this.#byteLength, usage: STORAGE | COPY_SRC });
    return this.#buffer;
  }

  /** Asks the device, after all earlier work. If it is lost, nothing was found. @returns {Promise<void>} */
  ask() {
    this.#asked ??= this.#learn(this.#buffer && readBytes(this.#device, this.#buffer, this.#byteLength, 'findings'));
    return this.#asked;
  }

  get isAskedFor() {
    return this.#asked !== undefined;
  }

  async #learn(read) {
    try {
      // Of a run that could not be recorded.
      if (read === undefined) return;
      const words = new Uint32Array((await read()).buffer);
      const number = this.#checks.findIndex((_, i) => words[(i * ALIGNMENT) / 4] !== 0);
      if (number >= 0) this.failure = failureOf(this.#checks[number], words.subarray((number * ALIGNMENT) / 4));
    } catch {
      // A read rejects with it.
    } finally {
      this.isKnown = true;
      this.#buffer?.destroy();
    }
  }
}

/** @param {Check} check @param {Uint32Array} words all ones minus the position, and the index, the low word first */
function failureOf(check, [found, low, high]) {
  const wide = (BigInt(high) << 32n) | BigInt(low);
  const values = {
    int64: () => BigInt.asIntN(64, wide),
    uint64: () => wide,
    uint32: () => low,
    uint8: () => low,
  };
  const index = (values[dataTypes[check.dataType]] ?? (() => low | 0))();
  return describe(check, 0xffffffff - found, index);
}

/** @typedef {readonly Findings[]} Doubts what is not known to be nothing, first that of the first run */
/** @type {Doubts} */
const NONE = [];

/**
 * @param {Doubts[]} all
 * @returns {Doubts}
 */
function doubtsOf(all) {
  if (all.every((doubts) => doubts.length === 0)) return NONE;
  return [...new Set(all.flat())].filter((findings) => !findings.isKnown || findings.failure !== undefined);
}

/**
 * The failure of a run that is known to have failed.
 * @param {Doubts} doubts
 */
function failureIn(doubts) {
  return doubts.find(({ failure }) => failure !== undefined)?.failure;
}

/**
 * Asks for all of them, after all earlier work.
 * @param {Doubts} doubts
 * @returns {() => Promise<Cause | undefined>} what waits for the answer
 */
function askFor(doubts) {
  const asked = doubts.filter(({ isKnown }) => !isKnown).map((findings) => findings.ask());
  return async () => {
    await Promise.all(asked);
    return failureIn(doubts);
  };
}

/** Asks where nobody reads and the list becomes long. @param {Doubts} doubts */
function askForMany(doubts) {
  const unasked = doubts.filter(({ isAskedFor }) => !isAskedFor);
  if (unasked.length >= MOST_UNKNOWN) askFor(unasked);
}

module.exports = { Findings, NONE, askFor, askForMany, doubtsOf, failureIn };
