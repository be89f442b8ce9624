// Inputs for models of which nothing is known but the file: numbers that are the same for each engine, and a sentence on each.

const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  bool: Uint8Array,
};

/** So large are dimensions that a file leaves open, of which nothing is said: the first of a shape, and the others. */
const OPEN = [1, 64];

/**
 * @param {{name: string, type: string, shape: (number | string)[] | null, isTensor: boolean}[]} metadata as of a session
 * @param {{dimensions: Record<string, number>, values: Record<string, number>}} settings sizes by the names of dimensions or by `input:axis`;
 *   numbers with which inputs are filled
 * @param {number} [seed] of the numbers of the other inputs
 */
export function madeUp(metadata, { dimensions, values }, seed = 1) {
  return metadata.map(({ name, type, shape }) => {
    const sizes = (shape ?? []).map((size, axis) => {
      const given = dimensions[`${name}:${axis}`] ?? dimensions[size];
      return given ?? (typeof size === 'number' && size >= 0 ? size : OPEN[Math.min(axis, 1)]);
    });
    const array = new ARRAYS[type](sizes.reduce((product, size) => product * size, 1));
    const said = name in values ? `all ${values[name]}` : fill(array, type, seed);
    const convert = array instanceof BigInt64Array || array instanceof BigUint64Array ? BigInt : Number;
    if (name in values) array.fill(convert(values[name]));
    return { name, type, shape: sizes, array, said };
  });
}

/** Numbers of a linear congruence, which begin anew for each input. */
function fill(array, type, seed) {
  let state = seed;
  const next = () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32;
  if (type === 'float32' || type === 'float64') {
    for (let i = 0; i < array.length; i++) array[i] = 2 * next() - 1;
    return 'from -1 to 1';
  }
  if (type === 'float16') {
    // From 1 to 2: their exponent, and 10 random bits.
    for (let i = 0; i < array.length; i++) array[i] = 0x3c00 | (next() * 1024);
    return 'from 1 to 2';
  }
  if (type === 'bool') return array.fill(1), 'all true';
  const convert = array instanceof BigInt64Array || array instanceof BigUint64Array ? BigInt : Number;
  for (let i = 0; i < array.length; i++) array[i] = convert(Math.floor(16 * next()));
  return 'from 0 to 15';
}
