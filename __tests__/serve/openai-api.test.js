'use strict';

// OpenAI's interface over HTTP: answers, streams, refusals, and clients that hang up.

const fs = require('node:fs');
const http = require('node:http');
const os = require('node:os');
const path = require('node:path');
const { once } = require('node:events');
const { setTimeout } = require('node:timers/promises');
const { createServer } = require('@webnn-node/serve');
const { unpackModels } = require('../transformers/models.js');
const { CHAT, END, lookUpModel, sumModel, writeChat, writeEncoder } = require('./openai/folders.js');

const SMILE = [...Buffer.from('😀')];
const SCRIPTS = {
  A: ['Hello', ' wor', 'ld', ...SMILE, END],
  C: ['one ', 'STO', 'P two', END],
  // It goes on for ever.
  L: ['la', ' li', ' lu', 'la'],
  T: ['Let me see. ', '<tool_call>', '\n{"name": "weather", "arguments": ', '{"city": "Paris"}}\n', '</tool_call>', END],
};

let folder;
let server;
let url;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-openai-'));
  writeChat(path.join(folder, 'chat'), SCRIPTS);
  writeChat(path.join(folder, 'plain'), SCRIPTS, { template: CHAT });
  writeChat(path.join(folder, 'base'), SCRIPTS, { template: null, maxLength: 8 });
  writeEncoder(path.join(folder, 'embed'), ['a', 'b', 'c'], { model: lookUpModel(7, 4), architecture: 'BertModel', files: { 'config_sentence_transformers.json': { prompts: { query: 'c ' } } } });
  writeEncoder(path.join(folder, 'rank'), ['good', 'bad', 'so'], { model: sumModel([0, 0, 0, 0, 1, -1, 0.25]), architecture: 'BertForSequenceClassification' });
  server = await createServer({ models: folder });
  url = await server.listen({ port: 0, host: '127.0.0.1' });
});
afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

const send = (route, body) => fetch(url + route, { method: 'POST', headers: { 'content-type': 'application/json' }, body: typeof body === 'string' ? body : JSON.stringify(body) });
const post = async (route, body) => {
  const response = await send(route, body);
  const text = await response.text();
  return [response.status, response.headers.get('content-type').startsWith('text/event-stream; charset=utf-8') ? text : JSON.parse(text)];
};
/** A chat with a message that ends with a letter. */
const chat = (letter, more = {}) => post('/v1/chat/completions', { model: 'chat', messages: [{ role: 'user', content: `say ${letter}` }], ...more });
const eventsOf = (text) => {
  const lines = text.split('\n\n').filter((line) => line !== '');
  expect(lines.every((line) => line.startsWith('data: '))).toBe(true);
  expect(lines.at(-1)).toBe('data: [DONE]');
  return lines.slice(0, -1).map((line) => JSON.parse(line.slice('data: '.length)));
};
const metric = async (name, model) => {
  const text = await (await fetch(`${url}/metrics`)).text();
  return Number(new RegExp(`^${name}\\{model="${model}"\\} (.*)$`, 'm').exec(text)?.[1] ?? 0);
};

describe('chats', () => {
  test('are answered at once', async () => {
    const [status, body] = await chat('A');
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.stringMatching(/^chatcmpl-[0-9a-f]{32}$/),
      object: 'chat.completion',
      created: expect.any(Number),
      model: 'chat',
      system_fingerprint: null,
      choices: [{ index: 0, message: { role: 'assistant', content: 'Hello world😀', refusal: null }, logprobs: null, finish_reason: 'stop' }],
      usage: { prompt_tokens: 1 + 'user\nsay A'.length, completion_tokens: 8, total_tokens: 19, prompt_tokens_details: { cached_tokens: 0 } },
    });
  });

  test('are streamed, without parts of characters', async () => {
    const [status, text] = await chat('A', { stream: true, stream_options: { include_usage: true } });
    expect(status).toBe(200);
    const events = eventsOf(text);
    expect(events.slice(0, -1).map(({ choices: [{ delta, finish_reason: reason }] }) => [delta, reason])).toEqual([
      [{ role: 'assistant', content: '' }, null],
      [{ content: 'Hello' }, null],
      [{ content: ' wor' }, null],
      [{ content: 'ld' }, null],
      [{ content: '😀' }, null],
      [{}, 'stop'],
    ]);
    expect(events.slice(0, -1).every(({ usage, object }) => usage === null && object === 'chat.completion.chunk')).toBe(true);
    expect(events.at(-1)).toMatchObject({ choices: [], usage: { prompt_tokens: 11, completion_tokens: 8, total_tokens: 19 } });
    expect(new Set(events.map(({ id }) => id)).size).toBe(1);
    expect(eventsOf((await chat('A', { stream: true }))[1]).every((event) => !('usage' in event))).toBe(true);
  });

  test('end before stop strings and at numbers of tokens', async () => {
    const [, stopped] = await chat('C', { stop: 'STOP', logprobs: true });
    expect(stopped.choices[0].message.content).toBe('one ');
    expect(stopped.choices[0].finish_reason).toBe('stop');
    expect(stopped.choices[0].logprobs.content.map(({ token }) => token)).toEqual(['one ']);
    expect(eventsOf((await chat('C', { stop: ['x', 'STOP'], stream: true }))[1]).map(({ choices: [{ delta }] }) => delta.content ?? '').join('')).toBe('one ');
    for (const name of ['max_tokens', 'max_completion_tokens']) {
      const [, short] = await chat('A', { [name]: 2 });
      expect([short.choices[0].message.content, short.choices[0].finish_reason, short.usage.completion_tokens]).toEqual(['Hello wor', 'length', 2]);
    }
    // As long as there is room.
    expect((await chat('L'))[1].usage.total_tokens).toBe(256);
  });

  test('have several choices, seeds, and logarithms of probabilities', async () => {
    const [, several] = await chat('A', { n: 3, logprobs: true, top_logprobs: 2 });
    expect(several.choices.map(({ index, message }) => [index, message.content])).toEqual([0, 1, 2].map((i) => [i, 'Hello world😀']));
    const { content } = several.choices[2].logprobs;
    expect(content.map(({ token }) => token)).toEqual(['Hello', ' wor', 'ld', ...Array(4).fill('\uFFFD'), '<|im_end|>']);
    expect(content[3].bytes).toEqual([SMILE[0]]);
    expect(content[0].top_logprobs).toHaveLength(2);
    expect(content[0].top_logprobs[0]).toEqual({ token: 'Hello', logprob: content[0].logprob, bytes: [...Buffer.from('Hello')] });
    expect(content[0].logprob).toBeCloseTo(0, 6);
    const random = { temperature: 2, top_p: 1, max_tokens: 12, logit_bias: Object.fromEntries(Array.from({ length: 26 }, (_, i) => [97 + i, 28])) };
    const texts = async (seed) => (await chat('A', { ...random, seed, n: 2 }))[1].choices.map(({ message }) => message.content);
    const first = await texts(5);
    expect(await texts(5)).toEqual(first);
    expect(await texts(6)).not.toEqual(first);
    expect(first[0]).not.toBe(first[1]);
  });

  test('that go on compute only what is new', async () => {
    const first = [{ role: 'user', content: 'A question that is long enough to be kept. A' }];
    const [, one] = await chat('', { messages: first });
    const next = [...first, one.choices[0].message, { role: 'user', content: 'C' }];
    const [, two] = await chat('', { messages: next });
    expect(two.choices[0].message.content).toBe('one STOP two');
    // Here a template writes more before an answer that was given than before one that is asked for.
    expect([one.usage.prompt_tokens_details.cached_tokens, two.usage.prompt_tokens_details.cached_tokens]).toEqual([0, one.usage.prompt_tokens]);
    const [, other] = await chat('', { messages: [{ role: 'user', content: 'Another question, also long enough. A' }] });
    expect([other.choices[0].message.content, other.usage.prompt_tokens_details.cached_tokens]).toEqual(['Hello world😀', 0]);
    // The first answer again, and another one to the second question: both are kept.
    const [, again] = await chat('', { messages: [...next.slice(0, 2), { role: 'user', content: 'A' }], n: 1 });
    expect(again.usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(one.usage.total_tokens);
  });

  test('call tools', async () => {
    const tools = [{ type: 'function', function: { name: 'weather', parameters: { type: 'object' } } }];
    const call = { id: expect.stringMatching(/^call_/), type: 'function', function: { name: 'weather', arguments: '{"city":"Paris"}' } };
    const [, { choices: [{ message, finish_reason: reason }] }] = await chat('T', { tools });
    expect([message, reason]).toEqual([{ role: 'assistant', content: 'Let me see. ', refusal: null, tool_calls: [call] }, 'tool_calls']);
    const deltas = eventsOf((await chat('T', { tools, stream: true }))[1]).map(({ choices: [{ delta }] }) => delta);
    expect(deltas).toEqual([{ role: 'assistant', content: '' }, { content: 'Let me see. ' }, { tool_calls: [{ index: 0, ...call }] }, {}]);
    expect((await chat('T', { tools, tool_choice: 'none' }))[1].choices[0]).toMatchObject({ message: { content: expect.stringContaining('<tool_call>') }, finish_reason: 'stop' });
    const answer = [{ role: 'user', content: 'T' }, { role: 'assistant', content: null, tool_calls: [{ ...call, id: 'x' }] }, { role: 'tool', tool_call_id: 'x', content: 'A' }];
    expect((await post('/v1/chat/completions', { model: 'chat', messages: answer, tools }))[1].choices[0].message.content).toBe('Hello world😀');
  });
});

describe('completions', () => {
  const complete = (more) => post('/v1/completions', { model: 'base', prompt: 'A', ...more });

  test('continue texts and tokens, several at once', async () => {
    const [status, body] = await complete({ prompt: ['A', 'C'], n: 2, max_tokens: 3, logprobs: 1, model: 'chat' });
    expect(status).toBe(200);
    expect(body).toMatchObject({ id: expect.stringMatching(/^cmpl-/), object: 'text_completion', usage: { prompt_tokens: 2, completion_tokens: 12, total_tokens: 14 } });
    expect(body.choices.map(({ index, text, finish_reason: reason }) => [index, text, reason])).toEqual([[0, 'Hello world', 'length'], [1, 'Hello world', 'length'], [2, 'one STOP two', 'length'], [3, 'one STOP two', 'length']]);
    const { logprobs } = body.choices[0];
    expect([logprobs.tokens, logprobs.text_offset]).toEqual([['Hello', ' wor', 'ld'], [0, 5, 9]]);
    expect(logprobs.top_logprobs[0]).toEqual({ Hello: logprobs.token_logprobs[0] });
    expect((await complete({ prompt: [65], max_tokens: 1 }))[1].choices[0].text).toBe('Hello');
    expect((await complete({ prompt: [[65], [67]], max_tokens: 1, echo: true }))[1].choices.map(({ text }) => text)).toEqual(['AHello', 'Cone ']);
    // As OpenAI has it, 16 tokens; here there is room for 7.
    expect((await complete({ prompt: 'L' }))[1].usage.completion_tokens).toBe(7);
    expect((await complete({ prompt: 'L', model: 'chat' }))[1].usage.completion_tokens).toBe(16);
    expect((await complete({ prompt: 'A', max_tokens: 0, echo: true }))[1]).toMatchObject({ choices: [{ text: 'A', finish_reason: 'length' }], usage: { completion_tokens: 0 } });
  });

  test('are streamed', async () => {
    const [, text] = await complete({ prompt: 'C', stop: ' two', stream: true, echo: true });
    const events = eventsOf(text);
    expect(events.map(({ choices: [{ text: piece, finish_reason: reason }] }) => [piece, reason])).toEqual([['Cone', null], [' STO', null], ['P', 'stop']]);
  });
});

test('texts become vectors', async () => {
  const embed = async (input, more = {}) => (await post('/v1/embeddings', { model: 'embed', input, ...more }))[1];
  const body = await embed(['a', 'a b c']);
  expect(body).toMatchObject({ object: 'list', model: 'embed', usage: { prompt_tokens: 8, total_tokens: 8 } });
  expect(body.data.map(({ object, index, embedding }) => [object, index, embedding.length])).toEqual([['embedding', 0, 4], ['embedding', 1, 4]]);
  for (const { embedding } of body.data) expect(Math.hypot(...embedding)).toBeCloseTo(1, 6);
  const bytes = Buffer.from((await embed('a', { encoding_format: 'base64' })).data[0].embedding, 'base64');
  expect([0, 1, 2, 3].map((i) => bytes.readFloatLE(4 * i))).toEqual(body.data[0].embedding);
  expect((await embed([2, 4, 3])).data[0].embedding).toEqual(body.data[0].embedding);
  expect((await embed([[2, 4, 3], [2, 5, 3]])).data).toHaveLength(2);
  const [{ embedding: short }] = (await embed('a', { dimensions: 2 })).data;
  expect([short.length, Math.hypot(...short)]).toEqual([2, expect.closeTo(1, 6)]);
  expect((await embed('a', { prompt_name: 'query' })).data[0].embedding).toEqual((await embed('c a')).data[0].embedding);
  const long = 'a '.repeat(40);
  expect((await embed(long, { truncate: true })).usage.prompt_tokens).toBe(16);
  expect((await embed(long)).error).toMatchObject({ code: 'context_length_exceeded', message: expect.stringContaining('16 tokens, but input has 42') });
  // Many at once, of all lengths, are what each is alone.
  const many = Array.from({ length: 50 }, (_, i) => 'abc'.charAt(i % 3).concat(' b'.repeat(i % 11)));
  const together = (await embed(many)).data;
  const alone = await Promise.all(many.map((text) => embed(text)));
  // A request has several texts, and some are joined: what is counted are runs.
  const metrics = await (await fetch(`${url}/metrics`)).text();
  const { runs, requests } = server.registry.get('embed').onnx.batching;
  expect([requests > 100, runs < requests]).toEqual([true, true]);
  expect(Number(/nv_inference_exec_count\{model="embed",version="1"\} (\d+)/.exec(metrics)[1])).toBe(runs);
  together.forEach(({ embedding }, i) => embedding.forEach((x, j) => expect(x).toBeCloseTo(alone[i].data[0].embedding[j], 5)));
});

test('documents are ranked, in the forms of Jina, Cohere and text-embeddings-inference', async () => {
  const documents = ['bad', 'so good', { text: 'good good' }];
  const [, jina] = await post('/v1/rerank', { model: 'rank', query: 'so', documents, top_n: 2, return_documents: true });
  const sigmoid = (x) => 1 / (1 + Math.exp(-x));
  expect(jina).toEqual({
    model: 'rank',
    results: [
      { index: 2, relevance_score: expect.closeTo(sigmoid(2.25), 6), document: { text: 'good good' } },
      { index: 1, relevance_score: expect.closeTo(sigmoid(1.5), 6), document: { text: 'so good' } },
    ],
    usage: { prompt_tokens: 17, total_tokens: 17 },
  });
  const [, plain] = await post('/rerank', { query: 'so', texts: ['bad', 'good'], raw_scores: true, return_text: true });
  expect(plain).toEqual([{ index: 1, score: 1.25, text: 'good' }, { index: 0, score: -0.75, text: 'bad' }]);
  const long = 'good '.repeat(40);
  const [, cut] = await post('/v2/rerank', { model: 'rank', query: 'so', documents: [long] });
  expect([cut.usage.total_tokens, cut.results[0].relevance_score]).toEqual([16, expect.closeTo(sigmoid(12.25), 6)]);
  expect(await post('/rerank', { query: 'so', texts: [long] })).toMatchObject([400, { error: { code: 'context_length_exceeded', param: 'texts[0]' } }]);
  expect(await post('/rerank', { query: long, texts: ['a'] })).toMatchObject([400, { error: { param: 'query' } }]);
});

test('metrics count tokens, steps, and runs', async () => {
  const before = await Promise.all(['prompt_tokens', 'generated_tokens', 'generation_steps', 'generation_runs'].map((name) => metric(`webnn_${name}_total`, 'plain')));
  await post('/v1/completions', { model: 'plain', prompt: 'A', n: 2 });
  const now = await Promise.all(['prompt_tokens', 'generated_tokens', 'generation_steps', 'generation_runs'].map((name) => metric(`webnn_${name}_total`, 'plain')));
  const [prompt, generated, steps, runs] = now.map((count, i) => count - before[i]);
  expect([prompt, generated]).toEqual([1, 16]);
  expect(steps).toBeGreaterThanOrEqual(14);
  expect(runs).toBeGreaterThan(0);
  expect(runs).toBeLessThanOrEqual(steps);
});

test('requests have names', async () => {
  const idOf = async (headers) => (await fetch(`${url}/v1/models`, { headers })).headers.get('x-request-id');
  expect(await idOf({})).toMatch(/^req_[0-9a-f]{32}$/);
  expect(await idOf({ 'x-request-id': 'mine-1' })).toBe('mine-1');
  expect(await idOf({ 'x-request-id': 'a b' })).toMatch(/^req_/);
});

test('models are listed', async () => {
  const list = await (await fetch(`${url}/v1/models`)).json();
  expect(list.data.map(({ id, object, max_model_len: length }) => [id, object, length])).toEqual([['base', 'model', 8], ['chat', 'model', 256], ['embed', 'model', 16], ['plain', 'model', 256], ['rank', 'model', 16]]);
  expect(await (await fetch(`${url}/v1/models/chat`)).json()).toEqual(list.data[1]);
  const missing = await fetch(`${url}/v1/models/none/of%20them`);
  expect([missing.status, await missing.json()]).toEqual([404, { error: { message: 'The model "none/of them" does not exist.', type: 'invalid_request_error', param: 'model', code: 'model_not_found' } }]);
});

describe('refused with the reason', () => {
  const deep = (depth) => '['.repeat(depth) + ']'.repeat(depth);
  const say = { messages: [{ role: 'user', content: 'A' }] };

  test.each([
    ['a model that there is not', {}, { model: 'none', ...say }, 404, 'model'],
    ['a path', {}, { model: '../chat', ...say }, 404, 'model'],
    ['a name of an object', {}, { model: '__proto__', ...say }, 404, 'model'],
    ['no model', {}, { ...say }, 400, 'model'],
    ['a model of another kind', {}, { model: 'embed', ...say }, 400, 'model'],
    ['a model without a template', {}, { model: 'base', ...say }, 400, 'model'],
    ['no messages', {}, { model: 'chat' }, 400, 'messages'],
    ['empty messages', {}, { model: 'chat', messages: [] }, 400, 'messages'],
    ['no schema', { response_format: { type: 'json_schema', json_schema: {} } }, undefined, 400, 'response_format'],
    ['a format of text', { response_format: 'json' }, undefined, 400, 'response_format'],
    ['another format', { response_format: { type: 'xml' } }, undefined, 400, 'response_format'],
    ['a schema that nothing satisfies', { response_format: { type: 'json_schema', json_schema: { schema: { allOf: [{ type: 'null' }, { type: 'string' }] } } } }, undefined, 400, 'response_format'],
    ['an enormous schema', { response_format: { type: 'json_schema', json_schema: { schema: { allOf: Array.from({ length: 20 }, (__, i) => ({ anyOf: Array.from({ length: 10 }, (___, j) => ({ properties: { [`p${i}`]: { const: j } } })) })) } } } }, undefined, 400, 'response_format'],
    ['too many choices', { n: 17 }, undefined, 400, 'n'],
    ['no tokens', { max_tokens: 0 }, undefined, 400, 'max_tokens'],
    ['half a choice', { n: 0.5 }, undefined, 400, 'n'],
    ['a temperature of text', { temperature: '1' }, undefined, 400, 'temperature'],
    ['heat', { temperature: 3 }, undefined, 400, 'temperature'],
    ['a probability above 1', { top_p: 1.5 }, undefined, 400, 'top_p'],
    ['alternatives without logprobs', { top_logprobs: 2 }, undefined, 400, 'top_logprobs'],
    ['too many alternatives', { logprobs: true, top_logprobs: 21 }, undefined, 400, 'top_logprobs'],
    ['a number as a stop', { stop: 3 }, undefined, 400, 'stop'],
    ['an empty stop', { stop: [''] }, undefined, 400, 'stop'],
    ['a bias of words', { logit_bias: { word: 1 } }, undefined, 400, 'logit_bias'],
    ['tools for a model that has none', { model: 'plain', tools: [{ type: 'function', function: { name: 'f' } }] }, undefined, 400, 'tools'],
    ['a tool without a name', { tools: [{ type: 'function' }] }, undefined, 400, 'tools[0]'],
    ['a call of a tool that there is not', { tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: { type: 'function', function: { name: 'g' } } }, undefined, 400, 'tool_choice'],
    ['another choice', { tools: [{ type: 'function', function: { name: 'f' } }], tool_choice: 'any' }, undefined, 400, 'tool_choice'],
    ['parameters that are not supported', { tools: [{ type: 'function', function: { name: 'f', parameters: { not: {} } } }], tool_choice: 'required' }, undefined, 400, 'tools'],
    ['functions of the old interface', { functions: [] }, undefined, 400, 'functions'],
    ['sound', { modalities: ['audio'] }, undefined, 400, 'modalities'],
    ['a prompt that is too long', {}, { model: 'chat', messages: [{ role: 'user', content: 'x'.repeat(300) }] }, 400, 'messages'],
    ['a text that is too long', {}, { model: 'chat', messages: [{ role: 'user', content: 'x'.repeat(2 ** 20 + 1) }] }, 400, 'messages'],
    ['too deep JSON', {}, `{"model":"chat","metadata":${deep(100)}}`, 400, null],
    ['very deep JSON', {}, `{"model":"chat","metadata":${deep(100_000)}}`, 400, null],
    ['no object', {}, '[]', 400, null],
    ['no JSON', {}, '{', 400, null],
    ['a prototype', {}, '{"model":"chat","__proto__":{"x":1}}', 400, null],
  ])('%s', async (_, more, whole, status, param) => {
    const [found, { error }] = await post('/v1/chat/completions', whole ?? { model: 'chat', ...say, ...more });
    expect([found, error.param]).toEqual([status, param]);
    expect(error).toEqual({ message: expect.any(String), type: 'invalid_request_error', param, code: error.code });
  });

  test.each([
    ['/v1/embeddings', { model: 'embed' }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: [] }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: '' }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: [1.5] }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: [7] }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: ['a', [1]] }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: Array(2049).fill('a') }, 'input'],
    ['/v1/embeddings', { model: 'embed', input: 'a', dimensions: 5 }, 'dimensions'],
    ['/v1/embeddings', { model: 'embed', input: 'a', encoding_format: 'hex' }, 'encoding_format'],
    ['/v1/embeddings', { model: 'embed', input: 'a', prompt_name: 'toString' }, 'prompt_name'],
    ['/v1/embeddings', { model: 'chat', input: 'a' }, 'model'],
    ['/v1/completions', { model: 'base', prompt: 'x'.repeat(8) }, 'prompt'],
    ['/v1/completions', { model: 'base', prompt: [5000] }, 'prompt'],
    ['/v1/completions', { model: 'base', prompt: Array(9).fill('A'), n: 2 }, 'prompt'],
    ['/v1/completions', { model: 'base', prompt: 'A', best_of: 2 }, 'best_of'],
    ['/v1/completions', { model: 'base', prompt: 'A', suffix: 'B' }, 'suffix'],
    ['/v1/completions', { model: 'base', prompt: 'A', echo: true, logprobs: 1 }, 'echo'],
    ['/rerank', { query: 'a' }, 'documents'],
    ['/rerank', { query: 'a', documents: [1] }, 'documents[0]'],
    ['/rerank', { query: '', documents: ['a'] }, 'query'],
    ['/rerank', { query: 'a', documents: ['a'], top_n: 0 }, 'top_n'],
  ])('%s %#', async (route, body, param) => {
    expect(await post(route, body)).toMatchObject([400, { error: { param, type: 'invalid_request_error' } }]);
  });

  test('and the server goes on', async () => {
    expect((await chat('A'))[1].choices[0].message.content).toBe('Hello world😀');
  });
});

test('requests are refused for lack of memory, not failed, and later ones are answered', async () => {
  const { ml } = require('webnn-node');
  const models = unpackModels();
  const context = await ml.createContext({ accelerated: false, memoryLimit: 1_500_000 });
  const small = await createServer({ models: { llama: path.join(models, 'llama') }, context });
  const ask = async (i) => (await small.inject({ method: 'POST', url: '/v1/completions', payload: { model: 'llama', prompt: `the dog ${'a '.repeat(20 + (i % 5))}`, max_tokens: 20, temperature: 0 } })).statusCode;
  const codes = await Promise.all(Array.from({ length: 30 }, (_, i) => ask(i)));
  expect(codes.filter((code) => code !== 200 && code !== 503)).toEqual([]);
  expect(codes).toContain(503);
  for (let i = 0; i < 5; i++) expect(await ask(i)).toBe(200);
  await small.close();
  context.destroy();
  fs.rmSync(models, { recursive: true });
});

test('texts are the same with guesses', async () => {
  const { generationUsage } = require('webnn-node/generate');
  const models = unpackModels();
  const text = `${'the dog '.repeat(5)}the`;
  const texts = [];
  for (const speculate of [undefined, 'prompt']) {
    const guessing = await createServer({ models: { llama: path.join(models, 'llama') }, speculate });
    const payload = { model: 'llama', prompt: text, max_tokens: 30, temperature: 0 };
    texts.push((await guessing.inject({ method: 'POST', url: '/v1/completions', payload })).json().choices[0].text);
    const { guessed } = await generationUsage(guessing.registry.get('llama').onnx);
    expect([speculate, guessed > 0]).toEqual([speculate, speculate !== undefined]);
    await guessing.close();
  }
  expect(texts[1]).toBe(texts[0]);
  fs.rmSync(models, { recursive: true });
});

test('conversations are kept up to `promptCache` bytes', async () => {
  const models = unpackModels();
  const cached = [];
  for (const promptCache of [undefined, 0]) {
    const server = await createServer({ models: { llama: path.join(models, 'llama') }, promptCache });
    const payload = { model: 'llama', prompt: 'the dog '.repeat(10), max_tokens: 1, temperature: 0 };
    const ask = async () => (await server.inject({ method: 'POST', url: '/v1/completions', payload })).json().usage;
    const { prompt_tokens } = await ask();
    cached.push([prompt_tokens > 16, (await ask()).prompt_tokens_details.cached_tokens > 0]);
    await server.close();
  }
  expect(cached).toEqual([[true, true], [true, false]]);
  fs.rmSync(models, { recursive: true });
});

test('requests end in time', async () => {
  const short = await createServer({ models: folder, text: { timeout: 1500, choices: 1 } });
  writeChat(path.join(folder, 'endless'), SCRIPTS, { maxLength: 1_000_000 });
  await short.registry.load('endless');
  const ask = (more) => short.inject({ method: 'POST', url: '/v1/chat/completions', payload: { model: 'endless', messages: [{ role: 'user', content: 'L' }], max_tokens: 900_000, ...more } });
  const whole = await ask({});
  expect([whole.statusCode, whole.json().error.code]).toEqual([504, 'timeout']);
  const stream = await ask({ stream: true });
  expect([stream.statusCode, stream.body.trimEnd().split('\n\n').at(-1)]).toEqual([200, expect.stringMatching(/^data: \{"error":\{"message":"The request took more than 1500 ms/)]);
  expect((await ask({ n: 2 })).json().error.message).toBe('n: found 2, allowed at most 1.');
  await short.close();
});

test('requests for text are requests of their models in the metrics', async () => {
  const of = async (name, more = '') => Number(new RegExp(`^nv_inference_request_${name}\\{model="plain",version="1"${more}\\} (.*)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1] ?? 0);
  const [success, failure] = [await of('success'), await of('failure', ',reason="OTHER"')];
  await post('/v1/chat/completions', { model: 'plain', messages: [{ role: 'user', content: 'say A' }] });
  await post('/v1/chat/completions', { model: 'plain', messages: [{ role: 'user', content: 'say A' }], stream: true });
  await post('/v1/completions', { model: 'plain', prompt: 'A', max_tokens: -1 });
  // Of a stream the last event arrives before it is counted.
  while ((await of('success')) < success + 2) await setTimeout(5);
  expect([await of('success'), await of('failure', ',reason="OTHER"')]).toEqual([success + 2, failure + 1]);
});

describe('a client that hangs up', () => {
  let long;
  beforeAll(async () => {
    writeChat(path.join(folder, 'long'), SCRIPTS, { maxLength: 1_000_000 });
    await server.registry.load('long');
    long = { model: 'long', messages: [{ role: 'user', content: 'L' }], max_tokens: 900_000 };
  });

  const begin = (body) => {
    const request = http.request(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json' } });
    request.on('error', () => {});
    request.end(JSON.stringify(body));
    return request;
  };

  test.each([true, false])('ends its generation (streamed: %s)', async (stream) => {
    const before = await metric('webnn_generated_tokens_total', 'long');
    const request = begin({ ...long, stream });
    if (stream) {
      const [response] = await once(request, 'response');
      await once(response, 'data');
    } else {
      await setTimeout(300);
    }
    request.destroy();
    // The count is taken when the generation has ended.
    let now = before;
    while (now === before) now = await metric('webnn_generated_tokens_total', 'long');
    expect(now - before).toBeLessThan(900_000);
  });

  test('frees its place, also in the middle of its request', async () => {
    const half = http.request(`${url}/v1/chat/completions`, { method: 'POST', headers: { 'content-type': 'application/json', 'content-length': 100 } });
    half.on('error', () => {});
    half.write('{');
    await setTimeout(50);
    const requests = [half, begin(long), begin({ ...long, stream: true })];
    while (server.load.running < 2) await setTimeout(5);
    for (const request of requests) request.destroy();
    while (server.load.running > 0) await setTimeout(5);
    expect((await chat('A'))[0]).toBe(200);
  });

  test('at the first token leaves the conversation to the next', async () => {
    const { text } = server.registry.get('long').hub;
    const prompt = [...Buffer.from('a prompt of some length: L')];
    const wish = { count: 1, maxTokens: 5, stop: [], sampling: {}, signal: new AbortController().signal };
    for (let i = 0; i < 3; i++) {
      const pieces = text.continue([prompt], wish);
      expect((await pieces.next()).value).toMatchObject({ text: 'la', cached: i === 0 ? 0 : prompt.length - 1 });
      await pieces.return();
    }
  });

  test('does not keep its model in memory', async () => {
    const request = begin({ ...long, stream: true });
    const [response] = await once(request, 'response');
    await once(response, 'data');
    await server.registry.unload('long');
    request.destroy();
    // It would wait for ever for a user that does not leave.
    await server.registry.load('long');
    expect((await chat('A'))[0]).toBe(200);
  });
});
