// What is compiled for every platform: the addon of webnn-node, and that of packages/constrain. Each has a package for each platform.
import { createRequire } from 'node:module';
import path from 'node:path';
import { inRepository } from '../repository.mjs';

const addon = createRequire(import.meta.url)('../../lib/addon/packages.js');

/**
 * `library` is what cargo calls it, `file` what the package does; `of` is the package that depends on it; `native` is where a clone has it.
 *
 * @typedef {{ of: string, manifest: string, crate: string, library: string, file: string, native: string, packageOf: (platform: string) => string }} Part
 * @type {Part}
 */
export const addonPart = {
  of: 'webnn-node',
  manifest: inRepository('Cargo.toml'),
  crate: 'webnn-node-addon',
  library: 'webnn_node_addon',
  file: 'webnn-node',
  native: inRepository('native'),
  packageOf: addon.packageOf,
};

/** @type {Part} */
export const constrainPart = {
  of: '@webnn-node/constrain',
  manifest: inRepository('packages', 'constrain', 'crate', 'Cargo.toml'),
  crate: 'webnn-constrain',
  library: 'webnn_constrain',
  file: 'webnn-constrain',
  native: inRepository('packages', 'constrain', 'native'),
  packageOf: (platform) => `@webnn-node/constrain-${platform}`,
};

export const parts = [addonPart, constrainPart];

/** The file that a clone builds for this machine. */
export const builtFile = ({ native, file }) => path.join(native, `${file}.${process.platform}-${process.arch}.node`);

/** The tarball of a platform's package, as npm calls it. */
export const tarballFile = ({ packageOf }, platform, version) => `${packageOf(platform).slice(1).replace('/', '-')}-${version}.tgz`;
