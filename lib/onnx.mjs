import onnx from './onnx.js';

export default onnx;
export const { OnnxBindings, OnnxModel, OnnxTensor, inspectOnnx, loadOnnx } = onnx;
