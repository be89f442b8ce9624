'use strict';

/** @type {import('jest').Config} */
module.exports = {
  testEnvironment: 'node',
  // Only the tests: crawling target/ would take longer than most of them.
  roots: ['<rootDir>/__tests__'],
  testMatch: ['**/*.test.js'],
  // Plain CommonJS that Node runs as it is.
  transform: {},
  watchman: false,
  // At least two: with one, jest runs the tests in its own process, and a crash of the addon would take the report with it.
  maxWorkers: Math.max(2, require('node:os').availableParallelism()),
  // Some tests start Node processes of their own, and machines can be busy. A hang ends at the limit of scripts/test.mjs.
  testTimeout: 60_000,
};
