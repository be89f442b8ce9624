'use strict';

// The requests that a server has accepted: how many there may be, and when the last of them has ended.

const { ServeError } = require('./errors.js');

class Load {
  /** Requests that are being received or answered. */
  #accepted = 0;
  /** Requests that are being answered. */
  #running = 0;
  #isLeaving = false;
  #isDraining = false;
  /** Called when nothing is left. @type {(() => void)[]} */
  #waiting = [];
  /** @type {(() => void)[]} */
  #whenLeaving = [];

  /** @param {{ maxInFlight: number }} limits */
  constructor({ maxInFlight }) {
    this.maxInFlight = maxInFlight;
  }

  get running() {
    return this.#running;
  }

  /** Whether it is not ready any more, because it ends soon. */
  get isLeaving() {
    return this.#isLeaving;
  }

  get isDraining() {
    return this.#isDraining;
  }

  /** A request has arrived. @returns {Ticket} */
  accept() {
    if (this.#isDraining) throw new ServeError('unavailable', 'the server is shutting down', { retryAfter: 1 });
    this.#requireRoom();
    this.#accepted++;
    return new Ticket(this);
  }

  /** Calls this when the server is not ready any more. @param {() => void} listener */
  whenLeaving(listener) {
    this.#whenLeaving.push(listener);
  }

  /** Not ready any more. Requests are still accepted: load balancers need time to hear of it. */
  leave() {
    this.#isLeaving = true;
    for (const listener of this.#whenLeaving.splice(0)) listener();
  }

  /** No request is accepted any more. Resolves when those that were have ended. */
  drain() {
    this.leave();
    this.#isDraining = true;
    return new Promise((resolve) => {
      if (this.#accepted === 0) resolve();
      else this.#waiting.push(resolve);
    });
  }

  /** For a ticket. */
  start() {
    this.#requireRoom();
    this.#running++;
  }

  /** For a ticket. */
  rest() {
    this.#running--;
  }

  /** For a ticket. It is not refused any more, so there may be more than the limit for a moment. */
  wake() {
    this.#running++;
  }

  /** For a ticket. */
  end(wasRunning) {
    this.#accepted--;
    if (wasRunning) this.#running--;
    if (this.#accepted === 0) for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #requireRoom() {
    if (this.#running < this.maxInFlight) return;
    throw new ServeError('busy', `found ${this.#running} requests under way, allowed ${this.maxInFlight}`, { retryAfter: 1 });
  }
}

/** A request that was accepted. */
class Ticket {
  #load;
  #isRunning = false;
  #isOver = false;

  /** @param {Load} load */
  constructor(load) {
    this.#load = load;
  }

  /** The request is there; work on it begins. */
  start() {
    this.#load.start();
    this.#isRunning = true;
  }

  /** Its client does not read, so it waits, and takes no place from others. */
  rest() {
    if (this.#isOver || !this.#isRunning) return;
    this.#isRunning = false;
    this.#load.rest();
  }

  wake() {
    if (this.#isOver || this.#isRunning) return;
    this.#isRunning = true;
    this.#load.wake();
  }

  end() {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#load.end(this.#isRunning);
  }
}

module.exports = { Load };
