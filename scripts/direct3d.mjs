// Has the compilers of Windows look at shaders: FXC, with which wgpu compiles where there is no DXC, comes with npm's `webgpu`, and DXC with
// onnxruntime-node. Wine runs both, in a program that zig compiles (tests/portability/direct3d.c).
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { trouble } from './outcome.mjs';
import { withTools, requireZig } from './package/tools.mjs';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';
import { findWine } from './wine.mjs';

const folder = inRepository('target', 'direct3d');
const program = path.join(folder, 'direct3d.exe');
const compilers = {
  fxc: { library: inRepository('node_modules', 'webgpu', 'dist', 'win32-x64', 'd3dcompiler_47.dll'), target: 'cs_5_1' },
  dxc: { library: inRepository('node_modules', 'onnxruntime-node', 'bin', 'napi-v6', 'win32', 'x64', 'dxcompiler.dll'), target: 'cs_6_0' },
};
/** How long a compiler may take for one shader, or Wine for its first start. */
const silenceSeconds = 600;
const MOST_SHOWN = 5;
/** Of the shaders of a device that have one name, the first and each of so many more. */
const SHARE = process.env.WEBNN_SWEEP === 'all' ? 1 : 16;

/**
 * Compiles what the lists of a folder name, which tests/portability has written.
 * @param {import('./tally.mjs').Tally} tally
 * @param {string} shaders
 */
export async function testDirect3d(tally, shaders) {
  const wine = await prepare();
  if (wine === undefined) return;
  for (const [name, { library, target }] of Object.entries(compilers)) {
    if (await isAlive(wine, library, target)) await compileAll(tally, { wine, name, library, shaders });
    else console.log(`${name.toUpperCase()} does not run under this Wine: it has looked at nothing`);
  }
}

/** Runs a compiler. The libraries are those of Windows, not what Wine has in their place, and there is nothing of its browser. */
function compile(wine, [library, list, results], options) {
  const env = { WINEPREFIX: path.join(folder, 'wine'), WINEDEBUG: '-all', WINEDLLOVERRIDES: 'd3dcompiler_47=n;mscoree=;mshtml=' };
  return run(wine, [program, library, list, results], { stdout: 'keep', stderr: 'keep', env, ...options });
}

/** Whether a compiler takes a shader that does nothing: Wine may be unable to start it. */
async function isAlive(wine, library, target) {
  writeFileSync(path.join(folder, 'nothing.hlsl'), '[numthreads(1, 1, 1)] void main() {}');
  writeFileSync(path.join(folder, 'nothing.txt'), `nothing.hlsl main ${target}\n`);
  rmSync(path.join(folder, 'found.txt'), { force: true });
  const { code } = await compile(wine, [library, 'nothing.txt', 'found.txt'], { cwd: folder, limitSeconds: 300 });
  return code === 0 && readFileSync(path.join(folder, 'found.txt'), 'utf8').trim() === 'nothing.hlsl 0';
}

/** @returns {Promise<string | undefined>} Wine, or nothing where something is missing, which is said */
async function prepare() {
  const wine = findWine();
  if (wine === undefined) {
    console.log('wine64 was not found (Debian: wine64): no compiler of Windows has looked at the HLSL');
    return undefined;
  }
  const zig = await requireZig().catch((error) => {
    console.log(`zig cannot be installed, so no compiler of Windows has looked at the HLSL: ${error.message.split('\n')[0]}`);
  });
  if (!zig) return undefined;
  mkdirSync(folder, { recursive: true });
  const [command, ...first] = zig;
  const args = [...first, 'cc', '-target', 'x86_64-windows-gnu', '-O1', '-s', '-o', program, inRepository('tests', 'portability', 'direct3d.c')];
  const { code, stderr } = await run(command, args, { limitSeconds: 600, stdout: 'keep', stderr: 'keep', env: withTools() });
  if (code !== 0) throw new Error(`tests/portability/direct3d.c: ${stderr}`);
  return wine;
}

/** The lines of a list that are compiled. The names of shaders end with a hash of their text. */
function choose(lines, share) {
  const counts = new Map();
  return lines.filter((line) => {
    const name = line.slice(0, line.lastIndexOf('-'));
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    return count % share === 0;
  });
}

async function compileAll(tally, { wine, name, library, shaders }) {
  const lines = readFileSync(path.join(shaders, `${name}.txt`), 'utf8').split('\n').filter(Boolean);
  const chosen = choose(lines, SHARE);
  const [list, results] = ['list', 'results'].map((what) => path.join(shaders, `${name}-${what}.txt`));
  writeFileSync(list, chosen.map((line) => `${line}\n`).join(''));
  rmSync(results, { force: true });
  const ended = await compile(wine, [library, list, results], { cwd: shaders, silenceSeconds });
  const found = ended.code === 0 ? readFileSync(results, 'utf8').split('\n').filter(Boolean) : [];
  const failures = found.filter((line) => line.split(' ', 2)[1] !== '0');
  console.log(`${name.toUpperCase()}: ${found.length} of ${lines.length} shaders compiled, ${failures.length} failed`);
  // Without the warnings in front.
  failures.slice(0, MOST_SHOWN).forEach((line) => console.log(`  ${line.replace(/ .*?(?=error )/, ': ').slice(0, 600)}`));
  // Each of the chosen has to have been compiled, and there have to be some.
  const isWhole = chosen.length > 0 && found.length === chosen.length;
  const note = trouble(ended, silenceSeconds) || (isWhole ? '' : `${found.length} of ${chosen.length} shaders were looked at`);
  tally.add({ name: `HLSL by ${name.toUpperCase()}`, passed: found.length - failures.length, failed: Math.max(failures.length, note ? 1 : 0), note, seconds: ended.seconds });
}
