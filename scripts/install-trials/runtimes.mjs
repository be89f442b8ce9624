// Each runtime: what it computes, workers, and the code with which its processes end.
import path from 'node:path';
import { LeftOut, fail, nodeOfVersion, succeed, tool } from './surroundings.mjs';

export const expectedFirst = [91, 121, 0];
const NODES = ['20', '22', '24', '26'];

/** @returns {Promise<string>} what the trial program prints, when its numbers are right */
export async function runTrial(command, args, options) {
  const printed = await succeed(command, args, options);
  const { first, inputs, ids } = JSON.parse(printed.split('\n').at(-1));
  if (String(first) !== String(expectedFirst)) throw new Error(`the first program gave ${first}, not ${expectedFirst}`);
  if (!(inputs > 0) || ids.length !== 12) throw new Error(`the model gave ${printed}`);
  return printed;
}

export async function bun() {
  if (process.platform !== 'linux') throw new LeftOut('tried on Linux');
  const name = `@oven/bun-linux-${process.arch === 'x64' ? 'x64' : 'aarch64'}`;
  return path.join(await tool(name), name, 'bin', 'bun');
}

async function deno() {
  if (process.platform !== 'linux') throw new LeftOut('tried on Linux');
  const name = `@deno/linux-${process.arch}-glibc`;
  return path.join(await tool(name), name, 'deno');
}

/** In a quick trial Node.js is the first and the last version. */
const runtimes = (quick) => [
  ...NODES.filter((_, index) => !quick || index === 0 || index === NODES.length - 1).map((version) => ({ name: `Node.js ${version}`, program: () => nodeOfVersion(version), args: [] })),
  { name: 'Bun', program: bun, args: [] },
  { name: 'Deno', program: deno, args: ['run', '--allow-all', '--node-modules-dir=manual'], env: { DENO_NO_UPDATE_CHECK: '1' } },
];

/** Whether a process ends with code 0 each time: after a run, with a worker alive, with contexts alive. */
async function ends(program, args, options, times) {
  for (let i = 0; i < times; i++) {
    for (const trial of [['worker.cjs'], ['alive.cjs'], ['alive.cjs', 'destroyed']]) {
      const printed = await succeed(program, [...args, ...trial], options);
      if (!/^0,3( 0,3)*$/.test(printed)) throw new Error(`${trial.join(' ')} printed ${printed}`);
    }
  }
}

/** Versions that are too old, of which 14 does not know the syntax of the package. */
const OLD = ['14', '18'];

const oldTrials = ({ project, quick }) => (quick ? [] : OLD.map((version) => [`Node.js ${version} is told that it is too old`, async () => {
  const command = await nodeOfVersion(version);
  for (const program of [['-e', 'require("webnn-node")'], ['--input-type=module', '-e', 'import "webnn-node/onnx";']]) {
    const said = await fail(command, program, { cwd: project.folder });
    if (!/this is Node\.js \d+\.\d+\.\d+, and webnn-node needs Node\.js 20 or later/.test(said)) throw new Error(`it says ${said}`);
  }
}]));

/** One trial for each runtime, in a project that npm has installed. */
export function runtimeTrials(setting) {
  const { project, times, expected, quick } = setting;
  const trials = runtimes(quick).map(({ name, program, args, env }) => [name, async () => {
    const command = await program();
    const options = { cwd: project.folder, env };
    const printed = await runTrial(command, [...args, 'trial.cjs'], options);
    if (printed !== expected) throw new Error(`${name} computes ${printed}, and this Node.js ${expected}`);
    await ends(command, args, options, times);
    return `${times} times each: a worker alive, contexts alive, everything destroyed`;
  }]);
  return [...trials, ...oldTrials(setting)];
}
