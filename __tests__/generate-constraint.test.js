'use strict';

// generate() with a constraint of one's own: masks, tokens that are forced, ends. Those that the package compiles are in constrain.test.js.

const { ml } = require('../lib/index.js');
const { loadOnnx } = require('../lib/onnx.js');
const { GenerationCache, generate, generationUsage } = require('../lib/generate.js');
const { KINDS, TOKENS, decoder } = require('./generate/decoders.js');

const [KIND] = KINDS;
const prompt = (length, seed = 5) => Array.from({ length }, (_, i) => (i * i * seed + 3 * i + seed) % TOKENS);
const idsOf = (tokens, sequence = 0) => tokens.filter((token) => token.sequence === sequence).map(({ id }) => id);

let context;
let model;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  model = await loadOnnx(context, decoder(KIND), { label: 'decoder' });
});
afterAll(() => context.destroy());

async function all(...given) {
  const found = [];
  for await (const token of generate(model, ...given)) found.push(token);
  return found;
}

const bits = (ids) => {
  const mask = new Uint32Array(Math.ceil(TOKENS / 32));
  for (const id of ids) mask[id >> 5] |= 1 << (id & 31);
  return mask;
};

/**
 * A text of places, each with the tokens that may be there. Where there is only one it is forced, if that is wanted.
 * @param {number[][]} places
 */
function places(list, { forces = true, log = [] } = {}) {
  return {
    begin() {
      let at = 0;
      const pushed = [];
      log.push(pushed);
      return {
        mask: () => bits(list[at]),
        push(id) {
          pushed.push(id);
          at++;
        },
        ...(forces && {
          forced() {
            const first = at;
            while (at < list.length && list[at].length === 1) at++;
            return list.slice(first, at).map(([id]) => id);
          },
        }),
        get isDone() {
          return at >= list.length;
        },
      };
    },
  };
}

const anyOf = (...ids) => ids;
const every = Array.from({ length: TOKENS }, (_, id) => id);

test('only what is allowed is chosen, and the text ends when it is complete', async () => {
  const list = [anyOf(3, 35), anyOf(4, 39), anyOf(0, 1, 2), anyOf(38)];
  for (const options of [{}, { temperature: 5, seed: 3 }, { bias: { 30: Infinity }, repetitionPenalty: 2 }, { topLogprobs: 2 }, { logits: (logits) => logits.fill(0) }]) {
    const found = await all(prompt(6), { constraint: places(list, { forces: false }), ...options });
    expect(found).toHaveLength(4);
    found.forEach(({ id }, i) => expect(list[i]).toContain(id));
    expect(found.map(({ finish, forced }) => [finish, forced])).toEqual([...new Array(3).fill([undefined, undefined]), ['stop', undefined]]);
  }
});

test('what allows everything changes nothing', async () => {
  const options = { maxNewTokens: 12, temperature: 1, seed: 9 };
  const wanted = await all(prompt(6), options);
  expect(await all(prompt(6), { ...options, constraint: places(new Array(20).fill(every)) })).toEqual(wanted);
});

test.each([...KINDS])('tokens that are forced are seen by a decoder with %s as those that are chosen', async (kind) => {
  const other = await loadOnnx(context, decoder(kind), { label: kind });
  const list = [every, [7], [8], every, [1], [2], [3], [4], [5], [6], [7], every, every, [9], every];
  const run = async (options) => {
    const found = [];
    for await (const token of generate(other, prompt(6), { ...options, temperature: 1, seed: 4 })) found.push(token);
    return found;
  };
  const log = [];
  const [chosen, forced] = [await run({ constraint: places(list, { forces: false }) }), await run({ constraint: places(list, { log }) })];
  expect(idsOf(forced)).toHaveLength(list.length);
  forced.forEach((token, i) => expect(token).toMatchObject(list[i].length === 1 ? { forced: true, logprob: 0, id: list[i][0] } : { id: expect.any(Number) }));
  // The matcher hears of what was chosen only.
  expect(log).toEqual([idsOf(forced.filter(({ forced: isForced }) => !isForced))]);
  // Chance is asked less often, so the same tokens are chosen greedily.
  const greedy = await all(prompt(6), { constraint: places(list) });
  expect(idsOf(greedy)).toEqual(idsOf(await all(prompt(6), { constraint: places(list, { forces: false }) })));
  expect(chosen).toHaveLength(list.length);
  other.destroy();
});

test('fewer steps are taken where tokens are forced', async () => {
  const list = [every, ...new Array(20).fill([7]), every];
  const steps = async (options) => {
    const before = await generationUsage(model);
    await all(prompt(2), { constraint: places(list, options) });
    return (await generationUsage(model)).steps - before.steps;
  };
  expect(await steps({ forces: false })).toBe(22);
  expect(await steps({})).toBe(2);
});

test('the number of tokens ends a text also among those that are forced', async () => {
  const list = [every, ...new Array(20).fill([7]), every];
  for (const most of [1, 5, 21, 22]) {
    const found = await all(prompt(6), { constraint: places(list), maxNewTokens: most });
    expect(found).toHaveLength(most);
    expect(found.at(-1).finish).toBe(most === 22 ? 'stop' : 'length');
    expect(found.slice(0, -1).every(({ finish }) => finish === undefined)).toBe(true);
  }
  const found = await all(prompt(6), { constraint: places([every, [7], [8], [9]]), until: ({ id }) => id === 8 });
  expect(found.slice(1).map(({ id, finish }) => [id, finish])).toEqual([[7, undefined], [8, 'stop']]);
  // What stops is a part of the text.
  expect(idsOf(await all(prompt(6), { constraint: places([[1], [7], [8], [9]]), stop: [[7, 8]] }))).toEqual([1, 7, 8]);
});

test('each sequence has a matcher', async () => {
  const log = [];
  const list = [every, every, [5], [6], every, every];
  const found = await all([prompt(6), prompt(30, 3)], { constraint: places(list, { log }), sequences: 3, temperature: 1, seed: 1 });
  expect(log).toHaveLength(6);
  for (let sequence = 0; sequence < 6; sequence++) {
    const ids = idsOf(found, sequence);
    expect(ids).toHaveLength(6);
    expect(ids.slice(2, 4)).toEqual([5, 6]);
    expect(log[sequence]).toEqual(ids.filter((_, i) => i < 2 || i > 3));
  }
});

test('calls at once and a cache have the tokens that a call alone has', async () => {
  const lists = [[every, [1], [2], every, every], [anyOf(1, 2, 3), every, [9], [9], [9], [9], every], [every, every, every]];
  const alone = [];
  for (const list of lists) alone.push(idsOf(await all(prompt(9), { constraint: places(list) })));
  const together = await Promise.all(lists.map((list) => all(prompt(9), { constraint: places(list) })));
  expect(together.map((tokens) => idsOf(tokens))).toEqual(alone);
  const cache = new GenerationCache();
  await all(prompt(9), { constraint: places(lists[1]), cache });
  // What was forced is remembered, too: all but the last token.
  const turn = [...prompt(9), ...alone[1]];
  const wanted = idsOf(await all(turn, { constraint: places(lists[0]) }));
  expect(idsOf(await all(turn, { constraint: places(lists[0]), cache }))).toEqual(wanted);
  expect(cache.known).toEqual([turn.length - 1]);
});

test('a call is cancelled between its steps', async () => {
  const controller = new AbortController();
  const seen = [];
  const run = async () => {
    for await (const token of generate(model, prompt(6), { constraint: places(new Array(500).fill(every)), maxNewTokens: 500, signal: controller.signal })) {
      seen.push(token);
      if (seen.length === 3) controller.abort(new Error('enough'));
    }
  };
  await expect(run()).rejects.toThrow('enough');
});

describe('masks that are promised', () => {
  /** Resolves after some turns of the event loop. */
  const turns = async (count) => {
    for (let i = 0; i < count; i++) await new Promise((resolve) => { setImmediate(resolve); });
  };
  /** The same constraint, whose masks come later. */
  function later(constraint, wait = () => turns(3)) {
    return {
      begin() {
        const matcher = constraint.begin();
        const mask = () => { throw new Error('not asked for'); };
        const maskAsync = async () => {
          await wait();
          return matcher.mask();
        };
        return Object.defineProperties({}, { ...Object.getOwnPropertyDescriptors(matcher), mask: { value: mask }, maskAsync: { value: maskAsync } });
      },
    };
  }
  const list = [every, [7], [8], anyOf(1, 2, 3), every, anyOf(4, 5), [9], [9], every, every];

  test.each([
    ['alone', {}],
    ['with chance', { temperature: 2, seed: 5 }],
    ['of several sequences', { sequences: 3, temperature: 1, seed: 2 }],
    ['with a hook', { logits: (logits) => logits.reverse() }],
    ['with the most probable tokens', { topLogprobs: 3 }],
    ['with guesses', { speculate: { prompt: true, guesses: 3 } }],
    ['with guesses and a hook', { speculate: { prompt: true, guesses: 3 }, logits: (logits) => logits.reverse() }],
    ['with a draft', () => ({ speculate: { draft: model, guesses: 3 } })],
  ])('are as those that are there: %s', async (_, given) => {
    const options = typeof given === 'function' ? given() : given;
    const run = async (constraint) => {
      const found = await all(prompt(40), { ...options, constraint });
      // What runs together is rounded in another order.
      return found.map(({ id, sequence, forced, finish }) => ({ id, sequence, forced, finish }));
    };
    expect(await run(later(places(list)))).toEqual(await run(places(list)));
  });

  test('come while the model computes', async () => {
    const steps = async () => (await generationUsage(model)).steps;
    let before = await steps();
    const computed = async () => {
      while ((await steps()) === before) await turns(1);
      before = await steps();
    };
    // A step that waited for them would never be computed.
    expect(idsOf(await all(prompt(6), { constraint: later(places(list), computed) }))).toEqual(idsOf(await all(prompt(6), { constraint: places(list) })));
  });

  const never = () => new Promise(() => {});

  test.each([['alone', {}], ['with a hook', { logits() {} }], ['with a draft', () => ({ speculate: { draft: model } })]])('are not waited for when the call is cancelled: %s', async (_, given) => {
    const controller = new AbortController();
    let asked = 0;
    const wait = () => {
      if (++asked < 3) return turns(1);
      setImmediate(() => controller.abort(new Error('enough')));
      return never();
    };
    const options = typeof given === 'function' ? given() : given;
    const run = async () => all(prompt(6), { ...options, constraint: later(places(new Array(50).fill(every)), wait), signal: controller.signal });
    await expect(run()).rejects.toThrow('enough');
    expect(await all(prompt(6), { maxNewTokens: 2 })).toHaveLength(2);
  });

  test('are not waited for when the context goes', async () => {
    const own = await ml.createContext({ accelerated: false });
    const other = await loadOnnx(own, decoder(KIND), { label: 'going' });
    const controller = new AbortController();
    const wait = () => {
      setImmediate(() => {
        own.destroy();
        controller.abort(new Error('enough'));
      });
      return never();
    };
    const run = async () => {
      for await (const token of generate(other, prompt(6), { constraint: later(places([every]), wait), signal: controller.signal })) throw token;
    };
    await expect(run()).rejects.toThrow();
  });

  test('that fail end the call with their error', async () => {
    const fail = async () => { throw new Error('from the mask'); };
    for (const options of [{}, { topLogprobs: 1 }, { speculate: { draft: model } }]) {
      await expect(all(prompt(6), { ...options, constraint: later(places(list), fail) })).rejects.toThrow('from the mask');
    }
    const wrong = { begin: () => ({ mask() {}, maskAsync: async () => 'x', push() {}, isDone: false }) };
    await expect(all(prompt(6), { constraint: wrong })).rejects.toThrow();
    expect(await all(prompt(6), { maxNewTokens: 2 })).toHaveLength(2);
  });
});

describe('refuses', () => {
  test.each([
    ['a string', 'x', /^generate \(decoder\): options: constraint: found "x", allowed an object with schema, regex, grammar or begin\(\)$|constraint: found/],
    ['null', null, /constraint: found null/],
    ['an object with nothing', {}, /constraint: found/],
    ['a matcher without a mask', { begin: () => ({ push() {} }) }, /constraint: found .* as the result of begin\(\), allowed an object with mask\(\) and push\(\)/],
  ])('%s', async (_, constraint, message) => {
    const run = async () => all(prompt(6), { constraint });
    await expect(run()).rejects.toThrow(TypeError);
    await expect(run()).rejects.toThrow(message);
  });

  test('a mask of nothing, and what is no mask', async () => {
    const withMask = (mask) => ({ begin: () => ({ mask: () => mask, push() {}, isDone: false }) });
    await expect(all(prompt(6), { constraint: withMask(new Uint32Array(2)) })).rejects.toThrow(/no token whose logit is above minus infinity/);
    // Tokens beyond a mask may not come.
    const found = await all(prompt(6), { constraint: withMask(Uint32Array.of(1)), maxNewTokens: 3 });
    expect(idsOf(found)).toEqual([0, 0, 0]);
    await expect(all(prompt(6), { constraint: withMask(new Uint32Array(2)) })).rejects.toThrow('sequence 0, new token 1: found no token whose logit is above minus infinity among those that the constraint allows');
    for (const [mask, shown] of [['x', "'x'"], [[], 'an array'], [undefined, 'undefined'], [null, 'null'], [new Uint8Array(8), 'an Uint8Array'], [Promise.resolve(), 'a promise (await it first)']]) {
      const message = `options: constraint: found ${shown} as the result of mask(), allowed a Uint32Array`;
      for (const options of [{}, { topLogprobs: 1 }, { speculate: 'prompt' }]) await expect(all(prompt(6), { ...options, constraint: withMask(mask) })).rejects.toThrow(message);
      const later = { begin: () => ({ mask() {}, maskAsync: async () => mask, push() {}, isDone: false }) };
      if (!(mask instanceof Promise)) await expect(all(prompt(6), { constraint: later })).rejects.toThrow(message.replace('mask()', 'maskAsync()'));
    }
    const detached = new Uint32Array(2);
    structuredClone(detached.buffer, { transfer: [detached.buffer] });
    await expect(all(prompt(6), { constraint: withMask(detached) })).rejects.toThrow('among those that the constraint allows');
  });

  test('forced tokens that are none', async () => {
    const forcing = (forced) => ({ begin: () => ({ mask: () => bits(every), push() {}, forced: () => forced, isDone: false }) });
    for (const [forced, found] of [[[2 ** 31], '2147483648'], [[1, -1], '-1'], [[0.5], '0.5'], [['x'], "'x'"], [[undefined], 'undefined'], [{ length: 2 ** 31 }, 'an object'], ['12', "'12'"]]) {
      const error = await all(prompt(6), { constraint: forcing(forced), maxNewTokens: 5 }).then(String, (reason) => reason);
      expect(error).toBeInstanceOf(TypeError);
      expect(error.message).toMatch(`options: constraint: found ${found} as the result of forced(), allowed an array of tokens`);
    }
    for (const forced of [undefined, null, [], Uint32Array.of(3), [3n]]) {
      const found = idsOf(await all(prompt(6), { constraint: forcing(forced), maxNewTokens: 2 }));
      expect(found).toEqual(forced?.length > 0 ? [found[0], 3] : [found[0], expect.any(Number)]);
    }
  });

  test('nothing that a matcher throws, and goes on with other calls', async () => {
    const failing = { begin: () => ({ mask: () => bits(every), push() { throw new Error('from the matcher'); }, isDone: false }) };
    await expect(all(prompt(6), { constraint: failing })).rejects.toThrow('from the matcher');
    expect(await all(prompt(6), { maxNewTokens: 2 })).toHaveLength(2);
  });
});
