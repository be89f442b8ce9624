import entries from './entries.js';

const generation = entries.generate();

export default generation;
export const { Adapter, Detokenizer, GenerationCache, StopStrings, generate, generateText, generationUsage, loadAdapter } = generation;
