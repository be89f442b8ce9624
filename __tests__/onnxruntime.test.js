'use strict';

// webnn-node/onnxruntime beside onnxruntime-node.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { otherwords, rows } = require('./onnxruntime/rows.js');

const outcomesOf = (name) =>
  JSON.parse(execFileSync(process.execPath, [path.join(__dirname, 'onnxruntime', 'outcomes.js'), name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));

/** The package that stands in for onnxruntime-node, installed in its place. */
let project;
beforeAll(() => {
  project = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-stand-in-'));
  const modules = path.join(project, 'node_modules');
  fs.cpSync(path.join(__dirname, '..', 'packages', 'onnxruntime-node'), path.join(modules, 'onnxruntime-node'), { recursive: true });
  fs.symlinkSync(path.join(__dirname, '..'), path.join(modules, 'webnn-node'), 'junction');
});
afterAll(() => fs.rmSync(project, { recursive: true }));

describe('as onnxruntime-node', () => {
  const outcomes = {};
  beforeAll(() => {
    outcomes.theirs = outcomesOf('onnxruntime-node');
    outcomes.import = outcomesOf('webnn-node/onnxruntime');
    outcomes['stand-in'] = outcomesOf(path.join(project, 'node_modules', 'onnxruntime-node'));
  });

  describe.each(['import', 'stand-in'])('%s', (way) => {
    test.each(Object.keys(rows))('%s', (name) => {
      const { theirs, [way]: ours } = outcomes;
      if (!otherwords.has(name)) return expect(ours[name]).toEqual(theirs[name]);
      expect(theirs[name].error).toBeDefined();
      expect(ours[name]).toMatchObject({ error: theirs[name].error });
    });
  });
});
