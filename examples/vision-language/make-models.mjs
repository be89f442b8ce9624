// Writes the small models of this folder, with seeded weights. Run it in a clone of the repository.

import { mkdirSync, writeFileSync } from 'node:fs';
import decoders from '../../__tests__/generate/decoders.js';
import embeddings from '../../__tests__/generate/embeddings.js';

const WORDS = 'look at and say a the picture of is red green blue dark bright big small near far left right above below with no one two three sky sea tree house road dog cat bird fish here there so <image>'.split(' ');
const folder = new URL('model/', import.meta.url);

const { embed, decoder, count, width } = embeddings.parts(decoders.decoder('concat'), []);
if (WORDS.length !== count) throw new Error(`found ${WORDS.length} words, allowed ${count}`);
mkdirSync(folder, { recursive: true });
writeFileSync(new URL('embed_tokens.onnx', folder), embed);
writeFileSync(new URL('decoder_model.onnx', folder), decoder);
writeFileSync(new URL('vision_encoder.onnx', folder), embeddings.visionEncoder(width));
writeFileSync(new URL('tokens.json', folder), `${JSON.stringify({ patches: embeddings.PATCHES, words: WORDS })}\n`);
for (const [name, color] of [['red', [220, 30, 20]], ['blue', [10, 40, 230]]]) {
  const pixels = Array.from({ length: 64 }, (_, i) => color.map((part) => Math.round(part * (0.6 + (i % 8) / 20))));
  writeFileSync(new URL(`${name}.ppm`, import.meta.url), Buffer.concat([Buffer.from('P6\n8 8\n255\n'), Buffer.from(pixels.flat())]));
}
