'use strict';

// Texts of different lengths: which dimension is the length, and whether a text that is filled up after its end gives what it gives alone. The
// native side proves it, or names the node that sees what is after the end (src/program/batch/lengths/).

const native = require('../native.js');
const { begin } = require('../settle.js');
const { findProved } = require('./proved.js');

/** @typedef {import('./model.js').Model} Model */
/** @typedef {import('./joinable.js').Refused} Refused */
/** Of the outputs of a longer text what is the shorter one's, by their names. @typedef {Map<string, number[]>} Fit */

/** The input of a graph for texts that may end earlier: 0 for each place of a text, and minus infinity after it. */
const HIDDEN = '\0hidden';

/** The lengths with which it is found out. */
const SHORT = 20;
const LONG = 32;

/** So many places after the ends of texts are nothing beside what a run takes in any case. */
const FEW = 64;
/** Otherwise there may be one for so many places of the texts. */
const PART = 4;

/** The next length of 8, 16, 24, …, 64, 80, 96, …, 128, 160, …: each needs a plan for each number of texts. */
function roundedLength(length) {
  let step = 8;
  while (length > 8 * step) step *= 2;
  return Math.ceil(length / step) * step;
}

/**
 * Whether texts with so many places in all are worth to be filled up to so many.
 * @param {number} places
 * @param {number} all
 */
const isWorthFilling = (places, all) => all - places <= Math.max(FEW, places / PART);

/** A shape for a text of that length; the same where there is no length. */
const withLength = (shape, axis, length) => (axis === -1 ? shape : shape.with(axis, length));

/**
 * What texts of some lengths are of one of the full length.
 * @param {Model} model
 * @param {number[][]} long the shapes for one text of the full length
 * @param {number[][][]} shorter those for shorter texts
 * @returns {Promise<{fit?: Fit, refused?: Refused}[]>}
 */
async function fitLengths(model, long, shorter) {
  const entry = { operator: 'run', label: model.label, context: model.contextState, arrive: (found) => found };
  model.requireContext('run');
  const found = await begin(entry, (request) => native.fitLengths(request, model.handle, long, shorter));
  return found.map(({ outputs, refused }) => {
    if (refused === undefined) return { fit: new Map(outputs) };
    const [node, operator, reason] = refused;
    return { refused: { node, operator, reason } };
  });
}

/**
 * The axes of the inputs that may be their length: of each open dimension that only inputs with rows have, once in each.
 * @param {import('./inputs.js').Signature[]} inputs
 * @param {number[]} rows the axes of their rows
 * @returns {number[][]}
 */
function candidates(inputs, rows) {
  const isOpen = (size) => typeof size === 'string';
  const shapes = inputs.map(({ shape }) => shape);
  const names = [...new Set(shapes.flatMap((shape, i) => shape.filter((size, axis) => isOpen(size) && axis !== rows[i])))];
  const named = names.map((name) => shapes.map((shape) => shape.indexOf(name)));
  // Some writers call the dimensions of each input otherwise.
  const next = shapes.map((shape, i) => (rows[i] !== -1 && isOpen(shape[rows[i] + 1]) ? rows[i] + 1 : -1));
  const all = named.some((axes) => axes.every((axis, i) => axis === next[i])) || next.every((axis) => axis === -1) ? named : [...named, next];
  const isOnce = (axis, i) => shapes[i].indexOf(shapes[i][axis], axis + 1) === -1;
  return all.filter((axes) => axes.every((axis, i) => axis === -1 || (rows[i] !== -1 && rows[i] !== axis && isOnce(axis, i))));
}

/**
 * The axes of the inputs that are the length of a text, if shorter ones can be filled up.
 * @param {Model} model
 * @param {number[]} rows the axes of their rows
 * @param {number[][][]} ways the shapes for one row with made-up sizes, in several ways
 * @returns {Promise<{axes?: number[], refused?: Refused}>} nothing where no dimension may be a length
 */
async function findLengths(model, rows, ways) {
  const proofs = ways.map((shapes) => async (axes) => {
    const [short, long] = [SHORT, LONG].map((length) => shapes.map((shape, i) => withLength(shape, axes[i], length)));
    return (await fitLengths(model, long, [short]))[0].refused;
  });
  return await findProved(candidates(model.inputs, rows), proofs);
}

/** The value of {@link HIDDEN} for texts of these lengths. */
function hiddenFor(lengths, longest) {
  const hidden = new Float32Array(lengths.length * longest);
  lengths.forEach((length, text) => hidden.fill(-Infinity, text * longest + length, (text + 1) * longest));
  return hidden;
}

module.exports = { HIDDEN, findLengths, fitLengths, hiddenFor, isWorthFilling, roundedLength, withLength };
