// Text, token by token: webnn-node, onnxruntime-node and llama.cpp in turn, each in a process of its own, on the decoders that
// models/make_decoder.py writes, or others with a growing cache of float32 and the inputs input_ids and attention_mask.
//
//     npm run bench -- text MODEL.onnx … [--threads 1] [--past 8,512,2048] [--prompt 128,512] [--rounds 3] [--tokens 32] [--llama FOLDER]
//
// llama.cpp takes part where a folder is named in which npm has installed node-llama-cpp (with --ignore-scripts: the package for the
// platform has it prebuilt, 725 MB in all), and MODEL.gguf lies beside the model: make_decoder.py writes it where Python has gguf.

import { execFile } from 'node:child_process';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import path from 'node:path';
import { machine } from '../machine.mjs';
import { median } from '../statistics.mjs';

const OURS = 'webnn-node';
const PEERS = ['onnxruntime-node', 'llama.cpp'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '1' },
    past: { type: 'string', default: '8,512,2048' },
    prompt: { type: 'string', default: '128,512' },
    rounds: { type: 'string', default: '3' },
    tokens: { type: 'string', default: '32' },
    llama: { type: 'string' },
  },
});
if (positionals.length === 0) {
  console.error('MODEL.onnx is missing: npm run bench -- text --help');
  process.exit(2);
}
const child = fileURLToPath(new URL('measure.mjs', import.meta.url));

const ggufOf = (model) => model.replace(/\.onnx$/, '.gguf');

async function measure(engine, model) {
  const file = engine === 'llama.cpp' ? ggufOf(model) : model;
  const args = [child, engine, file, values.threads, values.past, values.prompt, values.tokens, values.llama ?? ''];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout);
}

const { cpu, engines } = machine();
console.log(`${cpu}, ${values.threads} threads, Node.js ${process.version}, onnxruntime-node ${engines['onnxruntime-node']}\n`);
console.log(`| model | what | ${OURS} | ${PEERS.map((peer) => `${peer} | ratio`).join(' | ')} |\n| --- |${' --- |'.repeat(2 + 2 * PEERS.length)}`);
for (const model of positionals) {
  const peers = PEERS.filter((peer) => peer !== 'llama.cpp' || (values.llama && existsSync(ggufOf(model))));
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const found = {};
    const inTurn = [OURS, ...peers];
    for (const engine of round % 2 === 0 ? inTurn : inTurn.reverse()) found[engine] = await measure(engine, model);
    rounds.push(found);
  }
  for (const what of Object.keys(rounds[0][OURS])) {
    const cells = PEERS.map((peer) => {
      if (!peers.includes(peer)) return ' | ';
      if (what === 'tokens') return `${rounds.every((found) => `${found[OURS].tokens}` === `${found[peer].tokens}`) ? 'the same' : 'others'} | `;
      const ratio = median(rounds.map((found) => found[OURS][what] / found[peer][what]));
      return `${median(rounds.map((found) => found[peer][what])).toFixed(1)} | ${ratio.toFixed(2)}`;
    });
    const ours = what === 'tokens' ? '' : median(rounds.map((found) => found[OURS][what])).toFixed(1);
    console.log(`| ${path.basename(model)} | ${what === 'tokens' ? 'greedy tokens' : what} | ${ours} | ${cells.join(' | ')} |`);
  }
}
