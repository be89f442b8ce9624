'use strict';

// The last steps of build() and loadGraph(): the builder ends, and the graph arrives when it is compiled.

const native = require('./native.js');
const { beginWatched } = require('./cancelling.js');
const { nativeError } = require('./errors.js');
const { createGraph } = require('./graph.js');

/**
 * @param {{context: import('./states').ContextState, handle: number, hasBuilt?: boolean}} builder
 * @param {object} what
 * @param {string} [what.operator]
 * @param {string[]} what.names of the outputs
 * @param {number[]} what.ids
 * @param {string} what.label
 * @param {AbortSignal} [what.signal]
 * @param {number} [what.kept] what saveGraph() can save
 * @returns {Promise<object>} the MLGraph
 */
function compile(builder, { operator = 'build', names, ids, label, signal, kept }) {
  const { context } = builder;
  let handle;
  const drop = () => {
    if (kept !== undefined) native.dropSavableGraph(kept);
  };
  const entry = {
    operator,
    label,
    context,
    arrive: (built) => createGraph(context, handle, label, built, kept),
    fail: () => {
      drop();
      context.order.destroyGraph(handle);
    },
  };
  try {
    return beginWatched(entry, { signal }, (request, watch) => {
      handle = context.order.build(request, builder.handle, names, ids, label, watch);
      builder.hasBuilt = true;
    });
  } catch (error) {
    drop();
    throw error;
  }
}

/** So many bytes of constants are kept of a graph for saveGraph() without being asked. */
const KEPT_UNASKED = 1 << 20;

/**
 * What saveGraph() can save of a builder that is about to build, unless that would keep much memory which nobody asked for.
 * @param {number} builder
 * @param {string} folder of the cache; '' for none
 * @returns {number | undefined}
 */
function keep(builder, folder, names, ids, label) {
  try {
    if (folder !== '') native.cacheBuild(builder, folder);
    return native.keepGraph(builder, names, ids, label, folder === '' ? KEPT_UNASKED : -1);
  } catch (error) {
    throw nativeError(error);
  }
}

module.exports = { compile, keep };
