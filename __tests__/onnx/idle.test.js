'use strict';

const { Idle, KEPT, MOST } = require('../../lib/onnx/idle.js');

/** How many of so many sets are kept for plans that take so many bytes, in turn, and how many are released. */
function kept(count, plans) {
  const released = [];
  const idle = new Idle((set) => released.push(set));
  for (let i = 0; i < count; i++) idle.put(plans[i % plans.length], { i });
  return { idle, released };
}

describe('idle tensors of run()', () => {
  test('are bounded by their bytes', () => {
    const { idle, released } = kept(150, [{ bytes: MOST / 8 }]);
    expect(idle.size).toBe(8);
    expect(released).toHaveLength(142);
  });

  test('those of all plans are bounded together, and the least recently used go first', () => {
    const plans = Array.from({ length: 100 }, () => ({ bytes: MOST / 8 }));
    const { idle, released } = kept(100, plans);
    expect(idle.size).toBe(8);
    expect(released.map(({ i }) => i)).toEqual(Array.from({ length: 92 }, (_, i) => i));
    expect(idle.take(plans[0])).toBeUndefined();
    expect(idle.take(plans[95])).toEqual({ i: 95 });
    idle.put(plans[92], { i: 100 });
    idle.put(plans[3], { i: 101 });
    expect(released.at(-1)).toEqual({ i: 93 });
    idle.forget(plans[92]);
    expect(released.slice(-2)).toEqual([{ i: 100 }, { i: 92 }]);
    expect(idle.size).toBe(6);
  });

  test('one set is kept whatever its size', () => {
    const plan = { bytes: MOST * 2 };
    const { idle, released } = kept(2, [plan]);
    expect(idle.size).toBe(1);
    expect(released).toHaveLength(1);
    expect(idle.take(plan)).toEqual({ i: 0 });
    expect(idle.take(plan)).toBeUndefined();
  });

  test('all are released when nothing runs any more', () => {
    jest.useFakeTimers();
    try {
      jest.isolateModules(() => {
        jest.doMock('node:timers', () => ({ setTimeout: globalThis.setTimeout }));
        const { Idle } = require('../../lib/onnx/idle.js');
        const released = [];
        const idle = new Idle((set) => released.push(set));
        const plan = { bytes: 1 };
        idle.put(plan, 1);
        jest.advanceTimersByTime(KEPT - 1);
        idle.put({ bytes: 2 }, 2);
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
