'use strict';

// `integrity` and `externalIntegrity` of loadOnnx(): the digests that bytes must have, as Subresource Integrity writes them.

const { typeError } = require('../errors.js');
const { quote, show } = require('../show.js');

const ALLOWED = 'allowed sha256-, sha384- or sha512- and the digest in base64';

/** An algorithm and digests, or nothing. @typedef {(string | Uint8Array)[]} Digests */

/**
 * The digests that are named: those of the strongest algorithm.
 * @param {string} operator
 * @param {unknown} integrity
 * @param {string} [option]
 * @returns {Digests}
 */
function integrityOf(operator, integrity, option = 'integrity') {
  if (integrity === undefined) return [];
  if (typeof integrity !== 'string') throw typeError(operator, '', `options: ${option}: found ${show(integrity)}, ${ALLOWED}`);
  const found = integrity
    .trim()
    .split(/\s+/)
    .map((entry) => digestOf(operator, entry, option));
  const algorithm = found.map((entry) => entry.algorithm).reduce((one, other) => (one > other ? one : other));
  return [algorithm, ...found.filter((entry) => entry.algorithm === algorithm).map(({ digest }) => digest)];
}

/**
 * The digests of external data: locations, and what belongs to each after it.
 * @param {string} operator
 * @param {unknown} integrity by location
 * @returns {(string | Digests)[] | undefined}
 */
function externalIntegrityOf(operator, integrity) {
  if (integrity === undefined) return undefined;
  if (integrity === null || typeof integrity !== 'object') throw typeError(operator, '', `options: externalIntegrity: found ${show(integrity)}, allowed an object`);
  return Object.entries(integrity).flatMap(([location, entry]) => {
    // Nothing would allow anything.
    if (entry === undefined) throw typeError(operator, '', `options: externalIntegrity: ${quote(location)}: found undefined, ${ALLOWED}`);
    return [location, integrityOf(operator, entry, `externalIntegrity: ${quote(location)}`)];
  });
}

function digestOf(operator, entry, option) {
  const [, algorithm, text] = /^(sha256|sha384|sha512)-([A-Za-z0-9+/_-]+={0,2})(?:\?.*)?$/.exec(entry) ?? [];
  const digest = new Uint8Array(Buffer.from(text ?? '', 'base64'));
  if (algorithm !== undefined && digest.length === Number(algorithm.slice(3)) / 8) return { algorithm, digest };
  throw typeError(operator, '', `options: ${option}: found ${quote(entry)}, ${ALLOWED}`);
}

module.exports = { externalIntegrityOf, integrityOf };
