// The examples that have packages, with what they install from the tarballs and from the registry that this machine has: none of the
// packages has an install script, and the examples start.
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { cpSync, existsSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { inRepository } from '../repository.mjs';
import { startRegistry } from './registry.mjs';
import { Project, limitSeconds, npm, succeed, surroundings } from './surroundings.mjs';

const { unpackModels } = createRequire(import.meta.url)('../../__tests__/transformers/models.js');

/** Those that are here without having run their scripts: prebuilt packages of their own come first, and JavaScript last. */
const scriptless = ['msgpackr-extract'];

/** Packages below a folder that run something when they are installed. */
export function withInstallScripts(folder) {
  if (!existsSync(folder)) return [];
  const descriptions = readdirSync(folder, { recursive: true }).filter((file) => /(^|[/\\])node_modules[/\\](@[^/\\]+[/\\])?[^/\\]+[/\\]package\.json$/.test(path.join('node_modules', file)));
  return descriptions.filter((file) => {
    const { name, scripts = {} } = JSON.parse(readFileSync(path.join(folder, file), 'utf8'));
    return !scriptless.includes(name) && ['preinstall', 'install', 'postinstall'].some((script) => script in scripts);
  });
}

async function answer(project, models) {
  const server = spawn(process.execPath, ['index.mjs', '--model', path.join(models, 'minilm'), '--port', '0'], { cwd: project.folder, env: surroundings(), stdio: ['ignore', 'pipe', 'inherit'], timeout: limitSeconds * 1000 });
  const exit = once(server, 'exit');
  try {
    let address;
    for await (address of createInterface(server.stdout)) break;
    if (address === undefined) throw new Error(`the server ended with ${String(await exit)}`);
    server.stdout.resume();
    const response = await fetch(`${address}/embeddings`, { method: 'POST', body: JSON.stringify({ texts: ['a cat', 'the dog runs'] }) });
    const { embeddings } = await response.json();
    if (embeddings?.length !== 2) throw new Error(`the server answers ${response.status}`);
  } finally {
    server.kill();
    await exit;
  }
}

/** An example as somebody has it who followed its README, except that our packages come from the tarballs. */
async function install(example, registry, version) {
  const project = new Project(registry);
  const source = inRepository('examples', example);
  cpSync(source, project.folder, { recursive: true, filter: (name) => !/node_modules|weights|[/\\]model$/.test(path.relative(source, name)) });
  const description = JSON.parse(project.read('package.json'));
  for (const name of Object.keys(description.dependencies)) {
    if (name === 'webnn-node' || name.startsWith('@webnn-node/')) description.dependencies[name] = version;
  }
  project.write('package.json', JSON.stringify(description));
  await project.npm('install', '--ignore-scripts');
  const scripts = withInstallScripts(path.join(project.folder, 'node_modules'));
  if (scripts.length > 0) throw new Error(`these have install scripts: ${scripts.join(', ')}`);
  // What it depends on loads.
  project.write('loads.mjs', Object.keys(description.dependencies).map((name) => `import ${JSON.stringify(name)};\n`).join(''));
  await succeed(process.execPath, ['loads.mjs'], { cwd: project.folder });
  return project;
}

/** What is more than loading. */
const uses = {
  async embeddings(project) {
    const models = unpackModels();
    try {
      await answer(project, models);
    } finally {
      rmSync(models, { recursive: true });
    }
  },
  async chat(project) {
    const printed = await succeed(process.execPath, ['index.mjs'], { cwd: project.folder });
    if (!printed.startsWith('usage: ')) throw new Error(`it prints ${printed}`);
  },
};

const examples = readdirSync(inRepository('examples')).filter((name) => existsSync(inRepository('examples', name, 'package.json')));

export const exampleTrials = ({ folder, version, quick }) => (quick ? [] : examples.map((example) => [`examples/${example}, without install scripts`, async () => {
  const registry = await startRegistry(folder, { upstream: (await npm(['config', 'get', 'registry'])).trim() });
  let project;
  try {
    project = await install(example, registry, version);
    await uses[example]?.(project);
  } finally {
    registry.close();
    project?.remove();
  }
}]));
