'use strict';

// Run by other runtimes (runtimes.test.js): suites, which are files. Prints a line of JSON for each.

const path = require('node:path');
const process = require('node:process');
const { suite } = require('./suites.js');

/** Names of tests that are left out, by their beginnings. */
const [skipped, ...files] = [JSON.parse(process.argv[2]), ...process.argv.slice(3)];

(async () => {
  for (const file of files) {
    const found = await suite(file, () => require(path.join(__dirname, '..', file)), skipped[file] ?? []);
    console.log(JSON.stringify({ file, ...found }));
  }
  process.exit();
})();
