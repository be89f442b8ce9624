// A program as a user of `webnn-node/onnxruntime` would write it; nothing runs it.
import type * as common from 'onnxruntime-common';
import type { MLContext, MLGPUDevice } from 'webnn-node';
import { generate } from 'webnn-node/generate';
import * as ort from 'webnn-node/onnxruntime';
import drop, { InferenceSession, Tensor, env, listSupportedBackends, type TypedTensor } from 'webnn-node/onnxruntime';

// It is the interface of onnxruntime-common, with whose types programs for it are written.
ort satisfies typeof common;
drop satisfies typeof common;

const options = {
  executionProviders: ['cpu', { name: 'webgpu' }, { name: 'webnn', deviceType: 'gpu', powerPreference: 'low-power' }],
  intraOpNumThreads: 2,
  graphOptimizationLevel: 'all',
  freeDimensionOverrides: { batch: 1 },
  externalData: [{ path: 'weights', data: new Uint8Array(4) }],
  preferredOutputLocation: { logits: 'ml-tensor' },
  enableProfiling: true,
  profileFilePrefix: 'run',
  logSeverityLevel: 3,
  extra: { session: { disable_prepacking: '1' } },
} as const satisfies common.InferenceSession.SessionOptions;

export async function classify(ids: bigint[]): Promise<Float32Array> {
  const session: common.InferenceSession = await InferenceSession.create('model.onnx', options);
  const feeds = { input_ids: new Tensor('int64', ids, [1, ids.length]) } satisfies common.InferenceSession.FeedsType;
  const { logits } = await session.run(feeds, ['logits'], { logSeverityLevel: 2, terminate: false });
  const metadata = session.inputMetadata satisfies readonly common.InferenceSession.ValueMetadata[];
  console.log(metadata, env.versions.common, listSupportedBackends()[0]?.name);
  await session.release();
  return (logits as TypedTensor<'float32'>).data;
}

/** What onnxruntime does not take. */
export async function ofThisEngine(context: MLContext, device: MLGPUDevice, signal: AbortSignal): Promise<string> {
  const executionProviders: common.InferenceSession.SessionOptions['executionProviders'] = [
    { name: 'webnn', numThreads: 2, fpMath: 'bf16', performance: 2, powerPreference: 'low-power' },
    { name: 'cpu', fpMath: 'bf16', performance: 'throughput' },
    { name: 'webnn', context },
    { name: 'webgpu', device },
  ];
  const externalData = ['weights.bin', { path: 'weights.bin', data: 'elsewhere/weights.bin' }];
  const session = await InferenceSession.create(new SharedArrayBuffer(8), { executionProviders, externalData, preferredOutputLocation: 'gpu-buffer' });
  const tensor = await context.createTensor({ dataType: 'float32', shape: [4] });
  const x = ort.Tensor.fromMLTensor(tensor, { dataType: 'float32', dims: [4] });
  await session.run({ x, nibbles: new ort.Tensor('int4', new Uint8Array(2), [4]) }, { signal });
  await session.run({ x }, ['y'], { signal, terminate: false });
  await session.run({ x }, ['y'], { priority: 'high', timeout: 100, tag: 'urgent' });
  // @ts-expect-error: there is no such priority
  await session.run({ x }, { priority: 'urgent' });
  // @ts-expect-error: there is no such mode
  await InferenceSession.create('model.onnx', { executionProviders: [{ name: 'cpu', fpMath: 'fast' }] });
  for await (const { id } of generate(session, [1, 2], { signal })) console.log(id);
  return ort.env.versions['webnn-node'] + drop.env.versions['webnn-node'] + env.versions.common;
}

export async function fromBytes(bytes: Uint8Array): Promise<common.InferenceSession.ReturnType> {
  const session = await ort.InferenceSession.create(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const output: common.TypedTensor<'float32'> = new ort.Tensor(new Float32Array(3), [1, 3]);
  // @ts-expect-error: numbers are no tensor
  await session.run({ x: 1 });
  return session.run({ x: output }, { y: output, z: null });
}
