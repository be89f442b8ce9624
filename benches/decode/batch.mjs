// Several sequences of text at once: webnn-node and llama.cpp in turn, each in a process of its own, on the decoders that
// models/make_decoder.py writes.
//
//     npm run bench -- batch_decode MODEL.onnx … [--threads 1] [--sequences 1,4,8] [--past 32,512] [--prompt 2000] [--rounds 3] [--llama FOLDER]

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import path from 'node:path';
import { machine } from '../machine.mjs';
import { median } from '../statistics.mjs';

const OURS = 'webnn-node';
const PEER = 'llama.cpp';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '1' },
    sequences: { type: 'string', default: '1,4,8' },
    past: { type: 'string', default: '32,512' },
    prompt: { type: 'string', default: '2000' },
    rounds: { type: 'string', default: '3' },
    tokens: { type: 'string', default: '32' },
    llama: { type: 'string' },
  },
});
if (positionals.length === 0) {
  console.error('MODEL.onnx is missing: npm run bench -- batch_decode --help');
  process.exit(2);
}
const child = fileURLToPath(new URL('measure-batch.mjs', import.meta.url));
const ggufOf = (model) => model.replace(/\.onnx$/, '.gguf');

async function measure(engine, model) {
  const file = engine === PEER ? ggufOf(model) : model;
  const { threads, sequences, past, tokens, prompt, llama } = values;
  const { stdout } = await promisify(execFile)(process.execPath, [child, engine, file, threads, sequences, past, tokens, prompt, llama ?? '']);
  return JSON.parse(stdout);
}

console.log(`${machine().cpu}, ${values.threads} threads, Node.js ${process.version}\n`);
console.log(`| model | what | ${OURS} | ${PEER} | ratio |\n| --- | --- | ---: | ---: | ---: |`);
for (const model of positionals) {
  const engines = values.llama && existsSync(ggufOf(model)) ? [OURS, PEER] : [OURS];
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const found = {};
    for (const engine of round % 2 === 0 ? engines : engines.toReversed()) found[engine] = await measure(engine, model);
    rounds.push(found);
  }
  for (const what of Object.keys(rounds[0][OURS])) {
    const of = (engine) => (engines.includes(engine) ? median(rounds.map((found) => found[engine][what])).toFixed(2) : '');
    const ratio = engines.includes(PEER) ? median(rounds.map((found) => found[OURS][what] / found[PEER][what])).toFixed(2) : '';
    console.log(`| ${path.basename(model)} | ${what} | ${of(OURS)} | ${of(PEER)} | ${ratio} |`);
  }
}
