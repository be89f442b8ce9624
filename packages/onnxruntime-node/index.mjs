import entry from './entry.js';

const ort = entry();

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
