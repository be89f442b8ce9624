'use strict';

const { Idle, KEPT, MOST } = require('../../lib/onnx/idle.js');

/** How many of so many sets of so many bytes are kept, and how many are released. */
function kept(count, bytes) {
  const released = [];
  const idle = new Idle(bytes, (set) => released.push(set));
  for (let i = 0; i < count; i++) idle.put({ i });
  return { idle, released };
}

describe('idle tensors of run()', () => {
  test('are bounded by their bytes', () => {
    const { idle, released } = kept(150, MOST / 8);
    expect(idle.size).toBe(8);
    expect(released).toHaveLength(142);
  });

  test('one set is kept whatever its size', () => {
    const { idle, released } = kept(2, MOST * 2);
    expect(idle.size).toBe(1);
    expect(released).toHaveLength(1);
    expect(idle.take()).toEqual({ i: 0 });
    expect(idle.take()).toBeUndefined();
  });

  test('all are released when nothing runs any more', () => {
    jest.useFakeTimers();
    try {
      jest.isolateModules(() => {
        jest.doMock('node:timers', () => ({ setTimeout: globalThis.setTimeout }));
        const { Idle } = require('../../lib/onnx/idle.js');
        const released = [];
        const idle = new Idle(1, (set) => released.push(set));
        idle.put(1);
        jest.advanceTimersByTime(KEPT - 1);
        idle.put(2);
        jest.advanceTimersByTime(KEPT - 1);
        expect(released).toEqual([]);
        jest.advanceTimersByTime(1);
        expect(released).toEqual([1, 2]);
        expect(idle.size).toBe(0);
      });
    } finally {
      jest.dontMock('node:timers');
      jest.useRealTimers();
    }
  });
});
