'use strict';

// The constraint of generate(): which tokens may come next. Schemas, regular expressions and grammars are compiled by @webnn-node/constrain;
// an object with begin() is a constraint of its own.

const { createRequire } = require('node:module');
const path = require('node:path');
const { types } = require('node:util');
const { version } = require('../../package.json');
const { typeError } = require('../errors.js');
const { show } = require('../show.js');
const { NAME } = require('./cache.js');
const { isToken, tokensOf } = require('./tokens.js');

const PACKAGE = '@webnn-node/constrain';
const KINDS = ['schema', 'regex', 'grammar'];

const isObject = (value) => value !== null && typeof value === 'object';

/** Whether the package has to compile it. */
const isText = (constraint) => KINDS.some((kind) => constraint[kind] !== undefined);

/**
 * Checks what the constraint is, before it is compiled.
 * @param {string} label of the model
 * @param {unknown} constraint
 */
function readConstraint(label, constraint) {
  if (constraint === undefined) return undefined;
  const isKnown = isObject(constraint) && (typeof constraint.begin === 'function' || isText(constraint));
  if (!isKnown) throw typeError(NAME, label, `options: constraint: found ${show(constraint)}, allowed an object with ${KINDS.join(', ')} or begin()`);
  return constraint;
}

/** The package, of the project in which the process runs, or beside this one. */
function requirePackage() {
  for (const place of [path.join(process.cwd(), 'index.js'), __filename]) {
    try {
      return createRequire(place)(PACKAGE);
    } catch (error) {
      if (error.code !== 'MODULE_NOT_FOUND' || !error.message.includes(`'${PACKAGE}'`)) throw error;
    }
  }
  throw new Error(`${NAME}: options: constraint: schemas, regular expressions and grammars need a separate package, which is not installed. Run "npm install ${PACKAGE}@${version}".`);
}

/**
 * A constraint that can begin.
 * @param {string} label
 * @param {import('../generate.d.ts').Constraint | undefined} constraint
 * @returns {Promise<import('../generate.d.ts').TokenConstraint | undefined>}
 */
async function compiled(label, constraint) {
  if (constraint === undefined || typeof constraint.begin === 'function') return constraint;
  try {
    return await requirePackage().compile(constraint);
  } catch (error) {
    throw error.name === 'TypeError' ? typeError(NAME, label, `options: ${error.message}`) : error;
  }
}

/** The matcher of a sequence. */
function begun(label, constraint) {
  const matcher = constraint.begin();
  if (!isObject(matcher) || typeof matcher.mask !== 'function' || typeof matcher.push !== 'function') {
    throw typeError(NAME, label, `options: constraint: found ${show(matcher)} as the result of begin(), allowed an object with mask() and push()`);
  }
  return matcher;
}

/** The tokens that can only come next, as a matcher has them. @returns {number[]} */
function forcedBy(label, matcher) {
  const given = matcher.forced?.() ?? [];
  const wrong = (found) => typeError(NAME, label, `options: constraint: found ${show(found)} as the result of forced(), allowed an array of tokens`);
  const ids = tokensOf(given);
  if (ids === undefined) throw wrong(Array.isArray(given) ? given.find((id) => typeof id !== 'number' && typeof id !== 'bigint') : given);
  const other = ids.find((id) => !isToken(id));
  if (other !== undefined) throw wrong(other);
  return ids;
}

const maskOf = (label, matcher) => requireMask(label, 'mask()', matcher.mask());

/** @returns {Uint32Array} */
function requireMask(label, method, mask) {
  if (types.isUint32Array(mask)) return mask;
  throw typeError(NAME, label, `options: constraint: found ${show(mask)} as the result of ${method}, allowed a Uint32Array`);
}

/**
 * The tokens that may come next in sequences.
 * @param {string} label
 * @param {import('../generate.d.ts').TokenMatcher[]} matchers
 * @returns {Uint32Array[] | Promise<Uint32Array[]>}
 */
function masksOf(label, matchers) {
  if (matchers.every(({ maskAsync }) => maskAsync === undefined)) return matchers.map((matcher) => maskOf(label, matcher));
  const masks = Promise.all(matchers.map(async (matcher) => (matcher.maskAsync === undefined ? maskOf(label, matcher) : requireMask(label, 'maskAsync()', await matcher.maskAsync()))));
  // Whoever waits for them hears of it.
  masks.catch(() => {});
  return masks;
}

/** The constraint of a text, with the tokenizer that is given, and the tokens that end a text. */
function withTokenizer(constraint, tokenizer, end) {
  return isObject(constraint) && isText(constraint) ? { tokenizer, end, ...constraint } : constraint;
}

module.exports = { begun, compiled, forcedBy, masksOf, readConstraint, withTokenizer };
