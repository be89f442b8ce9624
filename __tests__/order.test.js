'use strict';

// C17: what is kept for a tensor that WebGPU has is limited, on a timeline that only takes notes.

const { Order } = require('../lib/order.js');
const { Waiting } = require('../lib/waiting.js');

function noting() {
  const done = [];
  const note = (name) => (...given) => void done.push(`${name} ${given[0]}`);
  return { done, writeTensor: note('write'), destroyTensor: note('destroy'), dispatch: note('dispatch') };
}

const refusal = {
  code: 'OperationError',
  message: 'writeTensor [third]: found 2 unfinished tasks of the context, and 1 more, allowed at most 2: wait for some, for example with readTensor()',
};

test('C17: so much may be kept for a tensor that is rented, and destruction always', () => {
  const timeline = noting();
  const order = new Order(timeline, new Waiting(2));
  const bytes = () => new Uint8Array(4);
  const giveBack = order.holdBack('a', () => {});
  order.writeTensor('a', bytes(), 'first');
  order.writeTensor('a', bytes(), 'second');
  let found;
  try {
    order.writeTensor('a', bytes(), 'third');
  } catch (error) {
    found = error;
  }
  expect(found).toEqual(refusal);
  // What waits for nothing is not counted.
  order.writeTensor('b', bytes(), '');
  order.destroyTensor('a');
  expect(timeline.done).toEqual(['write b']);
  giveBack();
  expect(timeline.done).toEqual(['write b', 'write a', 'write a', 'destroy a']);
  order.holdBack('c', () => {});
  order.writeTensor('c', bytes(), '');
  order.writeTensor('c', bytes(), '');
});
