'use strict';

// What OpenAI's interface makes of text, piece by piece, without a server.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { once } = require('node:events');
const { CHAT, LETTERS, WITH_TOOLS, byteTokenizer, lookUpModel, piecesTokenizer, wordTokenizer, writeEncoder } = require('./openai/folders.js');
const { tensor, writeModel } = require('../onnx/write.js');
const inPackage = (name) => require(path.join(__dirname, '..', '..', 'packages', 'serve', 'lib', 'openai', name));
const { ChatTemplate } = inPackage('chat-template.js');
const { paddedLength } = inPackage('encoder.js');
const { sendEvents } = inPackage('events.js');
const { readFolder } = inPackage('folder.js');
const { normalize, poolingOf } = inPackage('pooling.js');
const { TextTokenizer } = inPackage('tokenizer.js');
const { Tokenizing } = inPackage('tokenizing.js');
const { ToolCalls, formatOf } = inPackage('tool-calls.js');

const bytes = new TextTokenizer(byteTokenizer(['<s>'], ['many bytes 😀']), { eos_token: '<s>' });
const pieces = new TextTokenizer(piecesTokenizer(), {});

test('bytes of tokens are those of the text', () => {
  expect(bytes.bytesOf(0xf0)).toEqual([0xf0]);
  expect(bytes.bytesOf(257)).toEqual([...Buffer.from('many bytes 😀')]);
  expect([pieces.bytesOf(6 + 0xc3), pieces.bytesOf(2), bytes.bytesOf(9999)]).toEqual([[0xc3], [0x61], []]);
  expect(LETTERS).toHaveLength(256);
});

describe('chat templates', () => {
  const template = new ChatTemplate({ default: `{{ bos_token }}${CHAT}`, tool_use: WITH_TOOLS }, { bos_token: '<s>' });
  const refused = (messages, options) => {
    try {
      template.render(messages, options);
    } catch ({ statusCode, param, message }) {
      return [statusCode, param, message];
    }
    return undefined;
  };

  test('see messages, parts of text, tools and calls', () => {
    expect(template.render([{ role: 'developer', content: 'Be brief.' }, { role: 'user', content: [{ type: 'text', text: 'Hi' }, { type: 'text', text: '!' }] }])).toBe('<s><|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi!');
    const call = { id: 'x', type: 'function', function: { name: 'f', arguments: '{"a":1}' } };
    const calls = new ChatTemplate({ default: '{% for m in messages %}{% for c in m.tool_calls or [] %}{{ c.function.name }}={{ c.function.arguments.a }}{% endfor %}{{ m.tool_call_id }}{% endfor %}{{ extra }}' }, {});
    expect(calls.render([{ role: 'assistant', content: null, tool_calls: [call] }, { role: 'tool', tool_call_id: 'x', content: '3' }], { more: { extra: true } })).toBe('f=1xtrue');
    expect(template.render([{ role: 'user', content: '' }], { tools: [{ type: 'function' }] })).toMatch(/^<tool_call>\{"type": "function"\}/);
    // Text is never read as a template.
    expect(template.render([{ role: 'user', content: '{{ 1 + 1 }}{% raw %}' }])).toMatch(/\{\{ 1 \+ 1 \}\}\{% raw %\}$/);
  });

  test('messages that are none are refused, with the place', () => {
    expect(refused([1])).toEqual([400, 'messages[0]', expect.any(String)]);
    expect(refused([{ role: 'king', content: '' }])).toEqual([400, 'messages[0].role', expect.stringContaining('found "king"')]);
    expect(refused([{ role: 'user' }])).toEqual([400, 'messages[0].content', expect.any(String)]);
    expect(refused([{ role: 'user', content: [{ type: 'image_url' }] }])).toEqual([400, 'messages[0].content[0].type', expect.stringContaining('text only')]);
    expect(refused([{ role: 'assistant', tool_calls: [{}] }])[1]).toBe('messages[0].tool_calls[0]');
    const raising = new ChatTemplate({ default: "{{ raise_exception('roles must alternate') }}" }, {});
    expect(() => raising.render([{ role: 'user', content: '' }])).toThrow('roles must alternate');
    expect(() => new ChatTemplate({ default: '{% for %}' }, {})).toThrow();
  });
});

describe('calls of tools', () => {
  const tools = new Map([['f', { properties: { s: { type: 'string' } } }], ['g', {}]]);
  const all = (format, ...texts) => {
    const reader = new ToolCalls(format, tools);
    const found = [...texts.map((text) => reader.push(text)), reader.end()];
    return [found.map(({ content }) => content).join(''), ...found.flatMap(({ calls }) => calls).map((call) => `${call.name}(${call.arguments})`)];
  };

  test.each([
    ['tags, in pieces', 'tags', ['Hm. <tool', '_call>\n{"name": "f", "argu', 'ments": {"a": 1}}\n</tool_', 'call> and <tool_call>{"name":"g"}</tool_call>!'], ['Hm.  and !', 'f({"a":1})', 'g({})']],
    ['tags without an end', 'tags', ['<tool_call>{"name":"f","arguments":{}}'], ['', 'f({})']],
    ['marks of parameters', 'tags', ['<tool_call>\n<function=f>\n<parameter=s>\n12\n</parameter>\n<parameter=n>\n12\n</parameter>\n</function>\n</tool_call>'], ['', 'f({"s":"12","n":12})']],
    ['lists', 'mistral', ['[TOOL_', 'CALLS] [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {}}]'], ['', 'f({"a":1})', 'g({})']],
    ['names before arguments', 'mistral', ['[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[ARGS]{}'], ['', 'f({"a": 1})', 'g({})']],
    ['whole objects', 'object', [' {"name": "f", ', '"parameters": {"a": 1}}'], ['', 'f({"a":1})']],
    ['several objects', 'object', ['<|python_tag|>{"name": "f", "parameters": {}}; {"name": "g", "parameters": {}}'], ['', 'f({})', 'g({})']],
    ['an object that is no call', 'object', ['{"answer": 3}'], ['{"answer": 3}']],
    ['a tool that there is not', 'tags', ['<tool_call>{"name":"h"}</tool_call>'], ['<tool_call>{"name":"h"}</tool_call>']],
    ['what is no JSON', 'tags', ['<tool_call>{"name":</tool_call>.'], ['<tool_call>{"name":</tool_call>.']],
    ['text that begins like one', 'tags', ['a <tool', 's> b <tool_c'], ['a <tools> b <tool_c']],
    ['plain text', 'object', ['x {', '"name": "f"}'], ['x {"name": "f"}']],
  ])('%s', (_, format, texts, expected) => {
    expect(all(format, ...texts)).toEqual(expected);
  });

  test('templates show the format', () => {
    expect([formatOf(CHAT), formatOf(WITH_TOOLS), formatOf('{{ tools }}[TOOL_CALLS]'), formatOf('{{ tools }}')]).toEqual([undefined, 'tags', 'mistral', 'object']);
  });
});

describe('pooling', () => {
  // Two rows of three tokens of two numbers; the second row begins at 6.
  const data = Float32Array.of(9, 9, 9, 9, 9, 9, 1, 2, 3, 6, 100, 100);
  const pool = (config, count = 2) => [...poolingOf(config)(data, 6, count, 2)];

  test.each([
    ['mean', undefined, [2, 4]],
    ['mean, by a switch', { pooling_mode_mean_tokens: true, pooling_mode_cls_token: false }, [2, 4]],
    ['the first token', { pooling_mode_cls_token: true }, [1, 2]],
    ['the last token', { pooling_mode: 'lasttoken' }, [3, 6]],
    ['the greatest', { pooling_mode: 'max' }, [3, 6]],
    ['weighted', { pooling_mode_weightedmean_tokens: true }, [7 / 3, 14 / 3].map(Math.fround)],
    ['by the root', { pooling_mode: 'mean_sqrt_len_tokens' }, [4 / Math.SQRT2, 8 / Math.SQRT2].map(Math.fround)],
    ['joined', { pooling_mode_mean_tokens: true, pooling_mode_cls_token: true }, [1, 2, 2, 4]],
  ])('%s', (_, config, expected) => {
    expect(pool(config)).toEqual(expected);
  });

  test('unknown ones are refused', () => {
    expect(() => poolingOf({ pooling_mode: 'constructor' })).toThrow('found "constructor", allowed cls, lasttoken');
    expect(() => poolingOf({})).toThrow('found no mode');
    expect([...normalize(Float32Array.of(3, 4))]).toEqual([0.6, 0.8].map(Math.fround));
    expect([...normalize(new Float32Array(2))]).toEqual([0, 0]);
  });
});

test('lengths of texts that are padded here are few, and at most a third is padding', () => {
  const found = new Set();
  for (let length = 1; length <= 512; length++) {
    const padded = paddedLength(length, 512);
    found.add(padded);
    expect(padded).toBeGreaterThanOrEqual(length);
    if (length > 8) expect(length / padded).toBeGreaterThan(2 / 3 - 1e-9);
  }
  expect(found.size).toBe(13);
  expect([paddedLength(300, 300), paddedLength(17, 20), paddedLength(9, 9)]).toEqual([300, 20, 9]);
});

describe('tokenizing', () => {
  const source = { json: JSON.stringify(byteTokenizer(['<s>'], [])), config: {} };
  let tokenizing;
  const make = (limits) => (tokenizing = new Tokenizing(bytes, source, limits));
  afterEach(() => tokenizing.destroy());

  test('long texts give the same in their thread', async () => {
    const text = 'a long text 漢字 <s> '.repeat(100);
    const [row, pair] = await make({}).encode([{ text }, { text: 'a', pair: text, special: false }]);
    expect(row).toEqual(bytes.encodeRow({ text }));
    expect(pair).toEqual(bytes.encodeRow({ text: 'a', pair: text, special: false }));
  });

  test('requests take turns', async () => {
    make({ here: 0, slice: 10 });
    const order = [];
    const many = tokenizing.encode(Array(30).fill({ text: 'a text of some letters' })).then((rows) => order.push(rows.length));
    const few = tokenizing.encode([{ text: 'b' }]).then((rows) => order.push(rows.length));
    const gone = new AbortController();
    const unwanted = tokenizing.encode(Array(30).fill({ text: 'c' }), gone.signal);
    gone.abort(new Error('gone'));
    await expect(unwanted).rejects.toThrow('gone');
    await Promise.all([many, few]);
    expect(order).toEqual([1, 30]);
  });

  test('a turn that takes too long ends, and the next one goes on', async () => {
    make({ here: 0, slice: 10, timeout: 20_000 });
    await tokenizing.encode([{ text: 'warm' }]);
    const slow = make({ here: 0, timeout: 1 });
    await expect(slow.encode([{ text: 'x '.repeat(200_000) }])).rejects.toMatchObject({ statusCode: 400, message: 'The text takes too long to tokenize.' });
    const unloaded = make({ here: 0 });
    const waiting = [unloaded.encode([{ text: 'a' }]), unloaded.encode([{ text: 'b' }])];
    unloaded.destroy();
    for (const one of waiting) await expect(one).rejects.toThrow('the model was unloaded');
  });

  test('a thread that fails is replaced', async () => {
    const broken = make({ here: 0 });
    const [wrong] = [new Tokenizing(bytes, { json: '{', config: {} }, { here: 0 })];
    await expect(wrong.encode([{ text: 'a' }])).rejects.toThrow(/JSON/);
    await expect(wrong.encode([{ text: 'a' }])).rejects.toThrow(/JSON/);
    wrong.destroy();
    expect((await broken.encode([{ text: 'a' }]))[0].ids).toEqual([97]);
  });
});

describe('events', () => {
  /** Objects that tell when nobody wants more. */
  function objects() {
    const seen = { ended: false };
    seen.list = (async function* () {
      try {
        for (let i = 0; ; i++) yield { i };
      } finally {
        seen.ended = true;
      }
    })();
    return seen;
  }
  const replyWith = (send) => ({ type: () => replyWith(send), header: () => replyWith(send), log: { error() {} }, send });

  test('that nobody reads end what makes them', async () => {
    const [gone, seen] = [new AbortController(), objects()];
    const readable = await sendEvents(replyWith((stream) => stream), seen.list, { gone, stall: 60_000 });
    readable.destroy();
    await new Promise(setImmediate);
    expect(seen.ended).toBe(true);
    const [left, other] = [new AbortController(), objects()];
    await sendEvents(replyWith((stream) => stream), other.list, { gone: left, stall: 60_000 });
    left.abort();
    await new Promise(setImmediate);
    expect(other.ended).toBe(true);
  });

  test('that a client does not go on reading are given up', async () => {
    const [gone, seen] = [new AbortController(), objects()];
    const readable = await sendEvents(replyWith((stream) => stream), seen.list, { gone, stall: 20 });
    readable.read(0);
    const [error] = await once(readable, 'error');
    await new Promise(setImmediate);
    expect([error.message, gone.signal.aborted, seen.ended]).toEqual(['the client has not read for 20 ms', true, true]);
  });

  test('tell an error that comes later', async () => {
    async function* failing() {
      yield { i: 0 };
      throw new Error('inside');
    }
    const readable = await sendEvents(replyWith((stream) => stream), failing(), { gone: new AbortController(), stall: 60_000 });
    let text = '';
    for await (const chunk of readable) text += chunk;
    expect(text).toMatch(/^data: \{"i":0\}\n\ndata: \{"error":\{"message":"The server had an error[^\n]*\n\n$/);
    // One that ends because it takes too long says so, and not that it is done.
    const [gone, seen] = [new AbortController(), objects()];
    const late = await sendEvents(replyWith((stream) => stream), seen.list, { gone, stall: 60_000 });
    let rest = '';
    for await (const chunk of late) {
      rest += chunk;
      if (rest.includes('"i":1}')) gone.abort(Object.assign(new Error('too long'), { statusCode: 504 }));
    }
    expect(rest).toMatch(/data: \{"error":\{"message":"too long","type":"server_error","param":null,"code":null\}\}\n\n$/);
  });
});

describe('folders', () => {
  let folder;
  beforeAll(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-hub-'));
  });
  afterAll(() => fs.rmSync(folder, { recursive: true }));
  const write = (name, files, model = ['onnx/model.onnx']) => {
    const target = path.join(folder, name);
    for (const file of model) files[file] = 0;
    for (const [file, value] of Object.entries(files)) {
      fs.mkdirSync(path.dirname(path.join(target, file)), { recursive: true });
      fs.writeFileSync(path.join(target, file), typeof value === 'string' ? value : JSON.stringify(value));
    }
    return target;
  };

  test('tell the network, the pooling, the template and the length', async () => {
    const decoder = await readFolder(write('decoder', { 'config.json': { architectures: ['Qwen2ForCausalLM'], max_position_embeddings: 32768 }, 'tokenizer.json': {}, 'tokenizer_config.json': { model_max_length: 131072, chat_template: 'old' }, 'chat_template.jinja': 'new' }, ['onnx/model.onnx', 'onnx/model_q4.onnx']));
    expect([path.basename(decoder.file), decoder.maxLength, decoder.chatTemplates, decoder.modules]).toEqual(['model_q4.onnx', 32768, { default: 'new' }, undefined]);
    const named = [{ name: 'default', template: 'a' }, { name: 'tool_use', template: 'b' }];
    const modules = [{ path: '', type: 'sentence_transformers.models.Transformer' }, { path: '1_Pooling', type: 'sentence_transformers.models.Pooling' }, { path: '2_Normalize', type: 'sentence_transformers.models.Normalize' }];
    const encoder = await readFolder(write('encoder', { 'config.json': { architectures: ['BertModel'], max_position_embeddings: 512 }, 'tokenizer.json': {}, 'tokenizer_config.json': { model_max_length: 1e30, chat_template: named }, 'sentence_bert_config.json': { max_seq_length: 256 }, 'modules.json': modules, '1_Pooling/config.json': { pooling_mode_cls_token: true }, 'config_sentence_transformers.json': { prompts: { query: 'q: ' }, default_prompt_name: null } }, ['model.onnx', 'onnx/model_q4.onnx']));
    expect([encoder.file, encoder.maxLength, encoder.chatTemplates]).toEqual([path.join(folder, 'encoder', 'model.onnx'), 256, { default: 'a', tool_use: 'b' }]);
    expect(encoder.modules).toEqual({ pooling: { pooling_mode_cls_token: true }, normalize: true, dense: false });
    expect([encoder.prompts, encoder.defaultPrompt]).toEqual([{ query: 'q: ' }, undefined]);
  });

  test('may name the network themselves, and be of onnxruntime-genai', async () => {
    const files = ['onnx/model.onnx', 'onnx/model_q4.onnx', 'onnx/model_fp16.onnx'];
    const fileOf = async (name, dtype) => path.basename((await readFolder(write(name, { 'config.json': { architectures: ['LlamaForCausalLM'], 'transformers.js_config': { dtype } } }, files))).file);
    expect([await fileOf('t1', 'fp16'), await fileOf('t2', { model: 'fp32' }), await fileOf('t3', 'toString'), await fileOf('t4', null)]).toEqual(['model_fp16.onnx', 'model.onnx', 'model_q4.onnx', 'model_q4.onnx']);
    const genai = { model: { context_length: 4096, eos_token_id: [7, 8], decoder: { filename: 'phi.onnx' } }, search: { temperature: 0.5 } };
    const built = await readFolder(write('genai', { 'genai_config.json': genai, 'tokenizer.json': {} }, ['phi.onnx']));
    expect([path.basename(built.file), built.maxLength, built.config.eos_token_id, built.generation]).toEqual(['phi.onnx', 4096, [7, 8], { temperature: 0.5 }]);
  });

  test('that are wrong are refused', async () => {
    await expect(readFolder(write('empty', { 'config.json': {} }, []))).rejects.toThrow('found no model.onnx or model_q4.onnx');
    await expect(readFolder(write('broken', { 'config.json': '{' }))).rejects.toThrow(/config\.json: /);
    await expect(readFolder(path.join(folder, 'none'))).rejects.toThrow('found no config.json');
    const out = [{ path: '../../etc', type: 'Pooling' }];
    await expect(readFolder(write('out', { 'config.json': {}, 'modules.json': out }))).rejects.toThrow('leads out of the folder');
    await expect(readFolder(write('other', { 'config.json': { 'transformers.js_config': { dtype: 'q4' } } }))).rejects.toThrow('found no model_q4.onnx');
    await expect(readFolder(write('up', { 'genai_config.json': { model: { decoder: { filename: '../out/onnx/model.onnx' } } } }, ['other.onnx']))).rejects.toThrow('found no ../out');
  });

  test('vectors are those of the pooling that the folder names', async () => {
    const { ml } = require('webnn-node');
    const { loadHub } = inPackage('load.js');
    const context = await ml.createContext({ accelerated: false });
    const words = ['a', 'b'];
    const options = { model: lookUpModel(6, 3), architecture: 'BertModel' };
    writeEncoder(path.join(folder, 'mean'), words, options);
    writeEncoder(path.join(folder, 'cls'), words, { ...options, files: { 'modules.json': [{ path: '1_P', type: 'x.Pooling' }], '1_P/config.json': { pooling_mode: 'cls' } } });
    const row = (id) => [0, 1, 2].map((i) => Math.fround(Math.sin((id * 3 + i) * 1.7)));
    const vectorOf = async (name, text) => {
      const hub = await loadHub({ name, version: '1', path: path.join(folder, name), context });
      const vector = await hub.text.embed((await hub.text.tokensOf([text]))[0]);
      hub.destroy();
      return [...vector];
    };
    const [first, a, end] = [2, 4, 3].map(row);
    const mean = first.map((x, i) => (x + a[i] + end[i]) / 3);
    const length = Math.hypot(...mean);
    (await vectorOf('mean', 'a')).forEach((x, i) => expect(x).toBeCloseTo(mean[i] / length, 6));
    expect(await vectorOf('cls', 'a b')).toEqual(first);
    context.destroy();
  });

  describe('texts of different lengths that wait', () => {
    const { ml } = require('webnn-node');
    const { loadHub } = inPackage('load.js');
    const options = { architecture: 'BertModel', maxLength: 512 };
    const words = ['a', 'b', 'c', 'd'];
    let context;
    beforeAll(async () => {
      context = await ml.createContext({ accelerated: false, numThreads: 2 });
    });
    afterAll(() => context.destroy());

    /** Whatever is faster here, joined by the delay. */
    const load = (name, onnx = { batching: { maxDelay: 20 } }) => loadHub({ name, version: '1', path: path.join(folder, name), context, onnx });
    const rows = Array.from({ length: 48 }, (_, i) => ({ ids: [2, ...Array.from({ length: 1 + ((i * 7) % 30) }, (_token, k) => 4 + ((i + k) % 4)), 3] }));

    test('are run together, and give what they give alone', async () => {
      writeEncoder(path.join(folder, 'joined'), words, { ...options, model: lookUpModel(8, 5) });
      const [joined, alone] = [await load('joined'), await load('joined', { batching: false })];
      const found = await Promise.all(rows.map((row) => joined.text.embed(row)));
      const { requests, runs, filled } = joined.onnx.batching;
      expect([requests >= rows.length, runs < requests / 3, filled > rows.length / 2]).toEqual([true, true, true]);
      for (const [i, row] of rows.entries()) (await alone.text.embed(row)).forEach((x, k) => expect(found[i][k]).toBeCloseTo(x, 6));
      joined.destroy();
      alone.destroy();
    });

    test('leave out who no longer wants it', async () => {
      writeEncoder(path.join(folder, 'left'), words, { ...options, model: lookUpModel(8, 5) });
      const hub = await load('left');
      const controllers = rows.map(() => new AbortController());
      const found = rows.map((row, i) => hub.text.embed(row, { signal: controllers[i].signal }).catch((error) => error));
      controllers.forEach((controller, i) => i % 3 === 0 && controller.abort(new Error(`${i}`)));
      const all = await Promise.all(found);
      all.forEach((one, i) => expect(one instanceof Error ? one.message : one.length).toBe(i % 3 === 0 ? `${i}` : 5));
      hub.destroy();
    });

    test('are padded here where nothing proves that the engine may, and joined by their lengths', async () => {
      // A maximum over the text sees what is after its end.
      const model = writeModel({
        opset: 17,
        inputs: ['input_ids', 'attention_mask'].map((name) => ({ name, type: 'int64', shape: ['batch', 'sequence'] })),
        outputs: [{ name: 'last_hidden_state' }],
        nodes: [
          { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['values'] },
          { op: 'CumSum', inputs: ['values', 'along'], outputs: ['last_hidden_state'], attributes: { reverse: 1 } },
        ],
        initializers: [tensor('table', 'float', [8, 3], Float32Array.from({ length: 24 }, (_, i) => (i < 3 ? 0 : i))), tensor('along', 'int64', [], BigInt64Array.of(1n))],
      });
      writeEncoder(path.join(folder, 'unproved'), words, { ...options, model });
      const [joined, alone] = [await load('unproved'), await load('unproved', { batching: false })];
      expect(joined.onnx.batching.lengths.axes).toEqual({});
      const found = await Promise.all(rows.map((row) => joined.text.embed(row)));
      expect(joined.onnx.batching.runs).toBeLessThan(rows.length / 3);
      for (const [i, row] of rows.entries()) (await alone.text.embed(row)).forEach((x, k) => expect(found[i][k]).toBeCloseTo(x, 5));
      joined.destroy();
      alone.destroy();
    });

    test('are not joined if the model lets them see each other, which the log says', async () => {
      const model = writeModel({
        opset: 17,
        inputs: [{ name: 'input_ids', type: 'int64', shape: ['batch', 'sequence'] }],
        outputs: [{ name: 'last_hidden_state' }],
        nodes: [
          { op: 'Gather', inputs: ['table', 'input_ids'], outputs: ['values'] },
          { op: 'CumSum', name: 'over the batch', inputs: ['values', 'first'], outputs: ['sums'] },
          { op: 'CumSum', name: 'over the text', inputs: ['sums', 'second'], outputs: ['last_hidden_state'] },
        ],
        initializers: [tensor('table', 'float', [8, 2], new Float32Array(16).fill(1)), ...['first', 'second'].map((name, axis) => tensor(name, 'int64', [], BigInt64Array.of(BigInt(axis))))],
      });
      writeEncoder(path.join(folder, 'seen'), words, { ...options, model });
      const said = [];
      const hub = await loadHub({ name: 'seen', version: '1', path: path.join(folder, 'seen'), context, log: { info: (about) => said.push(about) } });
      expect(said).toEqual([{ model: 'seen/1', reason: expect.stringContaining('over the batch') }]);
      const found = await Promise.all(rows.slice(0, 4).map((row) => hub.text.embed(row)));
      for (const vector of found) vector.forEach((x) => expect(x).toBeCloseTo(Math.SQRT1_2, 6));
      hub.destroy();
    });
  });

  test('texts and pairs that are too long keep the tokens behind them', () => {
    const tokenizer = new TextTokenizer(wordTokenizer(['a', 'b']), {});
    expect([tokenizer.tail(false), tokenizer.tail(true), bytes.tail(false)]).toEqual([1, 1, 0]);
    expect(tokenizer.encodeRow({ text: 'a', pair: 'b' })).toEqual({ ids: [2, 4, 3, 5, 3], types: [0, 0, 0, 1, 1] });
  });
});
