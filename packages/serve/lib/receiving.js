'use strict';

// Requests that are arriving. Slow senders hold what they have sent in memory: together they may hold a limited number of bytes. When it is
// exceeded, those that have sent most are cut off, so that many idle ones harm nobody.

/** Milliseconds between looks. */
const INTERVAL = 250;

class Receiving {
  /** By socket: the bytes that it had read when the request began. @type {Map<import('node:net').Socket, number>} */
  #begun = new Map();
  #most;
  #timer;

  /** @param {{ maxReceiving: number }} limits */
  constructor({ maxReceiving }) {
    this.#most = maxReceiving;
    this.#timer = setInterval(() => this.#look(), INTERVAL).unref();
  }

  /** What a socket had read with the head of the request, up to 64 KiB, is not counted. */
  add(socket) {
    this.#begun.set(socket, socket.bytesRead);
  }

  delete(socket) {
    this.#begun.delete(socket);
  }

  /** Gives up what has not arrived yet. */
  cut() {
    for (const socket of this.#begun.keys()) socket.destroy();
    this.#begun.clear();
  }

  close() {
    clearInterval(this.#timer);
  }

  #look() {
    if (this.#begun.size === 0) return;
    const all = [...this.#begun].map(([socket, begun]) => ({ socket, bytes: socket.bytesRead - begun }));
    let total = all.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total <= this.#most) return;
    all.sort((one, other) => one.bytes - other.bytes);
    while (total > this.#most) {
      const { socket, bytes } = all.pop();
      this.#begun.delete(socket);
      socket.destroy();
      total -= bytes;
    }
  }
}

module.exports = { Receiving };
