'use strict';

// `integrity` of loadOnnx(): the digests that a model's bytes must have, as Subresource Integrity writes them.

const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');

const ALLOWED = 'allowed sha256-, sha384- or sha512- and the digest in base64';
const NO_DIGESTS = Object.freeze({ algorithm: '', values: [] });

/**
 * The digests that are named: those of the strongest algorithm.
 * @param {string} operator
 * @param {unknown} integrity
 * @returns {{algorithm: string, values: Uint8Array[]}}
 */
function integrityOf(operator, integrity) {
  if (integrity === undefined) return NO_DIGESTS;
  if (typeof integrity !== 'string') throw typeError(operator, '', `options: integrity: found ${show(integrity)}, ${ALLOWED}`);
  const found = integrity
    .trim()
    .split(/\s+/)
    .map((entry) => digestOf(operator, entry));
  const algorithm = found.map((entry) => entry.algorithm).reduce((one, other) => (one > other ? one : other));
  return { algorithm, values: found.filter((entry) => entry.algorithm === algorithm).map(({ digest }) => digest) };
}

function digestOf(operator, entry) {
  const [, algorithm, text] = /^(sha256|sha384|sha512)-([A-Za-z0-9+/_-]+={0,2})(?:\?.*)?$/.exec(entry) ?? [];
  const digest = new Uint8Array(Buffer.from(text ?? '', 'base64'));
  if (algorithm !== undefined && digest.length === Number(algorithm.slice(3)) / 8) return { algorithm, digest };
  throw typeError(operator, '', `options: integrity: found ${quote(entry)}, ${ALLOWED}`);
}

module.exports = { NO_DIGESTS, integrityOf };
