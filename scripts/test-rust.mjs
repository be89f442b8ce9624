// cargo test.
import { buildAddon, withFeatures } from './addon.mjs';
import { trouble } from './outcome.mjs';
import { run } from './run.mjs';

// The release profile, because the addon has just been built in it: the dependencies are not compiled a second time, what
// is tested is what ships, and the reference kernels are slow without optimisation.
const profile = ['--release', '--locked'];
const compileLimit = 1800;
const limit = 900;

export async function testRust(tally) {
  console.log('\n== cargo test');
  // Compiling apart, so that its time is not part of the limit that is meant for hanging tests.
  const compiled = await run('cargo', ['test', ...profile, '--no-run', '--quiet'], { limitSeconds: compileLimit });
  const refused = trouble(compiled, compileLimit);
  if (refused) {
    tally.add({ name: 'cargo test', passed: 0, failed: 1, note: `compiling: ${refused}`, seconds: compiled.seconds });
    return;
  }
  await count(tally, 'cargo test', [...profile, '--no-fail-fast']);
}

/**
 * The suites of vectors and properties on a GPU whose optional features are switched off. Where there is no adapter, not even
 * one in software, they say so and test nothing.
 */
export async function testPlainGpu(tally) {
  console.log('\n== cargo test, WEBNN_GPU_FEATURES=none');
  const env = { WEBNN_GPU_FEATURES: 'none', WEBNN_RUNNERS: 'wgpu', WEBNN_ROUNDS: '2' };
  const suites = ['--test', 'vectors', '--test', 'properties', '--test', 'gpu_sizes'];
  const tests = ['wgpu', 'valid_calls_compute', 'tensors_are_bound_in_parts'];
  await count(tally, 'plain GPU', [...profile, ...suites, '--', ...tests], env);
}

/** What becomes of failures on purpose: an addon and a test program of their own, compiled with the feature for it. */
export async function testFaults(tally) {
  console.log('\n== cargo test --features faults');
  await buildAddon({ features: ['faults'], folder: 'native/faults' });
  await count(tally, 'faults', [...profile, ...withFeatures(['faults']), '--test', 'faults']);
}

async function count(tally, name, args, env = {}) {
  const ended = await run('cargo', ['test', ...args], { limitSeconds: limit, stdout: 'both', env });
  const sum = (word) =>
    [...ended.stdout.matchAll(new RegExp(`^test result: .*?(\\d+) ${word};`, 'gm'))].reduce((total, hit) => total + Number(hit[1]), 0);
  const note = trouble(ended, limit);
  tally.add({
    name,
    passed: sum('passed'),
    // A test program that crashed or was killed prints no result.
    failed: Math.max(sum('failed'), note ? 1 : 0),
    note,
    seconds: ended.seconds,
  });
}
