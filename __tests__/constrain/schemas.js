'use strict';

// JSON schemas from a seed, of the kinds that public suites have.

/** Numbers from a seed. */
function randomOf(seed) {
  let state = (seed * 2654435761 + 12345) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x ^= x + Math.imul(x ^ (x >>> 7), x | 61);
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count) => Math.floor(next() * count);
  return { next, below, one: (list) => list[below(list.length)], is: (share) => next() < share };
}

const NAMES = ['name', 'age', 'id', 'tags', 'price', 'city', 'a b', 'größe', 'x/y', 'q"uote', 'items', 'ok', '名前', 'back\\slash', 'e'];
const PATTERNS = ['^[a-z]{2,6}$', '^\\d{3}-\\d{4}$', '^(foo|bar|baz)+$', '^[A-Z][a-z]*( [A-Z][a-z]*)?$', '^\\w+@\\w+\\.com$', '^#[0-9a-fA-F]{6}$', 'ab+c', '^v\\d+(\\.\\d+){0,2}$', '^[^"\\\\]{1,5}$'];
const FORMATS = ['date', 'time', 'date-time', 'duration', 'email', 'hostname', 'ipv4', 'ipv6', 'uuid', 'uri'];
const VALUES = [null, true, false, 0, 1, -7, 2.5, 'x', 'yes', 'a"b', 'näh', '', [], [1, 'two'], { k: 1 }];

function numberOf(random) {
  const type = random.one(['integer', 'number']);
  const low = random.below(200) - 100;
  const high = low + 1 + random.below(500);
  const schema = { type };
  if (random.is(0.5)) schema[random.one(['minimum', 'exclusiveMinimum'])] = low;
  if (random.is(0.5)) schema[random.one(['maximum', 'exclusiveMaximum'])] = high + 2;
  if (type === 'integer' && random.is(0.2)) schema.multipleOf = random.one([2, 3, 5]);
  if (type === 'number' && random.is(0.3)) Object.assign(schema, { minimum: low + 0.25, maximum: high + 0.75 });
  return schema;
}

function stringOf(random) {
  switch (random.below(5)) {
    case 0:
      return { type: 'string', pattern: random.one(PATTERNS) };
    case 1:
      return { type: 'string', format: random.one(FORMATS) };
    case 2:
      return { type: 'string', minLength: random.below(4), maxLength: 4 + random.below(12) };
    case 3:
      return { type: 'string', maxLength: random.below(9) };
    default:
      return { type: 'string' };
  }
}

function enumOf(random) {
  if (random.is(0.3)) return { const: random.one(VALUES) };
  const values = new Set(Array.from({ length: 1 + random.below(5) }, () => JSON.stringify(random.one(VALUES))));
  return { enum: [...values].map((text) => JSON.parse(text)) };
}

function arrayOf(random, depth, names) {
  const least = random.below(3);
  const schema = { type: 'array', items: schemaOf(random, depth - 1, names) };
  if (random.is(0.7)) schema.minItems = least;
  if (random.is(0.8)) schema.maxItems = least + random.below(4);
  if (random.is(0.2)) {
    schema.prefixItems = Array.from({ length: 1 + random.below(2) }, () => schemaOf(random, depth - 1, names));
    schema.maxItems = 4;
    delete schema.minItems;
  }
  return schema;
}

function objectOf(random, depth, names) {
  const keys = [...new Set(Array.from({ length: 1 + random.below(4) }, () => random.one(NAMES)))];
  const properties = Object.fromEntries(keys.map((key) => [key, schemaOf(random, depth - 1, names)]));
  const schema = { type: 'object', properties, required: keys.filter(() => random.is(0.6)) };
  if (random.is(0.7)) schema.additionalProperties = false;
  else if (random.is(0.5)) schema.additionalProperties = schemaOf(random, 0, names);
  if (random.is(0.1)) schema.patternProperties = { '^x-': { type: 'integer' } };
  return schema;
}

/** Objects that a member tells apart, or values of several types. */
function choiceOf(random, depth, names) {
  if (random.is(0.4)) return { type: [...new Set(['string', random.one(['null', 'integer']), random.one(['boolean', 'null'])])], ...(random.is(0.3) && { maxLength: 8 }) };
  const word = random.is(0.3) ? 'oneOf' : 'anyOf';
  if (word === 'oneOf') return { oneOf: ['circle', 'square'].map((kind) => ({ type: 'object', properties: { kind: { const: kind }, size: numberOf(random) }, required: ['kind', 'size'], additionalProperties: false })) };
  return { anyOf: Array.from({ length: 2 + random.below(2) }, () => schemaOf(random, depth - 1, names)) };
}

function schemaOf(random, depth, names) {
  if (depth <= 0) return random.one([numberOf, stringOf, enumOf, () => ({ type: 'boolean' }), () => ({ type: 'null' })])(random);
  const kinds = [numberOf, stringOf, stringOf, enumOf, arrayOf, objectOf, objectOf, choiceOf];
  if (names.length > 0) kinds.push(() => ({ $ref: `#/$defs/${random.one(names)}` }));
  return random.one(kinds)(random, depth, names);
}

/** A schema, the same for each seed. */
function schemaOfSeed(seed) {
  const random = randomOf(seed);
  const names = random.is(0.3) ? ['leaf', 'node'] : [];
  const root = random.is(0.8) ? objectOf(random, 3, names) : schemaOf(random, 3, names);
  if (names.length === 0) return root;
  const leaf = schemaOf(random, 1, []);
  // A list of itself, which ends.
  const node = { type: 'object', properties: { value: { $ref: '#/$defs/leaf' }, next: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/node' }] } }, required: ['value', 'next'], additionalProperties: false };
  return { ...root, $defs: { leaf, node } };
}

module.exports = { randomOf, schemaOfSeed };
