// A Mesa whose driver in software has `shader-f16`, from Debian's backports: neither SwiftShader nor Debian 12's own Mesa has it.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inRepository } from './repository.mjs';
import { run } from './run.mjs';

const folder = inRepository('target', 'mesa');
const manifest = path.join(folder, 'lvp_icd.json');
const limitSeconds = 300;
/** Of Debian's archives. */
const KEY = '/usr/share/keyrings/debian-archive-keyring.gpg';

/**
 * Puts it to `target/mesa`, where apt can download it; nothing is installed, nobody has to be root, and other programs keep their driver.
 * @returns {Promise<string | undefined>} what `VK_DRIVER_FILES` names, or nothing where it cannot be had, which is said
 */
export async function getMesa() {
  if (existsSync(manifest)) return manifest;
  const temporary = mkdtempSync(path.join(tmpdir(), 'webnn-node-mesa-'));
  try {
    await download(temporary);
    await put(temporary);
    return manifest;
  } catch (error) {
    console.log(`a newer Mesa cannot be had here, so shader-f16 is not tested on Dawn: ${error.message}`);
    return undefined;
  } finally {
    rmSync(temporary, { recursive: true });
  }
}

/** apt with lists of its own, of the backports of this release. */
async function download(temporary) {
  const release = existsSync('/etc/os-release') ? /^VERSION_CODENAME=(\w+)/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] : undefined;
  const targets = await output('apt-get', ['indextargets', '--format', '$(SITE) $(RELEASE)', 'Created-By: Packages']);
  const [site] = targets.split('\n').map((line) => line.split(' ')).find(([, name]) => name === release) ?? [];
  if (site === undefined) throw new Error('apt knows no archive of this release');
  mkdirSync(path.join(temporary, 'lists', 'partial'), { recursive: true });
  mkdirSync(path.join(temporary, 'archives', 'partial'), { recursive: true });
  const source = path.join(temporary, 'sources.list');
  writeFileSync(source, `deb [signed-by=${KEY}] ${site} ${release}-backports main\n`);
  const own = [`Dir::Etc::sourcelist=${source}`, 'Dir::Etc::sourceparts=-', `Dir::State::lists=${path.join(temporary, 'lists')}`, `Dir::Cache=${temporary}`];
  const options = own.flatMap((option) => ['-o', option]);
  await output('apt-get', [...options, 'update', '-q']);
  await output('apt-get', [...options, 'download', '-q', `mesa-vulkan-drivers/${release}-backports`], temporary);
}

async function put(temporary) {
  const archive = readdirSync(temporary).find((name) => name.endsWith('.deb'));
  await output('dpkg-deb', ['-x', path.join(temporary, archive), folder]);
  const libraries = path.join(folder, 'usr', 'lib');
  const [architecture] = readdirSync(libraries);
  const library = path.join(libraries, architecture, 'libvulkan_lvp.so');
  // It uses the libraries that the release's own driver has brought along.
  const missing = (await output('ldd', [library])).split('\n').filter((line) => line.includes('not found'));
  if (missing.length > 0) throw new Error(missing.map((line) => line.trim()).join(', '));
  writeFileSync(manifest, JSON.stringify({ file_format_version: '1.0.0', ICD: { library_path: library, api_version: '1.3.0' } }));
}

async function output(command, args, cwd = undefined) {
  const { code, stdout, stderr } = await run(command, args, { limitSeconds, stdout: 'keep', stderr: 'keep', ...(cwd && { cwd }) });
  if (code !== 0) throw new Error(`${command}: ${stderr.trim().split('\n').at(-1)}`);
  return stdout;
}
