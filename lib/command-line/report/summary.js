'use strict';

// What a profile says in sum: the mean times of steps and operators.

/** @typedef {import('../../onnx.d.ts').OnnxProfiledRun} Run */

const mean = (list, of) => list.reduce((sum, one) => sum + of(one), 0) / list.length;
const total = (list, of) => list.reduce((sum, one) => sum + of(one), 0);

/** In one millisecond one unit is 10^3 in a second. */
const perSecond = (units, ms) => (ms > 0 ? units / ms / 1e6 : 0);
const rates = ({ ms, multiplications, bytes }) => ({ gflops: perSecond(2 * multiplications, ms), gbs: perSecond(bytes, ms) });

/**
 * The mean times of steps, in the order of a run, and of operators.
 * @param {Run[]} runs of the same steps
 */
function summaryOf(runs) {
  const steps = runs[0].steps.map(({ began: _, ms: __, thread: ___, ...step }, number) => {
    const times = runs.map((one) => one.steps[number]?.ms ?? 0);
    const all = { ...step, ms: mean(times, (ms) => ms), leastMs: Math.min(...times), isFloat: step.dataType.startsWith('float') };
    return { ...all, ...rates(all) };
  });
  const operators = new Map();
  for (const step of steps) operators.set(step.operator, [...(operators.get(step.operator) ?? []), step]);
  return {
    runs: runs.length,
    runMs: mean(runs, ({ ms }) => ms),
    stepMs: total(steps, ({ ms }) => ms),
    steps,
    operators: [...operators].map(([operator, list]) => operatorOf(operator, list)).sort((a, b) => b.ms - a.ms),
  };
}

function operatorOf(operator, steps) {
  const sum = { ms: total(steps, ({ ms }) => ms), multiplications: total(steps, (step) => step.multiplications), bytes: total(steps, ({ bytes }) => bytes) };
  return { operator, count: steps.length, isFloat: steps.every(({ isFloat }) => isFloat), ...sum, ...rates(sum) };
}

/** What of the machine's peak a rate can be compared with: its product is one of floats, and what is faster than memory was in the caches. */
function comparable({ isFloat, gbs }, peak) {
  return { gflops: isFloat ? peak?.gflops : undefined, gbs: gbs <= peak?.gbs ? peak.gbs : undefined };
}

/**
 * The run that took the median time.
 * @param {Run[]} runs
 */
const medianRun = (runs) => [...runs].sort((a, b) => a.ms - b.ms)[(runs.length - 1) >> 1];

module.exports = { comparable, medianRun, summaryOf };
