// tsc --strict over a sample program: one case.
import { trouble } from './outcome.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';

const limit = 300;

export async function testTypings(tally) {
  console.log('\n== typings');
  const tsc = inRepository('node_modules', 'typescript', 'bin', 'tsc');
  const ended = await run(process.execPath, [tsc, '--project', inRepository('tsconfig.json')], { limitSeconds: limit });
  const note = trouble(ended, limit);
  tally.add({ name: 'typings', passed: note ? 0 : 1, failed: note ? 1 : 0, note, seconds: ended.seconds });
}
