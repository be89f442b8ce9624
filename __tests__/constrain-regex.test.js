'use strict';

// Regular expressions of constraints are those of JavaScript: V8 says which texts match.

const { allows, byteTokenizer, END, textBy } = require('./constrain/accepts.js');
const { describeBuilt, isBuilt } = require('./constrain/built.js');
const { randomOf } = require('./constrain/schemas.js');

/** Expressions that are drawn: many in npm run test:full. */
const COUNT = process.env.WEBNN_SWEEP === 'all' ? 5000 : 300;

const STRINGS = [
  '', 'a', 'b', 'A', 'k', 's', 'K', 'aa', 'ab', 'ba', 'aab', 'abc', 'xb', 'bx', 'a b', '-', '--', '&', '&&', '~', '[', ']', '{', '}', '{,2}', 'a{,2}', 'uuu', 'u', '3', '٣', '٣٣', 'é', 'É', 'ß', 'ẞ', 'ſ',
  '\u212a', '\u2126', 'ω', 'Ω', 'ı', 'İ', 'i', 'I', 'Σ', 'σ', 'ς', 'ǅ', 'Ǆ', ' ', '\t', '\n', '\r', '\v', '\f', '\b', '\0', '\u0085', '\u00a0', '\u2028', '\u2029', '\ufeff', '\u180e', '\u200b', '/', '\\', '$', '^', '.', '_', '#',
  'cJ', '\\cJ', '😀', 'a😀c', 'a.c', 'abc\n', '漢字', '12', '1234', 'foo', 'foobar', 'barfoo', 'a/b', '"', '\x7f', '\x01', '\u{10400}', '\u{10428}', '(', ')',
];

/** Of both modes. */
const SOURCES = [
  '', 'a', 'abc', 'a|b', 'a*', 'a+?', 'a?b', '(?:ab)+', '(a)(b)', '(?<name>a)b', '.', '.*', '.+', '..', 'a.c', '\\d', '\\D', '\\w', '\\W', '\\s', '\\S', '[\\d]', '[^\\d]', '[\\s\\S]', '[^\\s]', '[^\\S]', '\\S+', '[\\w-]+', '[^]', '[]', '[^a]', '[a-c]', '[a\\-c]', '[\\b]',
  '[&&]', '[a&&b]', '[~~]', '[a-c--b]', '[+--]', '[.]', '\\/', '/', '#', '\\$', '\\.', '^a', 'a$', '^a$', '^a|b$', 'a|^b$', '^a$|^b', '(^a|b)c?', '(a|b$)', '^$', 'a^b', 'a$b', 'a*^b', 'b$a*', '(?:^|x)b', 'a(?:$|b)', '^^a$$',
  '\\cJ', '\\0', '\\x61', '\\u0061', '\\t\\n\\v\\f\\r', '\\n', '[\\n\\r]', 'é', '[äé]', '\\u00e9', '😀', 'a{2}', 'a{1,2}', 'a{0}', 'a{0,1}', '(?:a|b){2,3}', '(?:)', '()', '(|a)b', '[^\\x00-\\x7f]', '\\u2028', '(?:foo|bar)+',
];
const UNICODE = ['\\u{61}', '\\p{L}', '\\p{Lu}', '\\P{L}', '[^\\p{L}]', '[\\p{L}\\d]+', '\\p{Script=Greek}', '\\p{ASCII}', '\\p{Any}', '[😀-😂]', '[^😀]', '\\ud83d\\ude00', '\\ud83d', '[\\ud800-\\udfff]', '😀*', '\\p{Nd}+', '\\p{Emoji}'];
const LEGACY = ['a{,2}', '{', '}', ']', '\\u{3}', '\\c', '[\\c]', '\\1', '\\8', '\\07', '\\-', '\\a', 'x{', '[\\d-z]', '\\ud83d\\ude00', '\\p{L}', '\\k'];
const SETS = ['[[a-z]&&[^b]]', '[[a-z]--[aeiou]]', '[[a-c][x-z]]', '[^[ab]]', '\\p{L}', '[\\p{L}--[a-z]]', '[\\w&&\\d]'];

/** Each expression with its flags. */
const CASES = [
  ...SOURCES.flatMap((source) => ['', 'u', 'i', 'iu', 's', 'us'].map((flags) => [source, flags])),
  ...UNICODE.flatMap((source) => ['u', 'iu'].map((flags) => [source, flags])),
  ...LEGACY.flatMap((source) => ['', 'i'].map((flags) => [source, flags])),
  ...SETS.flatMap((source) => ['v', 'iv'].map((flags) => [source, flags])),
];

/** What has no expression that is compiled, and its place. */
const REFUSED = [
  [/a(?=b)/, 'character 1: found (?=b), a lookahead, which is not supported'],
  [/a(?!b)/, 'character 1: found (?!b), a lookahead'],
  [/(?<=b)a/, 'character 0: found (?<=b), a lookbehind'],
  [/a\b/, 'character 1: found \\b, a word boundary'],
  [/(a)\1/, 'character 3: found \\1, a backreference'],
  [/(?<x>a)\k<x>/u, 'character 7: found \\k<x>, a backreference'],
  [/(^a|b)+/, 'character 0: found (^a|b)+, an anchor in what is repeated'],
  [/^a/m, 'character 0: found ^, an anchor with the flag m'],
  [/[\ud83d]/, 'character 0: found [\\ud83d], a half of a character beyond U+FFFF, which needs the flag u'],
  [/😀+/, 'character 0: found \ud83d, a half of a character'],
  [/a{1,2000000}/, 'character 0: found a{1,2000000}, allowed repetitions up to 100000'],
  ['a(', 'character 2: Unterminated group'],
  ['\\-', 'character 1: Invalid escape'],
  ['(?i)a', 'character 1: Invalid group'],
  ['a{,2}', 'character 2: Incomplete quantifier'],
  ['[z-a]', 'character 4: Range out of order in character class'],
];

const isBeyond = (text) => /[\ud800-\udfff]/.test(text);

const LETTERS = ['a', 'b', 'A', 'k', '\u212a', 'ſ', 's', '1', ' ', '\n', '\u2028', '-', '_', 'é', '.', '"', '\\'];
const ATOMS = ['a', 'b', 'k', 's', '1', '-', '\\.', '.', '\\d', '\\w', '\\W', '\\s', '\\S', 'é', '\\u212a', '\\n', '[ab]', '[^ab]', '[a-z1]', '[\\s\\d]', '[^\\w]', '"'];

/** The source of an expression that is valid with all flags. */
function expressionOf(random, depth) {
  const alternative = () => {
    const parts = Array.from({ length: random.below(4) }, () => {
      if (random.is(0.08)) return random.one(['^', '$']);
      const atom = depth > 0 && random.is(0.3) ? `${random.one(['(', '(?:'])}${expressionOf(random, depth - 1)})` : random.one(ATOMS);
      return atom + (random.is(0.3) ? random.one(['*', '+', '?', '{2}', '{1,3}', '{0}', '*?', '{2,}']) : '');
    });
    return parts.join('');
  };
  return Array.from({ length: 1 + (random.is(0.3) ? random.below(3) : 0) }, alternative).join('|');
}

describeBuilt('a regular expression', () => {
  const { compile } = isBuilt ? require('@webnn-node/constrain') : {};
  const compiled = (constraint) => compile({ tokenizer: byteTokenizer, end: END, ...constraint }).catch((error) => error);

  /** Texts about which the constraint and V8 differ. Without the flag u a constraint may leave out texts with characters beyond U+FFFF. */
  function differences(constraint, matches, texts, isUnits) {
    const found = (text) => (constraint instanceof Error ? false : allows(constraint, text));
    return texts.filter((text) => found(text) !== matches(text) && !(isUnits && isBeyond(text) && !found(text)));
  }

  /** Without the flags by which V8 looks from a place. */
  const wholly = (source, flags) => new RegExp(`^(?:${source})$`, flags.replace(/[gy]/g, ''));

  async function wrongWhole(source, flags, texts) {
    const regex = new RegExp(source, flags);
    const constraint = await compiled({ regex });
    const oracle = wholly(source, flags);
    if (constraint instanceof Error && !/allows no text/.test(constraint.message)) return [`/${source}/${flags}: ${constraint.message}`];
    const wrong = differences(constraint, (text) => oracle.test(text), texts, !/[uv]/.test(flags));
    return wrong.length === 0 ? [] : [`/${source}/${flags}: ${JSON.stringify(wrong)}`];
  }

  async function wrongPattern(source, texts) {
    const schema = { type: 'string', pattern: source };
    const constraint = await compiled({ schema });
    const oracle = new RegExp(source, 'u');
    if (constraint instanceof Error && !/allows no text|Unsatisfiable/.test(constraint.message)) return [`${source}: ${constraint.message}`];
    // Those that strings of constraints can have.
    const written = texts.filter((text) => !/\\u/.test(JSON.stringify(text)) && !text.includes('\x7f'));
    const wrong = differences(constraint, (text) => oracle.test(JSON.parse(text)), written.map((text) => JSON.stringify(text)), false);
    return wrong.length === 0 ? [] : [`${source}: ${JSON.stringify(wrong)}`];
  }

  test('a RegExp matches a whole text', async () => {
    const wrong = [];
    for (const [source, flags] of CASES) wrong.push(...(await wrongWhole(source, flags, STRINGS)));
    expect(wrong).toEqual([]);
  }, 120_000);

  test.each(REFUSED)('%s is refused', async (regex, message) => {
    const error = await compiled({ regex });
    expect([error.name, error.message]).toEqual(['TypeError', expect.stringContaining(`constraint: regex: ${message}`)]);
  });

  test('too many classes that take long are refused', async () => {
    const classes = (count) => Array.from({ length: count }, (_, i) => `[ä${String.fromCharCode(0x100 + i)}]`).join('');
    expect(allows(await compiled({ regex: new RegExp(classes(64), 'i') }), 'Ä'.repeat(64))).toBe(true);
    expect((await compiled({ regex: new RegExp(classes(200), 'i') })).message).toMatch(/regex: character \d+: found \[ä.\], too many different properties/);
  });

  test('classes of strings are refused', async () => {
    for (const source of ['[\\q{ab|c}]', '\\p{RGI_Emoji}']) {
      const { message } = await compiled({ regex: new RegExp(source, 'v') });
      expect(message).toContain(`constraint: regex: character 0: found ${source}, a class with strings`);
    }
  });

  test('flags that say where V8 looks change nothing, and a string has the flag u', async () => {
    for (const regex of [/a.c/dgy, 'a.c', /a.c/m]) expect(allows(await compiled({ regex }), 'abc')).toBe(true);
    expect(allows(await compiled({ regex: '.' }), '😀')).toBe(true);
    expect(allows(await compiled({ regex: /./ }), '😀')).toBe(false);
    for (const regex of [/.*/, /.+/, /[^"]*/]) expect(allows(await compiled({ regex }), 'a😀')).toBe(true);
  });

  test('groups have flags of their own', async () => {
    const constraint = await compiled({ regex: 'a(?i:b(?-i:c))' });
    expect(['abc', 'aBc', 'Abc', 'aBC'].map((text) => allows(constraint, text))).toEqual([true, true, false, false]);
  });

  test('the place of a pattern is named', async () => {
    const cases = [
      [{ schema: { properties: { 'a/b': { items: { type: 'string', pattern: 'x(?=a)' } } } } }, 'schema: at #/properties/a~1b/items/pattern: character 1: found (?=a)'],
      [{ schema: { patternProperties: { '^(?!a)': {} } } }, 'schema: at #/patternProperties: character 1: found (?!a)'],
      [{ schema: { $ref: '#/parts/a', parts: { a: { type: 'string', pattern: 'a\\b' } } } }, 'schema: at #/parts/a/pattern: character 1: found \\b'],
      [{ grammar: 'start: "a" x\nx: %json { "type": "string",\n "pattern": "(" }' }, 'grammar: line 2: at #/pattern: character 1: Unterminated group'],
    ];
    for (const [constraint, message] of cases) expect((await compiled(constraint)).message).toContain(message);
  });

  test('the schemas of a grammar have patterns of JavaScript, and its lines keep their numbers', async () => {
    const constraint = await compiled({ grammar: 'start: "x" %json { "type": "string",\n"pattern": "^\\\\s$" }' });
    expect(['x"\ufeff"', 'x"\u0085"'].map((text) => allows(constraint, text))).toEqual([true, false]);
    const { message } = await compiled({ grammar: 'start: "x" %json { "type":\n\n "string" }\nc: (((\n' });
    expect(message).toMatch(/grammar: 4\(\d+\): Expected token/);
  });

  test('patterns of keys', async () => {
    const schema = { type: 'object', patternProperties: { '^\\s$': { type: 'integer' }, '^\\S$': { type: 'boolean' } }, additionalProperties: false };
    const constraint = await compiled({ schema });
    const texts = ['{"\ufeff": 1}', '{"\u0085": 1}', '{"\u0085": true}', '{"a": true}', '{"ab": true}'];
    expect(texts.map((text) => allows(constraint, text))).toEqual([true, false, true, true, false]);
  });

  test(`${COUNT} expressions by chance`, async () => {
    const wrong = [];
    const counts = { all: 0, matching: 0 };
    for (let seed = 0; seed < COUNT; seed++) {
      const random = randomOf(seed);
      const flags = random.one(['', 'u', 'i', 'iu', 's', 'v']);
      const source = expressionOf(random, 3);
      const constraint = await compiled({ regex: new RegExp(source, flags) });
      const own = constraint instanceof Error ? [] : Array.from({ length: 6 }, () => textBy(constraint, (list) => random.one(list))).filter((text) => text !== undefined);
      const texts = [...own, ...Array.from({ length: 20 }, () => Array.from({ length: random.below(5) }, () => random.one(LETTERS)).join(''))];
      counts.all++;
      counts.matching += own.length > 0 ? 1 : 0;
      if (constraint instanceof Error && /an anchor in what is repeated/.test(constraint.message)) continue;
      wrong.push(...(await wrongWhole(source, flags, texts)));
      if (flags === 'u') wrong.push(...(await wrongPattern(source, texts)));
    }
    expect(wrong).toEqual([]);
    expect(counts.matching).toBeGreaterThan(0.7 * counts.all);
  }, 900_000);

  test('a pattern matches within a string', async () => {
    const wrong = [];
    const isValid = (source) => { try { return new RegExp(source, 'u'); } catch { return false; } };
    for (const source of [...SOURCES, ...UNICODE].filter(isValid)) wrong.push(...(await wrongPattern(source, STRINGS)));
    expect(wrong).toEqual([]);
  }, 120_000);
});
