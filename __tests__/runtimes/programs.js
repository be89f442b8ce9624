'use strict';

// Other runtimes with Node-API, whose programs are in npm's packages for each platform.

const path = require('node:path');

const libc = (name) => (process.platform === 'linux' ? name : '');
const platform = process.platform === 'win32' ? 'windows' : process.platform;

/** The packages of this platform, and where the programs are in them. */
const PACKAGES = {
  Deno: { name: `@deno/${process.platform}-${process.arch}${libc('-glibc')}`, file: 'deno', args: ['run', '--allow-all', '--no-lock', '--no-config'] },
  Bun: { name: `@oven/bun-${platform}-${process.arch === 'arm64' ? 'aarch64' : process.arch}`, file: path.join('bin', 'bun'), args: [] },
};

/**
 * A runtime's program, and what comes before the name of a script; nothing where its package is not installed.
 * @param {'Deno' | 'Bun'} runtime
 */
function programOf(runtime) {
  const { name, file, args } = PACKAGES[runtime];
  try {
    const folder = path.dirname(require.resolve(`${name}/package.json`));
    return { program: path.join(folder, process.platform === 'win32' ? `${file}.exe` : file), args };
  } catch {
    return undefined;
  }
}

const environment = { ...process.env, DENO_NO_UPDATE_CHECK: '1' };

module.exports = { environment, programOf };
