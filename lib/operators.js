'use strict';

// The operators of MLGraphBuilder. The native side has a table of operators, and each row becomes a method. All methods do the same: convert
// arguments by the kinds in the row, check the operands, and call one native function. Nothing here names an operator.

const { isProxy } = require('node:util').types;
const { process } = require('./globals.js');
const native = require('./native.js');
const { Mismatch, TooFewArguments, conversionError, nativeError, typeError } = require('./errors.js');
const { builderOf, createOperand, createOperands, idOf } = require('./operand.js');
const { quote } = require('./show.js');
const {
  argument,
  boolean,
  dictionaryObject,
  double,
  enforcedLong,
  enforcedUnsignedLong,
  enumeration,
  float,
  inOrder,
  long,
  member,
  numeric,
  oneOrSequence,
  sequence,
  unsignedLong,
  usvString,
} = require('./webidl.js');

/** @typedef {import('./states').BuilderState} BuilderState */

/** MLOperand. Whose it is comes later, as the method steps do. */
function operand(value) {
  if (builderOf(value) === undefined) throw new Mismatch(value, 'an MLOperand');
  return value;
}

const unsigned = ({ enforceRange }) => (enforceRange ? enforcedUnsignedLong : unsignedLong);

/** From a kind of the table to its converter. */
const converters = {
  operand: () => operand,
  operands: () => sequence(operand),
  unsigned,
  signed: ({ enforceRange }) => (enforceRange ? enforcedLong : long),
  unsignedList: (kind) => sequence(unsigned(kind)),
  unsignedOrList: (kind) => oneOrSequence(unsigned(kind)),
  boolean: () => boolean,
  double: () => double,
  floatList: () => sequence(float),
  number: () => numeric,
  enumeration: ({ values }) => enumeration(values),
  enumerationList: ({ values }) => sequence(enumeration(values)),
};

const OPERAND = 1;
const OPERANDS = 2;

/** Before an operator's own values, the native call has the builder, the operator's number and the label. */
const FIRST = 3;

/** An argument or option: how it is converted, and where it goes in the native call. */
function place({ name, kind }, position) {
  const holds = kind.type === 'operand' ? OPERAND : kind.type === 'operands' ? OPERANDS : 0;
  return { name, position: FIRST + position, holds, convert: converters[kind.type](kind) };
}

/**
 * @param {import('./native').Operator} row of the table
 * @param {number} operator its number
 * @param {(self: unknown, operator: string) => BuilderState} receiverOf
 * @param {(builder: BuilderState, operator: string, label: string) => void} requireCanBuild
 */
function operatorMethod(row, operator, receiverOf, requireCanBuild) {
  const required = row.arguments.length;
  const positional = row.arguments.map((item, i) => place(item, i));
  // MLOperatorOptions, from which each dictionary of options inherits, is read first, and has nothing but the label.
  const members = inOrder(row.options.map((item, i) => place(item, required + i)));
  const operands = [...positional, ...members].filter(({ holds }) => holds);
  const wrap = row.outputs === 'sequence' ? createOperands : createOperand;

  const method = {
    [row.name](...given) {
      const builder = receiverOf(this, row.name);
      /** @type {any[]} */
      const values = [builder.handle, operator, ''];
      try {
        if (given.length < required) throw new TooFewArguments(given.length, required);
        for (let i = 0; i < required; i++) values.push(argument(positional[i].name, given[i], positional[i].convert));
        if (given.length > required) {
          const options = argument('options', given[required], dictionaryObject);
          if (options !== undefined) {
            readOptions(options, members, values);
            if (tellsUnknown) tellUnknown(row, options);
          }
        }
      } catch (error) {
        throw conversionError(error, row.name, labelOf(given[required]));
      }
      const label = values[FIRST - 1];
      requireCanBuild(builder, row.name, label);
      for (let i = 0; i < operands.length; i++) toIds(operands[i], values, builder, row.name, label);
      try {
        return wrap(builder, Reflect.apply(native.apply, undefined, values));
      } catch (error) {
        throw nativeError(error);
      }
    },
  }[row.name];
  Object.defineProperty(method, 'length', { value: required, configurable: true });
  return method;
}

/** WebIDL ignores members that a dictionary does not have; who sets `WEBNN_LOG` hears of them, once for each operator. */
const tellsUnknown = Boolean(process.env.WEBNN_LOG);
const logged = new Set();

/** @param {import('./native').Operator} row */
function tellUnknown({ name, options: known }, options) {
  if (isProxy(options)) return;
  for (const key of Object.keys(options)) {
    const what = `${name}: options: ${quote(key)}`;
    if (key === 'label' || known.some((option) => option.name === key) || logged.has(what)) continue;
    logged.add(what);
    const allowed = ['label', ...known.map((option) => option.name)].map(quote).join(', ');
    process.stderr.write(`webnn: ${what} is ignored: the specification has no such member; allowed ${allowed}\n`);
  }
}

/** Puts the label and the members that are there in their places. */
function readOptions(options, members, values) {
  const label = options.label;
  if (label !== undefined) values[FIRST - 1] = member('label', label, usvString);
  for (let i = 0; i < members.length; i++) {
    const { name, position, convert } = members[i];
    const value = options[name];
    if (value !== undefined) values[position] = member(name, value, convert);
  }
}

/** "Validating operand": each has to be of this builder. The native side knows them by their ids. */
function toIds({ name, position, holds }, values, builder, operator, label) {
  const value = values[position];
  if (value === undefined) return;
  if (holds === OPERAND) {
    if (builderOf(value) !== builder) throw foreignOperand(operator, label, name);
    values[position] = idOf(value);
    return;
  }
  for (let i = 0; i < value.length; i++) {
    if (builderOf(value[i]) !== builder) throw foreignOperand(operator, label, `${name}: element ${i}`);
    value[i] = idOf(value[i]);
  }
}

function foreignOperand(operator, label, name) {
  return typeError(operator, label, `${name}: found an MLOperand of another MLGraphBuilder, allowed one of this one`);
}

/** The label for a message when conversion did not come as far; nothing that script could notice is done for it. */
function labelOf(options) {
  if (typeof options !== 'object' || options === null || isProxy(options)) return '';
  const label = Reflect.getOwnPropertyDescriptor(options, 'label')?.value;
  return typeof label === 'string' ? label.toWellFormed() : '';
}

/**
 * Makes the methods of all operators.
 * @param {object} prototype of MLGraphBuilder
 */
function defineOperators(prototype, receiverOf, requireCanBuild) {
  native.operators().forEach((row, operator) => {
    const value = operatorMethod(row, operator, receiverOf, requireCanBuild);
    Object.defineProperty(prototype, row.name, { value, writable: true, enumerable: true, configurable: true });
  });
}

module.exports = { defineOperators, foreignOperand, operand };
