/** `webnn-node/register`, imported for its side effect: it makes `navigator.ml` and the interface objects global. */

import type * as webnn from '../index.js';

export * from '../index.js';

declare global {
  interface Navigator {
    readonly ml: webnn.ML;
  }
  var navigator: Navigator;

  interface ML extends webnn.ML {}
  var ML: typeof webnn.ML;
  interface MLContext extends webnn.MLContext {}
  var MLContext: typeof webnn.MLContext;
  interface MLGraph extends webnn.MLGraph {}
  var MLGraph: typeof webnn.MLGraph;
  interface MLOperand extends webnn.MLOperand {}
  var MLOperand: typeof webnn.MLOperand;
  interface MLTensor extends webnn.MLTensor {}
  var MLTensor: typeof webnn.MLTensor;
  interface MLGraphBuilder extends webnn.MLGraphBuilder {}
  var MLGraphBuilder: typeof webnn.MLGraphBuilder;
  interface MLCommandEncoder extends webnn.MLCommandEncoder {}
  var MLCommandEncoder: typeof webnn.MLCommandEncoder;
  interface MLCommandBuffer extends webnn.MLCommandBuffer {}
  var MLCommandBuffer: typeof webnn.MLCommandBuffer;
  interface MLExecution extends webnn.MLExecution {}
  var MLExecution: typeof webnn.MLExecution;
  interface MLAwaitedExecution extends webnn.MLAwaitedExecution {}
  var MLAwaitedExecution: typeof webnn.MLAwaitedExecution;
}
