// Runs models of LiteRT (.tflite) in Node with LiteRT.js, on WebNN and, beside it, on LiteRT.js's own kernels.
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { compare } from './compare.mjs';
import { loadLiteRt } from './litert.mjs';

const HELP = `Runs models of LiteRT on WebNN, and compares them with LiteRT.js's own kernels.

Usage, with Node.js 26:
  node examples/litert/index.mjs                  models that find faces in pictures
  node examples/litert/index.mjs MODEL.tflite …   your own, with float32 inputs
With Node.js 24, run node --experimental-wasm-jspi.`;

function models(args) {
  if (args.length > 0) return args;
  const folder = path.dirname(createRequire(import.meta.url).resolve('@mediapipe/face_detection/package.json'));
  return ['face_detection_short_range.tflite', 'face_detection_full_range.tflite'].map((name) => path.join(folder, name));
}

/** The largest difference of two outputs, beside the largest value. */
function difference(found, expected) {
  let [largest, most] = [0, 0];
  expected.forEach((value, i) => {
    largest = Math.max(largest, Math.abs(value));
    most = Math.max(most, Math.abs(found[i] - value));
  });
  return `differs by at most ${most.toExponential(1)}, the largest value is ${largest.toPrecision(3)}`;
}

async function main(args) {
  if (args.includes('--help') || args.includes('-h')) {
    console.log(HELP);
    return;
  }
  const litert = await loadLiteRt();
  for (const file of models(args)) {
    const { own, webnn } = await compare(litert, readFileSync(file));
    console.log(`\n${path.basename(file)}: ${webnn.milliseconds.toFixed(2)} ms on WebNN, ${own.milliseconds.toFixed(2)} ms on LiteRT.js's kernels`);
    webnn.outputs.forEach((output, i) => console.log(`  output ${i}: ${difference(output, own.outputs[i])}`));
    if (webnn.dispatches > 0) console.log(`  ${webnn.dispatches} dispatches of WebNN graphs`);
    else {
      console.log('  WebNN took nothing of it: LiteRT.js computed it by itself');
      process.exitCode = 1;
    }
  }
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
