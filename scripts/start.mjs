// npm start: the digits example; `npm start -- picture.png` hands it a picture.
import { becomeProgram } from './program.mjs';
import { setUp } from './setup.mjs';

await setUp();
becomeProgram('examples/digits/index.js', process.argv.slice(2));
