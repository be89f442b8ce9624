'use strict';

// Metrics for Prometheus, under Triton's names where it has one.

const diagnostics = require('node:diagnostics_channel');
const prometheus = require('prom-client');
const { AllStatistics } = require('./statistics.js');

const perModel = ['model', 'version'];
const MICROSECOND = 1000;
/** Where webnn-node publishes the runs that it starts. */
const BATCH = 'webnn-node:batch';

/** Triton's counters that are a number of a version of a model. @type {[string, string, (statistics: import('./statistics.js').Statistics) => number][]} */
const counters = [
  ['nv_inference_request_success', 'Number of successful inference requests', ({ success }) => success.count],
  ['nv_inference_count', 'Number of inferences: the rows of all requests', ({ inferences }) => inferences],
  ['nv_inference_exec_count', 'Number of runs of the model: less than requests if some were joined', ({ executions }) => Math.max(0, executions)],
  ['nv_inference_request_duration_us', 'Time of successful requests, in microseconds', ({ success }) => success.ns / MICROSECOND],
  ['nv_inference_compute_input_duration_us', 'Time in which requests were read, in microseconds', ({ input }) => input.ns / MICROSECOND],
  ['nv_inference_queue_duration_us', 'Time in which requests waited for a run, in microseconds', ({ queue }) => queue.ns / MICROSECOND],
  ['nv_inference_compute_infer_duration_us', 'Time of runs, in microseconds', ({ infer }) => infer.ns / MICROSECOND],
  ['nv_inference_compute_output_duration_us', 'Time in which responses were written, in microseconds', ({ output }) => output.ns / MICROSECOND],
];

class Metrics {
  /** @type {import('./models.js').Registry | undefined} */
  #registry;
  /** @type {import('./load.js').Load | undefined} */
  #load;
  #context;
  /** @type {(message: any) => void} */
  #countBatch = ({ label, size }) => {
    const statistics = this.statistics.labelled(label);
    if (statistics === undefined) return;
    statistics.start(size);
    this.batchSize.observe({ model: statistics.name, version: statistics.version }, size);
  };

  constructor() {
    /** Add a metric of your own with `registers: [metrics.register]`. */
    this.register = new prometheus.Registry();
    this.statistics = new AllStatistics();
    const registers = [this.register];
    prometheus.collectDefaultMetrics({ register: this.register });
    const all = () => this.statistics.values();
    for (const [name, help, read] of counters) {
      new prometheus.Counter({
        name,
        help,
        labelNames: perModel,
        registers,
        collect() {
          this.reset();
          for (const one of all()) this.inc({ model: one.name, version: one.version }, read(one));
        },
      });
    }
    new prometheus.Counter({
      name: 'nv_inference_request_failure',
      help: 'Number of failed inference requests by reason',
      labelNames: [...perModel, 'reason'],
      registers,
      collect() {
        this.reset();
        for (const { name: model, version, failures } of all()) for (const [reason, count] of Object.entries(failures)) this.inc({ model, version, reason }, count);
      },
    });
    this.#addGauges(registers, all);
    /** By the requests of a run. */
    this.batchSize = new prometheus.Histogram({
      name: 'webnn_batch_size',
      help: 'Requests that are computed by one run, of models whose runs can be joined',
      labelNames: perModel,
      buckets: [1, 2, 4, 8, 16, 32, 64],
      registers,
    });
    /** By the milliseconds of a request until its response. */
    this.latency = new prometheus.Histogram({
      name: 'webnn_request_duration_ms',
      help: 'Time of successful inference requests, in milliseconds',
      labelNames: perModel,
      buckets: [0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000],
      registers,
    });
  }

  /** What the numbers are of. */
  follow({ registry, load, context }) {
    diagnostics.subscribe(BATCH, this.#countBatch);
    registry.whenClosing(async () => void diagnostics.unsubscribe(BATCH, this.#countBatch));
    this.#registry = registry;
    this.#load = load;
    this.#context = context;
  }

  text() {
    return this.register.metrics();
  }

  #addGauges(registers, all) {
    const gauge = (name, help, labelNames, write) => {
      new prometheus.Gauge({
        name,
        help,
        labelNames,
        registers,
        collect() {
          this.reset();
          write(this);
        },
      });
    };
    gauge('nv_inference_pending_request_count', 'Requests whose run has not started', perModel, (metric) => {
      for (const { name: model, version, pending } of all()) metric.set({ model, version }, pending);
    });
    gauge('webnn_requests_in_flight', 'Requests that are being answered', [], (metric) => metric.set(this.#load?.running ?? 0));
    gauge('webnn_requests_limit', 'Requests that may be answered at a time', [], (metric) => metric.set(this.#load?.maxInFlight ?? 0));
    gauge('webnn_model_ready', 'Whether a version of a model is served', perModel, (metric) => {
      for (const { name: model, version } of this.#registry?.all() ?? []) metric.set({ model, version }, 1);
    });
    gauge('webnn_memory_bytes', 'Memory of all models, by use', ['kind'], (metric) => {
      for (const [kind, bytes] of Object.entries(memoryOf(this.#context))) metric.set({ kind }, bytes);
    });
    gauge('webnn_model_memory_bytes', 'Memory of a version of a model, by use', [...perModel, 'kind'], (metric) => {
      for (const { name: model, version, onnx } of this.#registry?.all() ?? []) {
        for (const [kind, bytes] of Object.entries(memoryOf(onnx))) metric.set({ model, version, kind }, bytes);
      }
    });
  }
}

/** Kinds that are sums of others are left out. */
function memoryOf(owner) {
  if (owner === undefined) return {};
  return Object.fromEntries(Object.entries(owner.memoryUsage()).filter(([kind]) => kind !== 'graphs'));
}

module.exports = { Metrics };
