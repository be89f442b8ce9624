import webnn from './index.js';

export default webnn;
export const { ml, ML, MLContext, MLGraph, MLGraphBuilder, MLOperand, MLTensor } = webnn;
