// The tokenizer of a model's folder, with the template that writes messages as the model has learned them.
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { Template } from '@huggingface/jinja';
import { Tokenizer } from '@huggingface/tokenizers';

const NAMED = ['bos_token', 'eos_token', 'pad_token', 'unk_token'];

class ChatTokenizer extends Tokenizer {
  #template;
  #named;

  constructor(vocabulary, config, template) {
    super(vocabulary, config);
    this.#template = new Template(template);
    const texts = NAMED.map((name) => [name, config[name]?.content ?? config[name]]);
    this.#named = Object.fromEntries(texts.filter(([, text]) => typeof text === 'string'));
  }

  /** The name is that of transformers.js, which `generateText` asks for. */
  apply_chat_template(messages, { add_generation_prompt: prompt = true } = {}) {
    return this.#template.render({ ...this.#named, messages, add_generation_prompt: prompt });
  }
}

export function openTokenizer(folder) {
  const [vocabulary, config] = ['tokenizer.json', 'tokenizer_config.json'].map((name) => JSON.parse(readFileSync(path.join(folder, name), 'utf8')));
  const beside = path.join(folder, 'chat_template.jinja');
  const given = existsSync(beside) ? readFileSync(beside, 'utf8') : config.chat_template;
  // Some models have several, by name.
  const template = Array.isArray(given) ? (given.find(({ name }) => name === 'default') ?? given[0])?.template : given;
  if (typeof template !== 'string') throw new Error(`${folder} has no chat template`);
  return new ChatTokenizer(vocabulary, config, template);
}
