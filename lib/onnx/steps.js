'use strict';

// Runs of models with caches. A cache stays on the native side, on a GPU in its memory: a run appends to it, and the next run takes it as a past
// without a copy.

const native = require('../native.js');
const { dataTypes } = require('../descriptor.js');
const { begin } = require('../settle.js');
const { arrayOver } = require('./arrays.js');
const { UnreadElements, unreadTensor } = require('./unread.js');
const { resultTensor } = require('./tensor.js');

/** @typedef {import('./given.js').Given} Given of arrays and elements that are kept */
/** @typedef {import('./model.js').Model} Model */

/** What the native side takes for the inputs. */
const valuesOf = ({ inputs }, { values }) => inputs.map(({ name }) => (values[name] instanceof UnreadElements ? values[name].handle : values[name]));

/**
 * Whether inputs like these can be a step of a model; undefined if that is not known yet.
 * @param {Model} model
 * @param {Given} given
 * @returns {boolean | undefined}
 */
function stepFits(model, given) {
  return native.stepFits(model.handle, given.shapes, valuesOf(model, given));
}

/**
 * Finds out whether inputs like these can be a step.
 * @param {Model} model
 * @param {Given} given
 * @param {string} [operator]
 * @returns {Promise<boolean>}
 */
function prepareStep(model, given, operator = 'run') {
  const { handle, contextState: context, label } = model;
  const entry = { operator, label, context, memory: given, arrive: (fits) => fits };
  return begin(entry, (request) => native.prepareStep(request, handle, given.shapes, valuesOf(model, given)));
}

/**
 * Runs a step.
 * @param {Model} model
 * @param {Given} given copied before this returns
 * @param {import('./model.js').RunOptions} options
 * @returns {Promise<Record<string, any>>} tensors by the names of the outputs
 */
function runStep(model, given, { operator = 'run', wanted, watch = 0 }) {
  const { contextState: context, label } = model;
  model.requireContext(operator);
  let handle;
  const arrive = (outputs) => {
    const found = outputs.map(([[name, number, shape], buffer], i) => {
      const dataType = dataTypes[number];
      if (buffer !== undefined) return [name, resultTensor(dataType, arrayOver(dataType, buffer), shape)];
      return [name, unreadTensor(new UnreadElements(native.takeValue(handle, i), dataType, shape))];
    });
    native.forgetRun(handle);
    // fromEntries defines, so that '__proto__' is a name like others.
    return Object.fromEntries(found);
  };
  const entry = { operator, label, context, soon: true, memory: given, arrive, fail: () => native.forgetRun(handle) };
  const names = wanted && [...wanted];
  return begin(entry, (request) => {
    handle = native.runStep(request, model.handle, given.shapes, valuesOf(model, given), names, label, watch);
  });
}

module.exports = { prepareStep, runStep, stepFits };
