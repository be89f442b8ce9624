// What runs a model with open dimensions on either engine, for the workloads of sequences of shapes.

/** So many numbers of a result are compared. */
const COMPARED = 64;

/**
 * @param {() => Uint8Array} write the model
 * @param {(run: Function, isQuick: boolean, tensors: string) => {sequence: () => Promise<void>, answers: () => Promise<object>}} work gets
 *   `run(feeds)`: feeds are [type, data, shape] or tensors of the same engine. Results are data, or tensors for `run(feeds, 'tensors')`
 */
export function enginesFor(write, work) {
  const workload = (run, isQuick) => {
    const { sequence, answers } = work(run, isQuick, 'tensors');
    return {
      async sequence(clock) {
        const start = clock();
        await sequence();
        return clock() - start;
      },
      answers: async () => Array.from((await answers()).subarray(0, COMPARED)),
    };
  };
  const dataOf = (results, kind) =>
    kind === 'tensors' ? results : Object.fromEntries(Object.entries(results).map(([name, { data }]) => [name, data]));
  const fed = (feeds, make) => Object.fromEntries(Object.entries(feeds).map(([name, value]) => [name, Array.isArray(value) ? make(...value) : value]));
  return {
    async 'webnn-node'({ threads, isQuick }) {
      const { openContext } = await import('./engines/webnn-node.mjs');
      const { loadOnnx } = await import('webnn-node/onnx');
      const model = await loadOnnx(await openContext({ threads }), write());
      const make = (_, data, shape) => ({ data, shape });
      return workload(async (feeds, kind) => dataOf(await model.run(fed(feeds, make)), kind), isQuick);
    },

    async 'onnxruntime-node'({ threads, isQuick }) {
      const { openSession, Tensor } = await import('./engines/onnxruntime-node.mjs');
      const session = await openSession(write(), { threads });
      const make = (type, data, shape) => new Tensor(type, data, shape);
      return workload(async (feeds, kind) => dataOf(await session.run(fed(feeds, make)), kind), isQuick);
    },
  };
}
