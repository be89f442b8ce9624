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
  if (file.length < 12 || file.toString('latin1', 0, 6) !== '\x93NUMPY') throw new Error('no .npy file');
  const wide = file[6] >= 2;
  const length = wide ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const start = (wide ? 12 : 10) + length;
  const header = file.toString('latin1', wide ? 12 : 10, start);
  const [, order, type] = /'descr':\s*'([<>|=]?)([a-z]\d+)'/.exec(header) ?? [];
  const shape = /'shape':\s*\(([^)]*)\)/.exec(header)?.[1];
  const known = TYPES[type];
  if (known === undefined || shape === undefined) throw new Error(`a .npy file with the header ${JSON.stringify(header.trim())}`);
  if (order === '>') throw new Error('a .npy file of big-endian numbers');
  if (/'fortran_order':\s*True/.test(header)) throw new Error('a .npy file in Fortran order');
  const sizes = shape.split(',').filter((text) => text.trim() !== '').map(Number);
  const count = sizes.reduce((product, size) => product * size, 1);
  const { array: TypedArray, webnn, convert } = known;
  // A copy, so that it is aligned.
  const bytes = new Uint8Array(file.subarray(start)).buffer;
  if (bytes.byteLength !== count * TypedArray.BYTES_PER_ELEMENT) throw new Error(`a .npy file with ${bytes.byteLength} bytes for ${count} elements`);
  const array = new TypedArray(bytes);
  return { dataType: webnn, shape: sizes, array: convert?.(array) ?? array };
}

module.exports = { readNpy };
