// Between text and tokens.

/** Tokens that are characters. */
export function characters(list) {
  const numbers = new Map(list.map((character, number) => [character, number]));
  return {
    encode(text) {
      const unknown = [...text].find((character) => !numbers.has(character));
      if (unknown !== undefined) throw new Error(`The small model does not know the character ${JSON.stringify(unknown)}.`);
      return [...text].map((character) => numbers.get(character));
    },
    stream: () => (id) => list[id],
    end: [],
  };
}

/** Those of a model of yours. */
export async function tokenizerOf(folder) {
  if (folder === undefined) throw new Error('--model needs --tokenizer, the folder with its tokenizer.json and tokenizer_config.json.');
  let transformers;
  try {
    transformers = await import('@huggingface/transformers');
  } catch {
    throw new Error('A tokenizer needs the package @huggingface/transformers: npm install @huggingface/transformers');
  }
  transformers.env.allowRemoteModels = false;
  transformers.env.localModelPath = '';
  const tokenizer = await transformers.AutoTokenizer.from_pretrained(folder);
  return {
    encode: (text) => tokenizer.encode(text),
    /** A character may have several tokens: what is shown is what all of them make, without what was shown. */
    stream() {
      const ids = [];
      let shown = '';
      return (id) => {
        ids.push(id);
        const all = tokenizer.decode(ids, { skip_special_tokens: true });
        if (all.endsWith('\ufffd')) return '';
        const more = all.slice(shown.length);
        shown = all;
        return more;
      };
    },
    end: tokenizer.eos_token_id === undefined || tokenizer.eos_token_id === null ? [] : [tokenizer.eos_token_id],
  };
}
