// SwiftShader, a GPU in software on which Dawn runs, for the tests of contexts on a GPUDevice. It is a part of Debian's Chromium.
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';

const folder = inRepository('target', 'swiftshader');
const files = ['libvk_swiftshader.so', 'vk_swiftshader_icd.json'];
const limitSeconds = 300;

/** What `VK_DRIVER_FILES` names. */
export const driver = path.join(folder, 'vk_swiftshader_icd.json');

/** Puts it to `target/swiftshader`, where apt can download it; nothing is installed, and nobody has to be root. */
export async function getSwiftShader() {
  if (existsSync(driver)) return;
  const temporary = mkdtempSync(path.join(tmpdir(), 'webnn-node-swiftshader-'));
  try {
    await unpack(temporary);
    const from = path.join(temporary, 'usr', 'lib', 'chromium');
    mkdirSync(folder, { recursive: true });
    for (const name of files) copyFileSync(path.join(from, name), path.join(folder, name));
  } catch {
    console.error('webnn-node: SwiftShader cannot be had here (apt and dpkg-deb are needed): contexts on a GPUDevice are not tested');
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

async function unpack(temporary) {
  const download = `cd "${temporary}" && apt-get download -q chromium-common`;
  // Lists of packages may never have been read; only root can read them.
  await command('sh', ['-c', `(${download}) || (apt-get update -q && ${download})`]);
  const [archive] = readdirSync(temporary).filter((name) => name.endsWith('.deb'));
  await command('dpkg-deb', ['-x', path.join(temporary, archive), temporary]);
}

async function command(name, args) {
  const { code } = await run(name, args, { limitSeconds, stdout: 'keep', stderr: 'keep' });
  if (code !== 0) throw new Error(`${name} failed`);
}
