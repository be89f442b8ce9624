'use strict';

// @webnn-node/constrain with generate(): every text is as its schema, regular expression or grammar wants it. The validator is ajv.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Tokenizer } = require('@huggingface/tokenizers');
const Ajv = require('ajv/dist/2020.js').default;
const addFormats = require('ajv-formats').default;
const { ml } = require('../lib/index.js');
const { generate, generateText } = require('../lib/generate.js');
const { loadOnnx } = require('../lib/onnx.js');
const { SPECIAL, trainBpe } = require('./constrain/bpe.js');
const { describeBuilt, isBuilt } = require('./constrain/built.js');
const { randomOf, schemaOfSeed } = require('./constrain/schemas.js');
const { piecesTokenizer, tableModel } = require('./serve/openai/folders.js');

/** Schemas that are tried: all of them in npm run test:full. */
const COUNT = process.env.WEBNN_SWEEP === 'all' ? 1000 : 100;

const corpus = `
{"name": "value", "age": 12, "tags": ["a", "b"], "city": null, "ok": true, "items": [], "price": 2.50, "id": "2024-05-06T12:30:00Z", "x": {"y": false}}
The quick brown fox of a list is there, and jumps over the lazy dog; the other foxes and dogs look at the list and write what there is.
A model reads the tokens of a text and says which token may be the next one, a schema says which of these are allowed, and the text ends.
https://example.com/path?query=value#fragment user@example.com 192.168.0.1 größe 名前 ["one", "two", "three"], {"kind": "circle", "size": 3}
`.repeat(2);
const content = trainBpe(corpus, 600);
const tokenizer = new Tokenizer(content, { eos_token: SPECIAL[0] });
const END = content.added_tokens[0].id;
const SIZE = END + SPECIAL.length;
const textOf = (ids) => tokenizer.decode(ids, { skip_special_tokens: true, clean_up_tokenization_spaces: false });

/** Noise, in which what ends strings, lists and texts is more probable. */
function noisyTable(seed) {
  const random = randomOf(seed);
  const table = Float32Array.from({ length: SIZE * SIZE }, () => 4 * random.next());
  const closing = Object.entries(content.model.vocab).filter(([text]) => /["}\]]/.test(text));
  for (let token = 0; token < SIZE; token++) {
    for (const [, id] of closing) table[token * SIZE + id] += 3;
    table[token * SIZE + END] += 5;
  }
  return table;
}

describeBuilt('with the package', () => {
  const { compile } = isBuilt ? require('@webnn-node/constrain') : {};
  let context;
  let model;
  let folder;
  beforeAll(async () => {
    context = await ml.createContext({ accelerated: false });
    model = await loadOnnx(context, tableModel(SIZE, noisyTable(3)), { label: 'noise' });
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-constrain-'));
    fs.writeFileSync(path.join(folder, 'tokenizer.json'), JSON.stringify(content));
    fs.writeFileSync(path.join(folder, 'tokenizer_config.json'), JSON.stringify({ eos_token: SPECIAL[0] }));
  });
  afterAll(() => {
    context.destroy();
    fs.rmSync(folder, { recursive: true });
  });

  const prompt = tokenizer.encode('the').ids;
  async function run(constraint, options = {}) {
    const tokens = [];
    for await (const token of generate(model, prompt, { constraint: { tokenizer, ...constraint }, maxNewTokens: 600, temperature: 1, seed: 1, ...options })) tokens.push(token);
    const ids = tokens.map(({ id }) => id);
    return { tokens, ids, text: textOf(ids), finish: tokens.at(-1).finish };
  }

  /** Whether a text is what a schema wants. */
  function validator(schema) {
    const ajv = new Ajv({ strict: false, allErrors: true });
    addFormats(ajv);
    const validate = ajv.compile(schema);
    return (text) => (validate(JSON.parse(text)) ? [] : validate.errors.map(({ instancePath, message }) => `${instancePath} ${message}`));
  }

  test(`${COUNT} schemas: every text that ends validates`, async () => {
    const wrong = [];
    let [ended, forced, all] = [0, 0, 0];
    const check = async (seed) => {
      const schema = schemaOfSeed(seed);
      const { text, finish, tokens } = await run({ schema }, { seed });
      forced += tokens.filter((token) => token.forced).length;
      all += tokens.length;
      if (finish !== 'stop') return;
      ended++;
      const errors = validator(schema)(text);
      if (errors.length > 0) wrong.push({ seed, text, errors });
    };
    // Several at once, which take their steps together.
    for (let first = 0; first < COUNT; first += 8) {
      await Promise.all(Array.from({ length: Math.min(8, COUNT - first) }, (_, i) => check(first + i)));
    }
    expect(wrong).toEqual([]);
    expect(ended).toBeGreaterThan(0.9 * COUNT);
    expect(forced).toBeGreaterThan(0.1 * all);
  }, 600_000);

  test('greedy texts, and those of penalties and hooks, are as the schema wants them', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer', minimum: 0, maximum: 150 }, kind: { enum: ['a', 'b'] }, tags: { type: 'array', items: { type: 'boolean' }, maxItems: 3 } },
      required: ['name', 'age', 'kind'],
      additionalProperties: false,
    };
    const worst = (logits) => logits.map((x) => -x);
    for (const options of [{ temperature: 0 }, { temperature: 0, repetitionPenalty: 3, frequencyPenalty: 1 }, { topK: 1 }, { temperature: 0, topLogprobs: 3 }, { logits: worst }, { temperature: 100, seed: 8 }]) {
      const { text, finish } = await run({ schema }, options);
      expect(finish).toBe('stop');
      expect(validator(schema)(text)).toEqual([]);
    }
  });

  test('keys and what is between values are forced, in the tokens of the tokenizer', async () => {
    const schema = { type: 'object', properties: { name: { type: 'boolean' }, value: { type: 'boolean' } }, required: ['name', 'value'], additionalProperties: false };
    const { tokens, text, ids } = await run({ schema });
    expect(text).toMatch(/^\{"name": (true|false), "value": (true|false)\}$/);
    expect(tokens.filter((token) => token.forced).length).toBeGreaterThanOrEqual(4);
    expect(tokens.filter((token) => token.forced).every(({ logprob }) => logprob === 0)).toBe(true);
    // After the first token, which chance may have made a short one.
    const behind = ids.slice(1, ids.findIndex((_, i) => !tokens[i + 1]?.forced) + 1);
    const wanted = tokenizer.encode(textOf(ids.slice(0, behind.length + 1))).ids;
    if (wanted[0] === ids[0]) expect(ids.slice(0, behind.length + 1)).toEqual(wanted);
  });

  test.each([
    ['a text', 'ab{2,4}c', /^ab{2,4}c$/],
    ['anchors', '^(x|yz)+$', /^(x|yz)+$/],
    ['a RegExp', /\d{4}-\d{2}/, /^\d{4}-\d{2}$/],
    ['a RegExp without regard to case', /hello( world)?/i, /^hello( world)?$/i],
    ['letters beyond ASCII', '[äöü]{3}[漢字]😀', /^[äöü]{3}[漢字]😀$/u],
    ['nothing or something', '(?:yes)?', /^(?:yes)?$/],
  ])('a regular expression: %s', async (_, regex, wanted) => {
    for (let seed = 0; seed < 8; seed++) {
      const { text, finish } = await run({ regex }, { seed });
      expect([finish, wanted.test(text) ? 'as wanted' : text]).toEqual(['stop', 'as wanted']);
    }
  });

  test('a grammar', async () => {
    const grammar = `
      start: sum
      sum: product ("+" product)*
      product: value ("*" value)*
      value: NUMBER | "(" sum ")"
      NUMBER: /[0-9]{1,3}/
    `;
    let ended = 0;
    for (let seed = 0; seed < 12; seed++) {
      const { text, finish } = await run({ grammar }, { seed, maxNewTokens: 200 });
      if (finish !== 'stop') continue;
      ended++;
      expect(text).toMatch(/^[0-9+*()]+$/);
      // Octal numbers are none of JavaScript's.
      expect(() => Function(`return ${text.replace(/\b0+(?=\d)/g, '')}`)()).not.toThrow();
    }
    expect(ended).toBeGreaterThan(5);
  });

  test('several sequences each have their own text', async () => {
    const found = [[], [], [], []];
    const schema = { type: 'object', properties: { tags: { type: 'array', items: { enum: ['a', 'bb', 'ccc'] }, minItems: 1, maxItems: 4 } }, required: ['tags'], additionalProperties: false };
    for await (const { id, sequence } of generate(model, [prompt, tokenizer.encode('a list').ids], { constraint: { schema, tokenizer }, sequences: 2, temperature: 1, seed: 4 })) found[sequence].push(id);
    const texts = found.map(textOf);
    for (const text of texts) expect(validator(schema)(text)).toEqual([]);
    expect(new Set(texts).size).toBeGreaterThan(1);
  });

  test('generateText knows the tokenizer, and does not show the end', async () => {
    const schema = { type: 'object', properties: { a: { type: 'string', maxLength: 5 } }, required: ['a'], additionalProperties: false };
    let text = '';
    let last;
    for await (const piece of generateText(model, tokenizer, 'the', { constraint: { schema }, temperature: 1, seed: 3 })) {
      text += piece.text;
      last = piece;
    }
    expect([last.finish, validator(schema)(text)]).toEqual(['stop', []]);
    let digits = '';
    for await (const piece of generateText(model, tokenizer, 'the', { constraint: { regex: '[0-9]+' }, temperature: 1, seed: 3 })) digits += piece.text;
    expect(digits).toMatch(/^[0-9]+$/);
  });

  test('the number of tokens cuts a text, and says so', async () => {
    const { tokens, finish } = await run({ regex: '[a-z]{300}' }, { maxNewTokens: 7 });
    expect([tokens.length, finish]).toEqual([7, 'length']);
  });

  test('the tokenizer may be a folder, a file, its content, or what transformers.js makes', async () => {
    const file = path.join(folder, 'tokenizer.json');
    const others = [folder, file, content, { _tokenizerJSON: content, encode: (text, options) => tokenizer.encode(text, options).ids, eos_token_id: END }];
    for (const given of others) {
      const { text, finish } = await run({ regex: '(ab)+', tokenizer: given, ...(given === content && { end: END }) });
      expect([finish, text]).toEqual(['stop', expect.stringMatching(/^(ab)+$/)]);
    }
    // Without a token for the end a text ends only where nothing may follow.
    expect((await run({ regex: '(ab)+', tokenizer: content }, { maxNewTokens: 9 })).finish).toBe('length');
  });

  test('a folder whose files have changed is read again', async () => {
    const own = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-constrain-'));
    const write = (name, value, time) => {
      fs.writeFileSync(path.join(own, name), JSON.stringify(value));
      fs.utimesSync(path.join(own, name), time, time);
    };
    const allowed = async () => {
      const [first, ...others] = (await compile({ regex: 'a', tokenizer: own })).begin().mask();
      return [first, ...others].flatMap((word, i) => Array.from({ length: 32 }, (_, bit) => (word >>> bit) & 1 && 32 * i + bit)).filter(Boolean);
    };
    const made = (vocab) => ({ decoder: { type: 'ByteLevel' }, model: { type: 'BPE', vocab, merges: [] }, added_tokens: [{ id: 3, content: '<x>', special: true }, { id: 4, content: '<y>', special: true }] });
    const ended = async () => {
      const matcher = (await compile({ regex: '(a|b)*', tokenizer: own })).begin();
      return [3, 4].filter((id) => (matcher.mask()[0] >>> id) & 1);
    };
    write('tokenizer.json', made({ z: 0, a: 1, b: 2 }), 1000);
    write('tokenizer_config.json', { eos_token: '<x>' }, 1000);
    expect([await allowed(), await ended()]).toEqual([[1], [3]]);
    // Of the same length.
    write('tokenizer.json', made({ z: 0, b: 1, a: 2 }), 2000);
    expect([await allowed(), await ended()]).toEqual([[2], [3]]);
    write('tokenizer_config.json', { eos_token: '<y>' }, 2000);
    expect([await allowed(), await ended()]).toEqual([[2], [4]]);
    fs.rmSync(own, { recursive: true });
  });

  test('tokens of SentencePiece', async () => {
    const pieces = piecesTokenizer();
    const size = Object.keys(pieces.model.vocab).length;
    const random = randomOf(1);
    const other = await loadOnnx(context, tableModel(size, Float32Array.from({ length: size * size }, () => random.next())));
    const tokenizerOf = new Tokenizer({ pre_tokenizer: null, post_processor: null, ...pieces }, {});
    for (let seed = 0; seed < 5; seed++) {
      let text = '';
      const constraint = { regex: '(c a| b|é){2,5}', tokenizer: pieces, end: 1 };
      for await (const piece of generateText(other, tokenizerOf, [2], { constraint, stop: 1, temperature: 1, seed })) text += piece.text;
      expect(text).toMatch(/^(c a| b|é){2,5}$/);
    }
    other.destroy();
  });

  test('one that is compiled serves any number of calls', async () => {
    const constraint = await compile({ regex: '[ab]{5}', tokenizer, end: END });
    const texts = await Promise.all([1, 2, 3].map(async (seed) => {
      const ids = [];
      for await (const { id } of generate(model, prompt, { constraint, temperature: 1, seed })) ids.push(id);
      return textOf(ids);
    }));
    for (const text of texts) expect(text).toMatch(/^[ab]{5}$/);
  });

  describe('refuses before anything runs', () => {
    const cases = [
      ['a keyword', { schema: { type: 'object', properties: { a: { type: 'array', items: { not: {} } } } } }, /^generate \[noise\]: options: constraint: schema: at #\/properties\/a\/items: Unimplemented keys: \["not"\]/],
      ['a reference to nothing', { schema: { properties: { a: { $ref: '#/$defs/none' } } } }, /schema: at #\/properties\/a: .*\$defs/],
      ['a pattern that looks ahead', { schema: { properties: { 'a/b': { type: 'string', pattern: '(?=x)' } } } }, /schema: at #\/properties\/a~1b\/pattern: character 0: found \(\?=x\), a lookahead/],
      ['what nothing satisfies', { schema: { type: 'object', properties: { a: { type: 'string', minLength: 3, maxLength: 2 } }, required: ['a'] } }, /schema: at #\/properties\/a: Unsatisfiable schema: minLength/],
      ['false', { schema: false }, /schema: at #: Unsatisfiable/],
      ['a schema of itself', { schema: { $ref: '#' } }, /schema: .*allows no text/],
      ['no schema', { schema: 'x' }, /schema: found "x", allowed an object or a boolean/],
      ['a circle of objects', { schema: (() => { const schema = {}; schema.properties = { schema }; return schema; })() }, /schema: Converting circular structure/],
      ['a regular expression', { regex: 'a(' }, /constraint: regex: character 2: Unterminated group$/],
      ['an anchor of lines', { regex: /^a/m }, /regex: character 0: found \^, an anchor with the flag m/],
      ['a regular expression of no text', { regex: '[^\\s\\S]' }, /regex: .*allows no text/],
      ['a grammar', { grammar: 'start: "a" b\nb: /x/\nc: (((\n' }, /grammar: 3\(\d+\): Expected token/],
      ['a rule that is not there', { grammar: 'start: foo' }, /grammar: at 1\(8\): unknown name: "foo"/],
      ['two at once', { regex: 'a', schema: {} }, /constraint: found schema and regex, allowed one of/],
      ['no tokenizer', { regex: 'a', tokenizer: undefined }, /tokenizer: found undefined, allowed the path/],
      ['another object', { regex: 'a', tokenizer: {} }, /tokenizer: found a value of type object/],
      ['a tokenizer without bytes', { regex: 'a', tokenizer: { model: { type: 'WordPiece', vocab: { a: 0 } }, decoder: { type: 'WordPiece' } } }, /tokenizer: tokenizer.json: found a decoder "WordPiece"/],
      ['an end that there is not', { regex: 'a', end: 1e6 }, /tokenizer: end: found 1000000/],
      ['an end of another type', { regex: 'a', end: 'x' }, /end: found "x", allowed a token/],
    ];
    test.each(cases)('%s', async (_, constraint, message) => {
      await expect(run(constraint)).rejects.toThrow(message);
      await expect(run(constraint)).rejects.toThrow(TypeError);
    });
  });

  describe('ends in bounded time', () => {
    const nested = (depth) => {
      let schema = { type: 'null' };
      for (let i = 0; i < depth; i++) schema = { type: 'array', items: schema, minItems: 1 };
      return schema;
    };
    const cases = {
      'arrays in arrays': { schema: nested(120) },
      'too many arrays in arrays': { schema: nested(1000) },
      'more than can be written': { schema: nested(20_000) },
      'an enormous pattern': { schema: { type: 'string', pattern: '(((a{1,1000}){1,1000}){1,1000})' } },
      'a pattern of many brackets': { schema: { type: 'string', pattern: `${'('.repeat(2000)}a${')'.repeat(2000)}` } },
      'a product of choices': { schema: { allOf: Array.from({ length: 20 }, (_, i) => ({ anyOf: Array.from({ length: 10 }, (__, j) => ({ type: 'object', properties: { [`p${i}`]: { const: j } } })) })) } },
      'a chain of references': { schema: { $defs: Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`d${i}`, { type: 'object', properties: { a: { $ref: `#/$defs/d${i + 1}` } }, required: ['a'] }])), $ref: '#/$defs/d0' } },
      'many patterns at once': { schema: { allOf: Array.from({ length: 30 }, (_, i) => ({ type: 'string', pattern: `a.{${i}}b` })) } },
      'a large multiple': { schema: { type: 'integer', multipleOf: 9_999_991 } },
      'a pattern of many choices': { schema: { type: 'string', pattern: 'a?'.repeat(20_000) } },
      'many values': { schema: { enum: Array.from({ length: 5000 }, (_, i) => `value${i}`) } },
      'a regular expression of many states': { regex: '(a{1000}){1000}b' },
      'a regular expression of brackets': { regex: '('.repeat(100_000) },
      'a grammar of brackets': { grammar: `start: ${'('.repeat(100_000)}` },
      'a grammar without an end': { grammar: 'start: "a" start' },
      'a grammar of many symbols': { grammar: `start: ${'"a" '.repeat(70_000)}` },
    };
    test.each(Object.entries(cases))('%s', async (_, constraint) => {
      const ended = await run(constraint, { maxNewTokens: 50 }).then(({ finish }) => finish, (error) => error);
      if (typeof ended !== 'string') expect(ended.message).toMatch(/constraint: /);
      // Others go on.
      expect((await run({ regex: 'ab' })).text).toBe('ab');
    });
  });

  test('nonsense is text, or an error', async () => {
    const random = randomOf(11);
    const parts = ['{"', '"type"', ':', '"object"', '}', '[', ']', '"$ref"', '"#"', ',', '\u0000', 'ä', '"properties"', '1e999', '-', 'null', '\\u', '"items"'];
    for (let round = 0; round < 60; round++) {
      const text = Array.from({ length: random.below(20) }, () => random.one(parts)).join('');
      for (const constraint of [{ regex: text }, { grammar: text }, { grammar: `start: ${text}` }]) {
        const ended = await run(constraint, { maxNewTokens: 10 }).catch((error) => error);
        if (ended instanceof Error) expect(ended.message).toMatch(/constraint: /);
      }
    }
  });
});

test('the package says how it is installed where it is missing', () => {
  const { execFileSync } = require('node:child_process');
  const place = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-without-'));
  const root = path.join(__dirname, '..');
  for (const name of ['lib', 'package.json']) fs.cpSync(path.join(root, name), path.join(place, name), { recursive: true });
  const script = `require('./lib/generate/constraint.js').compiled('', { schema: {} }).catch(({ message }) => console.log(message))`;
  const said = execFileSync(process.execPath, ['-e', script], { cwd: place, encoding: 'utf8', env: { ...process.env, WEBNN_NATIVE: path.join(root, 'native', `webnn-node.${process.platform}-${process.arch}.node`) } });
  fs.rmSync(place, { recursive: true });
  expect(said).toMatch(/need a separate package, which is not installed. Run "npm install @webnn-node\/constrain@\d+\.\d+\.\d+"\./);
});

test('a native part of another version, or that does not load, is refused with what to do', () => {
  const { execFileSync } = require('node:child_process');
  const place = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-version-'));
  const from = path.join(__dirname, '..', 'packages', 'constrain');
  const to = path.join(place, 'node_modules', '@webnn-node', 'constrain');
  for (const name of ['lib', 'package.json']) fs.cpSync(path.join(from, name), path.join(to, name), { recursive: true });
  const platforms = [`${process.platform}-${process.arch}`, ...['gnu', 'musl'].map((libc) => `linux-${process.arch}-${libc}`)];
  const use = (addon) => {
    for (const platform of platforms) {
      fs.mkdirSync(path.join(`${to}-${platform}`), { recursive: true });
      fs.writeFileSync(path.join(`${to}-${platform}`, 'index.js'), addon);
    }
    const script = `try { require('./node_modules/@webnn-node/constrain/lib/native.js'); console.log('loaded'); } catch ({ message }) { console.log(message); }`;
    return execFileSync(process.execPath, ['-e', script], { cwd: place, encoding: 'utf8' });
  };
  const { version } = require('../packages/constrain/package.json');
  expect(use(`exports.version = () => '0.0.9';`)).toMatch(new RegExp(`JavaScript is of version ${version}, .* version 0\\.0\\.9`));
  expect(use('')).toMatch(/the native part is of version unknown/);
  const damaged = `throw Object.assign(new Error('file too short'), { code: 'ERR_DLOPEN_FAILED' });`;
  expect(use(damaged)).toMatch(/could not be loaded from @webnn-node\/constrain-\S+: file too short\nDelete node_modules and install again\./);
  expect(use(`exports.version = () => '${version}';`)).toBe('loaded\n');
  fs.rmSync(place, { recursive: true });
});
