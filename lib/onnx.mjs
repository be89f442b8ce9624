import onnx from './onnx.js';

export default onnx;
export const { OnnxBindings, OnnxModel, inspectOnnx, loadOnnx } = onnx;
