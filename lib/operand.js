'use strict';

// https://www.w3.org/TR/webnn/#api-mloperand

const { dataTypes } = require('./descriptor.js');
const { conversionError } = require('./errors.js');
const { construct, expose, illegalUnless, receiver } = require('./interface.js');

let self, builderOf, idOf;

class MLOperand {
  #builder;
  #id;
  #dataType;
  #shape;

  // [id, data type, …shape], until somebody asks for the shape.
  #native;

  constructor(key = undefined, builder = undefined, description = undefined) {
    illegalUnless(key);
    this.#builder = builder;
    this.#id = description[0];
    this.#dataType = description[1];
    this.#native = description;
  }

  get dataType() {
    return dataTypes[self(this, 'dataType').#dataType];
  }

  get shape() {
    const operand = self(this, 'shape');
    if (operand.#shape === undefined) {
      operand.#shape = Object.freeze(operand.#native.slice(2));
      operand.#native = undefined;
    }
    return operand.#shape;
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

/**
 * @param {object} builder the state of the builder
 * @param {number[]} description [id, data type, …shape]
 */
function createOperand(builder, description) {
  return new MLOperand(construct, builder, description);
}

module.exports = { MLOperand, builderOf, createOperand, idOf };
