// The small suite of the package's environments under vitest: pools of threads, of processes and of contexts, with and without a page.
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { trouble } from './outcome.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';

const limit = 300;

/** @param {{ name?: string, node?: string }} [options] `node` is the program that runs vitest */
export async function testVitest(tally, { name = 'vitest', node = process.execPath } = {}) {
  console.log(`\n== ${name}`);
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-vitest-'));
  const results = path.join(folder, 'results.json');
  const vitest = inRepository('node_modules', 'vitest', 'vitest.mjs');
  const config = inRepository('__tests__', 'environments', 'vitest.config.mjs');
  const args = ['run', '--config', config, '--reporter=default', '--reporter=json', `--outputFile.json=${results}`];
  const ended = await run(node, [vitest, ...args], { limitSeconds: limit });
  const { passed, failed } = count(results);
  rmSync(folder, { recursive: true });
  const note = trouble(ended, limit);
  tally.add({ name, passed, failed: Math.max(failed, note || passed === 0 ? 1 : 0), note, seconds: ended.seconds });
}

function count(file) {
  try {
    const { numPassedTests, numFailedTests } = JSON.parse(readFileSync(file, 'utf8'));
    return { passed: numPassedTests, failed: numFailedTests };
  } catch {
    return { passed: 0, failed: 0 }; // Killed before it wrote anything, and then counted as a failure by its caller.
  }
}
