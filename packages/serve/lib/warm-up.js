'use strict';

// Runs a model once before it is served, so that the first request does not wait for plans.

/**
 * Sizes for open dimensions, from small to large, as rows and all others: some models need a few pixels, some more than one row. Rows of large pictures
 * would take gigabytes.
 */
const SIZES = [[1, 1], [1, 8], [1, 64], [1, 224], [8, 8]];
/** Bytes of a run. */
const MOST = 2 ** 30;

/**
 * @param {any} model an OnnxModel
 * @param {any} [log]
 */
async function warmUp(model, log) {
  let reason;
  for (const [rows, size] of SIZES) {
    try {
      await model.run(zeros(model, size, rows), { maxBytes: MOST });
      return;
    } catch (error) {
      reason = error;
    }
  }
  // Zeros are no values for it; its first request will show what is.
  log?.warn({ model: model.label, err: reason }, 'the model was not run before it is served');
}

/** A value for each input that must be passed. */
function zeros({ inputs }, size, rows = size) {
  const feeds = {};
  for (const { name, dataType, shape, optional, sequence } of inputs) {
    if (optional) continue;
    const sizes = (shape ?? [size]).map((one, axis) => (typeof one === 'number' ? one : axis === 0 ? rows : size));
    const tensor = { data: arrayOf(dataType, sizes), shape: sizes, dataType };
    feeds[name] = sequence ? [tensor] : tensor;
  }
  return feeds;
}

const arrays = {
  float32: Float32Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int8: Int8Array,
  uint8: Uint8Array,
  float16: globalThis.Float16Array ?? Uint16Array,
};

function arrayOf(dataType, shape) {
  const count = shape.reduce((all, one) => all * one, 1);
  if (dataType === 'int4' || dataType === 'uint4') return new Uint8Array(Math.ceil(count / 2));
  return new arrays[dataType](count);
}

module.exports = { arrays, warmUp, zeros };
