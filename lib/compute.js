'use strict';

// context.compute() and context.computeSync(): run a graph on the caller's memory, without tensors (docs/extensions.md D1–D4).

const native = require('./native.js');
const { beginWatched } = require('./cancelling.js');
const { invalidState, nativeError, typeError } = require('./errors.js');
const { graphArguments, labelled, runOptions } = require('./graph-arguments.js');
const { scheduleOf } = require('./scheduling.js');
const { NotDetachable, transfer } = require('./transfer.js');
const { bindViews, namedViews } = require('./views.js');

/** Converts and checks everything; nothing has happened to the memory when this throws. */
function prepare(operator, context, given, dictionary) {
  const { graph, inputs, outputs, label, schedule } = graphArguments(operator, given, namedViews, dictionary);
  if (graph.context !== context) {
    throw typeError(operator, label, "graph: found an MLGraph of another MLContext, allowed one that was built for this one");
  }
  if (graph.destroyed || context.lost) {
    throw invalidState(operator, label, "graph: found an MLGraph that was destroyed or whose MLContext was lost, allowed one that still exists");
  }
  return { graph, inputs, outputs, label, schedule, bound: bindViews(operator, label, graph, inputs, outputs) };
}

/**
 * `context.compute(graph, inputs, outputs, options)`
 * @param {import('./states').ContextState} context
 * @param {ArrayLike<unknown>} given the arguments of the method
 */
function compute(context, given) {
  const { graph, inputs, outputs, label, schedule, bound } = prepare('compute', context, given, runOptions);
  schedule.signal?.throwIfAborted();
  const leave = context.queue?.enter('compute', label);
  let transferred;
  try {
    transferred = take(label, inputs, outputs);
  } catch (error) {
    leave?.();
    throw error;
  }
  const results = () => viewsOf((view) => transferred.view(view), inputs, outputs);
  const entry = {
    operator: 'compute',
    label,
    context,
    object: graph,
    lends: true,
    soon: true,
    memory: transferred,
    arrive: results,
    fail: (reason) => giveBack(reason, results()),
    ended: leave,
  };
  try {
    return beginWatched(entry, scheduleOf(context, schedule), (request, watch) => {
      const now = (view) => view && transferred.view(view);
      context.order.compute(request, context.handle, graph.handle, bound.inputs.map(now), bound.outputs.map(now), label, watch);
    });
  } catch (error) {
    leave?.();
    throw giveBack(error, results());
  }
}

function take(label, inputs, outputs) {
  try {
    return transfer(inputs.values.concat(outputs.values));
  } catch (error) {
    if (!(error instanceof NotDetachable)) throw error;
    const reason = typeError('compute', label, 'found memory that cannot be transferred, such as that of a WebAssembly.Memory or of a small Buffer, allowed an ArrayBuffer that can be detached');
    throw error.transferred ? giveBack(reason, viewsOf((view) => error.transferred.view(view), inputs, outputs)) : reason;
  }
}

/**
 * `{inputs, outputs}`, by the names that the caller gave.
 * @param {(view: ArrayBufferView) => ArrayBufferView} now from a view that the caller gave to what it is now
 */
function viewsOf(now, inputs, outputs) {
  const views = ({ names, values }) => {
    const record = {};
    names.forEach((name, i) => {
      // Not an assignment, since '__proto__' is a name like others.
      Object.defineProperty(record, name, { value: now(values[i]), writable: true, enumerable: true, configurable: true });
    });
    return record;
  };
  return { inputs: views(inputs), outputs: views(outputs) };
}

/** The caller gets its memory back (docs/extensions.md D3), unless the reason is its own and takes none, or has that of another computation. */
function giveBack(reason, views) {
  if (typeof reason !== 'object' || reason === null || !Object.isExtensible(reason) || Object.hasOwn(reason, 'inputs')) return reason;
  Object.keys(views).forEach((key) => {
    Object.defineProperty(reason, key, { value: views[key], writable: true, enumerable: false, configurable: true });
  });
  return reason;
}

/** `context.computeSync(graph, inputs, outputs, options)`: the calling thread waits, so the memory can stay where it is. */
function computeSync(operator, context, given) {
  const { graph, inputs, outputs, label, bound } = prepare(operator, context, given, labelled);
  try {
    native.computeSync(context.handle, graph.handle, bound.inputs, bound.outputs, label);
  } catch (error) {
    throw nativeError(error);
  }
  return viewsOf((view) => view, inputs, outputs);
}

module.exports = { compute, computeSync };
