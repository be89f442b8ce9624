'use strict';

// POST /rerank: the forms of text-embeddings-inference (`texts`), and of Jina and Cohere (`documents`).

const { invalid } = require('./errors.js');
const { is, read, readFlag, requireCharacters } = require('./requests.js');

const sigmoid = (x) => 1 / (1 + Math.exp(-x));

/** The text of a document. */
function textOf(document, param) {
  if (is.string(document)) return document;
  if (is.object(document) && is.string(document.text)) return document.text;
  throw invalid(param, `${param}: allowed a string or { text }.`, 'invalid_type');
}

function readDocuments(body, name, limits) {
  const list = read(body, name, is.array, 'an array of texts');
  if (list === undefined || list.length === 0) throw invalid(name, `${name}: found none, allowed at least one text.`, 'missing_required_parameter');
  if (list.length > limits.documents) throw invalid(name, `${name}: found ${list.length} texts, allowed at most ${limits.documents}.`);
  const texts = list.map((document, i) => textOf(document, `${name}[${i}]`));
  requireCharacters(name, texts, limits);
  return texts;
}

/** The documents with their scores, the best first. */
async function ranked({ query, texts, name, truncate, isRaw, model, signal }) {
  const rows = await model.tokensOf(query, texts, { truncate, param: name, signal });
  const logits = await Promise.all(rows.map((row) => model.score(row, signal)));
  const list = logits.map((logit, index) => ({ index, score: isRaw ? logit : sigmoid(logit) }));
  return { list: list.sort((a, b) => b.score - a.score || a.index - b.index), tokens: rows.reduce((sum, { ids }) => sum + ids.length, 0) };
}

/**
 * @param {object} body
 * @param {import('./reranker.js').Reranker} model
 * @param {{limits: typeof import('./requests.js').LIMITS, signal: AbortSignal, name: string}} options `name` of the model
 */
async function rerank(body, model, { limits, signal, name: modelName }) {
  const query = read(body, 'query', is.string, 'a string');
  if (query === undefined || query === '') throw invalid('query', 'query: found none, allowed a text.', 'missing_required_parameter');
  const isPlain = body.texts !== undefined && body.documents === undefined;
  const name = isPlain ? 'texts' : 'documents';
  const texts = readDocuments(body, name, limits);
  // Each text is read with the query.
  requireCharacters('query', [...texts, ...texts.map(() => query)], limits);
  // text-embeddings-inference refuses long texts unless it is told otherwise; the others cut them.
  const truncate = read(body, 'truncate', is.boolean, 'true or false') ?? !isPlain;
  const isRaw = readFlag(body, 'raw_scores');
  const most = read(body, 'top_n', is.whole(1), 'a whole number from 1') ?? Infinity;
  const { list, tokens } = await ranked({ query, texts, name, truncate, isRaw, model, signal });
  if (isPlain) {
    const returnsText = readFlag(body, 'return_text');
    return list.map(({ index, score }) => ({ index, score, ...(returnsText && { text: texts[index] }) }));
  }
  const returnsDocuments = readFlag(body, 'return_documents');
  return {
    model: modelName,
    results: list.slice(0, most).map(({ index, score }) => ({ index, relevance_score: score, ...(returnsDocuments && { document: { text: texts[index] } }) })),
    usage: { prompt_tokens: tokens, total_tokens: tokens },
  };
}

module.exports = { rerank };
