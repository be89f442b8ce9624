// npm test: everything that can be tested, and one line with the sum at the end. A step that prints nothing for many minutes is killed.
//
// The likeliest serious mistake in a native addon with threads of its own is a process that never ends: a thread that is joined at
// exit and was not woken. Silence tells that from a slow machine; the clock does not.
import { setUp } from './setup.mjs';
import { getSwiftShader } from './swiftshader.mjs';
import { Tally } from './tally.mjs';
import { testJavaScript } from './test-javascript.mjs';
import { runSideBySide } from './side-by-side.mjs';
import {
  compileTests, testConstrain, testFaults, testInstructionSets, testMatrixRegisters, testMesa, testPlainGpu, testPortability, testRust, testSwiftShader,
} from './test-rust.mjs';
import { testTypings } from './test-typings.mjs';
import { testVitest } from './test-vitest.mjs';

const { rust } = await setUp();
const tally = new Tally();
/** The first takes about as long as the others together. */
const suites = {
  'cargo test': testRust,
  'plain GPU': testPlainGpu,
  AMX: testMatrixRegisters,
  Mesa: testMesa,
  SwiftShader: testSwiftShader,
  'instruction sets': testInstructionSets,
};
const inRust = [compileTests, testConstrain, (all) => runSideBySide(all, suites), testPortability, testFaults];
const inJavaScript = [(all) => testJavaScript(all, process.argv.slice(2)), testVitest, testTypings];
if (!rust) console.log('cargo was not found: the tests in Rust, and those of failures on purpose, are left out');
await getSwiftShader();
const steps = rust ? [...inRust, ...inJavaScript] : inJavaScript;
for (const [index, step] of steps.entries()) {
  console.log(`\nstep ${index + 1} of ${steps.length}, after ${Math.round(process.uptime())} s`);
  await step(tally);
}
tally.finish();
