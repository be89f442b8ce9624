// jest, and with it the conformance vectors in the folder that WEBNN_VECTORS names.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { trouble } from './outcome.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';

/** How long no file of tests may end. */
const silenceLimit = 600;

/**
 * @param {string[]} args for jest
 * @param {{ name?: string, node?: string }} [options] `node` is the program that runs jest, and the processes that tests start
 */
export async function testJavaScript(tally, args, { name = 'jest', node = process.execPath } = {}) {
  console.log(`\n== ${name}`);
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-test-'));
  const results = path.join(folder, 'results.json');
  const jest = inRepository('node_modules', 'jest', 'bin', 'jest.js');
  const ended = await run(node, [jest, '--json', '--outputFile', results, ...args], {
    silenceSeconds: silenceLimit,
    // The reporter writes to stderr; stdout is the JSON once more.
    stdout: 'keep',
    stderr: 'both',
  });
  const { passed, failed } = count(results);
  rmSync(folder, { recursive: true });
  const note = trouble(ended, silenceLimit);
  tally.add({ name, passed, failed: Math.max(failed, note ? 1 : 0), note, seconds: ended.seconds });
}

function count(file) {
  try {
    const results = JSON.parse(readFileSync(file, 'utf8'));
    return {
      passed: results.numPassedTests,
      // A file that could not be loaded has no failed tests; it counts as one.
      failed: results.numFailedTests + results.numRuntimeErrorTestSuites,
    };
  } catch {
    return { passed: 0, failed: 0 }; // Killed before it wrote anything, and then counted as a failure by its caller.
  }
}
