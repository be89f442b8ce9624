// Labels for the pictures of a folder: node index.mjs FOLDER [--model FOLDER] [--batch 8] [--provider webgpu]
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { loadClassifier } from './classifier.mjs';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { model: { type: 'string' }, batch: { type: 'string', default: '8' }, provider: { type: 'string' } },
});
const [folder] = positionals;
const size = Number(values.batch);
if (folder === undefined || !(Number.isInteger(size) && size > 0)) {
  console.error('Usage: node index.mjs FOLDER [--model FOLDER] [--batch 8] [--provider webgpu]');
  process.exit(1);
}

const files = readdirSync(folder).filter((name) => /\.(jpe?g|png|webp|avif|tiff?)$/i.test(name)).sort();
const model = values.model ?? path.join(path.dirname(fileURLToPath(import.meta.url)), 'model');
const classifier = await loadClassifier(model, { provider: values.provider });
const start = performance.now();
let count = 0;

/** Files that are no pictures are reported, and the others go on. */
async function load(names) {
  const loaded = await Promise.allSettled(names.map((name) => classifier.load(path.join(folder, name))));
  return names.flatMap((name, i) => {
    if (loaded[i].status === 'fulfilled') return [{ name, picture: loaded[i].value }];
    console.error(`${name}: ${loaded[i].reason.message}`);
    process.exitCode = 1;
    return [];
  });
}

// While the network computes one batch, sharp's threads decode the next.
let next = load(files.slice(0, size));
for (let at = 0; at < files.length; at += size) {
  const batch = await next;
  next = load(files.slice(at + size, at + 2 * size));
  if (batch.length === 0) continue;
  const labels = await classifier.classify(batch.map(({ picture }) => picture));
  batch.forEach(({ name }, i) => {
    console.log(`${name}: ${labels[i].map(({ label, score }) => `${label} ${(100 * score).toFixed(1)} %`).join(', ')}`);
  });
  count += batch.length;
}
const seconds = (performance.now() - start) / 1000;
console.log(`${count} pictures in ${seconds.toFixed(2)} s`);
await classifier.dispose();
