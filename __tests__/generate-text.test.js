'use strict';

// Texts from tokens: generateText(), Detokenizer, StopStrings.

const { mkdirSync, rmSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { Tokenizer } = require('@huggingface/tokenizers');
const { ml } = require('../lib/index.js');
const { Detokenizer, StopStrings, generate, generateText } = require('../lib/generate.js');
const { mostProbable } = require('../lib/generate/alternatives.js');
const { loadOnnx } = require('../lib/onnx.js');
const { CHAT, END, byteTokenizer, piecesTokenizer, scriptedModel, writeChat } = require('./serve/openai/folders.js');

const bytes = new Tokenizer(byteTokenizer(['<s>'], ['many bytes 😀']), { eos_token: '<s>' });
const pieces = new Tokenizer({ pre_tokenizer: null, post_processor: null, ...piecesTokenizer() }, {});

describe('a detokenizer', () => {
  const all = (detokenizer, ids) => [...ids.map((id) => detokenizer.push(id)), detokenizer.end()];

  test('never gives a part of a character', () => {
    const text = 'é 漢字 😀👩‍👩‍👧 e\u0301 x';
    const ids = [...Buffer.from(text)];
    expect(bytes.encode(text).ids).toEqual(ids);
    const given = all(new Detokenizer(bytes), ids);
    expect(given.join('')).toBe(text);
    for (const piece of given) expect(piece.isWellFormed?.() ?? true).toBe(true);
    expect(given.slice(0, 6)).toEqual(['', 'é', ' ', '', '', '漢']);
  });

  test('goes on behind bytes that are no text, and keeps a character that belongs there', () => {
    expect(all(new Detokenizer(bytes), [0xff, 0x41, 0xf0, 0x9f]).join('')).toBe('\uFFFDA\uFFFD');
    expect(all(new Detokenizer(bytes), [...Buffer.from('\uFFFD!')])).toEqual(['', '', '', '\uFFFD!', '']);
    // Bytes that are out of step: what is complete comes, though the end never is.
    expect(all(new Detokenizer(bytes), [0xf0, 0x9f, 0x98, 0x80, 0xe2, 0x82]).join('')).toBe('😀\uFFFD');
  });

  test('has no text for special tokens and for tokens that there are not', () => {
    expect(all(new Detokenizer(bytes), [0x41, 256, 5000, 257, 0x42])).toEqual(['A', '', '', 'many bytes 😀', 'B', '']);
    expect(all(new Detokenizer(bytes, { isHidden: () => false }), [256])).toEqual(['<s>', '']);
  });

  test('keeps the space behind the prompt', () => {
    expect(all(new Detokenizer(pieces), [2, 3])).toEqual(['a', ' b', '']);
    expect(all(new Detokenizer(pieces, { prompt: [2, 4] }), [3, 4])).toEqual([' b', 'c', '']);
    // A prompt that ends within a character.
    expect(all(new Detokenizer(pieces, { prompt: [2, 6 + 0xc3] }), [6 + 0xa9, 2])).toEqual(['é', ' a', '']);
  });

  test('never gives half of a character, even if the tokenizer does', () => {
    const units = { decode: (ids) => String.fromCharCode(...ids) };
    const text = 'a😀b👩‍👩‍👧';
    const given = all(new Detokenizer(units, { isHidden: () => false }), Array.from(text, (c) => [...c].flatMap((one) => Array.from({ length: one.length }, (_, i) => one.charCodeAt(i)))).flat());
    expect(given.join('')).toBe(text);
    for (const piece of given) expect(piece).toBe([...piece].filter((one) => !/[\uD800-\uDFFF]/.test(one) || one.length === 2).join(''));
  });

  test('decodes a few tokens at a time, whatever they are', () => {
    let most = 0;
    const counting = { decode: (ids, options) => ((most = Math.max(most, ids.length)), bytes.decode(ids, options)) };
    for (const garbage of [[0xff], [0x80], [0xf0, 0x9f], [0xe2, 0x82, 0x41]]) {
      const ids = Array.from({ length: 300 }, (_, i) => garbage[i % garbage.length]);
      expect(all(new Detokenizer(counting), ids).join('')).toBe(bytes.decode(ids));
    }
    expect(most).toBeLessThan(40);
  });

  test('takes nothing back that a tokenizer says differently later, and goes on', () => {
    const shrinking = { decode: (ids) => 'x'.repeat(Math.max(0, 5 - ids.length)) };
    expect(all(new Detokenizer(shrinking), [1, 2, 3, 4, 5, 6]).join('')).toBe('xxxx');
    const changing = { decode: (ids) => ids.map((id, i) => (i < ids.length - 1 ? '😀' : `${id}`)).join('') };
    for (const piece of all(new Detokenizer(changing), [1, 2, 3, 4, 5])) expect(/[\uD800-\uDFFF]/.test([...piece].filter((one) => one.length === 1).join(''))).toBe(false);
  });

  test('says what is no text', () => {
    for (const [text, shown] of [[5, '5'], [null, 'null'], [Promise.resolve('x'), 'a promise (await it first)'], [['x'], 'an array']]) {
      const detokenizer = new Detokenizer({ decode: () => text }, { isHidden: () => false });
      expect(() => detokenizer.push(1)).toThrow(new TypeError(`Detokenizer: tokenizer: found ${shown} as the result of decode(), allowed a string`));
    }
    // Also where it is asked which tokens have a text.
    expect(() => new Detokenizer({ decode: async () => 'x' }).push(1)).toThrow('found a promise (await it first) as the result of decode()');
    expect(new Detokenizer({ decode: () => undefined }).push(1)).toBe('');
  });

  test('says of long texts what the tokenizer says of the whole', () => {
    let state = 7;
    const random = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;
    for (let round = 0; round < 20; round++) {
      const text = Array.from({ length: 60 }, () => String.fromCodePoint([32, 97 + random(26), 0xe0 + random(200), 0x4e00 + random(5000), 0x1f600 + random(60)][random(5)])).join('');
      const { ids } = bytes.encode(text);
      expect(all(new Detokenizer(bytes), ids).join('')).toBe(text);
      expect(bytes.decode(ids)).toBe(text);
    }
  });
});

describe('stop strings', () => {
  const all = (stops, texts) => {
    const one = new StopStrings(stops);
    return [[...texts.map((text) => one.push(text)), one.end()], one.found];
  };

  test.each([
    ['in the middle of a piece', ['stop'], ['a stop b', 'c'], ['a ', '', ''], 'stop'],
    ['across pieces', ['stop'], ['a s', 'to', 'p b'], ['a ', '', '', ''], 'stop'],
    ['that only begin', ['stop'], ['a st', 'art'], ['a ', 'start', ''], undefined],
    ['that begin at the end', ['stop'], ['a st'], ['a ', 'st'], undefined],
    ['that begin again within themselves', ['aab'], ['aa', 'ab'], ['', 'a', ''], 'aab'],
    ['of which the first in the text counts', ['b', 'a'], ['xab'], ['x', ''], 'a'],
    ['of which one is the beginning of another', ['abc', 'ab'], ['xabc'], ['x', ''], 'abc'],
    ['none', [], ['x', 'y'], ['x', 'y', ''], undefined],
    ['of several lines', ['\n\n'], ['x\n', '\ny'], ['x', '', ''], '\n\n'],
  ])('%s', (_, stops, texts, expected, found) => {
    expect(all(stops, texts)).toEqual([expected, found]);
  });
});

test('stop strings are strings', () => {
  for (const [stops, shown] of [['abc', "'abc'"], [[1], '1'], [[undefined], 'undefined'], [undefined, 'undefined'], [[['a']], 'an array']]) {
    expect(() => new StopStrings(stops)).toThrow(new TypeError(`StopStrings: stops: found ${shown}, allowed an array of strings`));
  }
  expect(new StopStrings(['']).push('abc')).toBe('abc');
});

test('the most probable tokens are those of the logits that are numbers, infinite ones too', () => {
  const [nan, inf] = [NaN, Infinity];
  expect(mostProbable(Float32Array.of(nan, 1, nan, 1), 3)).toEqual([1, 3].map((id) => ({ id, logprob: -Math.log(2) })));
  expect(mostProbable(Float32Array.of(3, inf, nan, inf, -inf), 4)).toEqual([...[1, 3].map((id) => ({ id, logprob: -Math.log(2) })), { id: 0, logprob: -inf }, { id: 4, logprob: -inf }]);
  expect(mostProbable(Float32Array.of(nan, nan), 4)).toEqual([]);
});

test('the most probable tokens are those of the logits', () => {
  const logits = Float32Array.of(1, -Infinity, 3, 2, 3);
  const [first, second, third] = mostProbable(logits, 3);
  expect([first.id, second.id, third.id]).toEqual([2, 4, 3]);
  const sum = Math.log(2 * Math.exp(3) + Math.exp(2) + Math.exp(1));
  expect(first.logprob).toBeCloseTo(3 - sum, 12);
  expect(mostProbable(logits, 20).at(-1)).toEqual({ id: 1, logprob: -Infinity });
});

describe('generateText', () => {
  const SMILE = [...Buffer.from('😀')];
  const [STOP, WORLD] = [256 + 1, 256 + 2];
  const tokenizer = new Tokenizer(byteTokenizer(['<s>'], ['STO', ' world']), { eos_token: '<s>' });
  let context;
  let model;
  beforeAll(async () => {
    context = await ml.createContext({ accelerated: false });
    const script = (...ids) => ids.slice(1).map((id, i) => [ids[i], id]);
    // A: " world😀" and the end. B: "STO" "P" "!", for ever.
    const followers = [...script(65, WORLD, ...SMILE, 256), ...script(66, STOP, 80, 33, 80)];
    model = await loadOnnx(context, scriptedModel(259, new Map(followers)));
  });
  afterAll(() => context.destroy());
  const all = async (...given) => {
    const list = [];
    for await (const piece of generateText(model, tokenizer, ...given)) list.push(piece);
    return list;
  };
  const textsOf = (list, wanted = 0) => list.filter(({ sequence }) => sequence === wanted).map(({ text }) => text);

  test('gives whole characters, and the tokens with their text', async () => {
    const found = await all('say A');
    expect(found.map(({ text, tokens, count, finish }) => [text, tokens.map(({ id }) => id), count, finish])).toEqual([
      [' world', [WORLD], 1, undefined],
      ['😀', SMILE, 5, undefined],
      ['', [256], 6, 'stop'],
    ]);
    expect(found[0].tokens[0].logprob).toBeCloseTo(0, 5);
  });

  test('ends before strings, and sequences alone', async () => {
    const found = await all('B', { stop: ['P!P', 'none'], maxNewTokens: 9 });
    expect([textsOf(found).join(''), found.at(-1)]).toEqual(['STO', { text: '', sequence: 0, tokens: [], count: 4, finish: 'stop' }]);
    // A token that a stop string begins in has some text.
    const cut = await all('B', { stop: 'TOP', maxNewTokens: 9 });
    expect(cut.map(({ text, tokens, count, finish }) => [text, tokens.map(({ id }) => id), count, finish])).toEqual([['S', [], 1, undefined], ['', [STOP], 2, 'stop']]);
    // What is held back when the tokens are over.
    expect(textsOf(await all('B', { stop: 'STOP', maxNewTokens: 1 }))).toEqual(['STO']);
    const both = await all(['A', 'B'], { stop: ['!', WORLD], maxNewTokens: 9 });
    expect([textsOf(both), textsOf(both, 1)]).toEqual([[' world'], ['STO', 'P', '']]);
    expect(both.filter(({ finish }) => finish).map(({ sequence, count }) => [sequence, count])).toEqual([[0, 1], [1, 3]]);
  });

  test('takes tokens, texts, and options of generate()', async () => {
    const prompts = ['A', [65], Uint32Array.of(65), [65n], [[65]], ['A']];
    for (const prompt of prompts) expect(textsOf(await all(prompt)).join('')).toBe(' world😀');
    const seen = [];
    const found = await all('A', { sequences: 2, topLogprobs: 3, until: ({ id }) => seen.push(id) === 4 });
    expect(seen.slice(0, 4)).toEqual([WORLD, WORLD, SMILE[0], SMILE[0]]);
    expect(found.at(-1).finish).toBe('stop');
    const [{ tokens: [{ top, logprob }] }] = found;
    expect([top.length, top[0], top[1].logprob < -20]).toEqual([3, { id: WORLD, logprob }, true]);
    expect(textsOf(await all('A', { isHidden: (id) => id === WORLD })).join('')).toBe('😀');
  });

  test('an end that is not complete is shown as such', async () => {
    expect(textsOf(await all('A', { maxNewTokens: 3 }))).toEqual([' world', '\uFFFD']);
  });

  test('takes a tokenizer of transformers.js, with messages', async () => {
    const { AutoTokenizer, env } = require('@huggingface/transformers');
    const folder = path.join(os.tmpdir(), `webnn-text-${process.pid}`);
    mkdirSync(folder, { recursive: true });
    writeChat(path.join(folder, 'chat'), { A: ['Hello', ' wor', 'ld', ...SMILE, END] }, { template: CHAT });
    [env.allowRemoteModels, env.localModelPath] = [false, folder];
    const theirs = await AutoTokenizer.from_pretrained('chat', { local_files_only: true });
    const chat = await loadOnnx(context, path.join(folder, 'chat', 'onnx', 'model_q4.onnx'));
    const found = [];
    for await (const { text, finish } of generateText(chat, theirs, [{ role: 'user', content: 'A' }])) found.push([text, finish]);
    expect(found).toEqual([['Hello', undefined], [' wor', undefined], ['ld', undefined], ['😀', undefined], ['', 'stop']]);
    rmSync(folder, { recursive: true });
  });

  test('what is wrong is refused at once', () => {
    const refused = (...given) => {
      try {
        generateText(...given);
      } catch (error) {
        return `${error.name}: ${error.message}`;
      }
      return undefined;
    };
    expect(refused(model, {}, 'A')).toMatch('TypeError: generate: tokenizer: found an object, allowed an object with encode() and decode()');
    expect(refused(model, tokenizer, 'A', null)).toMatch('options: found null');
    expect(refused(model, tokenizer, 'A', { isHidden: 1 })).toMatch('options: isHidden: found 1, allowed a function');
    expect(refused(model, tokenizer, 'A', { stop: [3.5] })).toMatch('options: stop: found 3.5');
    expect(refused(model, tokenizer, 'A', { topLogprobs: 101 })).toMatch('options: topLogprobs: found 101, allowed a whole number from 0 to 100');
    expect(refused(model, tokenizer, null)).toMatch('ids: found null');
    expect(refused(model, tokenizer, '')).toMatch('ids: found no token');
    expect(refused({}, tokenizer, 'A')).toMatch('model: found an object');
  });

  test('what a tokenizer must not say is refused', async () => {
    const saying = (more) => ({ encode: () => [65], decode: () => 'x', ...more });
    const refused = (more, given = 'A', options = {}) => {
      try {
        generateText(model, saying(more), given, options);
      } catch (error) {
        return `${error.name}: ${error.message}`;
      }
      return undefined;
    };
    for (const [found, shown] of [[undefined, 'undefined'], [null, 'null'], [5, '5'], ['12', "'12'"], [{}, 'an object'], [{ ids: 'x' }, 'an object'], [[[1]], 'an array'], [['1'], 'an array'], [Promise.resolve([1]), 'a promise (await it first)']]) {
      expect(refused({ encode: () => found })).toBe(`TypeError: generate: tokenizer: found ${shown} as the result of encode(), allowed an array of tokens, or an object with such ids`);
    }
    for (const wrong of [1.5, -1, NaN, 2 ** 31]) expect(refused({ encode: () => [65, wrong] })).toMatch(`tokenizer: found ${wrong} in the result of encode(), allowed whole numbers`);
    expect(refused({}, [{ role: 'user', content: 'A' }])).toMatch('tokenizer: found one without apply_chat_template()');
    expect(refused({ apply_chat_template: () => [1, 2] }, [{ role: 'user', content: 'A' }])).toMatch('tokenizer: found an array as the result of apply_chat_template(), allowed a string');
    for (const stop of [null, {}, { a: 1 }]) expect(refused({}, 'A', { stop })).toMatch('options: stop: found ');
    const textOf = async (more, options) => {
      const list = [];
      for await (const { text } of generateText(model, saying(more), 'A', { maxNewTokens: 4, ...options })) list.push(text);
      return list.join('');
    };
    for (const ids of [[65n], Uint8Array.of(65), { ids: [65] }, { ids: BigInt64Array.of(65n) }, new Proxy([65], {})]) expect(await textOf({ encode: () => ids, decode: (list) => tokenizer.decode(list) })).toMatch(/^ world/);
    await expect(textOf({ decode: () => 5 })).rejects.toThrow('found 5 as the result of decode(), allowed a string');
    await expect(textOf({}, { until: async () => true })).rejects.toThrow('options: until: found a promise');
    let calls = 0;
    const failing = { decode: (list) => {
      if (++calls > 4) throw new Error('of the tokenizer');
      return tokenizer.decode(list);
    } };
    await expect(textOf(failing, { isHidden: () => false, maxNewTokens: 9 })).rejects.toThrow('of the tokenizer');
    expect(await textOf({ decode: (list) => tokenizer.decode(list) })).toMatch(/^ world/);
  });

  test('the most probable tokens come beside a function that changes the logits', async () => {
    const options = { maxNewTokens: 1, topLogprobs: 1, logits: (logits) => void logits.fill(100, 70, 71) };
    const tokens = [];
    for await (const token of generate(model, [65], options)) tokens.push(token);
    expect(tokens).toEqual([{ id: 70, logprob: expect.closeTo(0, 6), sequence: 0, top: [{ id: WORLD, logprob: expect.closeTo(0, 6) }], finish: 'length' }]);
  });
});
