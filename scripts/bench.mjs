// npm run bench: measures webnn-node beside onnxruntime-node; see benches/README.md.
import { becomeProgram } from './program.mjs';
import { setUp } from './setup.mjs';

await setUp();
becomeProgram('benches/run.mjs', process.argv.slice(2));
