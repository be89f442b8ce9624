// Continues a text about a picture: a vision encoder, a model that embeds tokens, and a decoder that takes the embeddings.

import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { ml } from 'webnn-node';
import { generate } from 'webnn-node/generate';
import { loadOnnx } from 'webnn-node/onnx';
import { pixelsOf } from './picture.mjs';

const USAGE = `usage: node examples/vision-language/index.mjs [options] [PICTURE.ppm]...

  --prompt TEXT   words before and after <image>, which stands for all pictures ("look at <image> and say")
  --tokens N      how many words at most (12)
  --threads N     threads of the CPU`;

const options = {
  prompt: { type: 'string', default: 'look at <image> and say' },
  tokens: { type: 'string', default: '12' },
  threads: { type: 'string' },
  help: { type: 'boolean' },
};

const own = (name) => fileURLToPath(new URL(name, import.meta.url));

async function main() {
  const { values, positionals } = parseArgs({ options, allowPositionals: true });
  if (values.help) {
    console.log(USAGE);
    return;
  }
  const { words, patches } = JSON.parse(readFileSync(own('model/tokens.json'), 'utf8'));
  const pictures = positionals.length > 0 ? positionals : [own('red.ppm')];
  const IMAGE = words.indexOf('<image>');
  // Each patch of each picture has a token in the prompt.
  const ids = values.prompt.split(/\s+/).flatMap((word) => {
    const id = words.indexOf(word);
    if (id < 0) throw new Error(`The small model does not know the word ${JSON.stringify(word)}. It knows: ${words.join(' ')}`);
    return id === IMAGE ? new Array(pictures.length * patches).fill(IMAGE) : [id];
  });
  const context = await ml.createContext({ accelerated: false, ...(values.threads && { numThreads: Number(values.threads) }) });
  const [vision, embed, decoder] = await Promise.all(['vision_encoder', 'embed_tokens', 'decoder_model'].map((name) => loadOnnx(context, own(`model/${name}.onnx`))));
  const features = pictures.map((file) => ({ token: IMAGE, model: vision, inputs: { pixel_values: { data: pixelsOf(file), shape: [1, 3, 4, 4] } } }));
  process.stdout.write(`${values.prompt}:`);
  for await (const { id } of generate(decoder, ids, { embed, features, maxNewTokens: Number(values.tokens), bias: { [IMAGE]: -Infinity } })) {
    process.stdout.write(` ${words[id]}`);
  }
  process.stdout.write('\n');
  context.destroy();
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
