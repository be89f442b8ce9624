// Texts of random lengths for an encoder, one after the other.
import { lengths } from './onnx/seeded.mjs';
import { transformer } from './onnx/transformer.mjs';
import { enginesFor } from './shapes.mjs';

const LONGEST = 512;

/** A workload of so many texts for a transformer of these sizes. */
export function texts(sizes, count, seed) {
  const engines = encoder(sizes, lengths(LONGEST, seed), count, 17);
  return { metrics: { sequence: `${count} runs with lengths from 1 to ${LONGEST}, all plans made on the way` }, engines };
}

/** The longest alone: what a process takes that has not met the others. */
export function longest(sizes, count) {
  return { metrics: { sequence: `${count} runs of ${LONGEST} tokens and no others` }, engines: encoder(sizes, () => LONGEST, count, LONGEST) };
}

function encoder(sizes, next, count, answered) {
  return enginesFor(() => transformer(sizes), (run, isQuick) => {
    const all = Array.from({ length: isQuick ? 3 : count }, next);
    const tokens = (length) => BigInt64Array.from({ length }, (_, i) => BigInt((i * 37) % 4096));
    const feeds = (length) => ({
      input_ids: ['int64', tokens(length), [1, length]],
      attention_mask: ['int64', new BigInt64Array(length).fill(1n), [1, length]],
    });
    return {
      sequence: async () => {
        for (const length of all) await run(feeds(length));
      },
      answers: async () => (await run(feeds(answered))).last_hidden_state,
    };
  });
}
