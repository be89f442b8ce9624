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

await setUp();
const tally = new Tally();
await testRust(tally);
await testInstructionSets(tally);
await testMatrixRegisters(tally);
await testPlainGpu(tally);
await testSwiftShader(tally);
await testFaults(tally);
await testJavaScript(tally, process.argv.slice(2));
await testVitest(tally);
await testTypings(tally);
tally.finish();
