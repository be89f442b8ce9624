// npm test: everything that can be tested, each step under a hard time limit, and one line with the sum at the end.
//
// The limits are there because the likeliest serious mistake in a native addon with threads of its own is a process that
// never ends: a thread that is joined at exit and was not woken. They are many times what the steps take.
import { setUp } from './setup.mjs';
import { Tally } from './tally.mjs';
import { testJavaScript } from './test-javascript.mjs';
import { testFaults, testInstructionSets, testMatrixRegisters, testPlainGpu, testRust, testSwiftShader } from './test-rust.mjs';
import { testTypings } from './test-typings.mjs';
import { testVitest } from './test-vitest.mjs';

const { rust } = await setUp();
const tally = new Tally();
if (rust) await testAllRust();
else console.log('cargo was not found: the tests in Rust, and those of failures on purpose, are left out');
await testJavaScript(tally, process.argv.slice(2));
await testVitest(tally);
await testTypings(tally);
tally.finish();

async function testAllRust() {
  await testRust(tally);
  await testInstructionSets(tally);
  await testMatrixRegisters(tally);
  await testPlainGpu(tally);
  await testSwiftShader(tally);
  await testFaults(tally);
}
