// Many large writes to a tensor, all of which wait for products.
import { MLGraphBuilder } from 'webnn-node';
import { newContext } from './cycle.mjs';

const COUNT = 100;
/** They take longer than the writes. */
const PRODUCTS = 20;
/** A matrix of float32 of 16 MB. */
const SIZE = 2048;

/**
 * @param {{threads: number}} settings
 * @param {() => Promise<{resident: number}>} settled what is resident when everything has come to rest
 */
export async function writeBurst(settings, settled) {
  const context = await newContext(settings);
  const descriptor = { dataType: 'float32', shape: [SIZE, SIZE], writable: true, readable: true };
  const builder = new MLGraphBuilder(context);
  const x = builder.input('x', descriptor);
  const graph = await builder.build({ y: builder.matmul(x, x) });
  const [input, output] = [await context.createTensor(descriptor), await context.createTensor(descriptor)];
  const [numbers, into] = [new Float32Array(SIZE * SIZE).fill(1), new Float32Array(SIZE * SIZE)];
  const write = async (times) => {
    for (let i = 0; i < PRODUCTS; i++) context.dispatch(graph, { x: input }, { y: output });
    for (let i = 0; i < times; i++) context.writeTensor(input, numbers);
    const highest = process.memoryUsage.rss();
    await context.readTensor(input, into);
    return highest;
  };
  await write(1);
  const before = await settled();
  const highest = await write(COUNT);
  return { before, highest, after: await settled() };
}
