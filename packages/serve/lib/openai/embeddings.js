'use strict';

// POST /v1/embeddings

const { readTexts } = require('./completions.js');
const { invalid } = require('./errors.js');
const { is, read, readFlag } = require('./requests.js');

/** Little-endian numbers, which is what `encoding_format: 'base64'` means. */
function base64Of(vector) {
  const bytes = Buffer.alloc(vector.length * 4);
  vector.forEach((x, i) => bytes.writeFloatLE(x, 4 * i));
  return bytes.toString('base64');
}

/**
 * @param {object} body
 * @param {import('./embedder.js').Embedder} model
 * @param {{limits: typeof import('./requests.js').LIMITS, signal: AbortSignal}} options
 */
async function embeddings(body, model, { limits, signal }) {
  const inputs = readTexts(body, 'input', limits.inputs, limits);
  const format = read(body, 'encoding_format', (value) => value === 'float' || value === 'base64', "'float' or 'base64'") ?? 'float';
  const dimensions = read(body, 'dimensions', is.whole(1), 'a whole number from 1');
  const normalize = read(body, 'normalize', is.boolean, 'true or false');
  const truncate = readFlag(body, 'truncate');
  const prompt = model.promptOf(read(body, 'prompt_name', is.string, 'a string'));
  if (inputs.some((input) => input === '')) throw invalid('input', 'input: found an empty text, allowed texts of at least one character.');
  const rows = await model.tokensOf(inputs, { truncate, prompt, signal });
  const vectors = await Promise.all(rows.map((row) => model.embed(row, { dimensions, normalize, signal })));
  const tokens = rows.reduce((sum, { ids }) => sum + ids.length, 0);
  return {
    object: 'list',
    data: vectors.map((vector, index) => ({ object: 'embedding', index, embedding: format === 'float' ? Array.from(vector) : base64Of(vector) })),
    model: body.model,
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

module.exports = { embeddings };
