import entries from './entries.js';

const generation = entries.generate();

export default generation;
export const { GenerationCache, generate } = generation;
