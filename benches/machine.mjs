// What a number depends on besides the code.
import { readFileSync } from 'node:fs';
import os from 'node:os';

export function machine() {
  const cpus = os.cpus();
  return {
    cpu: cpus[0]?.model.trim() ?? 'unknown',
    logicalCores: cpus.length,
    usableCores: os.availableParallelism(),
    memoryBytes: os.totalmem(),
    platform: `${os.platform()} ${os.arch()} ${os.release()}`,
    node: process.version,
    engines: {
      'webnn-node': version('../package.json'),
      'onnxruntime-node': version('../node_modules/onnxruntime-node/package.json'),
    },
  };
}

/** The load average of the last minute; 0 on Windows. */
export const load = () => os.loadavg()[0];

/** MiB in memory of a process, on Linux. */
export function memoryOf(pid) {
  try {
    return Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) / 1024;
  } catch {
    return NaN;
  }
}

const version = (file) => JSON.parse(readFileSync(new URL(file, import.meta.url), 'utf8')).version;
