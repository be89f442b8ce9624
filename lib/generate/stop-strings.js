'use strict';

// StopStrings: ends text before one of several strings. Text that may be the beginning of one waits.

const { typeError } = require('../errors.js');
const { show } = require('../show.js');

class StopStrings {
  #stops;
  #text = '';
  /** Which string ended the text. */
  found;

  /** @param {readonly string[]} stops */
  constructor(stops) {
    const refuse = (found) => {
      throw typeError('StopStrings', '', `stops: found ${show(found)}, allowed an array of strings`);
    };
    if (!Array.isArray(stops)) refuse(stops);
    for (const stop of stops) if (typeof stop !== 'string') refuse(stop);
    this.#stops = stops.filter((stop) => stop !== '');
  }

  /**
   * Adds text.
   * @param {string} piece
   * @returns {string} the text that no stop string can begin in. The rest is dropped if one was found
   */
  push(piece) {
    if (this.found !== undefined) return '';
    this.#text += piece;
    let first = Infinity;
    for (const stop of this.#stops) {
      const at = this.#text.indexOf(stop);
      if (at >= 0 && at < first) [first, this.found] = [at, stop];
    }
    return this.#take(first === Infinity ? this.#text.length - this.#heldBack() : first);
  }

  /** The text after the string that was found. */
  get rest() {
    return this.#text.slice(this.found?.length ?? 0);
  }

  /** The text that waited, when no more comes. */
  end() {
    return this.found === undefined ? this.#take(this.#text.length) : '';
  }

  #take(length) {
    const text = this.#text.slice(0, length);
    this.#text = this.#text.slice(length);
    return text;
  }

  /** The length of the longest end of the text that a stop string begins with. */
  #heldBack() {
    let most = 0;
    for (const stop of this.#stops) {
      let length = Math.min(stop.length - 1, this.#text.length);
      while (length > most && !this.#text.endsWith(stop.slice(0, length))) length--;
      most = Math.max(most, length);
    }
    return most;
  }
}

module.exports = { StopStrings };
