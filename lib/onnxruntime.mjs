import entries from './onnxruntime/entries.js';

const ort = entries.onnxruntime();

export default ort;
export const {
  InferenceSession,
  TRACE,
  TRACE_EVENT_BEGIN,
  TRACE_EVENT_END,
  TRACE_FUNC_BEGIN,
  TRACE_FUNC_END,
  Tensor,
  env,
  listSupportedBackends,
  registerBackend,
} = ort;
