// Packs what make-models.py and make-dtypes.py wrote into one file: `node pack-models.mjs FOLDER models.br`.
//
// Together the models pack to a fifth, since the dtypes of one have the same graph and the exported graphs much in common.
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { brotliCompressSync, constants } from 'node:zlib';

const [, , folder, target] = process.argv;
const CONFIGURATIONS = ['config.json', 'generation_config.json'];
// The merged decoders hold these.
const LEFT_OUT = /^(decoder_model|decoder_with_past_model)\.onnx$/;

const files = [];
for (const name of readdirSync(folder).sort()) {
  const inside = (file) => path.join(folder, name, file);
  const made = readdirSync(inside('onnx')).sort();
  for (const file of ['tokenizer.json', 'tokenizer_config.json', 'preprocessor_config.json']) {
    if (readdirSync(inside('.')).includes(file)) files.push([`${name}/${file}`, readFileSync(inside(file))]);
  }
  for (const file of CONFIGURATIONS.filter((file) => made.includes(file))) files.push([`${name}/${file}`, readFileSync(inside(`onnx/${file}`))]);
  for (const file of made.filter((file) => file.endsWith('.onnx') && !LEFT_OUT.test(file))) {
    files.push([`${name}/onnx/${file}`, readFileSync(inside(`onnx/${file}`))]);
  }
}
const header = Buffer.from(JSON.stringify(files.map(([name, bytes]) => [name, bytes.length])));
const length = Buffer.alloc(4);
length.writeUInt32LE(header.length);
const packed = brotliCompressSync(Buffer.concat([length, header, ...files.map(([, bytes]) => bytes)]), {
  params: { [constants.BROTLI_PARAM_QUALITY]: 11, [constants.BROTLI_PARAM_LGWIN]: 24 },
});
writeFileSync(target, packed);
console.log(`${files.length} files, ${packed.length} bytes`);
