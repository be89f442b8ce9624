// Where this repository lies, so that every script works from any folder.
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url)).replace(/[\\/]$/, '');

export const inRepository = (...parts) => path.join(root, ...parts);
