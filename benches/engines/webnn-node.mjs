// This package, through its public entry point.
import { ml, MLCommandEncoder, MLGraphBuilder } from 'webnn-node';

export async function openContext({ threads }) {
  return ml.createContext({ accelerated: false, numThreads: threads });
}

export { MLCommandEncoder, MLGraphBuilder };
