// A session of onnxruntime-node. What it keeps for later starts is the model after its optimizations, in a file of its own format; what it packs it
// packs again.
import { existsSync } from 'node:fs';
import path from 'node:path';
import ort from 'onnxruntime-node';

const { InferenceSession, Tensor } = ort;

export async function open(threads) {
  const load = async (file, cache) => {
    const options = { intraOpNumThreads: threads, interOpNumThreads: 1, graphOptimizationLevel: 'all' };
    const optimized = cache === undefined ? undefined : path.join(cache, 'optimized.ort');
    const isThere = optimized !== undefined && existsSync(optimized);
    if (isThere) options.graphOptimizationLevel = 'disabled';
    else if (optimized !== undefined) Object.assign(options, { optimizedModelFilePath: optimized, extra: { session: { save_model_format: 'ORT' } } });
    const session = await InferenceSession.create(isThere ? optimized : file, options);
    const run = (inputs) => session.run(Object.fromEntries(inputs.map(({ name, type, shape, array }) => [name, new Tensor(type, array, shape)])));
    return { metadata: session.inputMetadata, run };
  };
  return { load, finish: () => {} };
}
