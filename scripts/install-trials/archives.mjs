// Programs that are packed with their packages into one file: what pkg takes into its snapshot, and Electron into an archive.
import { copyFileSync, cpSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { runTrial } from './runtimes.mjs';
import { Project, load, tool } from './surroundings.mjs';

/** A project with one program, as people pack it. */
async function program({ registry, version }) {
  const project = new Project(registry);
  await project.npm('install', '--ignore-scripts', `webnn-node@${version}`);
  rmSync(path.join(project.folder, '.cache'), { recursive: true, force: true });
  return project;
}

const addonIn = (folder, own) => path.join(folder, 'node_modules', '@webnn-node', own, `webnn-node.${own}.node`);

async function runIn(folder, { expected }, args = []) {
  const printed = await runTrial(process.execPath, [...args, path.join(folder, 'trial.cjs')], { cwd: folder });
  if (printed !== expected) throw new Error(`it computes ${printed}, not ${expected}`);
}

/**
 * The Node.js that pkg puts before the snapshot is downloaded from elsewhere. So the files that it chooses, by following what the program
 * requires, are laid out in a folder, and run with this Node.js.
 */
async function tryPkg(setting) {
  const modules = await tool('@yao-pkg/pkg');
  const { default: walk } = load(modules, '@yao-pkg/pkg/lib-es5/walker');
  const { STORE_BLOB, STORE_CONTENT } = load(modules, '@yao-pkg/pkg/lib-es5/common');
  const project = await program(setting);
  const snapshot = `${project.folder}-snapshot`;
  try {
    const config = JSON.parse(project.read('package.json'));
    const marker = { config, base: project.folder, configPath: path.join(project.folder, 'package.json'), toplevel: true };
    const { records } = await walk(marker, path.join(project.folder, 'trial.cjs'), undefined, {});
    if (!records[addonIn(project.folder, setting.own)]?.[STORE_CONTENT]) throw new Error('the addon is not in the snapshot');
    const files = Object.values(records).filter((record) => record[STORE_BLOB] || record[STORE_CONTENT]).map(({ file }) => file);
    for (const file of files) {
      const destination = path.join(snapshot, path.relative(project.folder, file));
      mkdirSync(path.dirname(destination), { recursive: true });
      copyFileSync(file, destination);
    }
    copyFileSync(path.join(project.folder, 'model.onnx'), path.join(snapshot, 'model.onnx'));
    await runIn(snapshot, setting);
    return `${files.length} files; its executables want a Node.js that pkg downloads, so none is made`;
  } finally {
    project.remove();
    rmSync(snapshot, { recursive: true, force: true });
  }
}

/** As Electron does: files of an archive that are not packed into it are loaded from the folder beside it. */
const fromUnpacked = `
const { dlopen } = process;
process.dlopen = (module, file, ...rest) => dlopen.call(process, module, file.replace(/([/\\\\\\\\]app\\.asar)(?=[/\\\\\\\\])/, '$1.unpacked'), ...rest);
`;

/** npm's electron downloads its program. So the archive is laid out in a folder, and run with this Node.js and Electron's rule for addons. */
async function tryAsar(setting) {
  const asar = load(await tool('@electron/asar@3'), '@electron/asar');
  const project = await program(setting);
  const folder = `${project.folder}-asar`;
  try {
    const archive = path.join(folder, 'app.asar');
    await asar.createPackageWithOptions(project.folder, archive, { unpack: '**/*.node' });
    const addon = path.relative(project.folder, addonIn(project.folder, setting.own));
    if (!asar.statFile(archive, addon).unpacked) throw new Error('the addon is packed');
    // Of the addon the archive has the name alone.
    const laidOut = path.join(folder, 'run', 'app.asar');
    asar.extractAll(archive, laidOut);
    writeFileSync(path.join(laidOut, addon), '');
    cpSync(`${archive}.unpacked`, `${laidOut}.unpacked`, { recursive: true });
    writeFileSync(path.join(folder, 'electron.cjs'), fromUnpacked);
    await runIn(laidOut, setting, ['--require', path.join(folder, 'electron.cjs')]);
    return "Electron's program is not run: npm's package downloads it";
  } finally {
    project.remove();
    rmSync(folder, { recursive: true, force: true });
  }
}

export const archiveTrials = (setting) => (setting.quick ? [] : [
  ["in pkg's snapshot", () => tryPkg(setting)],
  ["in Electron's archive", () => tryAsar(setting)],
]);
