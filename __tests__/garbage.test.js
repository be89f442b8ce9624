'use strict';

// C11, in a process of its own: in one that had run dozens of suites, V8 once called no callback of a FinalizationRegistry for minutes.

const { execFile } = require('node:child_process');
const path = require('node:path');
const { promisify } = require('node:util');

test('what the garbage collector finalizes is released, and what is needed is not collected', async () => {
  const jest = path.join(path.dirname(require.resolve('jest/package.json')), 'bin', 'jest.js');
  const options = ['--runInBand', '--verbose', '--testMatch', '**/garbage/collected.js'];
  const run = promisify(execFile)(process.execPath, [jest, ...options], { cwd: path.join(__dirname, '..') });
  // Its report, where a test of it fails.
  const { stderr } = await run.catch((error) => {
    throw new Error(error.stderr);
  });
  expect(stderr).toMatch(/Tests: +\d+ passed/);
});
