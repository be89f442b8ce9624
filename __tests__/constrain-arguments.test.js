'use strict';

// Constraints and tokenizers that are not what they have to be are errors with what was found, whatever files and content they come with.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { byteTokenizer, END } = require('./constrain/accepts.js');
const { describeBuilt, isBuilt } = require('./constrain/built.js');
const { randomOf } = require('./constrain/schemas.js');

/** Damaged tokenizers: many in npm run test:full. */
const COUNT = process.env.WEBNN_SWEEP === 'all' ? 3000 : 150;

describeBuilt('arguments', () => {
  const { compile } = isBuilt ? require('@webnn-node/constrain') : {};
  let folder;
  beforeAll(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-arguments-'));
  });
  afterAll(() => fs.rmSync(folder, { recursive: true }));

  const failure = (constraint) => compile(constraint).then(() => undefined, (error) => error);
  const said = async (constraint) => {
    const error = await failure(constraint);
    return [error?.name, error?.message];
  };
  const write = (name, content) => {
    const place = fs.mkdtempSync(path.join(folder, 'case-'));
    fs.writeFileSync(path.join(place, 'tokenizer.json'), JSON.stringify(byteTokenizer));
    fs.writeFileSync(path.join(place, name), content);
    return place;
  };

  test.each([
    [undefined, 'constraint: found undefined, allowed an object'],
    [[], 'constraint: found an array, allowed an object'],
    [{}, 'constraint: found none of them, allowed one of schema, regex, grammar'],
    [{ schema: [] }, 'constraint: schema: found an array, allowed an object or a boolean'],
    [{ schema: null }, 'constraint: schema: found null, allowed an object or a boolean'],
    [{ schema: 5 }, 'constraint: schema: found 5, allowed an object or a boolean'],
    [{ schema: { toJSON: () => undefined } }, 'constraint: schema: found undefined, allowed'],
    [{ schema: { maximum: 5n } }, 'constraint: schema: Do not know how to serialize a BigInt'],
    [{ schema: {}, endd: 1 }, 'constraint: found "endd", allowed end, grammar, regex, schema, tokenizer'],
    [{ regex: 'a', grammar: 'b' }, 'constraint: found regex and grammar, allowed one of'],
    [{ regex: 'a', end: -1 }, 'constraint: end: found -1, allowed a token, or an array of tokens'],
    [{ regex: 'a', end: [3, 2 ** 31] }, 'constraint: end: found 2147483648, allowed a token'],
    [{ regex: 'a', end: null }, 'constraint: end: found null, allowed a token'],
    [{ regex: 'a', end: 300 }, 'constraint: tokenizer: end: found 300, allowed a token of the tokenizer'],
    [{ regex: 'a', tokenizer: 5 }, 'constraint: tokenizer: found a value of type number, allowed the path'],
    [{ regex: 'a', tokenizer: [] }, 'constraint: tokenizer: found an array, allowed the path'],
    [{ regex: null }, 'constraint: regex: found null, allowed a string or a RegExp'],
    [{ grammar: {} }, 'constraint: grammar: found a value of type object, allowed a string'],
  ])('%# is refused', async (constraint, message) => {
    const given = constraint === undefined || Array.isArray(constraint) ? constraint : { tokenizer: byteTokenizer, ...constraint };
    expect(await said(given)).toEqual(['TypeError', expect.stringContaining(message)]);
  });

  test('files that are missing, damaged, or no regular files', async () => {
    const cases = [
      [path.join(folder, 'none'), `constraint: tokenizer: there is no file ${path.join(folder, 'none')}`],
      [folder, `constraint: tokenizer: there is no file ${path.join(folder, 'tokenizer.json')}`],
      [write('tokenizer.json', JSON.stringify(byteTokenizer).slice(0, 500)), 'tokenizer.json: '],
      [write('tokenizer.json', ''), 'tokenizer.json: Unexpected end of JSON input'],
      [write('tokenizer.json', '[]'), 'tokenizer.json: found an array, allowed an object'],
      [write('tokenizer.json', 'null'), 'tokenizer.json: found null, allowed an object'],
      [write('tokenizer_config.json', '{'), 'tokenizer_config.json: '],
      [write('generation_config.json', '{"eos_token_id": [2, -1]}'), 'generation_config.json: eos_token_id: found -1, allowed tokens'],
      [write('generation_config.json', '{"eos_token_id": 4294967298}'), 'generation_config.json: eos_token_id: found 4294967298, allowed tokens'],
    ];
    for (const [tokenizer, message] of cases) expect(await said({ regex: 'a', tokenizer })).toEqual(['TypeError', expect.stringContaining(message)]);
  });

  test('a file of 4 GB is refused, and not read', async () => {
    const place = write('other', '');
    // Holes, of which a disk has nothing.
    fs.truncateSync(path.join(place, 'tokenizer.json'), 2 ** 32);
    expect(await said({ regex: 'a', tokenizer: place })).toEqual(['TypeError', expect.stringContaining('tokenizer.json: found 4294967296 bytes, allowed 67108864')]);
  });

  // Windows has no devices and pipes among its files.
  const onPosix = process.platform === 'win32' ? test.skip : test;
  onPosix('devices and pipes are refused', async () => {
    const pipe = path.join(folder, 'pipe');
    execFileSync('mkfifo', [pipe]);
    const config = write('other', '');
    fs.symlinkSync(pipe, path.join(config, 'tokenizer_config.json'));
    for (const tokenizer of ['/dev/zero', '/dev/null', pipe, config]) {
      expect(await said({ regex: 'a', tokenizer })).toEqual(['TypeError', expect.stringMatching(/^constraint: tokenizer: .*: it is not a regular file$/)]);
    }
  });

  test('what else a tokenizer may have', async () => {
    const changed = (changes) => ({ ...byteTokenizer, ...changes });
    const nested = (depth) => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`);
    const manyTokens = new Array(2 ** 20 + 1);
    const cases = [
      [changed({ added_tokens: 5 }), 'found an added token without id and content'],
      [changed({ added_tokens: [null] }), 'found an added token without id and content'],
      [changed({ added_tokens: [{ id: '5', content: 'a' }] }), 'found an added token without id and content'],
      [changed({ added_tokens: [{ id: 2 ** 40, content: 'a' }] }), 'found token 1099511627776, allowed numbers below'],
      [changed({ model: { vocab: { a: 1.5 } } }), 'found no model.vocab'],
      [changed({ model: { vocab: { a: {} } } }), 'found no model.vocab'],
      [changed({ model: { vocab: [[5]] } }), 'found no model.vocab'],
      [changed({ model: { vocab: [null] } }), 'found no model.vocab'],
      [changed({ model: { vocab: manyTokens } }), `found ${2 ** 20 + 1} tokens, allowed ${2 ** 20}`],
      [changed({ model: { vocab: { ['a'.repeat(17 << 20)]: 0 } } }), 'found tokens of more than 16777216 bytes together'],
      [changed({ decoder: { type: 'Sequence', decoders: 'a'.repeat(2 ** 21) } }), 'the decoder and the pre-tokenizer are too large'],
      [changed({ decoder: nested(100_000) }), 'tokenizer.json: '],
      [changed({ decoder: nested(200) }), 'tokenizer.json: recursion limit exceeded'],
    ];
    for (const [tokenizer, message] of cases) expect(await said({ regex: 'a', tokenizer })).toEqual(['TypeError', expect.stringContaining(message)]);
  }, 600_000);

  test('merges in a circle, tokens that repeat, and content of other types end in tokens or an error', async () => {
    const many = [
      { merges: [['a', 'b'], ['ab', 'a'], ['b', 'a']] },
      { merges: 5 },
      { merges: [[null]] },
      { merges: ['a', 'a b c', ''] },
      { vocab: { ...byteTokenizer.model.vocab, x: 0, y: 0 } },
      { type: 'none' },
    ];
    for (const changes of many) {
      const tokenizer = { ...byteTokenizer, model: { ...byteTokenizer.model, ...changes } };
      const constraint = await compile({ schema: { type: 'object', properties: { name: { type: 'null' } }, required: ['name'], additionalProperties: false }, tokenizer, end: END });
      const matcher = constraint.begin();
      matcher.push('{'.charCodeAt(0));
      const forced = () => {
        try {
          return matcher.forced();
        } catch (error) {
          return error;
        }
      };
      const found = forced();
      expect(found instanceof Error ? found.message : 'tokens').toMatch(/^(constraint: |tokens)/);
    }
  });

  /** A part of a value, chosen by chance, in the place of which something else comes. */
  function damaged(random, value, depth = 0) {
    if (depth > 4 || value === null || typeof value !== 'object' || random.is(0.15)) return random.one(REPLACEMENTS);
    const copy = Array.isArray(value) ? [...value] : { ...value };
    const keys = Object.keys(copy);
    if (keys.length === 0) return random.one(REPLACEMENTS);
    const key = random.one(keys);
    if (random.is(0.2)) delete copy[key];
    else copy[key] = damaged(random, copy[key], depth + 1);
    return copy;
  }
  const REPLACEMENTS = [null, 0, -1, 2 ** 31, 2 ** 40, 1e300, 0.5, '', 'a', '▁', '\ud800', 'ByteLevel', 'Sequence', [], {}, [[]], [['a', 0]], { a: 0 }, { type: 'ByteLevel' }, { type: 'Metaspace', replacement: 5 }, true, 'x'.repeat(5000)];

  test(`${COUNT} damaged tokenizers`, async () => {
    const file = path.join(folder, 'damaged.json');
    let ended = 0;
    for (let seed = 0; seed < COUNT; seed++) {
      const random = randomOf(seed);
      let content = byteTokenizer;
      for (let i = 0; i <= random.below(3); i++) content = damaged(random, content);
      const text = JSON.stringify(content);
      // Some are cut, or have other bytes.
      const cut = random.is(0.2) ? text.slice(0, random.below(text.length)) : random.is(0.2) ? text.replace('"', random.one(['', '\\', '{', '\u0000'])) : text;
      fs.writeFileSync(file, cut);
      const tokenizer = random.is(0.5) ? file : content;
      const error = await failure({ regex: 'a|b', tokenizer, ...(random.is(0.5) && { end: random.one([0, END, 2 ** 31 - 1]) }) });
      if (error === undefined) ended++;
      else expect([seed, error.name, error.message]).toEqual([seed, 'TypeError', expect.stringMatching(/^constraint: (?!.*internal error)/)]);
    }
    expect(ended).toBeGreaterThan(0);
    expect(ended).toBeLessThan(COUNT);
  }, 600_000);
});
