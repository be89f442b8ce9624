// The typings of models in parts, and of adapters, as a program uses them.

import { Adapter, generate, loadAdapter, type GenerateFeatures } from 'webnn-node/generate';
import type { OnnxModel, OnnxValue } from 'webnn-node/onnx';

export async function say(models: Record<'decoder' | 'encoder' | 'embed' | 'vision' | 'first', OnnxModel>, value: OnnxValue): Promise<number[]> {
  const { decoder, encoder, embed, vision, first } = models;
  const found: number[] = [];
  for await (const { id } of generate(decoder, [1], { encoder: { model: encoder, inputs: { input_features: value } }, withoutPast: first })) found.push(id);
  const features: GenerateFeatures[] = [
    { token: 3, model: vision, inputs: { pixel_values: value } },
    { token: 3, values: value },
  ];
  for await (const { id } of generate(decoder, [1, 3], { embed, features })) found.push(id);
  using adapter: Adapter = await loadAdapter('sql.onnx_adapter');
  found.push(adapter.parameters.length, adapter.modelVersion);
  for await (const { id } of generate(decoder, [1], { adapter })) found.push(id);
  // @ts-expect-error: only loadAdapter makes one
  void new Adapter();
  // @ts-expect-error: neither values nor a model
  void generate(decoder, [1], { features: { token: 1 } });
  return found;
}
