'use strict';

// https://www.w3.org/TR/webnn/#api-mloperand

const { described } = require('./native.js');
const { dataTypes } = require('./descriptor.js');
const { conversionError } = require('./errors.js');
const { construct, expose, illegalUnless, receiver } = require('./interface.js');

let self, builderOf, idOf;

class MLOperand {
  #builder;
  #id;
  #dataType;
  #shape;

  constructor(key = undefined, builder = undefined, id = undefined, dataType = undefined, shape = undefined) {
    illegalUnless(key);
    this.#builder = builder;
    this.#id = id;
    this.#dataType = dataType;
    this.#shape = shape;
  }

  get dataType() {
    return dataTypes[self(this, 'dataType').#dataType];
  }

  get shape() {
    const operand = self(this, 'shape');
    // A FrozenArray is the same object each time. Freezing costs more than making the operand, and few are asked.
    return Object.isFrozen(operand.#shape) ? operand.#shape : Object.freeze(operand.#shape);
  }

  static {
    builderOf = (value) => (typeof value === 'object' && value !== null && #builder in value ? value.#builder : undefined);
    idOf = (operand) => operand.#id;
    self = (value, attribute) => {
      try {
        receiver(value, builderOf, 'MLOperand');
        return value;
      } catch (error) {
        throw conversionError(error, `MLOperand.${attribute}`);
      }
    };
  }
}

expose(MLOperand, builderOf);

/** The operand that the native side has just made; it left the id, the data type, the rank and the sizes in `described`. */
function createOperand(builder) {
  const rank = described[2];
  const shape = [];
  for (let i = 0; i < rank; i++) shape.push(described[3 + i]);
  return new MLOperand(construct, builder, described[0], described[1], shape);
}

/** Each of several, as [id, data type, …shape]. */
function createOperands(builder, descriptions) {
  return descriptions.map((each) => new MLOperand(construct, builder, each[0], each[1], each.slice(2)));
}

module.exports = { MLOperand, builderOf, createOperand, createOperands, idOf };
