'use strict';

// used.js file|bytes|cached|mapped MODEL WIDTH [FOLDER]: what the system says that a model has added to the process, and what memoryUsage() says.
// used.js peak MODEL WIDTH: the most that a load has taken beyond what was there before.

const { promises, readFileSync } = require('node:fs');
const { setTimeout } = require('node:timers/promises');
const { loadOnnx } = require('../../lib/onnx.js');
const { open } = require('./work.js');

/** Lines of /proc/self/status, in bytes. */
function status(...names) {
  const text = readFileSync('/proc/self/status', 'utf8');
  return names.map((name) => 1024 * Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(text)[1]));
}

/** Anonymous memory, and pages of files beside those of the program, which come and go. */
async function resident(model) {
  // Blocks that are kept for a moment.
  await setTimeout(3000);
  global.gc();
  const [anonymous] = status('RssAnon');
  const maps = readFileSync('/proc/self/smaps', 'utf8').split(/^(?=[0-9a-f]+-[0-9a-f]+ )/m);
  const ofFiles = maps.filter((map) => model.some((name) => map.split('\n', 1)[0].includes(name)));
  return ofFiles.reduce((sum, map) => sum + 1024 * Number(/^Rss:\s+(\d+) kB$/m.exec(map)[1]), anonymous);
}

const sumOf = ({ tensors, graphs, sources, plans, scratch, caches, pendingWrites }) => tensors + graphs + sources + plans + scratch + caches + pendingWrites;

async function run(model, width) {
  const x = new Float32Array(width).fill(0.5);
  await model.run({ x });
}

async function used(how, file, width, folder) {
  const context = await open({ numThreads: 1 });
  const names = [file, ...(folder === undefined ? [] : [folder])];
  const before = await resident(names);
  const source = how === 'bytes' ? await promises.open(file) : file;
  const model = await loadOnnx(context, source, { map: how === 'mapped', ...(how === 'cached' ? { cache: folder } : {}) });
  await source.close?.();
  await run(model, width);
  const usage = context.memoryUsage();
  return { usage, said: sumOf(usage), model: sumOf(model.memoryUsage()), grown: (await resident(names)) - before };
}

async function peak(file, width) {
  const context = await open({ numThreads: 1 });
  const [before] = status('VmRSS');
  const model = await loadOnnx(context, file);
  await run(model, width);
  const [highest] = status('VmHWM');
  return { usage: context.memoryUsage(), took: highest - before };
}

const [how, file, width, folder] = process.argv.slice(2);
(how === 'peak' ? peak(file, Number(width)) : used(how, file, Number(width), folder)).then((said) => console.log(JSON.stringify(said)));
