// A chat in the terminal that remembers: it computes only what is new, and a file keeps it from one time to the next.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { ml } from 'webnn-node';
import { GenerationCache, generateText } from 'webnn-node/generate';
import { loadOnnx } from 'webnn-node/onnx';
import { Talk } from './talk.mjs';
import { openTokenizer } from './tokenizer.mjs';

const USAGE = `usage: node examples/chat/index.mjs --model FOLDER [options]

  --model FOLDER       a model with a chat template, as on Hugging Face's hub
  --file FILE          keeps the chat, and goes on with it the next time
  --system TEXT        tells a new chat what it is about
  --tokens N           how many tokens an answer has at most (512)
  --temperature T      0 takes the most probable token (0.7)
  --top-p P            the most probable tokens that have this probability together (0.9)
  --seed N             for the same answers each time
  --threads N          threads of the CPU

Ctrl-C ends an answer, Ctrl-D the chat.`;

const options = {
  model: { type: 'string' },
  file: { type: 'string' },
  system: { type: 'string' },
  tokens: { type: 'string', default: '512' },
  temperature: { type: 'string', default: '0.7' },
  'top-p': { type: 'string', default: '0.9' },
  seed: { type: 'string' },
  threads: { type: 'string' },
  help: { type: 'boolean' },
};

async function openModel(folder, threads) {
  const files = ['onnx/model_q4.onnx', 'onnx/model.onnx', 'model.onnx'].map((name) => path.join(folder, name));
  const file = files.find(existsSync);
  if (file === undefined) throw new Error(`found none of ${files.join(', ')}`);
  const tokenizer = openTokenizer(folder);
  const { max_position_embeddings: places = 2048 } = JSON.parse(readFileSync(path.join(folder, 'config.json'), 'utf8'));
  const context = await ml.createContext({ accelerated: false, ...(threads && { numThreads: Number(threads) }) });
  return { tokenizer, places, context, model: await loadOnnx(context, file) };
}

/** Writes an answer. Gives what was said, also if it was ended. */
async function answer({ model, tokenizer }, messages, wish) {
  const begin = performance.now();
  let [text, count, first] = ['', 0, undefined];
  try {
    for await (const piece of generateText(model, tokenizer, messages, wish)) {
      first ??= performance.now();
      text += piece.text;
      count = piece.count;
      process.stdout.write(piece.text);
    }
  } catch (error) {
    if (!wish.signal.aborted) throw error;
  }
  const seconds = (performance.now() - first) / 1000;
  const speed = count > 1 ? `, then ${((count - 1) / seconds).toFixed(0)} per second` : '';
  console.log(`\n[${count} tokens; the first after ${((first ?? performance.now()) - begin).toFixed(0)} ms${speed}; ${wish.cache.known[0] ?? 0} tokens were known]`);
  return text;
}

async function main() {
  const { values } = parseArgs({ options });
  if (values.help || values.model === undefined) {
    console.log(USAGE);
    return;
  }
  const opened = await openModel(values.model, values.threads);
  const { tokenizer, places, model, context } = opened;
  const talk = new Talk({ file: values.file, system: values.system });
  const most = Number(values.tokens);
  const tokensOf = (messages) => tokenizer.encode(tokenizer.apply_chat_template(messages)).ids.length;
  const sampling = { temperature: Number(values.temperature), topP: Number(values['top-p']), ...(values.seed && { seed: Number(values.seed) }) };
  const cache = new GenerationCache();
  const lines = createInterface({ input: process.stdin, output: process.stdout, prompt: '> ' });
  let controller;
  lines.on('SIGINT', () => (controller === undefined ? lines.close() : controller.abort()));
  if (talk.questions > 0) console.log(`[goes on after question ${talk.questions}]`);
  lines.prompt();
  for await (const line of lines) {
    if (line.trim() !== '') {
      talk.add('user', line);
      controller = new AbortController();
      const text = await answer(opened, talk.fitting(tokensOf, places - most), { ...sampling, maxNewTokens: most, cache, signal: controller.signal });
      controller = undefined;
      if (text === '') talk.drop();
      else talk.add('assistant', text);
    }
    lines.prompt();
  }
  cache.destroy();
  model.destroy();
  context.destroy();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
