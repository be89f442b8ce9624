'use strict';

// Graphs that script saves (https://github.com/webmachinelearning/webnn/blob/main/cache-explainer.md, docs/extensions.md C23): saveGraph(), loadGraph(),
// listGraphs() and deleteGraph(). Keys go to the native side as JSON, which has lone surrogates, too.

const fs = require('node:fs');
const path = require('node:path');
const native = require('./native.js');
const { compile } = require('./building.js');
const { defaultFolder, folderOfEnvironment } = require('./disk-cache.js');
const { CONTEXT_LOST, Mismatch, exception, invalidState, nativeError, typeError } = require('./errors.js');
const { process } = require('./globals.js');
const { begin } = require('./settle.js');
const { quote } = require('./show.js');
const { domString } = require('./webidl.js');

/** In code units. */
const LONGEST_KEY = 1 << 20;

/** What is being saved, by place. @type {Map<string, Promise<unknown>>} */
const saving = new Map();

/** A key of a graph. */
function graphKey(value) {
  const key = domString(value);
  if (key.length > LONGEST_KEY) throw new Mismatch(`a string of ${key.length} code units`, `at most ${LONGEST_KEY}`);
  return key;
}

/** The folder that a context's graphs are saved in. A process has one, which it may have opened for a model. */
function folderOf(context) {
  return context.cache || native.cacheState()?.folder || folderOfEnvironment() || defaultFolder();
}

/** The path without links, where there is one. */
function real(name) {
  try {
    return fs.realpathSync(name);
  } catch {
    return name;
  }
}

/**
 * Whose graphs those in a folder are. A folder that the program names is its own. In others, graphs are apart by the package of the program, as
 * by origin on the web.
 */
function originOf(folder) {
  const common = [defaultFolder(), folderOfEnvironment()].filter((name) => name !== '');
  return common.some((name) => name === folder || real(name) === real(folder)) ? program() : '';
}

/** The folder of the package that the process was started for, or that of the program where it has none. */
function program() {
  const main = process.argv[1];
  // Whoever starts programs is not the program.
  const isOwn = typeof main === 'string' && fs.existsSync(main) && !main.split(path.sep).includes('node_modules');
  const start = isOwn ? path.dirname(real(main)) : real(process.cwd());
  for (let folder = start; ; folder = path.dirname(folder)) {
    if (fs.existsSync(path.join(folder, 'package.json'))) return folder;
    if (folder === path.dirname(folder)) return start;
  }
}

/** The arguments of native functions for a graph, and what tells these apart. */
function placeOf(context, key) {
  const folder = folderOf(context);
  /** @type {[string, string, string]} */
  const place = [folder, originOf(folder), JSON.stringify(key)];
  return { place, name: place.join('\n') };
}

function attempt(method, ...values) {
  try {
    return method(...values);
  } catch (error) {
    throw nativeError(error);
  }
}

function requireLive(operator, context) {
  if (context.lost) throw invalidState(operator, '', CONTEXT_LOST);
}

/** The steps of saveGraph() after its conversions. */
function save(context, key, graph) {
  const { label } = graph;
  if (graph.context !== context) {
    throw typeError('saveGraph', label, 'graph: found an MLGraph of another MLContext, allowed one that was built for this one');
  }
  if (graph.destroyed || context.lost) {
    throw invalidState('saveGraph', label, 'graph: found an MLGraph that was destroyed or whose MLContext was lost, allowed one that still exists');
  }
  const { kept } = graph;
  if (kept === undefined) {
    const message = `saveGraph: the constants of the graph were not kept: it has more than 1 MiB of them; pass {cache: true} to createContext() or build()`;
    throw exception('NotSupportedError', message);
  }
  const { place, name } = placeOf(context, key);
  const entry = { operator: 'saveGraph', label, context, arrive: () => undefined };
  const done = begin(entry, (request) => native.saveGraph(request, kept, ...place));
  const settled = done.catch(() => {}).then(() => {
    if (saving.get(name) === settled) saving.delete(name);
  });
  saving.set(name, settled);
  return done;
}

/** The steps of loadGraph() after its conversions. */
async function load(context, key) {
  requireLive('loadGraph', context);
  const { place, name } = placeOf(context, key);
  await saving.get(name);
  requireLive('loadGraph', context);
  // It is used at once, so nothing has to keep its object.
  const builder = attempt(native.createBuilder, context.handle, {});
  let found;
  try {
    found = attempt(native.loadGraph, builder, ...place);
    if (found === undefined) throw exception('NotFoundError', `loadGraph: no graph is saved as ${quote(key)}`);
  } catch (error) {
    native.destroyBuilder(builder);
    throw error;
  }
  const [names, ids, label, kept] = found;
  return compile({ context, handle: builder }, { operator: 'loadGraph', names, ids, label, kept });
}

/** The steps of listGraphs(). */
async function list(context) {
  requireLive('listGraphs', context);
  await Promise.all(saving.values());
  const folder = folderOf(context);
  return attempt(native.listGraphs, folder, originOf(folder)).map((key) => JSON.parse(key));
}

/** The steps of deleteGraph() after its conversions. */
function remove(context, key) {
  requireLive('deleteGraph', context);
  const { place, name } = placeOf(context, key);
  attempt(native.deleteGraph, ...place);
  // What is being saved comes before.
  const earlier = saving.get(name);
  if (earlier === undefined) return;
  const settled = earlier.then(() => {
    if (saving.get(name) === settled) saving.delete(name);
    try {
      native.deleteGraph(...place);
    } catch {
      // It stays.
    }
  });
  saving.set(name, settled);
}

module.exports = { graphKey, list, load, remove, save };
