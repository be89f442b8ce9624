'use strict';

// WebIDL's conversions of JavaScript values, by kind (https://webidl.spec.whatwg.org/#js-type-mapping). A converter is a function from a value to the
// converted value. It throws a Mismatch for a value that the type does not allow, and passes on what user code throws. It does not know the operator,
// argument or member that it works for.
//
// Lists are read by index: `for…of` and `...` use the iterator of arrays, which script can replace.

const { isProxy } = require('node:util').types;
const { Mismatch, at } = require('./errors.js');
const { quote } = require('./show.js');

/** @template T @typedef {(value: any) => T} Converter */

/** "Type(V) is Object", which functions are too. */
function isObject(value) {
  return (typeof value === 'object' && value !== null) || typeof value === 'function';
}

// ---- Numbers -------------------------------------------------------------------------------------------------------

function toNumber(value, allowed) {
  if (typeof value === 'number') return value;
  if (typeof value === 'bigint' || typeof value === 'symbol') throw new Mismatch(value, allowed);
  return +value;
}

const UNSIGNED_LONG = 'an integer from 0 to 4294967295';
const UNSIGNED_LONG_LONG = `an integer from 0 to ${Number.MAX_SAFE_INTEGER}`;
const LONG = 'an integer from -2147483648 to 2147483647';

/** `[EnforceRange] unsigned long`. @type {Converter<number>} */
function enforcedUnsignedLong(value) {
  if (typeof value === 'number') {
    const integer = value >>> 0;
    if (integer === value) return integer;
  }
  return enforced(value, 0, 0xffffffff, UNSIGNED_LONG);
}

/** `[EnforceRange] unsigned long long`. @type {Converter<number>} */
function enforcedUnsignedLongLong(value) {
  return enforced(value, 0, Number.MAX_SAFE_INTEGER, UNSIGNED_LONG_LONG);
}

/** `[EnforceRange] long`. @type {Converter<number>} */
function enforcedLong(value) {
  return enforced(value, -0x80000000, 0x7fffffff, LONG);
}

function enforced(value, least, greatest, allowed) {
  const number = toNumber(value, allowed);
  // Infinities stay outside of the range, and NaN compares as false; adding 0 makes -0 the integer 0.
  const integer = Math.trunc(number) + 0;
  if (!(integer >= least && integer <= greatest)) throw new Mismatch(value, allowed);
  return integer;
}

/** `unsigned long`: modulo 2^32. @type {Converter<number>} */
function unsignedLong(value) {
  return toNumber(value, 'a number') >>> 0;
}

/** `long`: modulo 2^32, then into the signed range. @type {Converter<number>} */
function long(value) {
  return toNumber(value, 'a number') | 0;
}

/** `double`, which has neither NaN nor infinities. @type {Converter<number>} */
function double(value) {
  const number = toNumber(value, 'a finite number');
  if (!Number.isFinite(number)) throw new Mismatch(value, 'a finite number');
  return number;
}

/** `float`: what rounds to an infinity is refused too. @type {Converter<number>} */
function float(value) {
  const number = Math.fround(toNumber(value, 'a finite number'));
  if (!Number.isFinite(number)) throw new Mismatch(value, 'a number that is finite as a 32-bit float');
  return number;
}

/** `(bigint or unrestricted double)`, the specification's MLNumber. @type {Converter<number | bigint>} */
function numeric(value) {
  if (typeof value === 'number' || typeof value === 'bigint') return value;
  if (typeof value === 'symbol') throw new Mismatch(value, 'a number or a bigint');
  // Negation is ToNumeric() and then the sign: unlike `+value` it takes a bigint that valueOf() returns.
  return -(-value);
}

/** @type {Converter<boolean>} */
function boolean(value) {
  return !!value;
}

// ---- Strings -------------------------------------------------------------------------------------------------------

/** @type {Converter<string>} */
function domString(value) {
  if (typeof value === 'string') return value;
  if (typeof value === 'symbol') throw new Mismatch(value, 'a string');
  return `${value}`;
}

/** Lone surrogates become U+FFFD. @type {Converter<string>} */
function usvString(value) {
  return domString(value).toWellFormed();
}

/**
 * An enumeration; converts to the value's position.
 * @param {readonly string[]} values
 * @returns {Converter<number>}
 */
function enumeration(values) {
  const positions = new Map(values.map((value, position) => [value, position]));
  const allowed = oneOf(values);
  return (value) => {
    if (typeof value === 'symbol') throw new Mismatch(value, allowed);
    const position = positions.get(domString(value));
    if (position === undefined) throw new Mismatch(value, allowed);
    return position;
  };
}

function oneOf(values) {
  const quoted = values.map(quote);
  return quoted.length < 2 ? quoted.join() : `${quoted.slice(0, -1).join(', ')} or ${quoted.at(-1)}`;
}

// ---- Sequences and records -----------------------------------------------------------------------------------------

const arrayValues = Array.prototype.values;
const arrayIteratorPrototype = Object.getPrototypeOf([][Symbol.iterator]());
const arrayIteratorNext = arrayIteratorPrototype.next;

/**
 * `sequence<T>`
 * @template T
 * @param {Converter<T>} convert
 * @returns {Converter<T[]>}
 */
function sequence(convert) {
  return (value) => {
    if (!isObject(value)) throw new Mismatch(value, 'a sequence, such as an array');
    const method = value[Symbol.iterator];
    if (typeof method !== 'function') throw new Mismatch(value, 'a sequence, such as an array');
    return elementsOf(value, method, convert);
  };
}

/** "Creating a sequence from an iterable": https://webidl.spec.whatwg.org/#create-sequence-from-iterable */
function elementsOf(iterable, method, convert) {
  const result = [];
  // What the iterator of an array does, without its result objects.
  if (method === arrayValues && Array.isArray(iterable) && arrayIteratorPrototype.next === arrayIteratorNext) {
    for (let i = 0; i < iterable.length; i++) result.push(element(iterable[i], i, convert));
    return result;
  }
  const iterator = Reflect.apply(method, iterable, []);
  if (!isObject(iterator)) throw new Mismatch(iterator, 'an iterator as the result of [Symbol.iterator]()');
  // Not `for…of`: an element that cannot be converted does not close the iterator.
  const { next } = iterator;
  for (let i = 0; ; i++) {
    const step = Reflect.apply(next, iterator, []);
    if (!isObject(step)) throw new Mismatch(step, "an object as the result of the iterator's next()");
    if (step.done) return result;
    result.push(element(step.value, i, convert));
  }
}

function element(value, index, convert) {
  try {
    return convert(value);
  } catch (error) {
    throw at(`element ${index}`, error);
  }
}

/**
 * `(T or sequence<T>)` of a numeric type: an object with an iterator is a sequence, everything else a number.
 * @param {Converter<number>} convert
 * @returns {Converter<number | number[]>}
 */
function oneOrSequence(convert) {
  return (value) => {
    if (isObject(value)) {
      const method = value[Symbol.iterator];
      if (method !== undefined && method !== null) {
        if (typeof method !== 'function') throw new Mismatch(value, 'a number or a sequence of numbers');
        return elementsOf(value, method, convert);
      }
    }
    return convert(value);
  };
}

const { getOwnPropertyNames, getOwnPropertySymbols } = Object;
const { propertyIsEnumerable } = Object.prototype;

/** [[OwnPropertyKeys]]. Reflect.ownKeys() is slower, and for such objects gives the same. */
function ownKeys(object) {
  if (isProxy(object) || getOwnPropertySymbols(object).length > 0) return Reflect.ownKeys(object);
  return getOwnPropertyNames(object);
}

/**
 * `record<USVString, T>`, as two lists of the same length, in the order of the keys.
 * @template T
 * @param {Converter<T>} convert
 * @returns {Converter<{names: string[], values: T[]}>}
 */
function record(convert) {
  return (value) => {
    if (!isObject(value)) throw new Mismatch(value, 'an object whose properties are names with their values');
    const names = [];
    const values = [];
    let replaced = false;
    const keys = ownKeys(value);
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      // [[GetOwnProperty]] for each key just before its [[Get]], as a getter of an earlier key can change it.
      if (!propertyIsEnumerable.call(value, key)) continue;
      if (typeof key === 'symbol') throw new Mismatch(key, 'a string as the name of each property');
      const name = usvString(key);
      let converted;
      try {
        converted = convert(value[key]);
      } catch (error) {
        throw at(quote(name), error);
      }
      // Two keys can become one name only where a lone surrogate was replaced; the later value wins.
      if (name !== key) replaced = true;
      const earlier = replaced ? names.indexOf(name) : -1;
      if (earlier < 0) {
        names.push(name);
        values.push(converted);
      } else {
        values[earlier] = converted;
      }
    }
    return { names, values };
  };
}

// ---- Dictionaries --------------------------------------------------------------------------------------------------

/**
 * @typedef {object} Member of a dictionary
 * @property {string} name
 * @property {Converter<any>} convert
 * @property {unknown} [absent] the value when script gives none
 * @property {boolean} [required]
 */

/** The order in which a dictionary reads its own members: by code units. */
function inOrder(members) {
  return [...members].sort((a, b) => (a.name < b.name ? -1 : 1));
}

/** `undefined` and `null` are the empty dictionary. @returns {object | undefined} */
function dictionaryObject(value) {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new Mismatch(value, 'an object');
  return value;
}

/**
 * A dictionary: what it inherits comes first, and each part in lexicographical order.
 * @param {...Member[]} parts from the base to the most derived
 * @returns {Converter<any>}
 */
function dictionary(...parts) {
  const members = parts.flatMap(inOrder);
  return (value) => {
    const object = dictionaryObject(value);
    const result = {};
    for (let i = 0; i < members.length; i++) {
      const { name, convert, absent, required } = members[i];
      const given = object === undefined ? undefined : object[name];
      if (given !== undefined) result[name] = member(name, given, convert);
      else if (required) throw at(name, new Mismatch(given, 'a value: the member is required'));
      else result[name] = absent;
    }
    return result;
  };
}

function member(name, value, convert) {
  try {
    return convert(value);
  } catch (error) {
    throw at(name, error);
  }
}

// ---- Arguments -----------------------------------------------------------------------------------------------------

/** Converts an argument of a method; a mismatch says which one. */
function argument(name, value, convert) {
  try {
    return convert(value);
  } catch (error) {
    throw at(name, error);
  }
}

module.exports = {
  argument,
  boolean,
  dictionary,
  dictionaryObject,
  domString,
  double,
  elementsOf,
  enforcedLong,
  enforcedUnsignedLong,
  enforcedUnsignedLongLong,
  enumeration,
  float,
  inOrder,
  isObject,
  long,
  member,
  numeric,
  oneOrSequence,
  record,
  sequence,
  unsignedLong,
  usvString,
};
