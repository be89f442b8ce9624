import onnx from './onnx.js';

export const { OnnxBindings, OnnxModel, inspectOnnx, loadOnnx } = onnx;
