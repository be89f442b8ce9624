'use strict';

const { Pace } = require('../../lib/onnx/batching/pace.js');

/** So many clients, each of which asks again when it has its result. Joined runs take some milliseconds, and so does one alone. */
class Clients {
  #now = 0;
  /** Milliseconds in which runs were joined, and in which they were not. */
  joined = 0;
  apart = 0;

  constructor(count, { joined, alone }) {
    this.pace = new Pace(() => this.#now);
    Object.assign(this, { count, times: { joined, alone } });
    for (let i = 0; i < count; i++) this.pace.begin();
  }

  run(milliseconds) {
    this.joined = this.apart = 0;
    for (const end = this.#now + milliseconds; this.#now < end; ) {
      const [before, { joins }] = [this.#now, this.pace];
      if (joins) this.#end(this.count, this.times.joined);
      else this.#end(1, this.times.alone);
      this[joins ? 'joined' : 'apart'] += this.#now - before;
    }
    return this;
  }

  /** Some runs end after a time, and their clients ask again. */
  #end(count, time) {
    this.#now += time;
    for (let i = 0; i < count; i++) this.pace.end(1);
    for (let i = 0; i < count; i++) this.pace.begin();
  }
}

test('runs are joined where that is faster', () => {
  const { joined, apart } = new Clients(8, { joined: 2, alone: 1 }).run(20000);
  expect(joined / (joined + apart)).toBeGreaterThan(0.9);
});

test('runs go one by one where that is faster', () => {
  const { joined, apart } = new Clients(8, { joined: 10, alone: 1 }).run(20000);
  expect(apart / (joined + apart)).toBeGreaterThan(0.9);
});

test('the other way is tried again, and taken if it has become faster', () => {
  const clients = new Clients(4, { joined: 8, alone: 1 }).run(20000);
  expect(clients.pace.joins).toBe(false);
  clients.times = { joined: 1, alone: 1 };
  const { joined, apart } = clients.run(20000);
  expect(joined).toBeGreaterThan(apart);
});

test('one client alone measures nothing', () => {
  const clients = new Clients(1, { joined: 5, alone: 1 }).run(20000);
  expect([clients.joined, clients.apart]).toEqual([20000, 0]);
});

test('long runs are measured by so many that each client had several', () => {
  // 100 ms would be one run.
  const clients = new Clients(2, { joined: 500, alone: 400 }).run(1999);
  expect(clients.apart).toBe(0);
  clients.run(2000);
  expect(clients.apart).toBeGreaterThan(0);
});
