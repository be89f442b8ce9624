// The server of models: the steps of its Dockerfile, one after the other in a folder of this machine, with the packages from the tarballs and the others
// from the registry that this machine has. What it starts runs as nobody where that is possible.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { inRepository } from '../repository.mjs';
import { freePorts } from './ports.mjs';
import { startRegistry } from './registry.mjs';
import { LeftOut, Project, npm, succeed, surroundings } from './surroundings.mjs';

const { fill } = createRequire(import.meta.url)('../../__tests__/serve/folder.js');

/** The number of nobody. */
const NOBODY = 65_534;

/** The instructions of a Dockerfile, with continued lines joined: [name, rest]. */
function instructionsOf(text) {
  const lines = text.replace(/^#.*\n/gm, '').replace(/\\\n/g, ' ').split('\n').filter((line) => line.trim() !== '');
  return lines.map((line) => /^(\w+)\s+(.*)$/.exec(line).slice(1));
}

/** Starts what the image starts, asks for health as the image does, runs a model, and ends it. */
async function serve(instructions, folder) {
  const last = (name) => instructions.findLast(([found]) => found === name)[1];
  const [http, grpc] = await freePorts(2);
  const adapt = (text) => ({ '/models': path.join(folder, 'models'), '0.0.0.0': '127.0.0.1', 8000: String(http), 8001: String(grpc) })[text] ?? text.replace(':8000', `:${http}`);
  const [command, ...args] = [...JSON.parse(last('ENTRYPOINT')), ...JSON.parse(last('CMD'))].map(adapt);
  const isRoot = process.getuid?.() === 0;
  const server = spawn(command, args, { cwd: folder, env: surroundings({ NODE_ENV: 'production' }), stdio: ['ignore', 'pipe', 'inherit'], ...(isRoot && { uid: NOBODY, gid: NOBODY }) });
  const exit = once(server, 'exit');
  try {
    for await (const line of createInterface(server.stdout)) if (JSON.parse(line).msg === 'ready') break;
    server.stdout.resume();
    const [check, ...more] = JSON.parse(/CMD (\[.*\])$/.exec(last('HEALTHCHECK'))[1]).map(adapt);
    await succeed(check, more, { cwd: folder });
    const body = JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [3, 5] }] });
    const { outputs } = await (await fetch(`http://127.0.0.1:${http}/v2/models/double/infer`, { method: 'POST', body })).json();
    if (String(outputs?.[0].data) !== '6,10') throw new Error(`the model gave ${JSON.stringify(outputs)}`);
  } finally {
    server.kill('SIGTERM');
  }
  const [code] = await exit;
  if (code !== 0) throw new Error(`the server ended with ${code}`);
  return isRoot ? 'as nobody' : '';
}

export const serveTrials = ({ folder: tarballs, version }) => [["the server's Dockerfile, step by step", async () => {
  if (process.platform === 'win32') throw new LeftOut('its steps are for a shell');
  const registry = await startRegistry(tarballs, { upstream: (await npm(['config', 'get', 'registry'])).trim() });
  const project = new Project(registry);
  try {
    const instructions = instructionsOf(readFileSync(inRepository('packages', 'serve', 'deploy', 'Dockerfile'), 'utf8'));
    const given = instructions.find(([name]) => name === 'ARG')[1].split('=')[1];
    if (given !== version) throw new Error(`the Dockerfile installs version ${given}, and this is ${version}`);
    const app = path.join(project.folder, 'app');
    project.write('app/.npmrc', project.read('.npmrc'));
    for (const [name, rest] of instructions) if (name === 'RUN') await succeed('sh', ['-ec', rest], { cwd: app, env: { VERSION: version } });
    mkdirSync(path.join(app, 'models'));
    fill(path.join(app, 'models'));
    chmodSync(project.folder, 0o755);
    return await serve(instructions, app);
  } finally {
    registry.close();
    project.remove();
  }
}]];
