// cargo test.
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
  const ended = await run('cargo', ['test', ...profile, '--no-fail-fast'], { limitSeconds: limit, stdout: 'both' });
  const count = (word) =>
    [...ended.stdout.matchAll(new RegExp(`^test result: .*?(\\d+) ${word};`, 'gm'))].reduce((sum, hit) => sum + Number(hit[1]), 0);
  const note = trouble(ended, limit);
  tally.add({
    name: 'cargo test',
    passed: count('passed'),
    // A test program that crashed or was killed prints no result.
    failed: Math.max(count('failed'), note ? 1 : 0),
    note,
    seconds: ended.seconds,
  });
}
