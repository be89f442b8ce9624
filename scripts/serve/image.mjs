// node scripts/serve/image.mjs: builds the image of packages/serve/deploy/Dockerfile with podman, which needs no daemon, and runs it as the head of the
// Dockerfile says: read-only, without capabilities, with a folder of models. Its client must find it ready, and lose nothing at SIGTERM. The base image is
// made here (base-image.mjs), and the packages come from the tarballs. Where a tool is missing, it says so.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { startRegistry } from '../install-trials/registry.mjs';
import { LeftOut, npm, succeed } from '../install-trials/surroundings.mjs';
import { collectTarballs } from '../install-trials/tarballs.mjs';
import { ours } from '../package/description.mjs';
import { inRepository } from '../repository.mjs';
import { makeBase } from './base-image.mjs';

const { fill } = createRequire(import.meta.url)('../../__tests__/serve/folder.js');

const deploy = inRepository('packages', 'serve', 'deploy');
const client = inRepository('scripts', 'serve', 'image-client.mjs');
const TAG = 'webnn-serve';
const NOBODY = '65534';

const folder = mkdtempSync(path.join(tmpdir(), 'webnn-node-image-'));
/**
 * Images and containers are in a folder of their own. vfs, because not every file system can be below an overlay; runc, because crun refuses machines with
 * both versions of control groups.
 */
const storage = ['--runtime', 'runc', '--root', path.join(folder, 'images'), '--runroot', path.join(folder, 'run'), '--storage-driver', 'vfs', '--cgroup-manager', 'cgroupfs'];
const podman = (...args) => succeed('podman', [...storage, ...args]);
let passed = 0;
let failed = 0;
try {
  await requireTools();
  await check('the image is built', build);
  if (failed === 0) await check('the container serves as nobody on a read-only file system, and SIGTERM loses nothing', serve);
} catch (error) {
  if (!(error instanceof LeftOut)) throw error;
  console.log(`left out: ${error.message}`);
} finally {
  // A container that did not start still has something mounted.
  await podman('rm', '--all', '--force').catch(() => {});
  rmSync(folder, { recursive: true, force: true });
}
console.log(`${passed} passed, ${failed} failed`);
process.exitCode = failed === 0 ? 0 : 1;

async function requireTools() {
  if (process.platform !== 'linux' || process.getuid() !== 0) throw new LeftOut('only root makes an image, on Linux');
  for (const tool of ['podman', 'runc', 'debootstrap', 'nsenter']) {
    await succeed(tool, ['--version']).catch(() => {
      throw new LeftOut(`${tool} was not found`);
    });
  }
}

async function check(name, work) {
  const start = performance.now();
  try {
    await work();
    passed++;
    console.log(`${name} (${((performance.now() - start) / 1000).toFixed(1)} s)`);
  } catch (error) {
    if (error instanceof LeftOut) throw error;
    failed++;
    console.log(`FAIL ${name}: ${error.stack}`);
  }
}

/** What npm asks for while the image is built is answered here: by the tarballs, and by the registry that this machine has. */
async function build() {
  const dockerfile = readFileSync(path.join(deploy, 'Dockerfile'), 'utf8');
  const bases = new Set([...dockerfile.matchAll(/^FROM (\S+)/gm)].map(([, name]) => name));
  if (bases.size !== 1) throw new Error(`the stages start from ${[...bases]}`);
  const [base] = bases;
  await podman('import', '--quiet', ...(await makeBase(base)), base);
  const { version } = ours();
  const { folder: tarballs } = await collectTarballs({ own: `linux-${process.arch}-gnu`, version });
  const registry = await startRegistry(tarballs, { upstream: await npm(['config', 'get', 'registry']), forwards: true });
  const settings = path.join(folder, 'npmrc');
  writeFileSync(settings, `registry=${registry.url}\nreplace-registry-host=always\n`);
  try {
    const how = ['--pull=never', '--isolation', 'chroot', '--network', 'host', '--layers=false', '--format', 'docker', '--build-arg', `VERSION=${version}`];
    await podman('build', ...how, '--volume', `${settings}:/root/.npmrc:ro`, '--tag', TAG, deploy);
  } finally {
    registry.close();
    rmSync(tarballs, { recursive: true });
  }
}

/** In a network of its own, so that its ports are free. */
async function serve() {
  const models = path.join(folder, 'models');
  mkdirSync(models);
  fill(models);
  for (const place of [folder, models]) chmodSync(place, 0o755);
  // Only this program asks for health. The limits are low, because not every root may raise them.
  const here = ['--health-interval', 'disable', '--ulimit', 'nofile=1024:1024', '--ulimit', 'nproc=1024:1024'];
  const limits = [...here, '--read-only', '--read-only-tmpfs=false', '--cap-drop', 'ALL', '--security-opt', 'no-new-privileges', '--network', 'none'];
  const id = await podman('run', '--detach', ...limits, '--volume', `${models}:/models:ro`, TAG);
  try {
    const pid = await podman('inspect', '--format', '{{.State.Pid}}', id);
    requireNobody(pid);
    const code = await call(pid, id);
    if (code !== '0') throw new Error(`the container ended with ${code}`);
  } catch (error) {
    throw new Error(`${error.message}\nIts log:\n${await podman('logs', id)}`, { cause: error });
  } finally {
    await podman('rm', '--force', id);
  }
}

function requireNobody(pid) {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  const [uid, gid, capabilities] = ['Uid', 'Gid', 'CapEff'].map((name) => new RegExp(`^${name}:\\s+(\\S+)`, 'm').exec(status)[1]);
  if (uid !== NOBODY || gid !== NOBODY || !/^0+$/.test(capabilities)) throw new Error(`it runs as ${uid}:${gid} with capabilities ${capabilities}`);
}

/**
 * The client is a process of this machine in the container's network. When it says so, the container is told to end.
 *
 * @returns {Promise<string>} the exit code of the container
 */
async function call(pid, id) {
  const child = spawn('nsenter', [`--net=/proc/${pid}/ns/net`, process.execPath, client], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  let isEnding = false;
  const over = podman('wait', id);
  // Nobody will be ready if the container ends by itself.
  const giveUp = () => isEnding || child.kill();
  over.then(giveUp, giveUp);
  for await (const line of createInterface(child.stdout)) {
    console.log(line);
    if (line === 'ready') await podman('healthcheck', 'run', id);
    if (line !== 'accepted') continue;
    isEnding = true;
    await podman('kill', '--signal', 'SIGTERM', id);
  }
  const [code, signal] = await ended;
  if (code !== 0) throw new Error(`the client ended with ${code ?? signal}`);
  return over;
}
