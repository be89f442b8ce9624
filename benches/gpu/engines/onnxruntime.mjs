// Sessions of onnxruntime, of either package.

const empty = { float32: Float32Array, float16: Uint16Array };

/**
 * @param {any} ort the package
 * @param {(file: string, options: object) => Promise<any>} create a session of a file
 * @param {boolean} keepsCaches whether caches of a decoder may stay on the GPU
 */
export function on(ort, create, keepsCaches) {
  const tensor = ({ type, data, dims }) => new ort.Tensor(type, data, dims);
  return {
    async load(file) {
      const session = await create(file, {});
      return {
        async run(inputs) {
          const feeds = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, tensor(input)]));
          return Object.values(await session.run(feeds))[0].data;
        },
        release: () => session.release(),
      };
    },
    async decoder(file, { groups, head, type }) {
      const location = (names) => Object.fromEntries(names.map((name) => [name, name === 'logits' ? 'cpu' : 'gpu-buffer']));
      const probe = keepsCaches ? await create(file, {}) : undefined;
      const preferredOutputLocation = probe && location(probe.outputNames);
      await probe?.release();
      const session = await create(file, preferredOutputLocation ? { preferredOutputLocation } : {});
      const caches = session.inputNames.filter((name) => name.startsWith('past'));
      return { generate: generator(session, caches, { tensor, groups, head, type }), release: () => session.release() };
    },
  };
}

const largest = (logits) => logits.reduce((best, value, id) => (value > logits[best] ? id : best), 0);

/** Greedy decoding with the caches of the step before. */
function generator(session, caches, { tensor, groups, head, type }) {
  const int64 = (list) => tensor({ type: 'int64', data: BigInt64Array.from(list, BigInt), dims: [1, list.length] });
  return async (prompt, most, each) => {
    let past = Object.fromEntries(caches.map((name) => [name, tensor({ type, data: new empty[type](0), dims: [1, groups, 0, head] })]));
    let tokens = prompt;
    let total = 0;
    for (let i = 0; i < most; i++) {
      total += tokens.length;
      const results = await session.run({ ...past, input_ids: int64(tokens), attention_mask: int64(new Array(total).fill(1)) });
      const best = largest(results.logits.data);
      each(best);
      tokens = [best];
      Object.values(past).forEach((one) => one.dispose?.());
      past = Object.fromEntries(caches.map((name) => [name, results[name.replace('past_key_values', 'present')]]));
    }
    Object.values(past).forEach((one) => one.dispose?.());
  };
}
