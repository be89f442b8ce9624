'use strict';

// The native functions refuse values of other kinds, whatever the runtime's Node-API makes of them: that of Deno reads `undefined` as the
// number 0.

const { ml } = require('../..');
const { toContext } = require('../../lib/context.js');
const native = require('../../lib/native.js');

const refused = expect.objectContaining({ code: 'OperationError', message: expect.stringMatching(/\binternal error: /) });

/** What is none of each kind. */
const NUMBERS = [null, true, '1', {}, [1], 1n, Symbol('s')];
const LISTS = [null, true, '1', { length: 1 }, [undefined], [null], [true], ['1'], [[1]], [1n]];
const OTHERS = {
  boolean: [null, 0, 'true', {}, []],
  number: [null, true, '1', {}, [1]],
  operands: [...LISTS, 1],
  unsignedList: [...LISTS, 1],
  floatList: [...LISTS, 1],
  enumerationList: [...LISTS, 1],
  unsignedOrList: LISTS,
};

/** These take nothing, or have been called. */
const WITHOUT = ['version', 'initialize', 'operators', 'dataTypes', 'cores', 'leaveDevices', 'settleRest', 'settleSoon', 'holdSettling', 'isReady', 'cacheState', 'finishCache'];

describe('functions without their arguments', () => {
  const names = Object.keys(native).filter((name) => typeof native[name] === 'function' && !WITHOUT.includes(name));
  test.each(names)('%s', (name) => expect(() => native[name]()).toThrow(refused));
});

describe('members of another kind', () => {
  let builder;
  beforeAll(async () => {
    builder = native.createBuilder(toContext(await ml.createContext({ accelerated: false })).handle, {});
  });
  const calls = {
    'a string': [[undefined, null, 1, true, {}, ['x'], 1n], (other) => native.input(builder, other, 0, [1])],
    'a number': [[undefined, ...NUMBERS], (other) => native.input(builder, 'x', other, [1])],
    'a list': [[undefined, ...LISTS, 1], (other) => native.input(builder, 'x', 0, other)],
    'a buffer': [[undefined, null, 1, 'x', true, {}, [1], 1n], (other) => native.constantBytes(builder, 0, [1], other)],
    'a boolean': [[undefined, ...OTHERS.boolean], (other) => native.createWatch(other)],
    'an MLNumber': [[undefined, ...OTHERS.number], (other) => native.constantNumber(builder, 0, other)],
  };
  test.each(Object.keys(calls))('%s', (kind) => {
    const [others, call] = calls[kind];
    for (const other of others) expect(() => call(other)).toThrow(refused);
  });

  const rows = native.operators().map(({ name, arguments: given, options }, number) => ({ name, number, members: [...given, ...options] }));
  test.each(rows)('$name', ({ number, members }) => {
    members.forEach(({ kind }, position) => {
      // What is before it is left out.
      for (const other of OTHERS[kind.type] ?? NUMBERS) {
        const values = [...new Array(position).fill(undefined), other];
        expect(() => native.apply(builder, number, '', ...values)).toThrow(refused);
      }
    });
  });
});
