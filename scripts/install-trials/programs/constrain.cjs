'use strict';

// Text that a schema allows, by the package beside this one.

const { readFileSync } = require('node:fs');
const path = require('node:path');
const { Tokenizer } = require('@huggingface/tokenizers');
const { ml } = require('webnn-node');
const { generateText } = require('webnn-node/generate');
const { loadOnnx } = require('webnn-node/onnx');

const folder = path.join(process.cwd(), 'chat');
const read = (name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));

async function main() {
  const tokenizer = new Tokenizer(read('tokenizer.json'), read('tokenizer_config.json'));
  const model = await loadOnnx(await ml.createContext({ accelerated: false }), path.join(folder, 'onnx', 'model_q4.onnx'));
  let text = '';
  for await (const piece of generateText(model, tokenizer, 'A', { constraint: { schema: { type: 'boolean' } }, maxNewTokens: 8, temperature: 0 })) text += piece.text;
  console.log(text);
}

main();
