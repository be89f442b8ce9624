// A program as a user of `webnn-node/onnx` would write it; nothing runs it.
import { ml } from 'webnn-node';
import { inspectOnnx, loadOnnx, OnnxTensor, type OnnxModel, type OnnxProfile, type OnnxSignature } from 'webnn-node/onnx';

export async function classify(pixels: Float32Array): Promise<Float32Array> {
  const context = await ml.createContext();
  const model: OnnxModel = await loadOnnx(context, 'model.onnx', { freeDimensions: { batch: 1 }, label: 'classifier' });
  const inputs: OnnxSignature[] = model.inputs;
  const { logits } = await model.run({ [inputs[0]!.name]: pixels });
  model.destroy();
  return logits!.data as Float32Array;
}

export async function generate(steps: number): Promise<void> {
  const context = await ml.createContext();
  const model = await loadOnnx(context, new URL('file:///model.onnx'));
  const bindings = await model.createBindings();
  for (let i = 0; i < steps; i++) {
    bindings.write('id', BigInt64Array.of(1n));
    bindings.dispatch();
    bindings.swap('past', 'present');
  }
  console.log((await bindings.read('logits')).shape);
  bindings.destroy();
}

export async function list(bytes: Uint8Array): Promise<string[]> {
  const { operators } = await inspectOnnx(bytes);
  // @ts-expect-error: a context is needed
  await loadOnnx('model.onnx');
  return operators.map(({ operator, count }) => `${operator}: ${count}`);
}

/** Texts of any length, one after the other. */
export async function embed(texts: BigInt64Array[]): Promise<Float32Array[]> {
  const context = await ml.createContext();
  const model = await loadOnnx(context, 'encoder.onnx');
  const open: string[] = model.inputs.flatMap(({ shape }) => (shape ?? []).filter((size): size is string => typeof size === 'string'));
  console.log(open, model.metadata.producer, model.graph?.label);
  await model.prepare([{ input_ids: [1, 16] }]);
  const results: Float32Array[] = [];
  for (const ids of texts) {
    const mask = new OnnxTensor('int64', new BigInt64Array(ids.length).fill(1n), [1, ids.length]);
    const input = { input_ids: { data: ids, shape: [1, ids.length] }, attention_mask: mask };
    const { embedding } = await model.run(input, { outputs: ['embedding'], seed: 1 });
    if (embedding!.shape[0] === 1) results.push(embedding!.data as Float32Array);
  }
  return results;
}

/** Bytes in shared memory, and float16 where the library has the array. */
export async function halves(bytes: SharedArrayBuffer): Promise<OnnxTensor> {
  console.log((await inspectOnnx(bytes)).parameters);
  const model = await loadOnnx(await ml.createContext(), bytes, { constants: { bias: new Float16Array(1) } });
  const { y } = await model.run({ x: new Float16Array(4) }, { outputs: { y: new Float16Array(4) } });
  return y ?? new OnnxTensor('float16', new Float16Array(4), [4]);
}

/** What a run's hottest step makes of the machine. */
export async function hottest(model: OnnxModel, pixels: Float32Array): Promise<string> {
  const profile: OnnxProfile = model.profile();
  await model.run({ pixels });
  profile.stop();
  const peak = await profile.peak();
  const [first] = [...profile.runs[0]!.steps].sort((a, b) => b.ms - a.ms);
  const gflops: number = (2 * first!.multiplications) / first!.ms / 1e6;
  // @ts-expect-error: there is none on a GPU
  console.log(peak.gflops);
  const sources: number[] = first!.sources;
  return `${first!.text} of ${first!.dataType} by ${first!.thread}, behind ${sources.length}: ${gflops} of ${peak?.gflops} GFLOP/s`;
}
