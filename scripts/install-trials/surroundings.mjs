// What a trial runs in: an empty project, a PATH without Rust, tools from npm in a folder that is kept.
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { npmCommand } from '../install.mjs';
import { trouble } from '../outcome.mjs';
import { must } from '../package/command.mjs';
import { inRepository } from '../repository.mjs';
import { run } from '../run.mjs';

const programs = inRepository('scripts', 'install-trials', 'programs');
const kept = inRepository('target', 'install-trials');
/** Only what hangs reaches it: beside other work an emulated program takes many minutes, and prints nothing until its end. */
export const limitSeconds = 3600;

/** Throws what the trial is left out for. */
export class LeftOut extends Error {}

/** Without Rust, without settings of ours, and without those of the npm that runs this script. */
export function surroundings(more = {}) {
  const own = Object.entries(process.env).filter(([name]) => !/^(npm_|WEBNN_|CARGO|RUST|NODE_OPTIONS|INIT_CWD)/i.test(name));
  const folders = process.env.PATH.split(path.delimiter).filter((folder) => !existsSync(path.join(folder, 'cargo')) && !folder.includes('node_modules'));
  return { ...Object.fromEntries(own), PATH: [path.dirname(process.execPath), ...folders].join(path.delimiter), ...more };
}

/** A command that succeeds, and gives what it prints. */
export async function succeed(command, args, { cwd, env = {} } = {}) {
  const ended = await run(command, args, { cwd, env: surroundings(env), bare: true, limitSeconds, stdout: 'keep', stderr: 'keep' });
  const note = trouble(ended, limitSeconds);
  if (note) throw new Error(`${path.basename(command)} ${args.join(' ')}: ${note}\n${ended.stdout}\n${ended.stderr}`);
  return ended.stdout.trim();
}

/** What a command that fails says. */
export async function fail(command, args, { cwd, env = {} } = {}) {
  const ended = await run(command, args, { cwd, env: surroundings(env), bare: true, limitSeconds, stdout: 'keep', stderr: 'keep' });
  if (ended.code === 0) throw new Error(`${path.basename(command)} ${args.join(' ')} succeeded:\n${ended.stdout}`);
  return ended.stdout + ended.stderr;
}

/** npm, under the Node.js that runs this script. */
export function npm(args, options) {
  const [command, ...first] = npmCommand();
  return succeed(command, [...first, ...args], options);
}

/** An empty project, whose package manager knows the trial's registry alone. */
export class Project {
  constructor(registry, description = {}) {
    this.folder = mkdtempSync(path.join(tmpdir(), 'webnn-install-'));
    this.write('package.json', JSON.stringify({ name: 'trial', version: '1.0.0', private: true, ...description }));
    this.write('.npmrc', `registry=${registry.url}\naudit=false\nfund=false\nupdate-notifier=false\ncache=${path.join(this.folder, '.cache')}\n`);
    cpSync(programs, this.folder, { recursive: true });
    cpSync(inRepository('examples', 'generate', 'model.onnx'), path.join(this.folder, 'model.onnx'));
  }

  write(file, text) {
    mkdirSync(path.dirname(path.join(this.folder, file)), { recursive: true });
    writeFileSync(path.join(this.folder, file), text);
  }

  read(file) {
    return readFileSync(path.join(this.folder, file), 'utf8');
  }

  npm(...args) {
    return npm(args, { cwd: this.folder });
  }

  remove() {
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Packages of tools, from the registry that this machine has. */
export async function tool(...packages) {
  const folder = path.join(kept, packages.join('+').replaceAll('/', '-'));
  const done = path.join(folder, 'installed');
  if (!existsSync(done)) {
    mkdirSync(folder, { recursive: true });
    writeFileSync(path.join(folder, 'package.json'), '{}');
    const [command, ...first] = npmCommand();
    const args = [...first, 'install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', ...packages];
    try {
      // --force: programs of other systems are run by an emulator.
      await must(command, [...args, '--force'], { cwd: folder });
    } catch (error) {
      throw new LeftOut(`${packages.join(', ')} cannot be installed: ${error.message.split('\n')[0]}`);
    }
    writeFileSync(done, '');
  }
  return path.join(folder, 'node_modules');
}

/** What a package exports that `tool` has installed. */
export const load = (modules, name) => createRequire(path.join(modules, 'x.js'))(name);

/** npm's packages of Node.js are named by system and architecture. */
const systems = { linux: 'linux', darwin: 'darwin', win32: 'win' };

export async function nodeOfVersion(version, system = systems[process.platform], architecture = process.arch) {
  const name = `node-${system}-${architecture}`;
  return path.join(await tool(`${name}@${version}`), name, 'bin', system === 'win' ? 'node.exe' : 'node');
}
