// What a number depends on besides the code.
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
  };
}

/** The load average of the last minute; 0 on Windows. */
export const load = () => os.loadavg()[0];
