// client.mjs <model> [nothing]: runs a model as examples/litert/ does; with `nothing` contexts have no operators. Prints, as JSON, what
// was computed and how many graphs were dispatched.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { MLContext } from 'webnn-node';
import { compare } from '../../examples/litert/compare.mjs';
import { loadLiteRt } from '../../examples/litert/litert.mjs';

const [name, operators] = process.argv.slice(2);
if (operators === 'nothing') MLContext.prototype.opSupportLimits = () => ({});
const folder = path.dirname(createRequire(import.meta.url).resolve('@mediapipe/face_detection/package.json'));
const result = await compare(await loadLiteRt(), readFileSync(path.join(folder, name)), { runs: 2 });
// LiteRT.js logs to stdout, too.
const plain = ({ outputs, dispatches }) => ({ outputs: outputs.map((output) => [...output]), dispatches });
console.log(`\nRESULT ${JSON.stringify({ own: plain(result.own), webnn: plain(result.webnn) })}`);
