import entries from './entries.js';

const webgpu = entries.webgpu();

export const { importExternalBuffer, requiredFeatures, requiredLimits } = webgpu;
export default webgpu;
