// Text, token by token: webnn-node and onnxruntime-node in turn, each in a process of its own, on the decoders that
// models/make_decoder.py writes, or others with a growing cache of float32 and the inputs input_ids and attention_mask.
//
//     node benches/decode.mjs MODEL.onnx … [--threads 1] [--past 8,512,2048] [--prompt 128,512] [--rounds 3] [--tokens 32]

import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs, promisify } from 'node:util';
import path from 'node:path';
import { machine } from './machine.mjs';
import { median } from './statistics.mjs';

const ENGINES = ['webnn-node', 'onnxruntime-node'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    threads: { type: 'string', default: '1' },
    past: { type: 'string', default: '8,512,2048' },
    prompt: { type: 'string', default: '128,512' },
    rounds: { type: 'string', default: '3' },
    tokens: { type: 'string', default: '32' },
  },
});
const child = fileURLToPath(new URL('decode/measure.mjs', import.meta.url));

async function measure(engine, model) {
  const { stdout } = await promisify(execFile)(process.execPath, [child, engine, model, values.threads, values.past, values.prompt, values.tokens]);
  return JSON.parse(stdout);
}

const { cpu, engines } = machine();
console.log(`${cpu}, ${values.threads} threads, Node.js ${process.version}, onnxruntime-node ${engines['onnxruntime-node']}\n`);
console.log('| model | what | webnn-node | onnxruntime-node | ratio |\n| --- | --- | --- | --- | --- |');
for (const model of positionals) {
  const rounds = [];
  for (let round = 0; round < Number(values.rounds); round++) {
    const found = {};
    for (const engine of round % 2 === 0 ? ENGINES : [...ENGINES].reverse()) found[engine] = await measure(engine, model);
    rounds.push(found);
  }
  for (const what of Object.keys(rounds[0][ENGINES[0]])) {
    const of = (engine) => median(rounds.map((found) => found[engine][what]));
    if (what === 'tokens') {
      const same = rounds.every((found) => `${found[ENGINES[0]].tokens}` === `${found[ENGINES[1]].tokens}`);
      console.log(`| ${path.basename(model)} | greedy tokens | ${same ? 'the same' : 'others'} | | |`);
      continue;
    }
    const ratio = median(rounds.map((found) => found[ENGINES[0]][what] / found[ENGINES[1]][what]));
    console.log(`| ${path.basename(model)} | ${what} | ${of(ENGINES[0]).toFixed(1)} | ${of(ENGINES[1]).toFixed(1)} | ${ratio.toFixed(2)} |`);
  }
}
