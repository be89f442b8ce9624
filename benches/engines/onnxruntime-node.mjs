// onnxruntime-node, set up as a careful user would: every optimisation, and exactly the threads that were asked for.
import ort from 'onnxruntime-node';

export async function openSession(model, { threads }) {
  return ort.InferenceSession.create(model, {
    executionProviders: ['cpu'],
    graphOptimizationLevel: 'all',
    executionMode: 'sequential',
    intraOpNumThreads: threads,
    interOpNumThreads: 1,
  });
}

export const { Tensor } = ort;
