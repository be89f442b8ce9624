'use strict';

// The memory of graphs on a GPUDevice: constants and arenas, which the graphs of a model share.

const { bufferSize } = require('./device.js');

/** Memory of a graph's on the device, which other graphs of its model may have too. */
class Shared {
  uses = 1;

  /**
   * @param {GPUBuffer} buffer
   * @param {() => void} whenUnused
   */
  constructor(buffer, whenUnused) {
    this.buffer = buffer;
    this.whenUnused = whenUnused;
  }

  /** @returns {this} */
  share() {
    this.uses += 1;
    return this;
  }

  release() {
    this.uses -= 1;
    if (this.uses > 0) return;
    this.buffer.destroy();
    this.whenUnused();
  }
}

/**
 * The memory that graphs keep on a device. Graphs of one model have each constant once, and one arena, since their runs follow each
 * other.
 */
class GraphMemory {
  /** By model and constant. @type {Map<string, Promise<Shared>>} */
  #constants = new Map();
  /** The largest of each model. @type {Map<number, Shared>} */
  #arenas = new Map();
  #count;

  /** @param {(kind: 'graphs' | 'scratch', bytes: number) => void} [count] counts what is in use */
  constructor(count = () => {}) {
    this.#count = count;
  }

  /** Counted before there is memory for it: the count may be refused. */
  async #hold(kind, byteLength, make, forget = () => {}) {
    const size = bufferSize(byteLength);
    this.#count(kind, size);
    try {
      return new Shared(await make(), () => {
        this.#count(kind, -size);
        forget();
      });
    } catch (error) {
      this.#count(kind, -size);
      throw error;
    }
  }

  /**
   * @param {string | undefined} name of what graphs of the model have in common
   * @param {number} byteLength
   * @param {() => Promise<GPUBuffer>} make rejected with a Cause
   * @returns {Promise<Shared>}
   */
  async constant(name, byteLength, make) {
    if (name === undefined) return this.#hold('graphs', byteLength, make);
    for (let there = this.#constants.get(name); there !== undefined; there = this.#constants.get(name)) {
      // The caller that made it may have been cancelled; this one goes on.
      const found = await there.catch(() => undefined);
      if (found?.uses > 0) return found.share();
    }
    const held = this.#hold('graphs', byteLength, make, () => this.#constants.delete(name));
    this.#constants.set(name, held);
    held.catch(() => this.#constants.delete(name));
    return held;
  }

  /**
   * @param {number | undefined} model
   * @param {number} byteLength
   * @param {() => Promise<GPUBuffer>} make
   * @returns {Promise<Shared>}
   */
  async arena(model, byteLength, make) {
    const there = model === undefined ? undefined : this.#arenas.get(model);
    if (there?.buffer.size >= byteLength) return there.share();
    const held = await this.#hold('scratch', byteLength, make, () => {
      if (this.#arenas.get(model) === held) this.#arenas.delete(model);
    });
    if (model !== undefined) this.#arenas.set(model, held);
    return held;
  }
}

module.exports = { GraphMemory, Shared };
