// cargo test.
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { buildAddon, constrainEnv, constrainManifest, withFeatures } from './addon.mjs';
import { testDirect3d } from './direct3d.mjs';
import { trouble } from './outcome.mjs';
import { run } from './run.mjs';
import { getMesa } from './mesa.mjs';
import { inRepository } from './repository.mjs';
import { driver } from './swiftshader.mjs';

// The release profile, because the addon has just been built in it: the dependencies are not compiled a second time, what
// is tested is what ships, and the reference kernels are slow without optimisation.
const profile = ['--release', '--locked'];
const compileLimit = 1800;
/** How long no test may end. Tests take seconds; this many of them on a slow machine with other work. */
const silenceLimit = 900;
/** The same under QEMU, which takes 20 to 50 times as long for a test of kernels: the longest takes 8 minutes. */
const emulatedSilenceLimit = 2400;

/** Where the tests write the shaders of all graphs that they look at. */
const shaders = inRepository('target', 'shaders');

const all = [...profile, '--workspace'];

/** Compiles the programs of all suites below, so that suites which run side by side do not wait for each other's compiling. */
export async function compileTests(tally) {
  tally.say('\n== cargo test --no-run');
  await compile(tally, 'cargo test', all);
}

export async function testRust(tally) {
  tally.say('\n== cargo test');
  rmSync(shaders, { recursive: true, force: true });
  await count(tally, 'cargo test', [...all, '--no-fail-fast'], { WEBNN_SHADERS: shaders });
}

/** What Metal, Direct3D 12 and Vulkan are given of these shaders, and what compilers of Windows say to it. The crate is no part of the workspace. */
export async function testPortability(tally) {
  tally.say('\n== shaders as MSL, HLSL and SPIR-V');
  const args = ['run', '--release', '--locked', '--quiet', '--manifest-path', inRepository('tests', 'portability', 'Cargo.toml'), '--target-dir', inRepository('target', 'portability'), '--', shaders];
  const ended = await run('cargo', args, { limitSeconds: compileLimit, stdout: 'both', stderr: 'both', mark: tally.mark });
  const [, passed = '0', failed = '1'] = /^(\d+) passed, (\d+) failed$/m.exec(ended.stdout) ?? [];
  const note = trouble(ended, compileLimit);
  if (!note) await testDirect3d(tally, shaders);
  tally.add({ name: 'portability', passed: Number(passed), failed: Math.max(Number(failed), note ? 1 : 0), note, seconds: ended.seconds });
}

/** The crate of packages/constrain, which is no part of the workspace. */
export async function testConstrain(tally) {
  tally.say('\n== cargo test, packages/constrain');
  const args = [...profile, '--manifest-path', constrainManifest];
  if (await compile(tally, 'constrain', args, constrainEnv)) await count(tally, 'constrain', args, constrainEnv);
}

/**
 * The suites of vectors and properties on a GPU whose optional features are switched off, and which has the limits that WebGPU promises of
 * every device. Where there is no adapter, not even one in software, they say so and test nothing.
 */
export async function testPlainGpu(tally) {
  tally.say('\n== cargo test, WEBNN_GPU_FEATURES=none WEBNN_GPU_LIMITS=least');
  const env = { WEBNN_GPU_FEATURES: 'none', WEBNN_GPU_LIMITS: 'least', WEBNN_RUNNERS: 'wgpu', WEBNN_ROUNDS: '2' };
  const suites = ['--test', 'vectors', '--test', 'properties', '--test', 'gpu_sizes'];
  const tests = ['wgpu', 'valid_calls_compute', 'tensors_are_bound_in_parts', 'special::lines', 'magnitudes::'];
  await count(tally, 'plain GPU', [...profile, ...suites, '--', ...tests], env);
}

/**
 * The vectors and properties on SwiftShader too, whose compiler is the one that shaders are too large for first, and which takes subnormal
 * numbers for zeros, as hardware may. Of the properties one graph of eight: it compiles for each shape anew.
 */
export async function testSwiftShader(tally) {
  tally.say('\n== cargo test, SwiftShader');
  if (!existsSync(driver)) {
    tally.say(`${driver} is not there: nothing is tested`);
    return;
  }
  const env = { VK_DRIVER_FILES: driver, WEBNN_RUNNERS: 'wgpu', WEBNN_ROUNDS: '2', WEBNN_SHARE: process.env.WEBNN_SWEEP === 'all' ? '1' : '8' };
  await count(tally, 'SwiftShader: vectors', [...profile, '--test', 'vectors', '--', 'wgpu'], env);
  const tests = ['valid_calls_compute', 'special::', 'magnitudes::', 'chains::'];
  await count(tally, 'SwiftShader: properties', [...profile, '--test', 'properties', '--', ...tests], env);
}

/**
 * The vectors and properties on a Mesa that has `shader-f16`, for wgpu and for Dawn, whose other drivers lack it; and sums with subgroups of 4 and
 * 16. Where it cannot be had, that is said.
 */
export async function testMesa(tally) {
  tally.say('\n== cargo test, a newer Mesa');
  const mesa = await getMesa();
  if (mesa === undefined) return;
  const env = { VK_DRIVER_FILES: mesa, WEBNN_RUNNERS: 'wgpu', WEBNN_ROUNDS: '2', WEBNN_SHARE: process.env.WEBNN_SWEEP === 'all' ? '1' : '8' };
  await count(tally, 'Mesa: vectors', [...profile, '--test', 'vectors', '--', 'wgpu'], env);
  await count(tally, 'Mesa: properties', [...profile, '--test', 'properties', '--', 'valid_calls_compute'], env);
  await count(tally, 'Mesa: chains on Dawn', [...profile, '--test', 'properties', '--', 'chains::'], { ...env, WEBNN_RUNNERS: 'reference,wgpu,dawn' });
  for (const bits of ['128', '512']) {
    const sums = [...profile, '--test', 'gpu_sizes', '--', 'reductions', 'normalizations'];
    await count(tally, `Mesa: sums, vectors of ${bits} bits`, sums, { ...env, LP_NATIVE_VECTOR_WIDTH: bits });
  }
}

/**
 * The suites of vectors and properties with the instruction sets that a CPU of this architecture may have besides its best one.
 * One that this CPU does not have runs as `portable` does. (The unit tests of the kernels run every one of them by themselves.)
 */
export async function testInstructionSets(tally) {
  for (const isa of process.arch === 'x64' ? ['avx2', 'portable'] : ['portable']) {
    tally.say(`\n== cargo test, WEBNN_CPU=${isa}`);
    const env = { WEBNN_CPU: isa, WEBNN_RUNNERS: 'cpu', WEBNN_ROUNDS: '2' };
    const tests = ['--test', 'vectors', '--test', 'properties', '--', 'cpu', 'valid_calls_compute', 'special::', 'magnitudes::'];
    await count(tally, `WEBNN_CPU=${isa}`, [...profile, ...tests], env);
  }
}

/**
 * What is compiled for the matrix registers of AMX, whose instructions the tests carry out (tests/runners/amx.rs), where a CPU has what
 * stands beside them. One that has them runs them in all other tests.
 */
export async function testMatrixRegisters(tally) {
  tally.say('\n== cargo test, WEBNN_AMX=emulated');
  const flags = existsSync('/proc/cpuinfo') ? readFileSync('/proc/cpuinfo', 'utf8').split(/\s+/) : [];
  if (!flags.includes('avx512_bf16') || !flags.includes('avx512_vnni') || flags.includes('amx_bf16')) {
    tally.say('no AVX512_BF16 and AVX512_VNNI without AMX: nothing is emulated');
    return;
  }
  const env = { WEBNN_AMX: 'emulated', WEBNN_RUNNERS: 'cpu', WEBNN_ROUNDS: '2' };
  const tests = ['--test', 'vectors', '--test', 'properties', '--', 'cpu', 'bf16', 'valid_calls_compute', 'products_by_way_of_bfloat16'];
  await count(tally, 'AMX', [...profile, ...tests], env);
  const kernels = ['attention', 'image_tests::convolutions', 'integer', 'product', 'tests', 'depth_tests::products_of_bytes'].map((name) => `kernels::${name}`);
  await count(tally, 'AMX: kernels', [...profile, '--lib', '--', ...kernels], env);
}

/** What becomes of failures on purpose: an addon and a test program of their own, compiled with the feature for it. */
export async function testFaults(tally) {
  tally.say('\n== cargo test --features faults');
  await buildAddon({ features: ['faults'], folder: 'native/faults' });
  await count(tally, 'faults', [...profile, ...withFeatures(['faults']), '--test', 'faults']);
}

/**
 * The kernels of the CPU backend as they are on 64-bit ARM, where they use NEON, compiled for it and run by QEMU, and what clippy
 * says to them.
 */
export async function testArm(tally) {
  const target = 'aarch64-unknown-linux-gnu';
  const setting = `CARGO_TARGET_${target.replaceAll('-', '_').toUpperCase()}`;
  const env = { [`${setting}_LINKER`]: 'aarch64-linux-gnu-gcc', [`${setting}_RUNNER`]: 'qemu-aarch64-static -L /usr/aarch64-linux-gnu' };
  const tests = [...profile, '--workspace', '--lib', '--target', target];
  tally.say(`\n== cargo test --target ${target}`);
  if (await compile(tally, 'ARM', tests, env)) {
    await count(tally, 'ARM: microkernels', [...profile, '--package', 'webnn-kernels', '--target', target], env, emulatedSilenceLimit);
    await count(tally, 'ARM', [...profile, '--lib', '--target', target, '--', 'backend::cpu'], env, emulatedSilenceLimit);
  }
  tally.say(`\n== cargo clippy --target ${target}`);
  const clippy = ['clippy', ...profile, '--workspace', '--lib', '--tests', '--target', target, '--quiet', '--', '-D', 'warnings'];
  const ended = await run('cargo', clippy, { limitSeconds: compileLimit, env });
  const note = trouble(ended, compileLimit);
  tally.add({ name: 'clippy for ARM', passed: note ? 0 : 1, failed: note ? 1 : 0, note, seconds: ended.seconds });
}

/** Compiling apart, so that its time is not part of the limit that is meant for hanging tests. */
async function compile(tally, name, args, env = {}) {
  const compiled = await run('cargo', ['test', ...args, '--no-run', '--quiet'], { limitSeconds: compileLimit, env });
  const note = trouble(compiled, compileLimit);
  if (note) tally.add({ name, passed: 0, failed: 1, note: `compiling: ${note}`, seconds: compiled.seconds });
  return !note;
}

async function count(tally, name, args, env = {}, silenceSeconds = silenceLimit) {
  const ended = await run('cargo', ['test', ...args], { silenceSeconds, stdout: 'both', stderr: 'both', env, mark: tally.mark });
  const sum = (word) =>
    [...ended.stdout.matchAll(new RegExp(`^test result: .*?(\\d+) ${word};`, 'gm'))].reduce((total, hit) => total + Number(hit[1]), 0);
  const note = trouble(ended, silenceSeconds);
  tally.add({
    name,
    passed: sum('passed'),
    // A test program that crashed or was killed prints no result.
    failed: Math.max(sum('failed'), note ? 1 : 0),
    note,
    seconds: ended.seconds,
  });
}
