// One project for each pool of vitest and each environment.
import { fileURLToPath } from 'node:url';
import { defineConfig } from 'vitest/config';

const pools = ['threads', 'forks', 'vmThreads', 'vmForks'];
const environments = ['node', 'jsdom', 'happy-dom'];

const project = (pool, environment) => ({
  test: {
    name: `${pool} ${environment}`,
    pool,
    environment,
    env: { WEBNN_TEST_ENVIRONMENT: environment },
    include: ['vitest.mjs'],
    // As a package in node_modules, which vitest leaves to Node; without it, vitest would take it for sources of the project.
    server: { deps: { external: [/[\\/]lib[\\/]/, /[\\/]suite\.js$/] } },
  },
});

export default defineConfig({
  root: fileURLToPath(new URL('.', import.meta.url)),
  cacheDir: fileURLToPath(new URL('../../node_modules/.vite', import.meta.url)),
  test: {
    // Some machines are busy. A hang ends at the limit of scripts/test-vitest.mjs.
    testTimeout: 60_000,
    projects: pools.flatMap((pool) => environments.map((environment) => project(pool, environment))),
  },
});
