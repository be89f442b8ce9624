// A program for TypeScript's older way to find modules, `moduleResolution: node`, which reads no `exports`, in a page's project.
import 'webnn-node/register';
import * as webnn from 'webnn-node';
import onnx, { loadOnnx, type OnnxModel } from 'webnn-node/onnx';
import { InferenceSession, Tensor } from 'webnn-node/onnxruntime';

export async function run(model: string): Promise<Tensor | undefined> {
  const session: InferenceSession = await InferenceSession.create(model, { executionProviders: ['webnn'] });
  return (await session.run({ x: new Tensor('float32', [1, 2], [2]) }))['y'];
}

export async function load(): Promise<OnnxModel[]> {
  const context: MLContext = await navigator.ml.createContext();
  const other: webnn.MLContext = await webnn.ml.createContext();
  document.title = `${context.label} ${navigator.userAgent}`;
  return [await loadOnnx(context, 'model.onnx'), await onnx.loadOnnx(other, new URL('file:///model.onnx'))];
}
