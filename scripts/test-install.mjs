// npm run test:install [-- quick] [-- NAME …]: installs the packages of dist/ as users do, without Rust, and runs them: on several runtimes, with several
// package managers, bundled, as single executables, on other systems. Where dist/ has no package for this machine, the addon that
// `npm run build` made is packed for the trial. `quick` leaves out what takes minutes. Names choose trials by a part of their names.
import { rmSync } from 'node:fs';
import { archiveTrials } from './install-trials/archives.mjs';
import { bundlerTrials } from './install-trials/bundlers.mjs';
import { cloneTrials } from './install-trials/clone.mjs';
import { constrainTrials } from './install-trials/constrain.mjs';
import { copyTrials } from './install-trials/copies.mjs';
import { exampleTrials } from './install-trials/examples.mjs';
import { managerTrials } from './install-trials/managers.mjs';
import { mendingTrials } from './install-trials/mending.mjs';
import { networkTrials } from './install-trials/network.mjs';
import { nextTrials } from './install-trials/next.mjs';
import { overrideTrials } from './install-trials/override.mjs';
import { readmeTrials } from './install-trials/readme.mjs';
import { startRegistry } from './install-trials/registry.mjs';
import { runTrial, runtimeTrials } from './install-trials/runtimes.mjs';
import { LeftOut, Project } from './install-trials/surroundings.mjs';
import { serveTrials } from './install-trials/serve.mjs';
import { systemTrials } from './install-trials/systems.mjs';
import { collectTarballs } from './install-trials/tarballs.mjs';
import { windowsTrials } from './install-trials/windows.mjs';
import { workflowTrials } from './install-trials/workflows.mjs';
import { ours } from './package/description.mjs';
import { platforms } from './package/targets.mjs';
import { Tally } from './tally.mjs';

const args = process.argv.slice(2);
const quick = args.includes('quick');
const names = args.filter((arg) => arg !== 'quick');
const { version } = ours();
const own = Object.keys(platforms).find((name) => name.startsWith(`${process.platform}-${process.arch}`));

const { folder, published } = await collectTarballs({ own, version });
const registry = await startRegistry(folder);
const project = new Project(registry);
const tally = new Tally();
let expected;
await trial('npm install from the tarballs', async () => {
  await project.npm('install', '--ignore-scripts', `webnn-node@${version}`);
  expected = await runTrial(process.execPath, ['trial.cjs'], { cwd: project.folder });
}, true);
const setting = { registry, project, folder, version, own, published, expected, quick, times: quick ? 3 : 100 };
const groups = [runtimeTrials, managerTrials, mendingTrials, copyTrials, bundlerTrials, nextTrials, archiveTrials, networkTrials, readmeTrials, overrideTrials, exampleTrials, constrainTrials, serveTrials, cloneTrials, systemTrials, windowsTrials, workflowTrials];
if (expected) for (const group of groups) for (const [name, work] of group(setting)) await trial(name, work);
registry.close();
project.remove();
rmSync(`${project.folder}-bundles`, { recursive: true, force: true });
rmSync(folder, { recursive: true });
tally.finish();

async function trial(name, work, always = false) {
  if (!always && names.length > 0 && !names.some((part) => name.includes(part))) return;
  const start = performance.now();
  const seconds = () => (performance.now() - start) / 1000;
  try {
    const note = await work();
    tally.add({ name, passed: 1, failed: 0, note, seconds: seconds() });
  } catch (error) {
    const leftOut = error instanceof LeftOut;
    tally.add({ name, passed: 0, failed: leftOut ? 0 : 1, note: leftOut ? `left out: ${error.message}` : error.message, seconds: seconds() });
  }
}
