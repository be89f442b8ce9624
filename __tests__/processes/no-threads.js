'use strict';

// From some moment on the system gives this process no threads: whatever wants one fails with a reason, and the process ends.

const { execFileSync } = require('node:child_process');
const { ml, MLGraphBuilder } = require('../..');

const scalar = { dataType: 'float32', shape: [] };

async function outcome(promise) {
  try {
    await promise;
    return 'done';
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

function build(context) {
  const builder = new MLGraphBuilder(context);
  return builder.build({ y: builder.relu(builder.input('x', scalar)) });
}

async function main() {
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: 2 });
  execFileSync('prlimit', ['--pid', String(process.pid), '--nproc=1:1']);
  // The limit is not for the superuser.
  if (process.getuid() === 0) process.setuid(65534);
  const results = { build: await outcome(build(context)), createContext: await outcome(ml.createContext({ deviceType: 'cpu' })) };
  const tensor = await context.createTensor({ ...scalar, readable: true, writable: true });
  context.writeTensor(tensor, Float32Array.of(7));
  results.then = new Float32Array(await context.readTensor(tensor))[0];
  console.log(JSON.stringify(results));
}

main();
