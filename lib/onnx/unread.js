'use strict';

// Results that stay on the native side until script reads them: the caches of decoders, which the next run takes without a copy. The first read
// copies the elements. From then on the array counts, because script may write into it.

const native = require('../native.js');
const { nativeError } = require('../errors.js');
const { arrayOver } = require('./arrays.js');
const { resultTensor } = require('./tensor.js');

/** Drops values that were collected. */
const values = new FinalizationRegistry((handle) => native.dropValue(handle));

/** The elements of a tensor before they are read. */
class UnreadElements {
  #handle;

  /**
   * @param {number} handle which is its own from now on
   * @param {string} dataType
   * @param {number[]} shape
   */
  constructor(handle, dataType, shape) {
    this.#handle = handle;
    this.dataType = dataType;
    this.shape = shape;
    values.register(this, handle, this);
  }

  /** For a call of the native side, before anybody else can drop it. */
  get handle() {
    return this.#handle;
  }

  /** Another one of the same elements. */
  share() {
    return new UnreadElements(native.shareValue(this.#handle), this.dataType, this.shape);
  }

  /** The elements. */
  read() {
    try {
      return arrayOver(this.dataType, native.readValue(this.#handle));
    } catch (error) {
      throw nativeError(error);
    }
  }

  /**
   * Puts the elements into an array. What is there of a cache that the run has found there stays.
   * @param {ArrayBufferView} array of as many elements
   * @param {ArrayBufferView | UnreadElements | undefined} past what the run was given for the cache
   */
  writeTo(array, past) {
    const isPast = ArrayBuffer.isView(past) && past.buffer === array.buffer && past.byteOffset === array.byteOffset && past.byteLength === array.byteLength;
    try {
      native.writeValue(this.#handle, array, isPast ? 1 : 0);
    } catch (error) {
      throw nativeError(error);
    }
  }

  drop() {
    if (this.#handle === undefined) return;
    values.unregister(this);
    native.dropValue(this.#handle);
    this.#handle = undefined;
  }
}

/** @type {WeakMap<object, UnreadElements>} by the tensors whose elements they are */
const unreadBy = new WeakMap();

/**
 * The elements of a tensor, if they are kept and its shape is still theirs.
 * @param {object} tensor
 * @param {readonly number[]} shape
 */
function unreadOf(tensor, shape) {
  const unread = unreadBy.get(tensor);
  return unread !== undefined && `${unread.shape}` === `${shape}` ? unread : undefined;
}

/** From now on what a tensor was given counts, and not what was kept. */
function forgetUnread(tensor) {
  unreadBy.delete(tensor);
}

/**
 * Lets a property of a tensor be elements that are read when somebody looks at it, or what is made of them.
 * @param {object} tensor
 * @param {string} property
 * @param {UnreadElements} unread which is the tensor's from now on
 * @param {(unread: UnreadElements) => unknown} [make]
 */
function lookLater(tensor, property, unread, make = () => unread.read()) {
  unreadBy.set(tensor, unread);
  const become = (value) => {
    unreadBy.delete(tensor);
    Object.defineProperty(tensor, property, { value, writable: true, enumerable: true, configurable: true });
    unread.drop();
  };
  Object.defineProperty(tensor, property, {
    get() {
      const value = make(unread);
      become(value);
      return value;
    },
    set: become,
    enumerable: true,
    configurable: true,
  });
}

/** @param {UnreadElements} unread which is the tensor's from now on */
function unreadTensor(unread) {
  const tensor = resultTensor(unread.dataType, undefined, [...unread.shape]);
  lookLater(tensor, 'data', unread);
  return tensor;
}

module.exports = { UnreadElements, forgetUnread, unreadOf, unreadTensor, lookLater };
