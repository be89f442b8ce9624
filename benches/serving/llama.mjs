// Chat completions of llama.cpp, by npm's node-llama-cpp and fastify: as much of OpenAI's interface as the measurement asks for. Sequences take their steps
// together, as node-llama-cpp does it. Arguments: the folder with node-llama-cpp, MODEL.gguf, threads, streams at a time, tokens of a stream.
import path from 'node:path';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';
import { fastify as Fastify } from 'fastify';

const [folder, file, threads, streams, length] = process.argv.slice(2);
const { getLlama } = await import(pathToFileURL(path.resolve(folder, 'node_modules/node-llama-cpp/dist/index.js')));
const library = await getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: Number(threads) });
const model = await library.loadModel({ modelPath: file });
const context = await model.createContext({ contextSize: Number(length), sequences: Number(streams), batchSize: 512, threads: Number(threads) });
const free = Array.from({ length: Number(streams) }, () => context.getSequence());
const waiting = [];

function nextFree() {
  return new Promise((resolve) => {
    waiting.push(resolve);
  });
}

async function* answer({ messages, max_tokens: most }) {
  const sequence = free.pop() ?? (await nextFree());
  try {
    await sequence.clearHistory();
    const prompt = model.tokenize(messages.map(({ content }) => content).join('\n'));
    let left = most;
    for await (const token of sequence.evaluate(prompt, { temperature: 0 })) {
      if (model.isEogToken(token)) break;
      const chunk = { object: 'chat.completion.chunk', choices: [{ index: 0, delta: { content: model.detokenize([token]) } }] };
      yield `data: ${JSON.stringify(chunk)}\n\n`;
      left -= 1;
      if (left === 0) break;
    }
    yield 'data: [DONE]\n\n';
  } finally {
    const next = waiting.shift();
    if (next) next(sequence);
    else free.push(sequence);
  }
}

const server = Fastify();
server.post('/v1/chat/completions', (request, reply) => reply.type('text/event-stream').send(Readable.from(answer(request.body), { objectMode: false })));
console.log(JSON.stringify({ msg: `listening on ${await server.listen({ port: 0, host: '127.0.0.1' })}` }));
console.log(JSON.stringify({ msg: 'ready' }));
