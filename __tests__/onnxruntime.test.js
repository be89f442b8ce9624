'use strict';

// webnn-node/onnxruntime beside onnxruntime-node.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { otherwords, rows } = require('./onnxruntime/rows.js');

const outcomesOf = (name) =>
  JSON.parse(execFileSync(process.execPath, [path.join(__dirname, 'onnxruntime', 'outcomes.js'), name], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }));

describe('as onnxruntime-node', () => {
  let theirs;
  let ours;
  beforeAll(() => {
    theirs = outcomesOf('onnxruntime-node');
    ours = outcomesOf('webnn-node/onnxruntime');
  });

  test.each(Object.keys(rows))('%s', (name) => {
    if (!otherwords.has(name)) return expect(ours[name]).toEqual(theirs[name]);
    expect(theirs[name].error).toBeDefined();
    expect(ours[name]).toMatchObject({ error: theirs[name].error });
  });
});
