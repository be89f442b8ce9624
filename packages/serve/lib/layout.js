'use strict';

// Finds models in a folder. A name of a request is compared with what is found here and is never made a path.
//
//   minilm.onnx                      a file
//   minilm/1/model.onnx              Triton's folder, with a version for each number, and config.pbtxt
//   minilm/model.onnx                a folder with one model, by any name if there is no other
//   minilm/config.json, onnx/*.onnx  a folder of the hub

const fs = require('node:fs/promises');
const path = require('node:path');
const { readTritonConfig } = require('./triton-config.js');

/**
 * A model that can be loaded.
 * @typedef {object} Found
 * @property {string} name
 * @property {string} version
 * @property {'onnx' | 'hub'} kind
 * @property {string} path of the file, or of the folder of the hub
 * @property {import('./triton-config.js').TritonConfig} [config]
 * @property {string} [problem] why it cannot be loaded
 */

const isHidden = (name) => name.startsWith('.');
/** A version is a whole number from 1, as Triton has it. */
const isVersion = (name) => /^[1-9]\d{0,17}$/.test(name);

/**
 * All versions of all models.
 * @param {string} folder
 * @returns {Promise<Found[]>}
 */
async function findModels(folder) {
  const names = (await fs.readdir(folder)).filter((name) => !isHidden(name)).sort();
  const found = [];
  for (const name of names) {
    const file = path.join(folder, name);
    // Through links: volumes of Kubernetes are full of them.
    const about = await fs.stat(file).catch(() => undefined);
    if (about?.isDirectory()) found.push(...(await findVersions(name, file)));
    else if (about?.isFile() && name.endsWith('.onnx')) found.push({ name: name.slice(0, -'.onnx'.length), version: '1', kind: 'onnx', path: file });
  }
  // A folder wins over a file of the same name.
  const folders = new Set(found.filter((one) => !isFileOf(folder, one)).map(({ name }) => name));
  return found.filter((one) => !isFileOf(folder, one) || !folders.has(one.name));
}

const isFileOf = (folder, { path: file }) => path.dirname(file) === path.resolve(folder) || path.dirname(file) === folder;

/**
 * The versions of one model.
 * @param {string} name
 * @param {string} folder
 * @returns {Promise<Found[]>}
 */
async function findVersions(name, folder) {
  const inside = (await fs.readdir(folder)).filter((entry) => !isHidden(entry));
  const versions = await findNumbers(name, folder, inside);
  if (versions.length > 0) return versions;
  if (inside.includes('config.json') || inside.includes('tokenizer.json')) return [{ name, version: '1', kind: 'hub', path: folder }];
  const files = inside.filter((entry) => entry.endsWith('.onnx'));
  const only = files.includes('model.onnx') ? 'model.onnx' : files.length === 1 ? files[0] : undefined;
  return only === undefined ? [] : [{ name, version: '1', kind: 'onnx', path: path.join(folder, only) }];
}

/** Versions of Triton's layout, in ascending order: those that config.pbtxt wants, if it is there. */
async function findNumbers(name, folder, inside) {
  const { config, problem } = inside.includes('config.pbtxt') ? await readConfig(path.join(folder, 'config.pbtxt')) : {};
  const found = [];
  for (const version of inside.filter(isVersion)) {
    const file = path.join(folder, version, config?.file ?? 'model.onnx');
    if (await isFile(file)) found.push({ name, version, kind: /** @type {const} */ ('onnx'), path: file, config, problem });
  }
  found.sort((one, other) => Number(one.version) - Number(other.version));
  const chosen = config?.choose(found.map(({ version }) => version));
  return chosen === undefined ? found : found.filter(({ version }) => chosen.includes(version));
}

async function readConfig(file) {
  try {
    return { config: readTritonConfig(await fs.readFile(file, 'utf8')) };
  } catch (error) {
    return { problem: `config.pbtxt: ${error.message}` };
  }
}

async function isFile(file) {
  return (await fs.stat(file).catch(() => undefined))?.isFile() === true;
}

module.exports = { findModels, findVersions };
