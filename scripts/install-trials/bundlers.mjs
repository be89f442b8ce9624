// Bundled programs, and single executables.
import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { bun, runTrial } from './runtimes.mjs';
import { LeftOut, load, nodeOfVersion, succeed, tool } from './surroundings.mjs';

const node = process.execPath;

/** Runs what a bundler wrote, in a folder without packages unless the bundle leaves them out. */
async function runBundle({ project, expected }, folder, file) {
  const printed = await runTrial(node, [path.join(folder, file)], { cwd: folder, env: { TRIAL_MODEL: path.join(project.folder, 'model.onnx') } });
  if (printed !== expected) throw new Error(`it computes ${printed}, not ${expected}`);
}

function output({ project }, name, inside = false) {
  // Outside of the project no package is found.
  const folder = inside ? path.join(project.folder, name) : path.join(`${project.folder}-bundles`, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}

async function withEsbuild(setting, { entry = 'trial.cjs', ...options }, folder) {
  const esbuild = load(await tool('esbuild'), 'esbuild');
  const entryPoints = [path.join(setting.project.folder, entry)];
  const { warnings } = await esbuild.build({ entryPoints, bundle: true, platform: 'node', outdir: folder, logLevel: 'silent', ...options });
  if (warnings.length > 0) throw new Error(`esbuild warns: ${warnings.map(({ text }) => text).join('; ')}`);
}

async function withWebpack(setting, options, folder) {
  const modules = await tool('webpack', 'node-loader');
  const webpack = load(modules, 'webpack');
  const configuration = { mode: 'production', target: 'node', context: setting.project.folder, entry: './trial.cjs', output: { path: folder, filename: 'trial.js' }, ...options(modules) };
  const stats = await promisify(webpack)(configuration);
  if (stats.hasErrors()) throw new Error(stats.toString({ all: false, errors: true }));
}

async function withRollup(setting, folder) {
  const modules = await tool('rollup', '@rollup/plugin-commonjs', '@rollup/plugin-node-resolve', '@rollup/plugin-json');
  const { rollup } = load(modules, 'rollup');
  const plugins = [load(modules, '@rollup/plugin-node-resolve').nodeResolve({ preferBuiltins: true }), load(modules, '@rollup/plugin-json')(), load(modules, '@rollup/plugin-commonjs')()];
  const bundle = await rollup({ input: path.join(setting.project.folder, 'trial.cjs'), plugins, external: [/^@webnn-node\//], onwarn() {} });
  await bundle.write({ file: path.join(folder, 'trial.cjs'), format: 'cjs' });
}

/** The file of an addon is found by esbuild's `copy`, webpack's node-loader; rollup leaves the package with the addon out. */
const bundlers = [
  ['esbuild, webnn-node left out', true, 'trial.js', (setting, folder) => withEsbuild(setting, { external: ['webnn-node'] }, folder)],
  ['esbuild, all in it', false, 'trial.js', (setting, folder) => withEsbuild(setting, { loader: { '.node': 'copy' } }, folder)],
  ['esbuild, an ES module, all in it', false, 'module.js', (setting, folder) => withEsbuild(setting, { entry: 'module.mjs', loader: { '.node': 'copy' } }, folder)],
  ['webpack, webnn-node left out', true, 'trial.js', (setting, folder) => withWebpack(setting, () => ({ externals: [({ request }, give) => (/^webnn-node/.test(request) ? give(null, `commonjs ${request}`) : give())] }), folder)],
  ['webpack, all in it', false, 'trial.js', (setting, folder) => withWebpack(setting, (modules) => ({ resolveLoader: { modules: [modules] }, module: { rules: [{ test: /\.node$/, loader: 'node-loader' }] } }), folder)],
  ['rollup, the addon left out', true, 'trial.cjs', withRollup],
];

/** A single executable of Node.js: the bundle, and the addon as an asset that it writes to a file. */
async function singleExecutable(setting, folder) {
  if (process.platform !== 'linux') throw new LeftOut('tried on Linux: elsewhere executables are signed');
  const addon = path.join(setting.project.folder, 'node_modules', '@webnn-node', setting.own, `webnn-node.${setting.own}.node`);
  const before = `
    const { getRawAsset } = require('node:sea');
    const addon = require('node:path').join(require('node:os').tmpdir(), 'webnn-node-' + process.pid + '.node');
    require('node:fs').writeFileSync(addon, new Uint8Array(getRawAsset('addon')));
    process.on('exit', () => require('node:fs').unlinkSync(addon));
    process.env.WEBNN_NATIVE = addon;`;
  await withEsbuild(setting, { banner: { js: before }, external: ['@webnn-node/*'] }, folder);
  const blob = path.join(folder, 'sea.blob');
  writeFileSync(path.join(folder, 'sea.json'), JSON.stringify({ main: path.join(folder, 'trial.js'), output: blob, disableExperimentalSEAWarning: true, assets: { addon } }));
  // Programs of a distribution may have Node.js in a library, without the place for it.
  const program = await nodeOfVersion('24');
  await succeed(program, ['--experimental-sea-config', path.join(folder, 'sea.json')], { cwd: folder });
  const executable = path.join(folder, 'trial');
  copyFileSync(program, executable);
  chmodSync(executable, 0o755);
  const { inject } = load(await tool('postject'), 'postject');
  await inject(executable, 'NODE_SEA_BLOB', readFileSync(blob), { sentinelFuse: 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2' });
  return executable;
}

async function bunExecutable(setting, folder) {
  const executable = path.join(folder, 'trial');
  await succeed(await bun(), ['build', '--compile', 'trial.cjs', '--outfile', executable], { cwd: setting.project.folder });
  return executable;
}

export const bundlerTrials = (setting) => [
  ...bundlers.map(([name, inside, file, bundle], index) => [`bundled by ${name}`, async () => {
    const folder = output(setting, `bundle-${index}`, inside);
    await bundle(setting, folder);
    await runBundle(setting, folder, file);
  }]),
  ...[['Node.js', singleExecutable], ['Bun', bunExecutable]].map(([name, build]) => [`a single executable of ${name}`, async () => {
    const folder = output(setting, `executable-${name}`);
    const executable = await build(setting, folder);
    const alone = output(setting, `alone-${name}`);
    cpSync(executable, path.join(alone, 'trial'));
    const printed = await runTrial(path.join(alone, 'trial'), [], { cwd: alone, env: { TRIAL_MODEL: path.join(setting.project.folder, 'model.onnx') } });
    if (printed !== setting.expected) throw new Error(`it computes ${printed}, not ${setting.expected}`);
  }]),
];
