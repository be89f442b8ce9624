import entries from './entries.js';

const generation = entries.generate();

export default generation;
export const { Detokenizer, GenerationCache, StopStrings, generate, generateText, generationUsage } = generation;
