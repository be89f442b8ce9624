'use strict';

// A package from the registry that has onnxruntime-node as its engine, and a tokenizer of its own: vectors of texts.

const { EmbeddingModel, FlagEmbedding } = require('fastembed');

async function main() {
  const model = await FlagEmbedding.init({
    model: EmbeddingModel.CUSTOM,
    modelAbsoluteDirPath: `${process.env.TRIAL_MODELS}minilm`,
    modelName: 'onnx/model.onnx',
    maxLength: 16,
  });
  const vectors = [];
  for await (const batch of model.embed(['a cat', 'the dog runs', 'a cat'], 2)) vectors.push(...batch.map((vector) => [...vector]));
  const lengths = vectors.map((vector) => Math.hypot(...vector).toFixed(3));
  if (String(vectors[0].map((x) => x.toFixed(4))) !== String(vectors[2].map((x) => x.toFixed(4)))) throw new Error('the same text has two vectors');
  const maps = process.platform === 'linux' ? require('node:fs').readFileSync('/proc/self/maps', 'utf8') : '';
  if (/libonnxruntime/.test(maps)) throw new Error("onnxruntime's library is loaded");
  console.log(`ran ${vectors.length} vectors of ${vectors[0].length} numbers, of length ${lengths[0]}`);
}

main();
