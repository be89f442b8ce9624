// tsc --strict over sample programs: one case for how Node finds modules, and one for TypeScript's older way, whose last version
// with it is 5.9.
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { trouble } from './outcome.mjs';
import { inRepository, root } from './repository.mjs';
import { run } from './run.mjs';

const limit = 300;

const options = [
  ...['--strict', '--noEmit', '--esModuleInterop', '--target', 'es2022', '--lib', 'esnext,dom', '--module', 'esnext'],
  ...['--moduleResolution', 'node', '--types', 'node', '--typeRoots', inRepository('node_modules', '@types')],
];

export async function testTypings(tally) {
  console.log('\n== typings');
  await compile(tally, 'typings', 'typescript', ['--project', inRepository('tsconfig.json')]);
  await compile(tally, 'typings of webnn-node/onnxruntime', 'typescript', ['--project', inRepository('__tests__', 'typings', 'onnxruntime')]);
  // The package is found by its name in node_modules only.
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-typings-'));
  const program = path.join(folder, 'older.ts');
  mkdirSync(path.join(folder, 'node_modules'));
  symlinkSync(root, path.join(folder, 'node_modules', 'webnn-node'), 'junction');
  copyFileSync(inRepository('__tests__', 'typings', 'older.ts'), program);
  await compile(tally, 'typings, moduleResolution: node', 'typescript-5', [...options, program]);
  rmSync(folder, { recursive: true });
}

async function compile(tally, name, version, args) {
  const tsc = inRepository('node_modules', version, 'bin', 'tsc');
  const ended = await run(process.execPath, [tsc, ...args], { limitSeconds: limit });
  const note = trouble(ended, limit);
  tally.add({ name, passed: note ? 0 : 1, failed: note ? 1 : 0, note, seconds: ended.seconds });
}
