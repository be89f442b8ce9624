// Named typed arrays in a file: a line of JSON, then the bytes of one after the other.
import { readFileSync, writeFileSync } from 'node:fs';
import { halfValue } from '../../lib/command-line/numbers.js';
import arrays from '../../lib/onnx/arrays.js';

/** float16 is its bits. */
const ARRAYS = { ...arrays.ARRAYS, float16: Uint16Array };

/** @param {{name: string, dataType: string, shape: number[], array: ArrayBufferView}[]} list */
export function writeArrays(file, list) {
  const head = list.map(({ name, dataType, shape, array }) => ({ name, dataType, shape, byteLength: array.byteLength }));
  const bytes = list.map(({ array }) => Buffer.from(array.buffer, array.byteOffset, array.byteLength));
  writeFileSync(file, Buffer.concat([Buffer.from(`${JSON.stringify(head)}\n`), ...bytes]));
}

export function readArrays(file) {
  const content = readFileSync(file);
  const end = content.indexOf('\n');
  let offset = end + 1;
  return JSON.parse(content.toString('utf8', 0, end)).map(({ name, dataType, shape, byteLength }) => {
    const bytes = Uint8Array.from(content.subarray(offset, (offset += byteLength)));
    return { name, dataType, shape, array: new ARRAYS[dataType](bytes.buffer) };
  });
}

/** Between the outputs of the same names, and the largest number in them. */
export function largestDifference(left, right) {
  let [difference, largest] = [0, 0];
  for (const { name, dataType, array } of left) {
    const other = right.find((output) => output.name === name);
    if (other === undefined || other.array.length !== array.length) throw new Error(`the engines disagree about the output ${name}`);
    const value = dataType === 'float16' ? halfValue : Number;
    for (let i = 0; i < array.length; i++) {
      const [a, b] = [value(array[i]), value(other.array[i])];
      if (Object.is(a, b)) continue;
      const apart = Math.abs(a - b);
      difference = Math.max(difference, Number.isNaN(apart) ? Infinity : apart);
    }
    for (let i = 0; i < array.length; i++) {
      const number = Math.abs(value(array[i]));
      if (number > largest && number < Infinity) largest = number;
    }
  }
  return { difference, largest };
}
