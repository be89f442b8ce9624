'use strict';

// Numbers of constraints keep to their bounds as float64 has them: more digits do not round to an excluded bound. The validator is ajv.

const Ajv = require('ajv/dist/2020.js').default;
const { allows, byteTokenizer, END, textBy } = require('./constrain/accepts.js');
const { describeBuilt, isBuilt } = require('./constrain/built.js');
const { randomOf } = require('./constrain/schemas.js');

/** Schemas that are drawn: many in npm run test:full. */
const COUNT = process.env.WEBNN_SWEEP === 'all' ? 2000 : 100;

describeBuilt('numbers', () => {
  const { compile } = isBuilt ? require('@webnn-node/constrain') : {};
  const compiled = (schema) => compile({ schema, tokenizer: byteTokenizer, end: END });
  const validator = (schema) => new Ajv({ strict: false }).compile(schema);

  test.each([
    [{ type: 'number', exclusiveMaximum: 1 }, `0.${'9'.repeat(20)}`, '0.9999999999999999'],
    [{ type: 'number', exclusiveMinimum: 1 }, `1.${'0'.repeat(20)}1`, '1.0000000000000003'],
    [{ type: 'number', exclusiveMinimum: 0 }, `0.${'0'.repeat(330)}1`, '0.00000000000000000001'],
    [{ type: 'number', exclusiveMaximum: 0 }, `-0.${'0'.repeat(330)}1`, '-0.001'],
    [{ type: 'number', exclusiveMinimum: 0 }, `0.${'0'.repeat(60)}`, '3'],
    [{ type: 'number', exclusiveMaximum: -2.5 }, `-2.5${'0'.repeat(20)}1`, '-2.6'],
    [{ exclusiveMaximum: 1 }, `0.${'9'.repeat(20)}`, '"text"'],
    [{ type: ['integer', 'string'], exclusiveMaximum: 3 }, '3', '2'],
    [{ type: 'integer', exclusiveMinimum: 2 ** 53 }, '9007199254740993', '9007199254740994'],
    [{ type: 'integer', exclusiveMaximum: 10 }, '10', '9'],
    [{ type: 'number', minimum: 0.5, exclusiveMinimum: 1 }, `1.${'0'.repeat(20)}1`, '1.5'],
    [{ type: 'number', minimum: 2, exclusiveMinimum: 1 }, '1.5', '2'],
  ])('%j', async (schema, wrong, right) => {
    const constraint = await compiled(schema);
    const validate = validator(schema);
    expect([wrong, right].map((text) => [validate(JSON.parse(text)), allows(constraint, text)])).toEqual([[false, false], [true, true]]);
  });

  test('the bounds of draft 4', async () => {
    const constraint = await compiled({ type: 'number', maximum: 1, exclusiveMaximum: true });
    expect([`0.${'9'.repeat(20)}`, '1', '0.5'].map((text) => allows(constraint, text))).toEqual([false, false, true]);
  });

  test('multiples have no more digits than float64', async () => {
    const constraint = await compiled({ type: 'number', multipleOf: 0.3 });
    expect(['9007199254740990.3', '900719925474099.3', '900719925474098.7', '-0.9', '0.31'].map((text) => allows(constraint, text))).toEqual([false, false, true, true, false]);
    const whole = await compiled({ type: 'integer', multipleOf: 3 });
    expect(['9007199254740993', '9007199254740990'].map((text) => allows(whole, text))).toEqual([false, true]);
  });

  test('the largest multiple has texts, and the next one is refused', async () => {
    const constraint = await compiled({ type: 'integer', multipleOf: 5000 });
    expect(['15000', '-5000', '15001'].map((text) => allows(constraint, text))).toEqual([true, true, false]);
    await expect(compiled({ type: 'integer', multipleOf: 5001 })).rejects.toThrow('schema: found a multipleOf, or some that come together, beyond 5000');
  });

  test(`${COUNT} schemas by chance`, async () => {
    const wrong = [];
    let own = 0;
    for (let seed = 0; seed < COUNT; seed++) {
      const random = randomOf(seed);
      const number = () => (random.below(2001) - 1000) / 10 ** random.below(4);
      const [low, high] = [number(), number()].sort((a, b) => a - b);
      const schema = { type: random.one(['number', 'number', 'integer', ['number', 'null']]) };
      if (random.is(0.7)) schema[random.one(['minimum', 'exclusiveMinimum'])] = low;
      if (random.is(0.7)) schema[random.one(['maximum', 'exclusiveMaximum'])] = high;
      const constraint = await compiled(schema).catch(() => undefined);
      if (constraint === undefined) continue;
      const validate = validator(schema);
      // Along the bounds, with more digits than float64 has.
      const along = [`${(high - 1e-12).toFixed(12)}${'9'.repeat(20)}`, `${(low + 1e-12).toFixed(12)}${'0'.repeat(20)}`, `${low}.${'0'.repeat(20)}1`].map((text) => Buffer.from(text));
      const walk = () => {
        const [target, others] = [random.one(along), random.is(0.5) ? 0 : 0.05];
        let at = 0;
        return textBy(constraint, (list) => {
          const wanted = target[at++] ?? END;
          return list.includes(wanted) && !random.is(others) ? wanted : list.includes(END) ? END : random.one(list);
        }, 60);
      };
      for (const text of Array.from({ length: 10 }, walk)) {
        if (text === undefined) continue;
        own++;
        // The validator knows no Infinity, which a number without bounds may be.
        if (Number.isFinite(JSON.parse(text)) && !validate(JSON.parse(text))) wrong.push({ schema, text });
      }
    }
    expect(wrong).toEqual([]);
    expect(own).toBeGreaterThan(3 * COUNT);
  }, 600_000);
});
