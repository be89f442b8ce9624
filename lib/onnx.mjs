import entries from './entries.js';

const onnx = entries.onnx();

export default onnx;
export const { OnnxBindings, OnnxModel, OnnxTensor, inspectOnnx, loadOnnx } = onnx;
