'use strict';

// examples/extraction as a user starts it, with a model that says anything.

const { spawnSync } = require('node:child_process');
const { mkdtempSync, rmSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describeBuilt } = require('./constrain/built.js');
const { writeChat } = require('./serve/openai/folders.js');

const [QUOTE, BRACE] = [34, 123];

describeBuilt('examples/extraction', () => {
  test('it answers by the schema', () => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-extraction-'));
    // It says what comes first among the tokens that are allowed, and ends a name after a space.
    writeChat(folder, { '[': [BRACE], ' ': [QUOTE] });
    const program = path.join(__dirname, '../examples/extraction/index.mjs');
    const { status, stdout, stderr } = spawnSync(process.execPath, [program, folder], { encoding: 'utf8' });
    rmSync(folder, { recursive: true });
    expect([stderr, status]).toEqual(['', 0]);
    expect(stdout).toMatch(/│ \(index\) │ name/);
    expect(stdout.match(/│ \d +│ ' ' +│ \d{4} │ 'author' │/g)).toHaveLength(5);
  });
});
