'use strict';

// changing-files.js FOLDER SEED TRIALS: loads and runs models of FOLDER while their files change, and writes a line for each trial: how it
// ended. A result is `right` or `wrong`; an error is `named` if it names a file.

const { chmodSync, closeSync, copyFileSync, ftruncateSync, openSync, readFileSync, renameSync, rmSync, statSync, unlinkSync, utimesSync, writeSync } = require('node:fs');
const path = require('node:path');
const { loadOnnx } = require('../../lib/onnx.js');
const { generator } = require('../onnx/random.js');
const { open } = require('./work.js');

const WIDTH = 512;

/** What is done to a file of so many bytes. */
const CHANGES = {
  truncate: (file, random, length) => edit(file, (fd) => ftruncateSync(fd, Math.floor(random() * length))),
  empty: (file) => edit(file, (fd) => ftruncateSync(fd, 0)),
  overwrite: (file, random, length) =>
    edit(file, (fd) => writeSync(fd, Buffer.alloc(length, Math.floor(random() * 256)), 0, length, Math.floor((random() * length) / 2))),
  replace(file, random, length) {
    const other = `${file}.other`;
    const fd = openSync(other, 'w');
    writeSync(fd, Buffer.alloc(length, 63));
    closeSync(fd);
    renameSync(other, file);
  },
  remove: (file) => unlinkSync(file),
  rename: (file) => renameSync(file, `${file}.moved`),
  rights: (file, random) => chmodSync(file, random() < 0.5 ? 0o400 : 0o640),
  // Other bytes, as old as those before.
  disguise(file, random, length) {
    const { atime, mtime } = statSync(file);
    CHANGES.overwrite(file, random, length);
    utimesSync(file, atime, mtime);
  },
};

function edit(file, change) {
  const fd = openSync(file, 'r+');
  change(fd);
  closeSync(fd);
}

/** A row for each of the inputs, which are all alike. */
async function run(model, rows) {
  const { y } = await model.run({ x: { data: new Float32Array(rows * WIDTH).fill(0.5), shape: [rows, WIDTH] } });
  return y.data;
}

async function main() {
  const [, , folder, seed, trials] = process.argv;
  const random = generator(Number(seed));
  const context = await open({ numThreads: 2 });
  const expected = new Float32Array(new Uint8Array(readFileSync(path.join(folder, 'expected'))).buffer);
  const isRight = (found) => found.every((number, i) => Math.abs(number - expected[i % WIDTH]) <= 1e-3 * Math.abs(expected[i % WIDTH]));
  for (let trial = 0; trial < Number(trials); trial++) {
    const names = ['inside.onnx', 'outside.onnx', 'outside.data'];
    // Files of a trial, so that no model of an earlier one has the weights.
    for (const name of names) rmSync(path.join(folder, name), { force: true });
    for (const name of names) copyFileSync(path.join(folder, 'originals', name), path.join(folder, name));
    const name = random() < 0.5 ? 'inside.onnx' : 'outside.onnx';
    const changed = path.join(folder, name === 'inside.onnx' ? name : 'outside.data');
    const kind = Object.keys(CHANGES)[Math.floor(random() * Object.keys(CHANGES).length)];
    const length = readFileSync(changed).length;
    const change = () => CHANGES[kind](changed, random, length);
    const when = ['loading', 'before', 'between', 'running'][Math.floor(random() * 4)];
    const ends = [];
    const note = (promise) =>
      promise.then(
        (found) => ends.push(isRight(found) ? 'right' : 'wrong'),
        (error) => ends.push(error.message.includes('outside.') || error.message.includes('inside.') ? 'named' : `unnamed: ${error.message}`),
      );
    const loading = loadOnnx(context, path.join(folder, name));
    if (when === 'loading') {
      const wait = Math.floor(random() * 3);
      for (let i = 0; i < wait; i++) await new Promise(setImmediate);
      change();
    }
    let model;
    try {
      model = await loading;
    } catch (error) {
      // A file that is cut short before it was opened is no model.
      ends.push(when === 'loading' ? 'refused' : `unnamed: ${error.message}`);
    }
    if (model !== undefined) {
      if (when === 'before') change();
      // Whoever opens a file after it was overwritten has the new weights: that is no fault.
      const mayBeNew = when === 'loading';
      const first = run(model, 1);
      if (when === 'running') change();
      await note(first);
      if (when === 'between') change();
      await note(run(model, 3));
      await note(run(model, 1));
      if (mayBeNew) for (let i = 0; i < ends.length; i++) if (ends[i] === 'wrong') ends[i] = 'new';
      model.destroy();
    }
    console.log(JSON.stringify({ kind, when, name, ends }));
  }
}

main();
