'use strict';

// The methods of all operators against the specification's IDL (tests/specification/facts.json), walked as data: that
// each is there (A3), and that each argument and option is converted by its type, with a message that names it (A4).

const { MLGraphBuilder } = require('..');
const facts = require('../tests/specification/facts.json');
const { float32, useContext } = require('./adder.js');

const held = useContext();

const operators = Object.entries(facts.operators).map(([name, { arguments: given, dictionary }]) => ({
  name,
  given,
  members: Object.entries(facts.dictionaries[dictionary]?.members ?? {})
    .map(([name, { type }]) => ({ name, type }))
    .filter(({ name }) => name !== 'label')
    .sort((a, b) => (a.name < b.name ? -1 : 1)),
}));

const NUMBER = '[EnforceRange] unsigned long';

/** A value of each type, and values that the type refuses. Enumerations are looked up. */
const TYPES = {
  MLOperand: { good: (x) => x, bad: [undefined, null, 1, 'x', {}, []] },
  'sequence<MLOperand>': { good: (x) => [x], bad: [undefined, null, 1, {}, [1], [null], 'x'] },
  [NUMBER]: { good: () => 0, bad: [-1, 2 ** 32, NaN, Infinity, '1x', {}, 1n, Symbol('s')] },
  '[EnforceRange] long': { good: () => 0, bad: [2 ** 31, -(2 ** 31) - 1, NaN, -Infinity, {}, 1n, Symbol('s')] },
  'unsigned long': { good: () => 0, bad: [1n, Symbol('s')] },
  'sequence<[EnforceRange] unsigned long>': { good: () => [1], bad: [1, 'x', {}, [-1], [NaN], [1, 2 ** 32], [1n], null] },
  'sequence<unsigned long>': { good: () => [1], bad: [1, 'x', {}, [1n], [Symbol('s')], null] },
  '([EnforceRange] unsigned long or sequence<[EnforceRange] unsigned long>)': {
    good: () => 1,
    bad: [-1, 'x', {}, [-1], [[1, 2]], NaN, 1n, Symbol('s')],
  },
  boolean: { good: () => true, bad: [] },
  double: { good: () => 0.5, bad: [NaN, Infinity, -Infinity, 'x', {}, 1n, Symbol('s')] },
  'sequence<float>': { good: () => [0.5], bad: [1, {}, [NaN], [1e39], [1n], null] },
  MLNumber: { good: () => 1, bad: [Symbol('s')] },
};

function typeOf(type) {
  const listed = /^sequence<(ML\w+)>$/.exec(type)?.[1];
  if (TYPES[type]) return TYPES[type];
  const values = facts.enums[listed ?? type];
  const wrong = ['', 'x', 0, null, {}, values[0].toUpperCase(), Symbol('s')];
  if (listed) return { good: () => [values[0]], bad: [values[0], 1, {}, ...wrong.map((value) => [value])] };
  return { good: () => values[0], bad: wrong };
}

test('A3: there is a method for each of the 95 operators of the IDL, and no other', () => {
  const others = ['constructor', 'input', 'constant', 'build', 'destroy'];
  const methods = Object.getOwnPropertyNames(MLGraphBuilder.prototype).filter((name) => !others.includes(name));
  expect(methods.sort()).toEqual(operators.map(({ name }) => name).sort());
  expect(methods).toHaveLength(95);
});

describe.each(operators)('$name()', ({ name, given, members }) => {
  const method = MLGraphBuilder.prototype[name];

  test('A3: is a method with the specified number of required arguments', () => {
    expect(Object.getOwnPropertyDescriptor(MLGraphBuilder.prototype, name)).toMatchObject({
      writable: true,
      enumerable: true,
      configurable: true,
    });
    expect(method.name).toBe(name);
    expect(method).toHaveLength(given.length);
    expect(() => new method()).toThrow(TypeError);
  });

  /** The builder, an operand, and arguments that all convert. */
  function call() {
    const builder = new MLGraphBuilder(held.context);
    const x = builder.input('x', float32(2, 2));
    return { builder, x, values: given.map(({ type }) => typeOf(type).good(x)) };
  }

  /** Every value that is refused, and where the message has to say that it is. */
  const label = 'the label';

  test('A3, A4: converts its arguments', () => {
    const { builder, values } = call();
    given.forEach((argument, position) => {
      for (const bad of typeOf(argument.type).bad) {
        const attempt = () => builder[name](...values.with(position, bad), { label });
        expect(attempt).toThrow(TypeError);
        expect(attempt).toThrow(new RegExp(`^${name} \\[the label\\]: ${argument.name}: .*found .+, allowed .+`));
      }
    });
    for (let count = 0; count < given.length; count++) expect(() => builder[name](...values.slice(0, count))).toThrow(TypeError);
  });

  test('A3, A4: converts its options', () => {
    const { builder, values } = call();
    for (const member of members) {
      // An option that is undefined is absent.
      for (const bad of typeOf(member.type).bad.filter((value) => value !== undefined)) {
        const attempt = () => builder[name](...values, { [member.name]: bad, label });
        expect(attempt).toThrow(TypeError);
        expect(attempt).toThrow(
          new RegExp(`^${name} \\[the label\\]: ${member.name}: .*found .+, allowed .+`),
        );
      }
    }
    for (const bad of [1, 'x', true, 1n]) expect(() => builder[name](...values, bad)).toThrow(/options: found/);
  });

  test('A3: reads its options in their order, once, and the label first', () => {
    const { builder, x, values } = call();
    const log = [];
    const options = { label };
    for (const { name, type } of members) {
      Object.defineProperty(options, name, {
        get() {
          log.push(name);
          return typeOf(type).good(x);
        },
      });
    }
    const logged = new Proxy(options, {
      get(target, key) {
        if (key === 'label') log.push(key);
        return target[key];
      },
    });
    try {
      builder[name](...values, logged);
    } catch (error) {
      // The values have the right types; whether they make sense together is not the question here.
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(new RegExp(`^${name} \\[the label\\]: `));
    }
    expect(log).toEqual(['label', ...members.map(({ name }) => name)]);
  });

  test('A3, A4: refuses operands of another builder, by name', () => {
    const { builder, values } = call();
    const stranger = call();
    const refused = (attempt, place) => {
      expect(attempt).toThrow(TypeError);
      expect(attempt).toThrow(new RegExp(`^${name} \\[the label\\]: ${place}: .*another MLGraphBuilder`));
    };
    given.forEach((argument, position) => {
      if (!argument.type.includes('MLOperand') || argument.type === 'MLOperandDataType') return;
      refused(
        () => builder[name](...values.with(position, stranger.values[position]), { label }),
        `${argument.name}`,
      );
    });
    for (const member of members.filter(({ type }) => type === 'MLOperand')) {
      refused(
        () => builder[name](...values, { [member.name]: stranger.x, label }),
        `${member.name}`,
      );
    }
  });

  test('refuses to work on a builder that was destroyed', () => {
    const { builder, values } = call();
    builder.destroy();
    expect(() => builder[name](...values)).toThrow(expect.objectContaining({ name: 'InvalidStateError' }));
  });
});
