import webnn from './index.js';

export default webnn;
export const {
  ml,
  ML,
  MLAwaitedExecution,
  MLCommandBuffer,
  MLCommandEncoder,
  MLContext,
  MLExecution,
  MLGraph,
  MLGraphBuilder,
  MLOperand,
  MLTensor,
} = webnn;
