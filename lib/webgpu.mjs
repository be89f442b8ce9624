import webgpu from './webgpu.js';

export const { importExternalBuffer, requiredFeatures, requiredLimits } = webgpu;
export default webgpu;
