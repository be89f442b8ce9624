// npm run bench:gpu: measures a GPU; see benches/README.md.
import { becomeProgram } from './program.mjs';
import { setUp } from './setup.mjs';

await setUp();
becomeProgram('benches/gpu.mjs', process.argv.slice(2));
