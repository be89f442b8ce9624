// Continues a text, token by token, with a decoder: the small one of this folder, or one of yours.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ml } from 'webnn-node';
import { generate } from 'webnn-node/generate';
import { loadOnnx } from 'webnn-node/onnx';
import { characters, tokenizerOf } from './tokens.mjs';

const USAGE = `usage: node examples/generate/index.mjs [options] [TEXT]

  --model FILE         an ONNX model of a decoder; by default the small one of this folder
  --tokenizer FOLDER   where its tokenizer.json is; needs the package @huggingface/transformers
  --tokens N           how many tokens at most (200)
  --temperature T      0 takes the most probable token (0.5)
  --top-p P            the most probable tokens that have this probability together (0.9)
  --seed N             for the same text each time
  --threads N          threads of the CPU`;

const options = {
  model: { type: 'string' },
  tokenizer: { type: 'string' },
  tokens: { type: 'string', default: '200' },
  temperature: { type: 'string', default: '0.5' },
  'top-p': { type: 'string', default: '0.9' },
  seed: { type: 'string' },
  threads: { type: 'string' },
  help: { type: 'boolean' },
};

async function main() {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const own = (name) => fileURLToPath(new URL(name, import.meta.url));
  const tokenizer = values.model === undefined ? characters(JSON.parse(readFileSync(own('tokens.json'), 'utf8'))) : await tokenizerOf(values.tokenizer);
  const text = positionals.join(' ') || 'The context';
  const context = await ml.createContext({ accelerated: false, ...(values.threads && { numThreads: Number(values.threads) }) });
  const model = await loadOnnx(context, values.model ?? own('model.onnx'));
  const controller = new AbortController();
  process.once('SIGINT', () => controller.abort());
  const begin = performance.now();
  let first;
  let count = 0;
  process.stdout.write(text);
  const wish = {
    maxNewTokens: Number(values.tokens),
    temperature: Number(values.temperature),
    topP: Number(values['top-p']),
    stop: tokenizer.end,
    signal: controller.signal,
    ...(values.seed && { seed: Number(values.seed) }),
  };
  const decode = tokenizer.stream();
  try {
    for await (const { id } of generate(model, tokenizer.encode(text), wish)) {
      first ??= performance.now();
      count++;
      process.stdout.write(decode(id));
    }
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  }
  const seconds = (performance.now() - first) / 1000;
  console.log(`\n\n${count} tokens; the first after ${(first - begin).toFixed(0)} ms, then ${((count - 1) / seconds).toFixed(0)} per second`);
  model.destroy();
  context.destroy();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
