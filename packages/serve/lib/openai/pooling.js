'use strict';

// Pooling of sentence-transformers: from the vectors of a text's tokens to one vector.

/**
 * @callback Pool
 * @param {ArrayLike<number>} data the rows of a text, one for each token
 * @param {number} at where they begin
 * @param {number} count of tokens, without padding
 * @param {number} width
 * @returns {Float32Array}
 */

const row = (data, at, width) => Float32Array.from({ length: width }, (_, i) => Number(data[at + i]));

/** The sum of the rows, each with a weight. */
function sum(data, at, count, width, weightOf = () => 1) {
  const total = new Float64Array(width);
  for (let token = 0; token < count; token++) {
    const weight = weightOf(token);
    for (let i = 0; i < width; i++) total[i] += weight * data[at + token * width + i];
  }
  return total;
}

const divided = (total, by) => Float32Array.from(total, (x) => x / by);

/** @type {Record<string, Pool>} by the names that `pooling_mode` has */
const MODES = {
  cls: (data, at, _count, width) => row(data, at, width),
  lasttoken: (data, at, count, width) => row(data, at + (count - 1) * width, width),
  max: (data, at, count, width) => {
    const most = row(data, at, width);
    for (let token = 1; token < count; token++) {
      for (let i = 0; i < width; i++) most[i] = Math.max(most[i], data[at + token * width + i]);
    }
    return most;
  },
  mean: (data, at, count, width) => divided(sum(data, at, count, width), count),
  mean_sqrt_len_tokens: (data, at, count, width) => divided(sum(data, at, count, width), Math.sqrt(count)),
  weightedmean: (data, at, count, width) => divided(sum(data, at, count, width, (token) => token + 1), (count * (count + 1)) / 2),
};

/** The names of the switches in older files. Sentence-transformers joins the vectors in this order. */
const SWITCHES = {
  pooling_mode_cls_token: 'cls',
  pooling_mode_max_tokens: 'max',
  pooling_mode_mean_tokens: 'mean',
  pooling_mode_mean_sqrt_len_tokens: 'mean_sqrt_len_tokens',
  pooling_mode_weightedmean_tokens: 'weightedmean',
  pooling_mode_lasttoken: 'lasttoken',
};

/**
 * @param {object | undefined} config the pooling's config.json
 * @returns {Pool}
 */
function poolingOf(config) {
  const modes = modesOf(config ?? { pooling_mode: 'mean' });
  const unknown = modes.find((mode) => !Object.hasOwn(MODES, mode));
  if (unknown !== undefined || modes.length === 0) {
    throw new Error(`pooling: found ${unknown === undefined ? 'no mode' : JSON.stringify(unknown)}, allowed ${Object.keys(MODES).join(', ')}`);
  }
  if (modes.length === 1) return MODES[modes[0]];
  return (data, at, count, width) => {
    const joined = new Float32Array(modes.length * width);
    modes.forEach((mode, i) => joined.set(MODES[mode](data, at, count, width), i * width));
    return joined;
  };
}

function modesOf(config) {
  if (typeof config.pooling_mode === 'string') return config.pooling_mode.split('+');
  if (Array.isArray(config.pooling_mode)) return config.pooling_mode;
  return Object.entries(SWITCHES)
    .filter(([name]) => config[name] === true)
    .map(([, mode]) => mode);
}

/** Scales a vector to length 1, in place. */
function normalize(vector) {
  let squares = 0;
  for (const x of vector) squares += x * x;
  const length = Math.sqrt(squares) || 1;
  for (let i = 0; i < vector.length; i++) vector[i] /= length;
  return vector;
}

module.exports = { normalize, poolingOf };
