'use strict';

// Keeps what was computed of earlier prompts, so that the next turn of a conversation computes only what is new.

const { GenerationCache } = require('webnn-node/generate');

/** Fewer equal tokens are not worth another conversation's memory. */
const LEAST = 16;

function sharedLength(one, other) {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length++;
  return length;
}

class Conversations {
  /** Those that no request uses; the one used last is the last. @type {{cache: GenerationCache, ids: number[]}[]} */
  #idle = [];
  #limits;
  #isDestroyed = false;

  /** @param {{count: number, tokens: number}} limits how many are kept, and of how many tokens together */
  constructor(limits) {
    this.#limits = limits;
  }

  /**
   * The conversation that a prompt continues, or a new one. Give it back.
   * @param {number[]} prompt
   */
  take(prompt) {
    let [best, most] = [-1, LEAST - 1];
    this.#idle.forEach(({ ids }, i) => {
      const length = sharedLength(ids, prompt);
      if (length > most) [best, most] = [i, length];
    });
    if (best < 0) return { cache: new GenerationCache(), ids: [] };
    return this.#idle.splice(best, 1)[0];
  }

  /**
   * @param {{cache: GenerationCache}} conversation
   * @param {number[]} ids what was said so far
   */
  give({ cache }, ids) {
    if (this.#isDestroyed) {
      cache.destroy();
      return;
    }
    this.#idle.push({ cache, ids });
    const total = () => this.#idle.reduce((sum, one) => sum + one.ids.length, 0);
    while (this.#idle.length > 0 && (this.#idle.length > this.#limits.count || total() > this.#limits.tokens)) this.#idle.shift().cache.destroy();
  }

  /** Releases the memory of all that are idle. @returns {boolean} whether there were any */
  clear() {
    const had = this.#idle.length > 0;
    for (const { cache } of this.#idle.splice(0)) cache.destroy();
    return had;
  }

  destroy() {
    this.#isDestroyed = true;
    this.clear();
  }
}

module.exports = { Conversations };
