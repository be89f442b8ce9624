// A decoder whose past grows from nothing to 512 tokens, one at a time: results of a run are inputs of the next.
import { decoder } from '../onnx/decoder.mjs';
import { enginesFor } from '../shapes.mjs';

const SIZES = { layers: 4, width: 384, heads: 6 };
const TOKENS = 512;

export const metrics = { sequence: `${TOKENS} tokens, each with a longer past, all plans made on the way` };
export const once = ['sequence'];

export const engines = enginesFor(() => decoder(SIZES), (run, isQuick, tensors) => {
  const names = Array.from({ length: SIZES.layers }, (_, i) => [`${i}_key`, `${i}_value`]).flat();
  const shape = [1, SIZES.heads, 0, SIZES.width / SIZES.heads];
  const generate = async (count) => {
    let feeds = Object.fromEntries(names.map((name) => [`past_${name}`, ['float32', new Float32Array(0), shape]]));
    let results;
    for (let i = 0; i < count; i++) {
      results = await run({ ...feeds, input_ids: ['int64', BigInt64Array.of(BigInt((i * 37) % 4096)), [1, 1]] }, tensors);
      feeds = Object.fromEntries(names.map((name) => [`past_${name}`, results[`present_${name}`]]));
    }
    return results;
  };
  return {
    sequence: () => generate(isQuick ? 8 : TOKENS),
    answers: async () => (await generate(3)).logits.data,
  };
});
