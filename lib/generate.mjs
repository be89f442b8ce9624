import generation from './generate.js';

export default generation;
export const { GenerationCache, generate } = generation;
