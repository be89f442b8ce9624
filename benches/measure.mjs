// The child: one engine and one workload in a process of its own. Its last line on stdout is JSON.
//
//   node benches/measure.mjs ENGINE WORKLOAD '{"threads":1,"warmUpMs":300,"sampleMs":1000}'
import { quantile } from './statistics.mjs';

const LEAST_SAMPLES = 5;

const [engine, workload, settings] = process.argv.slice(2);
const { threads, warmUpMs, sampleMs } = JSON.parse(settings);

const { metrics, engines, once = [] } = await import(`./workloads/${workload}.mjs`);
const prepared = await engines[engine]({ threads, isQuick: sampleMs < 100 });

const result = { engine, workload, metrics: {} };
for (const name of Object.keys(metrics)) result.metrics[name] = await measure(prepared[name], once.includes(name));
result.answers = await prepared.answers?.();
result.peakMemoryBytes = process.resourceUsage().maxRSS * 1024;
console.log(JSON.stringify(result));

/** A metric that is measured `alone` is a whole sequence: what would warm it up would take its first times away. */
async function measure(once, alone) {
  if (!alone) await repeat(once, warmUpMs);
  const cpu = process.cpuUsage();
  const start = performance.now();
  const samples = alone ? [await once(microseconds)] : await repeat(once, sampleMs);
  const wallMs = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return {
    medianUs: quantile(samples, 0.5),
    fastestUs: quantile(samples, 0),
    p90Us: quantile(samples, 0.9),
    samples: samples.length,
    // How many cores the engine kept busy, spinning included.
    cores: (user + system) / 1000 / wallMs,
  };
}

async function repeat(once, forMs) {
  const samples = [];
  const end = performance.now() + forMs;
  do samples.push(await once(microseconds));
  while (performance.now() < end || samples.length < LEAST_SAMPLES);
  return samples;
}

function microseconds() {
  return performance.now() * 1000;
}
