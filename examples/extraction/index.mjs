// Reads facts out of a text: a model answers in JSON, by a schema. node examples/extraction/index.mjs FOLDER [TEXT]
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';
import { ml } from 'webnn-node';
import { generateText } from 'webnn-node/generate';
import { loadOnnx } from 'webnn-node/onnx';

const [folder, text = 'Ada Lovelace, born in London in 1815, wrote the first program; Charles Babbage (1791) designed the machine.'] = process.argv.slice(2);
if (folder === undefined) throw new Error('usage: node examples/extraction/index.mjs FOLDER [TEXT]');
const schema = {
  type: 'object',
  properties: {
    people: {
      type: 'array',
      items: {
        type: 'object',
        properties: { name: { type: 'string', maxLength: 40 }, born: { type: ['integer', 'null'], minimum: 1000, maximum: 2100 }, role: { enum: ['author', 'engineer', 'other'] } },
        required: ['name', 'born', 'role'],
        additionalProperties: false,
      },
      maxItems: 5,
    },
  },
  required: ['people'],
  additionalProperties: false,
};

const json = (name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8'));
const tokenizer = new Tokenizer(json('tokenizer.json'), json('tokenizer_config.json'));
const file = ['onnx/model_q4.onnx', 'onnx/model.onnx', 'model.onnx'].map((name) => path.join(folder, name)).find(existsSync);
const model = await loadOnnx(await ml.createContext({ accelerated: false }), file);
const question = [{ role: 'user', content: `Who is in this text? Answer in JSON.\n\n${text}` }];
const template = new Template(json('tokenizer_config.json').chat_template);
const prompt = tokenizer.encode(template.render({ messages: question, add_generation_prompt: true }), { add_special_tokens: false }).ids;

let [answer, end] = [''];
for await (const { text: piece, finish } of generateText(model, tokenizer, prompt, { constraint: { schema }, maxNewTokens: 500 })) {
  answer += piece;
  end = finish;
}
if (end === 'stop') console.table(JSON.parse(answer).people);
else console.error(`The answer is not complete after 500 tokens: ${answer}`);
