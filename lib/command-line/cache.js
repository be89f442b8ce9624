'use strict';

const fs = require('node:fs');
const path = require('node:path');
const { contextOptions, freeDimensions, givenShapes, oneModel, openContext, readOptions, Usage } = require('./options.js');
const { withProgress } = require('./progress.js');
const { defaultFolder, folderOfEnvironment } = require('../disk-cache.js');

const usage = `webnn-node cache ACTION [options]

  list                     lists the files of the cache, the most recently used first, with the keys of saved graphs
  check                    reads all files, and names and removes damaged ones
  clear                    removes all files
  add MODEL.onnx           packs a model's weights, so that later loads find them

  --folder FOLDER          the cache (default: WEBNN_CACHE, or the platform's folder for caches)
  --shape NAME=1x17        of \`add\`: the shape of an input with open dimensions; may be given again
  --dimension NAME=SIZE    of \`add\`: the size of an open dimension; may be given again
  --threads N              of \`add\`: threads on the CPU, the same as in later processes
  --fp-math MATH           of \`add\`: strict (default) or bf16
  --json                   print JSON
  --help                   this text
`;

const NAME = /^[0-9a-f]{32}\.(packed|hashes|structure|wanted|graph)$/;

/** The files of a folder, which need not be there. */
function files(folder) {
  const names = fs.existsSync(folder) ? fs.readdirSync(folder).filter((name) => NAME.test(name)) : [];
  const described = names.flatMap((name) => {
    const stat = fs.statSync(path.join(folder, name), { throwIfNoEntry: false });
    return stat === undefined ? [] : [{ name, bytes: stat.size, used: stat.mtime.toISOString() }];
  });
  return described.sort((a, b) => (a.used < b.used ? 1 : -1));
}

/** The graphs that saveGraph() has saved in a folder, by their files. A key is as JSON has it. */
function savedGraphs(folder, found) {
  if (!found.some(({ name }) => name.endsWith('.graph'))) return new Map();
  const graphs = require('../native.js').savedGraphs(folder);
  return new Map(graphs.map(([file, origin, key]) => [file, { key, origin }]));
}

const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

/** A key of any length for a line of a terminal; in JSON's quotes. */
const shown = (key) => (key.length > 80 ? `${key.slice(0, 80)}…` : key);

/** A file with the key itself. */
const asJson = ({ graph, ...file }) => (graph === undefined ? file : { ...file, graph: { ...graph, key: JSON.parse(graph.key) } });

const actions = {
  list(folder) {
    const found = files(folder);
    const bytes = found.reduce((sum, file) => sum + file.bytes, 0);
    const graphs = savedGraphs(folder, found);
    const described = found.map((file) => ({ ...file, ...(graphs.has(file.name) ? { graph: graphs.get(file.name) } : {}) }));
    const graphText = ({ graph }) => (graph === undefined ? '' : `  ${shown(graph.key)}${graph.origin === '' ? '' : ` of ${graph.origin}`}`);
    const lines = described.map((file) => `${file.used}  ${mib(file.bytes).padStart(12)}  ${file.name}${graphText(file)}`);
    return { result: { folder, bytes, files: described.map(asJson) }, text: [...lines, `${folder}: ${found.length} files, ${mib(bytes)}`] };
  },

  check(folder) {
    const damaged = fs.existsSync(folder) ? require('../native.js').checkCache(folder) : [];
    for (const name of damaged) fs.rmSync(path.join(folder, name), { force: true });
    const text = [...damaged.map((name) => `damaged, removed: ${name}`), `${folder}: ${files(folder).length} files are as they were written`];
    return { result: { folder, damaged }, text, code: damaged.length > 0 ? 1 : 0 };
  },

  clear(folder) {
    const found = files(folder);
    for (const { name } of found) fs.rmSync(path.join(folder, name), { force: true });
    return { result: { folder, removed: found.length }, text: [`${folder}: ${found.length} files removed`] };
  },

  async add(folder, file, values) {
    const native = require('../native.js');
    const { loadOnnx } = require('../onnx.js');
    const context = await openContext({ ...values, device: 'cpu' });
    const shapes = givenShapes(values.shape);
    const load = async (onProgress) => {
      const model = await loadOnnx(context, file, { freeDimensions: freeDimensions(values.dimension), cache: folder, onProgress });
      if (Object.keys(shapes).length > 0) await model.prepare([shapes]);
    };
    await withProgress('packing', file, load);
    native.finishCache();
    const state = native.cacheState();
    if (state === undefined) throw new Error(`${folder} cannot be used as a cache`);
    context.destroy();
    const { hits, written } = state;
    return { result: { folder, hits, written }, text: [`${folder}: ${written} packings written, ${hits} were there`] };
  },
};

async function run(args) {
  const { values, positionals } = readOptions(args, {
    ...contextOptions,
    folder: { type: 'string' },
    shape: { type: 'string', multiple: true },
  });
  const [action, ...rest] = positionals;
  if (!Object.hasOwn(actions, action ?? '')) throw new Usage(`found ${action ?? 'no action'}, allowed ${Object.keys(actions).join(', ')}`);
  const file = action === 'add' ? oneModel(rest) : undefined;
  if (file === undefined && rest.length > 0) throw new Usage(`found ${JSON.stringify(rest[0])}, allowed no argument`);
  const folder = values.folder === undefined ? folderOfEnvironment() || defaultFolder() : path.resolve(values.folder);
  const { result, text, code = 0 } = await actions[action](folder, file, values);
  console.log(values.json ? JSON.stringify(result, null, 2) : text.join('\n'));
  return code;
}

module.exports = { run, usage };
