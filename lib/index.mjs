import entries from './entries.js';

const webnn = entries.index();

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
