// Stands for the SDK of OpenTelemetry: prints a line for each span that ends, and one for each metric at the end. It has no exporters, samplers or
// resources. In your program, @opentelemetry/sdk-node takes its place.
import { AsyncLocalStorage } from 'node:async_hooks';
import { randomBytes } from 'node:crypto';
import { context, metrics, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';

const random = (bytes) => randomBytes(bytes).toString('hex');
const short = (id) => id.slice(0, 6);

class PrintedSpan {
  #began = performance.now();
  #status = '';

  constructor(name, { attributes = {} } = {}, parent = undefined) {
    Object.assign(this, { name, attributes, parent, own: { traceId: parent?.traceId ?? random(16), spanId: random(8), traceFlags: 1 } });
  }

  spanContext() {
    return this.own;
  }

  isRecording() {
    return true;
  }

  setStatus({ code, message }) {
    if (code === SpanStatusCode.ERROR) this.#status = `, failed: ${message}`;
    return this;
  }

  recordException() {}

  end() {
    const model = this.attributes['webnn_node.model'];
    const place = this.parent === undefined ? '' : ` in ${short(this.parent.spanId)}`;
    const ms = (performance.now() - this.#began).toFixed(2);
    console.log(`span ${short(this.own.spanId)}${place}: ${this.name}${model ? ` ${model}` : ''}, ${ms} ms${this.#status}`);
  }
}

const tracer = {
  startSpan: (name, options, inside = context.active()) => new PrintedSpan(name, options, trace.getSpanContext(inside)),
};

/** By the name of a metric and its attributes: the sum, and the number and largest of what was added. */
const sums = new Map();

function instrument(name, { unit = '', isHistogram = false }) {
  const add = (value, attributes = {}) => {
    const key = `${name} ${JSON.stringify(attributes)}`;
    const { count, sum, most } = sums.get(key) ?? { count: 0, sum: 0, most: -Infinity };
    sums.set(key, { unit, isHistogram, count: count + 1, sum: sum + value, most: Math.max(most, value) });
  };
  return { add, record: add };
}

const meter = {
  createHistogram: (name, options) => instrument(name, { ...options, isHistogram: true }),
  createCounter: instrument,
  createUpDownCounter: instrument,
};

/** What is active stays so in what is awaited. */
class Contexts {
  #storage = new AsyncLocalStorage();

  active() {
    return this.#storage.getStore() ?? ROOT_CONTEXT;
  }

  with(active, work, self, ...args) {
    return this.#storage.run(active, () => work.apply(self, args));
  }

  bind(active, target) {
    return typeof target === 'function' ? (...args) => this.with(active, target, undefined, ...args) : target;
  }

  enable() {
    return this;
  }

  disable() {
    return this;
  }
}

export function register() {
  context.setGlobalContextManager(new Contexts());
  trace.setGlobalTracerProvider({ getTracer: () => tracer });
  metrics.setGlobalMeterProvider({ getMeter: () => meter });
}

export function printMetrics() {
  for (const [name, { unit, isHistogram, count, sum, most }] of sums) {
    const found = isHistogram ? `${count} times, mean ${(sum / count).toFixed(2)}, most ${most.toFixed(2)}` : sum;
    console.log(`metric ${name}: ${found} ${unit}`.trimEnd());
  }
}
