// npm run stress: the long form of the random tests. `npm run stress -- memory --minutes 60` runs one of them for so long.
import { becomeProgram } from './program.mjs';
import { setUp } from './setup.mjs';

await setUp();
becomeProgram('__tests__/stress/long.js', process.argv.slice(2));
