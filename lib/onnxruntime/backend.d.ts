/** The backend for onnxruntime-common's registry, for packages in place of onnxruntime-node. */

import type * as onnxruntime from 'onnxruntime-common';
import type { Backend } from 'onnxruntime-common';

export const backend: Backend;
export const common: typeof onnxruntime;
export { listSupportedBackends } from '../onnxruntime';
