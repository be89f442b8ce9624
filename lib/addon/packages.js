'use strict';

// Each platform has a package with its addon. All are in one scope, so nobody else can publish under a name that we do not use yet.

/** Each platform, and what npm calls its values of `os`, `cpu` and `libc`. `scripts/package/` makes the packages from this list. */
const platforms = {
  'linux-x64-gnu': { os: 'linux', cpu: 'x64', libc: 'glibc' },
  'linux-x64-musl': { os: 'linux', cpu: 'x64', libc: 'musl' },
  'linux-arm64-gnu': { os: 'linux', cpu: 'arm64', libc: 'glibc' },
  'linux-arm64-musl': { os: 'linux', cpu: 'arm64', libc: 'musl' },
  'darwin-arm64': { os: 'darwin', cpu: 'arm64' },
  'darwin-x64': { os: 'darwin', cpu: 'x64' },
  'win32-x64': { os: 'win32', cpu: 'x64' },
  'win32-arm64': { os: 'win32', cpu: 'arm64' },
};

const packageOf = (name) => `@webnn-node/${name}`;

/**
 * The addon in the package of a platform, or why there is none. Every name is written out, and inside `try`: bundlers find those that
 * are installed and pass over the others.
 *
 * @returns {{ addon?: any, error?: any }}
 */
function requirePackage(name) {
  try {
    switch (name) {
      case 'linux-x64-gnu':
        return { addon: require('@webnn-node/linux-x64-gnu') };
      case 'linux-x64-musl':
        return { addon: require('@webnn-node/linux-x64-musl') };
      case 'linux-arm64-gnu':
        return { addon: require('@webnn-node/linux-arm64-gnu') };
      case 'linux-arm64-musl':
        return { addon: require('@webnn-node/linux-arm64-musl') };
      case 'darwin-arm64':
        return { addon: require('@webnn-node/darwin-arm64') };
      case 'darwin-x64':
        return { addon: require('@webnn-node/darwin-x64') };
      case 'win32-x64':
        return { addon: require('@webnn-node/win32-x64') };
      case 'win32-arm64':
        return { addon: require('@webnn-node/win32-arm64') };
      default:
        throw new Error(`no package for ${name}`);
    }
  } catch (error) {
    return { error };
  }
}

module.exports = { packageOf, platforms, requirePackage };
