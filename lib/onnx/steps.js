'use strict';

// Runs of models with caches on the CPU: what is appended to a cache stays on the native side, and comes back as a past without a copy.

const native = require('../native.js');
const { dataTypes } = require('../descriptor.js');
const { invalidState } = require('../errors.js');
const { begin } = require('../settle.js');
const { arrayOver } = require('./arrays.js');
const { Kept, keptTensor } = require('./kept.js');
const { resultTensor } = require('./tensor.js');

/** What the native side takes for the inputs. */
const valuesOf = ({ inputs }, given) => inputs.map(({ name }) => (given[name] instanceof Kept ? given[name].handle : given[name]));

/**
 * Whether inputs like these can be a step of a model; undefined where nobody has found out.
 * @param {object} model its state
 * @param {number[][]} shapes
 * @param {Record<string, ArrayBufferView | Kept>} given
 * @returns {boolean | undefined}
 */
function stepFits(model, shapes, given) {
  return native.stepFits(model.handle, shapes, valuesOf(model, given));
}

/**
 * Finds it out.
 * @returns {Promise<boolean>}
 */
function prepareStep(model, shapes, given, operator) {
  const { handle, contextState: context, label } = model;
  const entry = { operator, label, context, memory: given, arrive: (fits) => fits };
  return begin(entry, (request) => native.prepareStep(request, handle, shapes, valuesOf(model, given)));
}

/**
 * Runs a step.
 * @param {object} model its state
 * @param {number[][]} shapes
 * @param {Record<string, ArrayBufferView | Kept>} given copied before this returns
 * @param {{operator: string, wanted?: Set<string>, watch?: number}} wish
 * @returns {Promise<Record<string, object>>} tensors by the names of the outputs
 */
function runStep(model, shapes, given, { operator, wanted, watch = 0 }) {
  const { contextState: context, label } = model;
  if (context.lost) throw invalidState(operator, label, 'the MLContext was destroyed or lost');
  let handle;
  const arrive = (outputs) => {
    const found = outputs.map(([[name, number, shape], buffer], i) => {
      const dataType = dataTypes[number];
      if (buffer !== undefined) return [name, resultTensor(dataType, arrayOver(dataType, buffer), shape)];
      return [name, keptTensor(new Kept(native.takeValue(handle, i), dataType, shape))];
    });
    native.forgetRun(handle);
    // fromEntries defines, so that '__proto__' is a name like others.
    return Object.fromEntries(found);
  };
  const entry = { operator, label, context, soon: true, memory: given, arrive, fail: () => native.forgetRun(handle) };
  const names = wanted && [...wanted];
  return begin(entry, (request) => {
    handle = native.runStep(request, model.handle, shapes, valuesOf(model, given), names, label, watch);
  });
}

module.exports = { prepareStep, runStep, stepFits };
