'use strict';

// The error if the addon cannot be loaded: the cause, the places that were searched, and the commands that help.

const fs = require('node:fs');
const path = require('node:path');
const version = require('../version.js');
const { packageOf, platforms } = require('./packages.js');

/** As people write it. */
const LIBC = { gnu: 'glibc', musl: 'musl' };

/** The platform in words: `linux x64 with glibc`. */
function describe({ system, architecture, libc }) {
  if (system !== 'linux') return `${system} ${architecture}`;
  return `${system} ${architecture} with ${LIBC[libc] ?? 'an unknown C library'}`;
}

/** What the loader of a system says, and what it means. */
const MESSAGES = [
  [
    /version `GLIBC_([\d.]+)' not found/,
    (mending, found, wanted) => `it needs glibc ${wanted} or later, and this system has an older one; packages of webnn-node need glibc 2.28. ${mending}`,
  ],
  [/libc\.musl-/, (mending) => `it is for musl, and this Node.js runs with glibc. ${mending}`],
  [/ld-linux-/, (mending) => `it is for glibc, and this Node.js runs with musl. ${mending}`],
  [
    /file too short|invalid ELF header|wrong ELF class|past end of file|Exec format error|not a valid Win32 application|not a mach-o file|incompatible architecture/i,
    (mending) => `its file is damaged, or is for another platform. ${mending}`,
  ],
  // glibc says so of a file for another processor, too.
  [/\.node: cannot open shared object file: No such file/, (mending) => `its file is damaged, or is for another platform. ${mending}`],
  [/(?:^|library )(\S+): (?:cannot open shared object file: )?No such file/, (mending, found, library) => `it needs ${library}, which this system does not have`],
  [/did not self-register/, (mending) => `it is not the addon of webnn-node. ${mending}`],
  [/permission denied/i, () => 'this user may not read its file'],
  [
    /failed to map segment/,
    () => 'the system does not run code from that folder, perhaps because it is mounted with "noexec": install elsewhere, or set WEBNN_NATIVE to a copy elsewhere',
  ],
];

/**
 * What to do where Node found a file and did not load it, by the reason that Node gives.
 *
 * @param {string} mending what brings another file to that place
 */
function afterFailure({ code, name, message = '' }, mending) {
  if (code === 'ERR_DLOPEN_DISABLED') {
    return 'native addons are switched off: run Node without --no-addons, and with --allow-addons where there is --permission';
  }
  if (code === 'MODULE_NOT_FOUND') return `the package is there, and its file is missing. ${mending}`;
  if (code === 'ERR_ACCESS_DENIED') {
    return 'Node may not read it: run Node with --allow-fs-read for the folder of webnn-node, and with --allow-addons';
  }
  if (name === 'NotCapable') return 'Deno may not load addons: run it with --allow-ffi, beside --allow-read, --allow-env and --allow-sys';
  for (const [pattern, say] of MESSAGES) {
    const found = pattern.exec(message);
    if (found) return say(mending, ...found);
  }
  return `it is there, but the system cannot load it: ${message}`;
}

/** Packages of other platforms in the same folders. They come with a `node_modules` that was made on another machine. */
function others(folders) {
  const found = new Set();
  for (const folder of folders) {
    for (const name of Object.keys(platforms)) {
      if (fs.existsSync(path.join(folder, packageOf(name)))) found.add(packageOf(name));
    }
  }
  return [...found];
}

/** What to say first, by where this JavaScript is. */
const FIRST = {
  clone: ['This is a clone of the repository: run "npm run build", which needs Rust. Or take the package:'],
  bundle: [
    'This program is bundled: leave webnn-node out ("external"), or have the bundler copy the file of the addon, or set WEBNN_NATIVE to its path.',
    'The package also has to be installed where the bundle was made:',
  ],
  package: [
    'It is an optional dependency of webnn-node. Package managers leave it out with --omit=optional, with a lock file that was made for another',
    'platform, and where node_modules is copied from another machine. To install it, run the line of your package manager:',
  ],
};

/**
 * @param {string[]} names of platforms, the likeliest first
 * @param {'clone' | 'bundle' | 'package'} place of this JavaScript
 */
function afterMissingPackage(names, platform, folders, place) {
  const [name] = names;
  const { os, cpu, libc } = platforms[name];
  const flags = [`--os=${os}`, `--cpu=${cpu}`, ...(libc ? [`--libc=${libc}`] : [])].join(' ');
  const wanted = `${packageOf(name)}@${version}`;
  const there = others(folders);
  return [
    `webnn-node: the package with the addon for ${describe(platform)} is not installed.`,
    `Looked for ${names.map(packageOf).join(' and ')} in ${folders.length > 0 ? folders.join(', ') : 'the bundle'}.`,
    ...(there.length > 0 ? [`There is ${there.join(', ')}: node_modules was installed for another platform.`] : []),
    ...FIRST[place],
    `  npm install --include=optional ${flags} --no-save ${wanted}`,
    `  pnpm add --save-optional ${wanted}`,
    `  yarn add --optional ${wanted}`,
    `  bun add --optional ${wanted}`,
  ].join('\n');
}

function afterUnknownPlatform(platform) {
  return [
    `webnn-node: there is no package with an addon for ${describe(platform)}.`,
    `There is one for each of: ${Object.keys(platforms).join(', ')}.`,
    'With Rust (https://rustup.rs) the addon can be built from a clone of the repository: run "npm run build" there, and set WEBNN_NATIVE',
    'to the path of the file that it writes to native/.',
  ].join('\n');
}

function afterOtherVersion(found, source, mending) {
  return [
    `webnn-node: the JavaScript is of version ${version}, and the native addon is of version ${found}.`,
    `The addon is ${source}.`,
    mending,
  ].join('\n');
}

module.exports = { afterFailure, afterMissingPackage, afterOtherVersion, afterUnknownPlatform };
