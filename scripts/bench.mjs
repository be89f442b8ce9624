// npm run bench: measures; see benches/README.md.
import { becomeProgram } from './program.mjs';
import { setUp } from './setup.mjs';

const args = process.argv.slice(2);
if (!args.includes('--help')) await setUp();
becomeProgram('benches/bench.mjs', args);
