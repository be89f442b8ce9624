'use strict';

// One inference, from the tensors of a request to those of its response, with limits, numbers and a trace.

const { ServeError, toServeError } = require('./errors.js');
const { readInputs, readOutputs, readParameters, writeOutputs } = require('./inference.js');
const { traced } = require('./tracing.js');

/** @typedef {{ registry: import('./models.js').Registry, metrics: import('./metrics.js').Metrics, limits: { maxElements: number, timeout: number } }} Setting */

/**
 * @typedef {object} Inference
 * @property {string} name of the model
 * @property {string | undefined} version
 * @property {Record<string, any>} headers
 * @property {AbortController} controller ends the run when the client has hung up
 * @property {(model: import('./loaded-model.js').LoadedModel) => { parameters?: any, inputs: import('./inference.js').RequestInput[], outputs: any[] }} read
 */

/**
 * @template T
 * @param {Setting} setting
 * @param {Inference} inference
 * @param {(model: import('./loaded-model.js').LoadedModel, outputs: import('./inference.js').ResponseOutput[]) => T} respond
 * @returns {Promise<T>}
 */
function infer({ registry, metrics, limits }, { name, version, headers, controller, read }, respond) {
  const began = performance.now();
  return registry.use(name, version, async (model) => {
    const statistics = metrics.statistics.of(model.name, model.version);
    const { signal } = controller;
    let isRunning = false;
    let timer;
    try {
      return await traced(`infer ${model.name}`, headers, { 'webnn.model': model.name, 'webnn.version': model.version }, async () => {
        const request = read(model);
        const { priority, timeout: wanted } = readParameters(request.parameters);
        const timeout = Math.min(wanted, limits.timeout);
        const outputs = readOutputs(model, request.outputs);
        const feeds = readInputs(model, request.inputs, limits);
        const rows = model.rowsOf(feeds);
        isRunning = true;
        timer = setTimeout(() => controller.abort(new ServeError('late', `the run did not end within ${timeout} ms`)), timeout);
        const call = statistics.call();
        const results = await model.run(feeds, { outputs, signal, priority }).finally(() => statistics.end(call));
        const computed = performance.now();
        const response = respond(model, writeOutputs(model, results, outputs));
        const ended = performance.now();
        const { called, started = called } = call;
        statistics.input.add(called - began);
        statistics.queue.add(started - called);
        statistics.infer.add(computed - started);
        statistics.output.add(ended - computed);
        statistics.success.add(ended - began);
        statistics.inferences += rows;
        statistics.last = Date.now();
        metrics.latency.observe({ model: model.name, version: model.version }, ended - began);
        return response;
      });
    } catch (error) {
      const failure = toServeError(error, signal);
      statistics.failed(reasonOf(failure, isRunning), performance.now() - began);
      throw failure;
    } finally {
      clearTimeout(timer);
    }
  });
}

function reasonOf({ kind }, isRunning) {
  if (kind === 'cancelled') return 'CANCELED';
  if (kind === 'late' || kind === 'busy') return 'REJECTED';
  return isRunning ? 'BACKEND' : 'OTHER';
}

/** Aborts when a response is closed before it was sent. @param {import('node:http').ServerResponse} response */
function controllerOf(response) {
  const controller = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) controller.abort(new ServeError('cancelled', 'the client has hung up'));
  });
  return controller;
}

module.exports = { controllerOf, infer };
