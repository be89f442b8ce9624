'use strict';

// The models of models.br as files, which is what transformers.js reads.

const { mkdirSync, mkdtempSync, readFileSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { brotliDecompressSync } = require('node:zlib');

/** Unpacks them into a new folder, which the caller removes. */
function unpackModels() {
  const bytes = brotliDecompressSync(readFileSync(path.join(__dirname, 'models.br')));
  const length = bytes.readUInt32LE(0);
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-models-'));
  let at = 4 + length;
  for (const [name, size] of JSON.parse(bytes.subarray(4, at).toString())) {
    const file = path.join(folder, name);
    mkdirSync(path.dirname(file), { recursive: true });
    writeFileSync(file, bytes.subarray(at, at + size));
    at += size;
  }
  return folder;
}

module.exports = { unpackModels };
