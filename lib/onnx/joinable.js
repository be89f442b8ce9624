'use strict';

// Finds the dimension along which runs of a model can be joined. The native side proves it, or names the node in which rows see each other
// (src/program/batch/).

const native = require('../native.js');
const { exception } = require('../errors.js');
const { begin } = require('../settle.js');
const { quote } = require('../show.js');
const { findProved } = require('./proved.js');
const { withRows } = require('./rows.js');

/** @typedef {import('./model.js').Model} Model */
/** Why runs cannot be joined; without a node where the model as a whole is the reason. @typedef {{node: string, operator: string, reason: string}} Refused */

/** The rows of the runs with which it is found out. */
const ROWS = 3;
/** Sizes of other open dimensions, by their position: models divide them, and images that are smaller are too small for some. */
const SIZES = [(position) => 16 * (position + 2), (position) => 224 + 32 * position, () => 1];

const isOpen = (size) => typeof size === 'string';

/**
 * Whether runs with inputs of these shapes can be run as one with so many rows.
 * @param {Model} model
 * @param {number[][]} one the shapes for one row
 * @param {number[]} axes of the inputs' rows; -1 for an input that has none
 * @param {number} rows
 * @returns {Promise<{axes?: Map<string, number>, refused?: Refused}>} the axes of the outputs' rows; -1 for what all rows have in common
 */
async function joinRows(model, one, axes, rows) {
  const many = one.map((shape, i) => withRows(shape, axes[i], rows));
  const entry = { operator: 'run', label: model.label, context: model.contextState, arrive: (found) => found };
  model.requireContext('run');
  const { rows: found, refused } = await begin(entry, (request) => native.joinRows(request, model.handle, one, many));
  if (refused === undefined) return { axes: new Map(found) };
  const [node, operator, reason] = refused;
  return { refused: { node, operator, reason } };
}

/**
 * The axes of the inputs that may have rows: of each open dimension, and of all first ones. What is outside comes first.
 * @param {import('./inputs.js').Signature[]} inputs
 * @returns {number[][]}
 */
function candidates(inputs) {
  const shapes = inputs.map(({ shape }) => shape);
  const names = [];
  const rank = Math.max(...shapes.map(({ length }) => length));
  for (let axis = 0; axis < rank; axis++) for (const shape of shapes) if (isOpen(shape[axis]) && !names.includes(shape[axis])) names.push(shape[axis]);
  const first = shapes.map((shape) => (isOpen(shape[0]) ? 0 : -1));
  const found = names.map((name) => shapes.map((shape) => shape.indexOf(name)));
  const isFirst = (axes) => axes.every((axis, i) => axis === first[i]);
  return first.every((axis) => axis === -1) || found.some(isFirst) ? found : [first, ...found];
}

/** The shapes of the inputs for one row. */
function shapesFor(inputs, axes, sizeOf) {
  const names = [...new Set(inputs.flatMap(({ shape }) => shape.filter(isOpen)))];
  return inputs.map(({ shape }, i) => shape.map((size, axis) => (axis === axes[i] ? 1 : isOpen(size) ? sizeOf(names.indexOf(size)) : size)));
}

/**
 * The axes of the inputs along which runs can be joined.
 * @param {Model} model
 * @returns {Promise<number[]>}
 */
async function findAxes(model) {
  const { inputs } = model;
  const refuse = (reason) => {
    throw exception('NotSupportedError', `loadOnnx '${model.label}': options: batching: runs of the model cannot be joined: ${reason}`);
  };
  if (model.hasSteps) refuse('it has caches');
  if (model.hasLists) refuse('it takes or gives sequences or optional values');
  if (inputs.some(({ shape }) => shape === null)) refuse('an input has any number of dimensions');
  if (!inputs.some(({ shape }) => shape.some(isOpen))) refuse('no dimension of its inputs is open');
  const ways = SIZES.map((sizeOf) => async (axes) => (await joinRows(model, shapesFor(inputs, axes, sizeOf), axes, ROWS)).refused);
  const { axes, refused } = await findProved(candidates(inputs), ways);
  return axes ?? refuse(textOf(refused));
}

/** @param {Refused} refused */
function textOf({ node, operator, reason }) {
  return node === '' && operator === '' ? reason : `the node ${quote(node)} (${operator}): ${reason}`;
}

/** The shapes for one row with made-up sizes, in several ways. */
const madeUpShapes = (inputs, axes) => SIZES.map((sizeOf) => shapesFor(inputs, axes, sizeOf));

module.exports = { findAxes, joinRows, madeUpShapes };
