// What each platform's addon is compiled for, and by what.
import { createRequire } from 'node:module';
import { addonPart } from './parts.mjs';

const { packageOf, platforms } = createRequire(import.meta.url)('../../lib/addon/packages.js');
export { packageOf, platforms };

/** The oldest glibc that the addons run with: that of Debian 10, RHEL 8, and of Node.js's own programs. */
export const GLIBC = '2.28';
/** musl's loader is that of Node.js: the addon does not bring its own. */
const shared = ['-Ctarget-feature=-crt-static'];

/**
 * MinGW by LLVM's rules: `windows-gnu` has all functions of a unit in one section, so the linker cannot leave out any of them, and the
 * addon has 25 MB.
 */
export const MINGW = 'x86_64-pc-windows-gnullvm';

/** `zig` is what cargo-zigbuild adds to the triple; `host` the system that compiles it. On Windows itself MSVC does. */
export const targets = {
  'linux-x64-gnu': { triple: 'x86_64-unknown-linux-gnu', zig: `.${GLIBC}`, host: 'linux' },
  'linux-x64-musl': { triple: 'x86_64-unknown-linux-musl', zig: '', host: 'linux', flags: shared },
  'linux-arm64-gnu': { triple: 'aarch64-unknown-linux-gnu', zig: `.${GLIBC}`, host: 'linux' },
  'linux-arm64-musl': { triple: 'aarch64-unknown-linux-musl', zig: '', host: 'linux', flags: shared },
  'darwin-arm64': { triple: 'aarch64-apple-darwin', host: 'darwin' },
  'darwin-x64': { triple: 'x86_64-apple-darwin', host: 'darwin' },
  'win32-x64': process.platform === 'win32'
    ? { triple: 'x86_64-pc-windows-msvc', host: 'win32' }
    : { triple: MINGW, zig: '', host: 'linux' },
  'win32-arm64': { triple: 'aarch64-pc-windows-msvc', host: 'win32' },
};

export const buildable = () => Object.keys(targets).filter((name) => targets[name].host === process.platform);

/** The file in the package of a platform. */
export const addonFile = (name, { file } = addonPart) => `${file}.${name}.node`;

/** What cargo calls the library. */
export function libraryFile({ triple }, { library }) {
  if (triple.includes('windows')) return `${library}.dll`;
  return triple.includes('apple') ? `lib${library}.dylib` : `lib${library}.so`;
}
