// npm run bench:gpu -- --peers: this package on wgpu and on a GPUDevice of Dawn, onnxruntime-node's webgpu provider, and onnxruntime-web on
// npm's `webgpu`, on one GPU. Each engine in processes of its own, in turn; the first one again at the end as the control.
//
// Everything is prepared before: `--prepare` writes the models. Parts come in the order of their importance, each with a share of the time, and what
// was measured is written after each process, so a run that is stopped has left its figures.
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, statfsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { run } from '../../scripts/run.mjs';
import { machine } from '../machine.mjs';
import { groups as allGroups, modelsOf } from './parts.mjs';
import { table } from './report.mjs';

const here = fileURLToPath(new URL('.', import.meta.url));
export const ENGINES = ['webnn-wgpu', 'webnn-dawn', 'onnxruntime-node', 'onnxruntime-web'];
const CONTROL = ENGINES[0];

const { values } = parseArgs({
  options: {
    peers: { type: 'boolean' },
    prepare: { type: 'boolean', default: false },
    'allow-software': { type: 'boolean', default: false },
    minutes: { type: 'string' },
    only: { type: 'string', multiple: true, default: [] },
    engine: { type: 'string', multiple: true, default: [] },
    out: { type: 'string', default: 'target/bench-gpu/results' },
    models: { type: 'string', default: 'target/bench-gpu/models' },
  },
});
const isSmall = values['allow-software'];
/** Of a part, in milliseconds: longer makes no better median. */
const LONGEST = isSmall ? 300 : 3000;
const engines = values.engine.length > 0 ? values.engine : ENGINES;
for (const name of engines) if (!ENGINES.includes(name)) fail(`--engine ${name}: there is ${ENGINES.join(', ')}`);
// A device in software needs minutes for the shaders.
const minutes = Number(values.minutes ?? (isSmall ? 20 : 4));
if (!(minutes > 0)) fail(`--minutes ${values.minutes}: a number above 0 is expected`);
const fits = (group, part) => values.only.length === 0 || values.only.some((text) => group.includes(text) || part.name.includes(text));
const groups = allGroups(isSmall)
  .map((group) => ({ ...group, parts: group.parts.filter((part) => fits(group.name, part)) }))
  .filter(({ parts }) => parts.length > 0);
if (groups.length === 0) fail(`--only ${values.only.join(', ')}: no part has this in its name`);

const models = path.resolve(values.models);
const known = await prepare();
if (values.prepare) process.exit(0);

const WARNING = 'IN SOFTWARE, AND SMALL: NO GPU WAS MEASURED. These times only show that everything runs.';
const out = path.resolve(values.out);
mkdirSync(out, { recursive: true });
const report = { machine: machine(), minutes, warning: isSmall ? WARNING : undefined, roofline: undefined, engines: {}, parts: [] };
for (const group of groups) for (const part of group.parts) report.parts.push({ group: group.name, ...part, ...known[part.name], measured: {} });
if (isSmall) console.log(`\n*** ${WARNING} ***\n`);
const end = performance.now() + minutes * 60_000;

await measureRoofline();
const shares = groups.reduce((sum, { share }) => sum + share, 0);
const begin = performance.now();
let used = 0;
for (const group of groups) {
  // Each process has an equal part of what is left of the group's share.
  used += group.share / shares;
  const groupEnd = begin + (end - begin) * used;
  const order = [...engines, ...(engines.includes(CONTROL) ? [`${CONTROL} again`] : [])];
  for (const [i, engine] of order.entries()) await measure(group, engine, (groupEnd - performance.now()) / (order.length - i));
}
save();
console.log(`\n${table(report)}\n`);
console.log(`figures: ${path.join(out, 'gpu.json')} and gpu.md`);
process.exit(report.parts.some(({ measured }) => Object.values(measured).some(({ wrong }) => wrong)) ? 1 : 0);

function fail(message) {
  console.error(message);
  process.exit(2);
}

/** Writes the models that are not there. Gives what is known of the parts: operations, and bytes of the weights. */
async function prepare() {
  mkdirSync(models, { recursive: true });
  const source = ['networks.mjs', 'weights.mjs'].map((file) => readFileSync(path.join(here, file))).join('');
  const version = createHash('sha256').update(source).digest('hex').slice(0, 12);
  const found = {};
  const { NETWORKS } = await import('./networks.mjs');
  for (const part of groups.flatMap(({ parts }) => parts)) {
    for (const { network, options, file } of modelsOf(part)) {
      const about = path.join(models, `${file}.json`);
      const old = existsSync(about) ? JSON.parse(readFileSync(about, 'utf8')) : {};
      if (old.version !== version) {
        console.error(`writing ${file}`);
        const model = NETWORKS[network](options);
        const bytes = model.encode();
        if (statfsSync(models).bavail * statfsSync(models).bsize < bytes.length * 1.1) fail(`${models}: there is no room for ${bytes.length} bytes more`);
        writeFileSync(path.join(models, `${file}.part`), bytes);
        renameSync(path.join(models, `${file}.part`), path.join(models, file));
        Object.assign(old, { version, flops: model.flops, weightBytes: model.weightBytes });
        writeFileSync(about, JSON.stringify(old));
      }
      // The first is the one that is measured.
      found[part.name] ??= { flops: old.flops, weightBytes: old.weightBytes };
    }
  }
  return found;
}

/** Runs a program of ours, and calls back at each line of JSON. */
async function child(file, args, milliseconds, each) {
  const env = { XDG_RUNTIME_DIR: process.env.XDG_RUNTIME_DIR ?? '/tmp', NODEVICE_SELECT: '1' };
  // What it began when its time was over may end; then it is killed.
  const limitSeconds = Math.max(5, milliseconds / 1000 + 4);
  const onLine = (line) => line.startsWith('{') && each(JSON.parse(line));
  return run(process.execPath, [path.join(here, file), ...args], { limitSeconds, stdout: 'keep', stderr: 'keep', env, onLine });
}

async function measureRoofline() {
  const settings = { forMs: isSmall ? 100 : 600, isSmall, allowSoftware: values['allow-software'] };
  let refused;
  const { stderr, timedOut } = await child('measure-roofline.mjs', [JSON.stringify(settings)], 15_000, (line) => {
    if (line.refused) refused = line.refused;
    else report.roofline = line;
  });
  if (refused) fail(refused);
  if (report.roofline === undefined) console.error(`no roofline: ${timedOut ? 'it took too long' : stderr.trim().split('\n').at(-1)}`);
  else console.error(`${report.roofline.adapter}: ${Object.entries(report.roofline.most).map(([what, most]) => `${what} ${(most / 1e9).toFixed(1)} G/s`).join(', ')}`);
}

async function measure(group, engine, milliseconds) {
  console.error(`${group.name} on ${engine}, ${(milliseconds / 1000).toFixed(1)} s`);
  const settings = { folder: models, parts: group.parts, milliseconds: Math.max(1000, milliseconds - 1500), longest: LONGEST, allowSoftware: values['allow-software'] };
  const about = (report.engines[engine] ??= {});
  const partOf = (name) => report.parts.find((part) => part.group === group.name && part.name === name);
  let under;
  const ended = await child('child.mjs', [engine.split(' ')[0], JSON.stringify(settings)], milliseconds, ({ begins, part, ...line }) => {
    under = begins;
    if (part !== undefined) partOf(part).measured[engine] = line;
    else if (begins === undefined) Object.assign(about, line);
    if (line.error) console.error(`  ${part ?? 'the engine'}: ${line.error}`);
  });
  about.adapter ??= /webnn: adapter "(.*?)"/.exec(ended.stderr)?.[1];
  if (under !== undefined) {
    const why = ended.timedOut ? 'it was killed: its time was over' : `it ended with ${ended.signal ?? ended.code}: ${ended.stderr.trim().split('\n').slice(-3).join(' ').slice(0, 400)}`;
    partOf(under).measured[engine] = { ...partOf(under).measured[engine], error: why };
    console.error(`  ${under}: ${why}`);
  }
  if (about.isSoftware && !values['allow-software']) fail(`${engine}: ${about.adapter ?? 'its adapter'} computes in software: it is no GPU`);
  save();
}

function save() {
  writeFileSync(path.join(out, 'gpu.json'), `${JSON.stringify(report, undefined, 2)}\n`);
  writeFileSync(path.join(out, 'gpu.md'), `${table(report)}\n`);
}
