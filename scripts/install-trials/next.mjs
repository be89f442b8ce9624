// Next.js: a route that computes, built to a folder of its own (`output: 'standalone'`), which is moved elsewhere and serves.
import { once } from 'node:events';
import { spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { freePorts } from './ports.mjs';
import { LeftOut, limitSeconds, nodeOfVersion, succeed, surroundings, tool } from './surroundings.mjs';

const route = `
import { ml } from 'webnn-node';
import { generate } from 'webnn-node/generate';
import { loadOnnx } from 'webnn-node/onnx';

export const dynamic = 'force-dynamic';

export async function GET() {
  const context = await ml.createContext({ accelerated: false });
  const model = await loadOnnx(context, process.env.TRIAL_MODEL);
  const ids = [];
  for await (const { id } of generate(model, [5, 6, 7, 8], { maxNewTokens: 12, temperature: 0, stop: [] })) ids.push(id);
  return Response.json({ ids });
}
`;
const layout = 'export default function Layout({ children }) { return <html><body>{children}</body></html>; }\n';

async function build(folder, node, packages) {
  const settings = { output: 'standalone', serverExternalPackages: packages, outputFileTracingRoot: folder, turbopack: { root: folder } };
  writeFileSync(path.join(folder, 'next.config.mjs'), `export default ${JSON.stringify(settings)};\n`);
  rmSync(path.join(folder, '.next'), { recursive: true, force: true });
  await succeed(node, [path.join('node_modules', 'next', 'dist', 'bin', 'next'), 'build'], { cwd: folder, env: { NEXT_TELEMETRY_DISABLED: '1' } });
}

/** What the server says once it listens: a busy machine may take long until then. */
async function answer(folder, node, model) {
  const [port] = await freePorts(1);
  const env = surroundings({ PORT: `${port}`, HOSTNAME: '127.0.0.1', TRIAL_MODEL: model, NEXT_TELEMETRY_DISABLED: '1' });
  const server = spawn(node, ['server.js'], { cwd: folder, env, stdio: ['ignore', 'ignore', 'inherit'], timeout: limitSeconds * 1000 });
  const exit = once(server, 'exit');
  try {
    while (server.exitCode === null && server.signalCode === null) {
      const response = await fetch(`http://127.0.0.1:${port}/trial`).catch(() => setTimeout(250));
      if (response?.ok) return await response.json();
      if (response) throw new Error(`the server answers ${response.status}`);
    }
    throw new Error(`the server ended with ${server.exitCode ?? server.signalCode}`);
  } finally {
    server.kill();
    await exit;
  }
}

async function tryNext({ project, own, expected }, packages) {
  if (!existsSync(path.join(project.folder, 'node_modules', '@webnn-node', own))) throw new LeftOut(`there is no package of ${own}`);
  const node = await nodeOfVersion('24');
  const folder = path.dirname(await tool('next', 'react', 'react-dom'));
  for (const name of ['webnn-node', '@webnn-node']) {
    rmSync(path.join(folder, 'node_modules', name), { recursive: true, force: true });
    cpSync(path.join(project.folder, 'node_modules', name), path.join(folder, 'node_modules', name), { recursive: true });
  }
  mkdirSync(path.join(folder, 'app', 'trial'), { recursive: true });
  writeFileSync(path.join(folder, 'app', 'layout.js'), layout);
  writeFileSync(path.join(folder, 'app', 'trial', 'route.js'), route);
  await build(folder, node, packages);
  const elsewhere = mkdtempSync(path.join(tmpdir(), 'webnn-next-'));
  try {
    cpSync(path.join(folder, '.next', 'standalone'), elsewhere, { recursive: true, verbatimSymlinks: true });
    // Links to what the bundle requires. Tracing copies more.
    const outside = readdirSync(path.join(elsewhere, '.next', 'node_modules'));
    const bundled = !outside.some((name) => name.startsWith('webnn-node'));
    if (bundled === packages.includes('webnn-node')) throw new Error(`outside of the bundle are ${outside.join(', ')}`);
    const { ids } = await answer(elsewhere, node, path.join(project.folder, 'model.onnx'));
    if (ids.join() !== JSON.parse(expected).ids.join()) throw new Error(`it computes ${ids}`);
  } finally {
    rmSync(elsewhere, { recursive: true });
  }
}

/** Turbopack bundles no addons, of any package: that of the platform stays outside. */
export const nextTrials = (setting) => (setting.quick ? [] : [
  ['bundled by Next.js, webnn-node left out', () => tryNext(setting, ['webnn-node'])],
  ['bundled by Next.js, the addon left out', () => tryNext(setting, [`@webnn-node/${setting.own}`])],
]);
