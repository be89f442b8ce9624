/** For packages that stand in for onnxruntime-node: what the registry of backends takes. */

import type * as onnxruntime from 'onnxruntime-common';
import type { Backend } from 'onnxruntime-common';

export const backend: Backend;
export const common: typeof onnxruntime;
export { listSupportedBackends } from '../onnxruntime';
