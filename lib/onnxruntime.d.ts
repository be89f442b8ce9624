/** The interface of onnxruntime-node on this engine: an extension of this package, `webnn-node/onnxruntime`. */

import type { Env } from 'onnxruntime-common';
import type { MLFPMath, MLPerformanceHint, MLPriority } from '../index.js';
import type { OnnxBatching, OnnxBatchingOptions } from './onnx.js';

export * from 'onnxruntime-common';

/** The versions name this package, too. */
export const env: Env & { readonly versions: { readonly 'webnn-node': string } };

/** An execution provider that a session can ask for. */
export interface SupportedBackend {
  name: string;
  bundled: boolean;
}

export function listSupportedBackends(): SupportedBackend[];

// Options of sessions that onnxruntime does not have.
declare module 'onnxruntime-common' {
  interface InferenceSession {
    /** undefined without the option `batching`. */
    readonly batching?: OnnxBatching;
  }

  namespace InferenceSession {
    interface SessionOptions {
      /** Joins waiting runs of the session, as in `loadOnnx`. */
      batching?: boolean | OnnxBatchingOptions;
      /** Keeps packed weights on disk, as in `loadOnnx`. */
      cache?: boolean | string;
    }

    interface CpuExecutionProviderOption {
      /** How float32 products may be computed, as in `createContext`. */
      fpMath?: MLFPMath;
      /** How runs divide the threads of the CPU, as in `createContext`. */
      performance?: MLPerformanceHint | number;
    }

    interface WebNNContextOptions {
      /** How float32 products may be computed, as in `createContext`. */
      fpMath?: MLFPMath;
      /** How runs divide the threads of the CPU, as in `createContext`. */
      performance?: MLPerformanceHint | number;
    }

    interface RunOptions {
      /** Cancels the run, which then rejects with the signal's reason. */
      signal?: AbortSignal;
      /** Of waiting runs the more urgent go first, as in `model.run()`. The default is that of the context. */
      priority?: MLPriority;
      /** Milliseconds from the call. A run that has not begun by then rejects with a `TimeoutError`. */
      timeout?: number;
    }
  }
}
