// A sentence encoder (the sizes of MiniLM-L6) whose sequences have another length at every call.
import { lengths } from '../onnx/seeded.mjs';
import { transformer } from '../onnx/transformer.mjs';

const SIZES = { layers: 6, width: 384, heads: 12 };
const LONGEST = 512;
const TOGETHER = 20;
const USUAL = 128;

export const metrics = {
  random: `one of ${TOGETHER} runs with lengths from 1 to ${LONGEST}, most of them met for the first time`,
  known: `a run of ${USUAL} tokens, other lengths in between`,
  fixed: `the same on a model that was loaded for that length (onnxruntime-node: the same model)`,
  fresh: 'a run of a length that was never met before, from 129 tokens on',
};

/** What each engine is asked, by `run(ids, mask)` and `fixed(ids, mask)` for tokens of a batch of one. */
function workload({ run, fixed, answers }) {
  const next = lengths(LONGEST, 3);
  const tokens = Array.from({ length: LONGEST }, (_, i) => BigInt((i * 37) % 4096));
  const of = (length) => [BigInt64Array.from(tokens.slice(0, length)), new BigInt64Array(length).fill(1n)];
  const inputs = Array.from({ length: LONGEST + 1 }, (_, length) => (length === 0 ? undefined : of(length)));
  let never = USUAL;
  return {
    async random(clock) {
      const start = clock();
      for (let i = 0; i < TOGETHER; i++) await run(...inputs[next()]);
      return (clock() - start) / TOGETHER;
    },
    async known(clock) {
      await run(...inputs[1 + (next() % 16)]);
      const start = clock();
      await run(...inputs[USUAL]);
      return clock() - start;
    },
    async fixed(clock) {
      const start = clock();
      await fixed(...inputs[USUAL]);
      return clock() - start;
    },
    async fresh(clock) {
      never = never === LONGEST ? USUAL + 1 : never + 1;
      const start = clock();
      await run(...inputs[never]);
      return clock() - start;
    },
    answers: () => answers(...inputs[17]),
  };
}

const summary = (data) => Array.from(data.subarray(0, 64));

export const engines = {
  async 'webnn-node'({ threads }) {
    const { openContext } = await import('../engines/webnn-node.mjs');
    const { loadOnnx } = await import('webnn-node/onnx');
    const context = await openContext({ threads });
    const open = await loadOnnx(context, transformer(SIZES));
    const whole = await loadOnnx(context, transformer(SIZES), { freeDimensions: { batch: 1, sequence: USUAL } });
    const run = (ids, mask) => open.run({ input_ids: { data: ids, shape: [1, ids.length] }, attention_mask: { data: mask, shape: [1, ids.length] } });
    return workload({
      run,
      fixed: (ids, mask) => whole.run({ input_ids: ids, attention_mask: mask }),
      answers: async (ids, mask) => summary((await run(ids, mask)).last_hidden_state.data),
    });
  },

  async 'onnxruntime-node'({ threads }) {
    const { openSession, Tensor } = await import('../engines/onnxruntime-node.mjs');
    const session = await openSession(transformer(SIZES), { threads });
    const run = (ids, mask) => session.run({ input_ids: new Tensor('int64', ids, [1, ids.length]), attention_mask: new Tensor('int64', mask, [1, ids.length]) });
    return workload({ run, fixed: run, answers: async (ids, mask) => summary((await run(ids, mask)).last_hidden_state.data) });
  },
};
