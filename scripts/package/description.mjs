// What every package says of itself.
import { readFileSync } from 'node:fs';
import { inRepository } from '../repository.mjs';

export const readJson = (file) => JSON.parse(readFileSync(file, 'utf8'));
export const ours = () => readJson(inRepository('package.json'));

/** The page of the repository. Only the workflow that publishes knows it, and provenance wants it. */
export function repository() {
  const { GITHUB_SERVER_URL, GITHUB_REPOSITORY } = process.env;
  return GITHUB_REPOSITORY ? `${GITHUB_SERVER_URL ?? 'https://github.com'}/${GITHUB_REPOSITORY}` : undefined;
}

export function common() {
  const { version, license, engines } = ours();
  const url = repository();
  return { version, license, engines, ...(url ? { repository: { type: 'git', url: `git+${url}.git` } } : {}), publishConfig: { access: 'public' } };
}
