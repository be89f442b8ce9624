// Texts of a thousand random lengths for a sentence encoder of the sizes of MiniLM-L6, one after the other.
import { lengths } from '../onnx/seeded.mjs';
import { transformer } from '../onnx/transformer.mjs';
import { enginesFor } from '../shapes.mjs';

const LONGEST = 512;

export const metrics = { sequence: `1,000 runs with lengths from 1 to ${LONGEST}, all plans made on the way` };
export const once = ['sequence'];

export const engines = enginesFor(() => transformer({ layers: 6, width: 384, heads: 12 }), (run, isQuick) => {
  const next = lengths(LONGEST, 5);
  const length = Array.from({ length: isQuick ? 10 : 1000 }, next);
  const tokens = (count) => BigInt64Array.from({ length: count }, (_, i) => BigInt((i * 37) % 4096));
  const feeds = (count) => ({
    input_ids: ['int64', tokens(count), [1, count]],
    attention_mask: ['int64', new BigInt64Array(count).fill(1n), [1, count]],
  });
  return {
    sequence: async () => {
      for (const count of length) await run(feeds(count));
    },
    answers: async () => (await run(feeds(17))).last_hidden_state,
  };
});
