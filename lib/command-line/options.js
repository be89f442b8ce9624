'use strict';

// The options of the commands.

const { accessSync, constants, statSync } = require('node:fs');
const path = require('node:path');
const { parseArgs } = require('node:util');
const { FP_MATH } = require('../fp-math.js');

/** The values of inputs, where a command runs a model. */
const inputOptions = {
  input: { type: 'string', multiple: true },
  shape: { type: 'string', multiple: true },
  seed: { type: 'string', default: '1' },
};

/** What is wrong with the way a command was called. */
class Usage extends Error {}

/**
 * @param {string[]} args
 * @param {object} options as parseArgs() takes them
 */
function readOptions(args, options) {
  try {
    return parseArgs({ args, options: { ...options, json: { type: 'boolean', default: false } }, allowPositionals: true });
  } catch (error) {
    const [, unknown] = error.code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION' ? (/'--?([^']*)'/.exec(error.message) ?? []) : [];
    if (unknown === undefined) throw new Usage(error.message);
    throw new Usage(`there is no option ${unknown.length > 1 ? '--' : '-'}${unknown}${meant(unknown, Object.keys(options), '--')}`);
  }
}

/** The name that is meant by a similar one, as the end of a message. */
function meant(name, names, before = '') {
  const [[nearest, distance] = []] = names.map((one) => [one, distanceOf(name, one)]).sort(([, one], [, other]) => one - other);
  return distance <= 2 && distance < nearest.length - 1 ? `; did you mean ${before}${nearest}?` : '';
}

/** How many characters are inserted, left out or replaced, or exchanged with the next one, to make one name of another. */
function distanceOf(one, other) {
  const rows = [Array.from({ length: other.length + 1 }, (_, j) => j)];
  for (let i = 1; i <= one.length; i++) {
    const row = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = rows[i - 1][j - 1] + Number(one[i - 1] !== other[j - 1]);
      const isExchanged = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      row.push(Math.min(rows[i - 1][j] + 1, row[j - 1] + 1, replaced, isExchanged ? rows[i - 2][j - 2] + 1 : Infinity));
    }
    rows.push(row);
  }
  return rows[one.length][other.length];
}

/** Requires that a file can be written, before what it is for takes long. */
function requireWritable(option, file) {
  if (file === undefined) return;
  try {
    const found = statSync(file, { throwIfNoEntry: false });
    if (found?.isDirectory()) throw new Error('it is a folder');
    accessSync(found === undefined ? path.dirname(path.resolve(file)) : file, constants.W_OK);
  } catch (error) {
    throw new Usage(`--${option} ${file} cannot be written: ${error.message}`);
  }
}

/** The one model that a command is about. */
function oneModel(positionals) {
  if (positionals.length !== 1) throw new Usage(`found ${positionals.length} files, allowed one model`);
  return positionals[0];
}

function count(option, text) {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Usage(`--${option} ${text}: expected a whole number from 1`);
  return Number(text);
}

/** `name=value` options as pairs; the last `=` counts, since names may have one. */
function pairs(option, list = []) {
  return list.map((text) => {
    const at = text.lastIndexOf('=');
    if (at <= 0 || at === text.length - 1) throw new Usage(`--${option} ${text}: expected NAME=VALUE`);
    return [text.slice(0, at), text.slice(at + 1)];
  });
}

function freeDimensions(list) {
  const sizes = pairs('dimension', list).map(([name, text]) => {
    if (!/^\d{1,10}$/.test(text)) throw new Usage(`--dimension ${name}=${text}: expected a whole number`);
    return [name, Number(text)];
  });
  return Object.fromEntries(sizes);
}

/** `name=1x17` options as shapes by their names; `name=` alone is a scalar. */
function givenShapes(list = []) {
  const shapes = list.map((text) => {
    const found = /^(.+)=(|\d{1,10}(?:x\d{1,10})*)$/s.exec(text);
    if (found === null) throw new Usage(`--shape ${text}: expected NAME=SIZExSIZE, such as ids=1x17`);
    return [found[1], found[2] === '' ? [] : found[2].split('x').map(Number)];
  });
  return Object.fromEntries(shapes);
}

const contextOptions = {
  device: { type: 'string', default: 'cpu' },
  threads: { type: 'string' },
  'fp-math': { type: 'string', default: 'strict' },
  dimension: { type: 'string', multiple: true },
  constant: { type: 'string', multiple: true },
};

/**
 * How the context divides its threads among runs, as `createContext` takes it; nothing without the option.
 * @param {string | undefined} text
 */
function performanceOf(text) {
  if (text === undefined || text === 'latency' || text === 'throughput') return text;
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new Usage(`--performance ${text}: expected latency, throughput or a whole number above 0`);
  return Number(text);
}

async function openContext({ device, threads, 'fp-math': fpMath, performance }) {
  if (!['cpu', 'gpu', 'npu'].includes(device)) throw new Usage(`--device ${device}: expected cpu, gpu or npu`);
  if (!FP_MATH.includes(fpMath)) throw new Usage(`--fp-math ${fpMath}: expected ${FP_MATH.join(' or ')}`);
  const { ml } = require('../index.js');
  const numThreads = threads === undefined ? undefined : count('threads', threads);
  return ml.createContext({ deviceType: device, fpMath, numThreads, performance: performanceOf(performance) });
}

module.exports = { Usage, contextOptions, count, freeDimensions, givenShapes, inputOptions, meant, oneModel, openContext, pairs, performanceOf, readOptions, requireWritable };
