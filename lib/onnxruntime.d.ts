/** The interface of onnxruntime-node on this engine: an extension of this package, `webnn-node/onnxruntime`. */

export * from 'onnxruntime-common';

/** An execution provider that a session can ask for. */
export interface SupportedBackend {
  name: string;
  bundled: boolean;
}

export function listSupportedBackends(): SupportedBackend[];
