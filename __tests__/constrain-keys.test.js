'use strict';

// Texts of schemas validate whatever spelling a model chooses for keys and strings: escapes, and keys that come twice. The validator is ajv.

const Ajv = require('ajv/dist/2020.js').default;
const { allows, byteTokenizer, END, textBy } = require('./constrain/accepts.js');
const { describeBuilt, isBuilt } = require('./constrain/built.js');
const { randomOf } = require('./constrain/schemas.js');

/** Schemas that are drawn: many in npm run test:full. */
const COUNT = process.env.WEBNN_SWEEP === 'all' ? 3000 : 150;

const integer = { type: 'integer' };
const escaped = (text) => Array.from(text, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`).join('');

describeBuilt('keys and strings', () => {
  const { compile } = isBuilt ? require('@webnn-node/constrain') : {};
  const compiled = (schema) => compile({ schema, tokenizer: byteTokenizer, end: END });
  const isValid = (schema, text) => new Ajv({ strict: false, ownProperties: true }).validate(schema, JSON.parse(text));

  test.each([
    ['a named key', { type: 'object', properties: { a: integer } }, `{"${escaped('a')}": "x"}`],
    ['a key that is there already', { type: 'object', properties: { a: integer }, required: ['a'] }, `{"a": 1, "${escaped('a')}": "x"}`],
    ['a key that may not be there', { type: 'object', properties: { admin: { const: false } } }, `{"${escaped('a')}dmin": true}`],
    ['a key of false', { type: 'object', properties: { a: false } }, `{"${escaped('a')}": 1}`],
    ['a control character of a key', { type: 'object', properties: { 'a\n': integer } }, `{"a${escaped('\n')}": "x"}`],
    ['a key of a pattern', { type: 'object', patternProperties: { '^a': integer } }, `{"${escaped('a')}b": "x"}`],
    ['a control character of a pattern and a name', { type: 'object', properties: { 'a\n': { type: 'string' } }, patternProperties: { '^a': { type: 'string' } }, additionalProperties: integer }, `{"${escaped('a')}": 1}`],
    ['a key of another pattern', { type: 'object', patternProperties: { '^x_': integer }, additionalProperties: { type: 'string' } }, `{"${escaped('x')}_b": "x"}`],
    ['a key beyond the basic plane', { type: 'object', properties: { '😀': integer } }, `{"\\ud83d\\ude00": "x"}`],
    ['a key with a slash', { type: 'object', properties: { 'a/b': integer } }, '{"a\\/b": "x"}'],
    ['escapes that the schema asks for', { type: 'object', properties: { a: integer }, 'x-guidance': { json_allowed_escapes: 'nrbtf\\"u', json_allow_general_unicode_escapes: true } }, `{"${escaped('a')}": "x"}`],
    ['a schema beside the definitions', { $ref: '#/parts/a', parts: { a: { type: 'object', properties: { a: integer } } } }, `{"${escaped('a')}": "x"}`],
  ])('%s has one spelling', async (_, schema, text) => {
    const constraint = await compiled(schema);
    expect([isValid(schema, text), allows(constraint, text)]).toEqual([false, false]);
  });

  test('names with quotes, escapes and control characters are written as JSON writes them', async () => {
    for (const name of ['a"b', 'a\\b', 'a\nb', '\u0001', '\x7f', 'a/b', '\u2028', '😀', '', '__proto__']) {
      const schema = { type: 'object', properties: JSON.parse(`{${JSON.stringify(name)}: {"type": "integer"}}`), required: [name], additionalProperties: false };
      const constraint = await compiled(schema);
      expect([name, allows(constraint, `{${JSON.stringify(name)}: 1}`), allows(constraint, `{${JSON.stringify(name)}: true}`)]).toEqual([name, true, false]);
    }
  });

  test.each([
    [{ type: 'object', minProperties: 2 }, 'at #/minProperties: found 2, allowed 1'],
    [{ type: 'object', properties: { x: { minProperties: 3, required: ['a'], additionalProperties: integer } } }, 'at #/properties/x/minProperties: found 3, allowed 2'],
    [{ type: 'object', patternProperties: { '^[ab]$': integer }, minProperties: 2, additionalProperties: false }, 'at #/minProperties: found 2, allowed 1'],
    [{ $ref: '#/$defs/a', $defs: { a: { allOf: [{ required: ['a', 'b'] }], minProperties: 4 } } }, 'at #/$defs/a/minProperties: found 4, allowed 3'],
    [{ const: ['a', { b: '\u0001' }] }, 'at #/const: found U+0001, allowed strings without control characters'],
    [{ items: { enum: ['a', '\x7f'] } }, 'at #/items/enum: found U+007F'],
  ])('%j is refused', async (schema, message) => {
    const error = await compiled(schema).catch((error) => error);
    expect([error.name, error.message]).toEqual(['TypeError', expect.stringContaining(`constraint: schema: ${message}`)]);
  });

  test('the schemas of grammars, too', async () => {
    const grammar = (schema) => compile({ grammar: `start: %json ${JSON.stringify(schema)}`, tokenizer: byteTokenizer, end: END });
    await expect(grammar({ type: 'object', minProperties: 2 })).rejects.toThrow('grammar: line 1: at #/minProperties: found 2');
    const constraint = await grammar({ type: 'object', properties: { a: integer } });
    expect([`{"${escaped('a')}":"x"}`, '{"b":"x"}'].map((text) => allows(constraint, text))).toEqual([false, true]);
  });

  test('members that cannot be equal may be counted', async () => {
    const schemas = [
      [{ type: 'object', minProperties: 1 }, '{"a": 1, "a": 2}', '{}'],
      [{ type: 'object', minProperties: 3, required: ['a', 'b'] }, '{"a": 1, "b": 2, "c": 3}', '{"a": 1, "b": 2}'],
      [{ type: 'object', minProperties: 2, required: ['a', 'b'], properties: { a: integer, b: integer }, additionalProperties: false }, '{"a": 1, "b": 2}', '{"a": 1}'],
      [{ allOf: [{ type: 'object', required: ['a'], properties: { a: integer } }], minProperties: 2 }, '{"a": 1, "b": 2}', '{"a": 1}'],
    ];
    for (const [schema, text, other] of schemas) {
      const constraint = await compiled(schema);
      expect([text, isValid(schema, text), allows(constraint, text), allows(constraint, other)]).toEqual([text, true, true, false]);
    }
  });

  const NAMES = ['a', 'b', 'ab', 'a/b', 'a"', '\\', 'a\n', '\t', '😀', 'é', '\u2028', 'x_a', 'x_', '1', ' ', '', '\u0001', 'toString'];
  const PATTERNS = ['^a', '^x_', '^[ab]$', '\\s', '^.$', '[^a-z]', '😀', '^\\S+$'];
  const SCHEMAS = [integer, { type: 'boolean' }, { const: 'x' }, { type: 'string', maxLength: 3 }, false];

  /** An object with keys of all kinds, which may be refused. */
  function objectOf(random) {
    const names = [...new Set(Array.from({ length: random.below(4) }, () => random.one(NAMES)))];
    const schema = { type: 'object', properties: Object.fromEntries(names.map((name) => [name, random.one(SCHEMAS)])) };
    const required = names.filter((name) => schema.properties[name] !== false && random.is(0.3));
    if (required.length > 0) schema.required = required;
    if (random.is(0.5)) schema.patternProperties = Object.fromEntries(Array.from({ length: 1 + random.below(2) }, () => [random.one(PATTERNS), random.one(SCHEMAS)]));
    if (random.is(0.6)) schema.additionalProperties = random.one(SCHEMAS);
    if (random.is(0.4)) schema.minProperties = random.below(4);
    if (random.is(0.2)) schema.maxProperties = 1 + random.below(3);
    return random.is(0.2) ? { allOf: [schema, objectOf(random)] } : schema;
  }

  /** A key in some spelling. */
  const spelled = (random, name) => Array.from(JSON.stringify(name).slice(1, -1), (letter) => (random.is(0.2) && letter !== '\\' ? escaped(letter) : letter)).join('');

  test(`${COUNT} schemas by chance`, async () => {
    const wrong = [];
    const counts = { compiled: 0, own: 0, allowed: 0 };
    for (let seed = 0; seed < COUNT; seed++) {
      const random = randomOf(seed);
      const schema = objectOf(random);
      const constraint = await compiled(schema).catch(() => undefined);
      if (constraint === undefined) continue;
      counts.compiled++;
      const validate = new Ajv({ strict: false, ownProperties: true }).compile(schema);
      // A model that likes escapes, quotes, and ends.
      const likes = [...'\\u06123"}:,a'].map((letter) => letter.charCodeAt(0)).concat(END);
      const choose = (list) => random.one(random.is(0.6) && list.some((id) => likes.includes(id)) ? list.filter((id) => likes.includes(id)) : list);
      const own = Array.from({ length: 8 }, () => textBy(constraint, choose)).filter((text) => text !== undefined);
      const written = Array.from({ length: 20 }, () => `{${Array.from({ length: random.below(4) }, () => `"${spelled(random, random.one(NAMES))}": ${random.one(['1', 'true', '"x"', '"yz"'])}`).join(', ')}}`);
      counts.own += own.length;
      const allowed = written.filter((text) => allows(constraint, text));
      counts.allowed += allowed.length;
      for (const text of [...own, ...allowed]) if (!validate(JSON.parse(text))) wrong.push({ seed, schema: JSON.stringify(schema), text });
    }
    expect(wrong).toEqual([]);
    expect(counts.compiled).toBeGreaterThan(0.3 * COUNT);
    expect(counts.own).toBeGreaterThan(COUNT);
    expect(counts.allowed).toBeGreaterThan(0.3 * COUNT);
  }, 900_000);
});
