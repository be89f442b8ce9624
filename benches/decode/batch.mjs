// Several sequences of text at once: webnn-node, llama.cpp and onnxruntime-node in turn, each in a process of its own, on the decoders that
// models/make_decoder.py writes. onnxruntime-node computes one batch of prompts of one length, all from the first step to the last.
//
//     npm run bench -- batch_decode MODEL.onnx … [--quick] [--threads 1] [--sequences 1,2,4,8] [--past 32,512] [--prompt 2000] [--rounds 3] [--llama FOLDER]
//
// The ceiling is the rate at which a prompt is computed so many tokens at a time: a step of as many sequences reads the weights as often.

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import path from 'node:path';
import { machine } from '../machine.mjs';
import { median } from '../statistics.mjs';

const OURS = 'webnn-node';
const LLAMA = 'llama.cpp';
const RUNTIME = 'onnxruntime-node';
const PEERS = [LLAMA, RUNTIME];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    threads: { type: 'string', default: '1' },
    sequences: { type: 'string', default: '1,2,4,8' },
    past: { type: 'string' },
    prompt: { type: 'string' },
    rounds: { type: 'string' },
    tokens: { type: 'string' },
    llama: { type: 'string' },
  },
});
const usual = values.quick ? { past: '32', prompt: '0', rounds: '1', tokens: '16' } : { past: '32,512', prompt: '2000', rounds: '3', tokens: '32' };
for (const name of Object.keys(usual)) values[name] ??= usual[name];
if (positionals.length === 0) {
  console.error('MODEL.onnx is missing: npm run bench -- batch_decode --help');
  process.exit(2);
}
const child = fileURLToPath(new URL('measure-batch.mjs', import.meta.url));
const ggufOf = (model) => model.replace(/\.onnx$/, '.gguf');

async function measure(engine, model) {
  const file = engine === LLAMA ? ggufOf(model) : model;
  const { threads, sequences, past, tokens, prompt, llama } = values;
  const { stdout } = await promisify(execFile)(process.execPath, [child, engine, file, threads, sequences, past, tokens, prompt, llama ?? '']);
  return JSON.parse(stdout);
}

const peersOf = (model) => PEERS.filter((peer) => peer !== LLAMA || (values.llama && existsSync(ggufOf(model))));
const ratios = PEERS.map((peer) => `by ${peer}`);
console.log(`${machine().cpu}, ${values.threads} threads, Node.js ${process.version}\n`);
console.log(`| model | what | ${[OURS, ...PEERS, ...ratios].join(' | ')} |\n| --- | --- | ---: | ---: | ---: | ---: | ---: |`);
for (const model of positionals) {
  const engines = [OURS, ...peersOf(model)];
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const found = {};
    for (const engine of round % 2 === 0 ? engines : engines.toReversed()) found[engine] = await measure(engine, model);
    rounds.push(found);
  }
  for (const what of Object.keys(rounds[0][OURS])) {
    const has = (engine) => rounds.every((found) => found[engine]?.[what] !== undefined);
    const of = (engine) => (has(engine) ? median(rounds.map((found) => found[engine][what])).toFixed(2) : '');
    const by = (peer) => (has(peer) ? median(rounds.map((found) => found[OURS][what] / found[peer][what])).toFixed(2) : '');
    console.log(`| ${path.basename(model)} | ${what} | ${[...[OURS, ...PEERS].map(of), ...PEERS.map(by)].join(' | ')} |`);
  }
}
