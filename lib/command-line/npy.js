'use strict';

// NumPy's .npy files: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html

const TYPES = {
  f4: { array: Float32Array, webnn: 'float32' },
  f8: { array: Float64Array, webnn: 'float32', convert: (array) => Float32Array.from(array) },
  f2: { array: globalThis.Float16Array ?? Uint16Array, webnn: 'float16' },
  i8: { array: BigInt64Array, webnn: 'int64' },
  u8: { array: BigUint64Array, webnn: 'uint64' },
  i4: { array: Int32Array, webnn: 'int32' },
  u4: { array: Uint32Array, webnn: 'uint32' },
  i1: { array: Int8Array, webnn: 'int8' },
  u1: { array: Uint8Array, webnn: 'uint8' },
  b1: { array: Uint8Array, webnn: 'uint8' },
};

/**
 * @param {Buffer} file
 * @returns {{dataType: string, shape: number[], array: ArrayBufferView}}
 */
function readNpy(file) {
  if (file.length < 12 || file.toString('latin1', 0, 6) !== '\x93NUMPY') throw new Error('not a .npy file');
  const wide = file[6] >= 2;
  const length = wide ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const start = (wide ? 12 : 10) + length;
  const header = file.toString('latin1', wide ? 12 : 10, start);
  const [, order, type] = /'descr':\s*'([<>|=]?)([a-z]\d+)'/.exec(header) ?? [];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  const known = TYPES[type];
  if (known === undefined || shape === undefined) throw new Error(`the header ${JSON.stringify(header.trim())} is not supported`);
  if (order === '>') throw new Error('big-endian numbers are not supported');
  const sizes = shape.split(',').filter((text) => text.trim() !== '').map(Number);
  const count = sizes.reduce((product, size) => product * size, 1);
  const { array: TypedArray, webnn, convert } = known;
  // A copy, so that it is aligned.
  const bytes = new Uint8Array(file.subarray(start)).buffer;
  if (bytes.byteLength !== count * TypedArray.BYTES_PER_ELEMENT) throw new Error(`found ${bytes.byteLength} bytes for ${count} elements`);
  const array = new TypedArray(bytes);
  const inOrder = /'fortran_order':\s*True/.test(header) ? rowMajor(array, sizes) : array;
  return { dataType: webnn, shape: sizes, array: convert?.(inOrder) ?? inOrder };
}

/** The elements of an array in Fortran order, whose first dimension is the fastest, with the last one as the fastest. */
function rowMajor(array, sizes) {
  const result = new array.constructor(array.length);
  const at = sizes.map(() => 0);
  const strides = sizes.map((_, axis) => sizes.slice(0, axis).reduce((product, size) => product * size, 1));
  let from = 0;
  for (let i = 0; i < result.length; i++) {
    result[i] = array[from];
    for (let axis = sizes.length - 1; axis >= 0; axis--) {
      from += strides[axis];
      if (++at[axis] < sizes[axis]) break;
      from -= at[axis] * strides[axis];
      at[axis] = 0;
    }
  }
  return result;
}

module.exports = { readNpy };
