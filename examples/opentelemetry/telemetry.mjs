// What webnn-node publishes, as spans and metrics of OpenTelemetry. Nothing of it knows the program that runs the models.
import { subscribe, tracingChannel } from 'node:diagnostics_channel';
import { metrics, SpanStatusCode, trace } from '@opentelemetry/api';

const tracer = trace.getTracer('webnn-node');
const meter = metrics.getMeter('webnn-node');

const durations = meter.createHistogram('webnn_node.duration', { unit: 'ms', description: 'loads, builds and runs, from the call to the result' });
const sizes = meter.createHistogram('webnn_node.batch.size', { unit: '{run}', description: 'runs that were joined' });
const waits = meter.createHistogram('webnn_node.batch.wait', { unit: 'ms', description: 'how long the first run of a batch has waited' });
const errors = meter.createCounter('webnn_node.errors', { description: 'operations that failed' });
const losses = meter.createCounter('webnn_node.contexts.lost', { description: 'contexts that were lost' });
const inFlight = meter.createUpDownCounter('webnn_node.runs', { unit: '{run}', description: 'runs under way' });

/** A span for each operation. It is a child of the span that is active where the operation was called. */
function observe(operation) {
  const began = new WeakMap();
  tracingChannel(`webnn-node:${operation}`).subscribe({
    start(message) {
      const { label, device, shapes, file, isAhead } = message;
      const attributes = { 'webnn_node.model': label, 'webnn_node.device': device, 'webnn_node.shapes': JSON.stringify(shapes), 'webnn_node.file': file, 'webnn_node.ahead': isAhead };
      began.set(message, { span: tracer.startSpan(`webnn-node ${operation}`, { attributes }), at: performance.now() });
      if (operation === 'run') inFlight.add(1, { model: label });
    },
    asyncEnd(message) {
      const { span, at } = began.get(message);
      const { label, device, error } = message;
      if (error !== undefined) {
        span.recordException(error);
        span.setStatus({ code: SpanStatusCode.ERROR, message: error.message });
      }
      span.end();
      durations.record(performance.now() - at, { operation, model: label, device, failed: error !== undefined });
      if (operation === 'run') inFlight.add(-1, { model: label });
    },
    end() {},
    asyncStart() {},
    error() {},
  });
}

for (const operation of ['load', 'build', 'run']) observe(operation);
subscribe('webnn-node:batch', ({ label, size, waited }) => {
  sizes.record(size, { model: label });
  waits.record(waited, { model: label });
});
subscribe('webnn-node:error', ({ operator, label, error }) => errors.add(1, { operator, model: label, name: error.name }));
subscribe('webnn-node:lost', ({ device }) => losses.add(1, { device }));
