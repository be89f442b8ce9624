// The typings of constrained output, as a program uses them.

import { compile } from '@webnn-node/constrain';
import { generate, generateText, type Constraint, type TextTokenizer, type TokenConstraint, type TokenMatcher } from 'webnn-node/generate';
import type { OnnxModel } from 'webnn-node/onnx';

/** One of one's own: `a`, and then anything. */
class Begins implements TokenConstraint {
  begin(): TokenMatcher {
    let count = 0;
    return {
      mask: () => (count === 0 ? Uint32Array.of(0, 0, 0, 2) : new Uint32Array(8).fill(0xffffffff)),
      push: () => void count++,
      forced: () => [],
      get isDone() {
        return count > 9;
      },
    };
  }
}

export async function extract(model: OnnxModel, tokenizer: TextTokenizer): Promise<unknown> {
  const schema = { type: 'object', properties: { city: { type: 'string' } } } as const;
  const compiled: TokenConstraint = await compile({ schema, tokenizer: 'folder', end: 2 });
  const all: Constraint[] = [compiled, new Begins(), { schema: true }, { regex: /a+/u, tokenizer }, { regex: 'a+', end: [1, 2] }, { grammar: 'start: "a"' }];
  let forced = 0;
  for await (const token of generate(model, [1], { constraint: all[0]! })) forced += token.forced ? 1 : 0;
  let text = '';
  for await (const piece of generateText(model, tokenizer, 'x', { constraint: { schema } })) text += piece.text;
  // @ts-expect-error: neither a text nor a constraint
  void generate(model, [1], { constraint: { pattern: 'a' } });
  // @ts-expect-error: compiled already
  void compile(compiled);
  return [forced, JSON.parse(text)];
}
