'use strict';

// Shows values of script in messages, without running user code: no getter, no toString().

const { types } = require('node:util');

const LONGEST = 100;

/** Per interface of this module: its name with an article, and whether a value is one. */
const interfaces = [];

// Control characters, and those that reorder or hide text (Unicode TR36, section 2.7): what a terminal shows must be
// what script gave.
// eslint-disable-next-line no-control-regex
const DECEPTIVE = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

function escapeText(text) {
  return text.replace(DECEPTIVE, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
}

function quote(text) {
  const shown = text.length > LONGEST ? `${text.slice(0, LONGEST)}…` : text;
  return `'${escapeText(shown)}'`;
}

/** Says what was found, for a person. */
function show(value) {
  switch (typeof value) {
    case 'string':
      return quote(value);
    case 'bigint':
      return `${value}n`;
    case 'number':
      return Object.is(value, -0) ? '-0' : String(value);
    case 'symbol':
      return 'a symbol';
    case 'function':
      return 'a function';
    case 'object':
      return value === null ? 'null' : showObject(value);
    default:
      return String(value);
  }
}

function showObject(value) {
  const its = interfaces.find(({ has }) => has(value));
  if (its !== undefined) return its.name;
  if (types.isProxy(value)) return 'a proxy';
  if (Array.isArray(value)) return 'an array';
  if (types.isArrayBuffer(value)) return 'an ArrayBuffer';
  if (types.isSharedArrayBuffer(value)) return 'a SharedArrayBuffer';
  if (types.isDataView(value)) return 'a DataView';
  if (ArrayBuffer.isView(value)) return withArticle(viewName(value));
  if (types.isPromise(value)) return 'a promise (await it first)';
  return 'an object';
}

const viewName = uncurried(Object.getOwnPropertyDescriptor(Object.getPrototypeOf(Uint8Array.prototype), Symbol.toStringTag).get);

function uncurried(method) {
  return Function.prototype.call.bind(method);
}

function withArticle(noun) {
  return `${/^([AEIOU]|ML)/.test(noun) ? 'an' : 'a'} ${noun}`;
}

/** Lets messages name the objects of an interface. */
function nameInstances(name, has) {
  interfaces.push({ name: withArticle(name), has });
}

module.exports = { escapeText, nameInstances, quote, show, viewName, withArticle };
