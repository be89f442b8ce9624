'use strict';

// OpenAI's interface as clients use it that others wrote: openai, the ai SDK, and LangChain.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const { createServer } = require('@webnn-node/serve');
const { describeBuilt } = require('../constrain/built.js');
const { fillText } = require('./openai/folders.js');

// LangChain would send traces to a server of its own.
for (const name of ['LANGSMITH_TRACING', 'LANGCHAIN_TRACING_V2', 'LANGCHAIN_TRACING']) process.env[name] = 'false';

const TOKEN = 'secret';

let folder;
let server;
let baseURL;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-clients-'));
  fillText(folder);
  server = await createServer({ models: folder, token: TOKEN });
  baseURL = `${await server.listen({ port: 0, host: '127.0.0.1' })}/v1`;
});
afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

const messages = (letter) => [{ role: 'system', content: 'Be brief.' }, { role: 'user', content: `say ${letter}` }];
const weather = { name: 'weather', description: 'The weather', parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] } };

/** How many tokens were generated. They are counted when a generation ends. */
async function generated() {
  await setTimeout(10);
  const text = await server.metrics.text();
  return Number(/^webnn_generated_tokens_total\{model="chat"\} (.*)$/m.exec(text)?.[1] ?? 0);
}

describe('openai', () => {
  const { default: OpenAI, APIConnectionError, AuthenticationError, BadRequestError, NotFoundError } = require('openai');
  let client;
  beforeAll(() => {
    client = new OpenAI({ baseURL, apiKey: TOKEN, maxRetries: 0 });
  });

  test('chats, at once and streamed', async () => {
    const request = { model: 'chat', messages: messages('A'), logprobs: true, top_logprobs: 2, n: 2, seed: 1 };
    const { choices, usage } = await client.chat.completions.create(request);
    expect(choices.map(({ message, finish_reason: reason }) => [message.content, reason])).toEqual([['Hello world😀', 'stop'], ['Hello world😀', 'stop']]);
    expect(usage.completion_tokens).toBe(16);
    const stream = await client.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } });
    const texts = ['', ''];
    let last;
    for await (const chunk of stream) {
      for (const { index, delta } of chunk.choices) texts[index] += delta.content ?? '';
      last = chunk;
    }
    // Now all tokens of the prompt but the last one are known.
    const known = { cached_tokens: usage.prompt_tokens - 1 };
    expect([texts, last.usage]).toEqual([['Hello world😀', 'Hello world😀'], { ...usage, prompt_tokens_details: known }]);
    // Its own reader of streams puts the choices together.
    const whole = await client.chat.completions.stream({ ...request, n: 1 }).finalChatCompletion();
    expect(whole.choices[0].message.content).toBe('Hello world😀');
    expect(whole.choices[0].logprobs.content.length).toBe(8);
  });

  test('calls tools until there is an answer', async () => {
    const tools = [{ type: 'function', function: { ...weather, function: ({ city }) => `${city}: rain. Z`, parse: JSON.parse } }];
    const runner = client.chat.completions.runTools({ model: 'chat', messages: messages('T'), tools });
    expect(await runner.finalContent()).toBe('It rains.');
    const streamed = client.chat.completions.runTools({ model: 'chat', messages: messages('T'), tools, stream: true });
    expect(await streamed.finalContent()).toBe('It rains.');
    expect((await streamed.finalFunctionToolCall()).arguments).toBe('{"city":"Paris"}');
  });

  describeBuilt('constrains', () => {
    const { zodResponseFormat } = require('openai/helpers/zod');
    const { z } = require('zod');
    const City = z.object({ name: z.string().max(12), kind: z.enum(['town', 'village']), size: z.number().int().min(0).max(9_999_999), twins: z.array(z.enum(['a', 'b'])).max(3) });

    test('answers by a schema, at once, streamed and several', async () => {
      const request = { model: 'chat', messages: messages('A'), response_format: zodResponseFormat(City, 'city'), n: 3, seed: 2 };
      const { choices } = await client.chat.completions.parse(request);
      expect(choices.map(({ finish_reason: reason }) => reason)).toEqual(['stop', 'stop', 'stop']);
      for (const { message } of choices) expect(City.parse(message.parsed)).toEqual(JSON.parse(message.content));
      expect(new Set(choices.map(({ message }) => message.content)).size).toBeGreaterThan(1);
      const streamed = await client.chat.completions.stream({ ...request, n: 1 }).finalChatCompletion();
      expect(City.parse(streamed.choices[0].message.parsed)).toEqual(JSON.parse(streamed.choices[0].message.content));
      // Cut short it is no JSON, and the client says so.
      await expect(client.chat.completions.parse({ ...request, max_completion_tokens: 3 })).rejects.toThrow(/length/);
    });

    test('answers to JSON, in chats and completions', async () => {
      // The end of a text is probable, so that it comes.
      const request = { model: 'chat', response_format: { type: 'json_object' }, logit_bias: { 125: 9, 34: 6 }, seed: 1, max_tokens: 2000 };
      const { choices: [choice] } = await client.chat.completions.create({ ...request, messages: messages('A') });
      expect([choice.finish_reason, JSON.parse(choice.message.content)]).toEqual(['stop', expect.any(Object)]);
      const { choices: [text] } = await client.completions.create({ ...request, prompt: 'A' });
      expect([text.finish_reason, JSON.parse(text.text)]).toEqual(['stop', expect.any(Object)]);
    });

    test('calls that must be made', async () => {
      const other = { name: 'time', parameters: { type: 'object', properties: { zone: { $ref: '#/$defs/zone' } }, required: ['zone'], additionalProperties: false, $defs: { zone: { enum: ['UTC', 'CET'] } } } };
      const short = { ...weather, parameters: { ...weather.parameters, properties: { city: { type: 'string', maxLength: 8 } }, additionalProperties: false } };
      const tools = [short, other].map((one) => ({ type: 'function', function: one }));
      const request = { model: 'chat', messages: messages('A'), tools };
      const names = new Set();
      for (let seed = 0; seed < 6; seed++) {
        const { choices: [{ message, finish_reason: reason }] } = await client.chat.completions.create({ ...request, tool_choice: 'required', seed });
        expect([message.content, message.tool_calls.length, reason]).toEqual([null, 1, 'tool_calls']);
        const { name, arguments: text } = message.tool_calls[0].function;
        names.add(name);
        expect(JSON.parse(text)).toEqual(name === 'time' ? { zone: expect.stringMatching(/^(UTC|CET)$/) } : { city: expect.any(String) });
      }
      expect([...names].sort()).toEqual(['time', 'weather']);
      const named = { ...request, tool_choice: { type: 'function', function: { name: 'time' } } };
      const streamed = await client.chat.completions.stream(named).finalChatCompletion();
      expect(streamed.choices[0].message.tool_calls.map(({ function: { name } }) => name)).toEqual(['time']);
      await expect(client.chat.completions.create({ ...named, tool_choice: { type: 'function', function: { name: 'none' } } })).rejects.toMatchObject({ status: 400, param: 'tool_choice' });
      await expect(client.chat.completions.create({ ...request, response_format: { type: 'json_object' } })).rejects.toMatchObject({ status: 400, param: 'response_format' });
    });
  });

  test('continues texts', async () => {
    const request = { model: 'chat', prompt: ['A', 'T'], max_tokens: 3, logprobs: 1 };
    const { choices } = await client.completions.create(request);
    expect(choices[0].text).toBe('Hello world');
    let text = '';
    for await (const chunk of await client.completions.create({ ...request, prompt: 'A', stream: true })) text += chunk.choices[0].text;
    expect(text).toBe('Hello world');
  });

  test('gets vectors, in both formats', async () => {
    // By default it asks for base64 and decodes it.
    const one = await client.embeddings.create({ model: 'embed', input: ['a', 'b c'] });
    const other = await client.embeddings.create({ model: 'embed', input: ['a', 'b c'], encoding_format: 'float' });
    expect(one.data.map(({ embedding }) => embedding)).toEqual(other.data.map(({ embedding }) => embedding));
    expect(one.data[0].embedding).toHaveLength(4);
  });

  test('lists models', async () => {
    const ids = [];
    for await (const { id } of client.models.list()) ids.push(id);
    expect(ids).toEqual(['chat', 'embed']);
    expect((await client.models.retrieve('chat')).id).toBe('chat');
  });

  test('knows the errors', async () => {
    const chat = (more, one = client) => one.chat.completions.create({ model: 'chat', messages: messages('A'), ...more });
    await expect(chat({ model: 'none' })).rejects.toBeInstanceOf(NotFoundError);
    await expect(chat({ model: 'none' })).rejects.toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
    const unsupported = { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'object', properties: { a: { type: 'array', uniqueItems: true } } } } };
    await expect(chat({ response_format: unsupported })).rejects.toBeInstanceOf(BadRequestError);
    await expect(chat({ response_format: unsupported })).rejects.toMatchObject({ status: 400, param: 'response_format', message: expect.stringMatching(/#\/properties\/a: Unimplemented keys: \["uniqueItems"\]|@webnn-node\/constrain/) });
    await expect(chat({ n: 100, stream: true })).rejects.toMatchObject({ status: 400, param: 'n' });
    await expect(chat({}, new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 }))).rejects.toBeInstanceOf(AuthenticationError);
    await expect(chat({}, new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 }))).rejects.toMatchObject({ status: 401, code: 'invalid_api_key' });
    await expect(chat({}, new OpenAI({ baseURL: 'http://127.0.0.1:1/v1', apiKey: 'x', maxRetries: 0 }))).rejects.toBeInstanceOf(APIConnectionError);
  });

  test('ends what it aborts', async () => {
    const before = await generated();
    const stream = await client.chat.completions.create({ model: 'chat', messages: messages('L'), max_tokens: 90_000, stream: true });
    let count = 0;
    for await (const { choices } of stream) {
      if (choices.length > 0 && ++count === 5) break;
    }
    let now = before;
    while (now === before) now = await generated();
    expect(now - before).toBeLessThan(90_000);
  });
});

describe('the ai SDK', () => {
  const { generateText, streamText, embedMany, tool, stepCountIs } = require('ai');
  const { createOpenAICompatible } = require('@ai-sdk/openai-compatible');
  const { z } = require('zod');
  let provider;
  beforeAll(() => {
    provider = createOpenAICompatible({ name: 'webnn', baseURL, apiKey: TOKEN, includeUsage: true });
  });

  test('makes text, at once and streamed', async () => {
    const model = provider.chatModel('chat');
    const { text, usage, finishReason } = await generateText({ model, prompt: 'say A' });
    expect([text, usage.outputTokens, finishReason]).toEqual(['Hello world😀', 8, 'stop']);
    const stream = streamText({ model, messages: [{ role: 'user', content: 'say A' }] });
    const pieces = [];
    for await (const piece of stream.textStream) pieces.push(piece);
    expect(pieces).toEqual(['Hello', ' wor', 'ld', '😀']);
    expect((await stream.usage).totalTokens).toBe(19);
    expect((await generateText({ model: provider.completionModel('chat'), prompt: 'A', maxOutputTokens: 2 })).finishReason).toBe('length');
  });

  test('calls tools', async () => {
    const tools = { weather: tool({ description: 'The weather', inputSchema: z.object({ city: z.string() }), execute: async ({ city }) => `${city}: Z` }) };
    const { text, steps } = await generateText({ model: provider.chatModel('chat'), prompt: 'say T', tools, stopWhen: stepCountIs(3) });
    expect(steps[0].toolCalls[0]).toMatchObject({ toolName: 'weather', input: { city: 'Paris' } });
    expect(steps.length).toBe(2);
    expect(text).toBe('It rains.');
  });

  test('gets vectors', async () => {
    const { embeddings } = await embedMany({ model: provider.textEmbeddingModel('embed'), values: ['a', 'b'] });
    expect(embeddings.map(({ length }) => length)).toEqual([4, 4]);
  });
});

describe('LangChain', () => {
  const { ChatOpenAI, OpenAI, OpenAIEmbeddings } = require('@langchain/openai');
  const given = () => ({ apiKey: TOKEN, maxRetries: 0, configuration: { baseURL } });

  test('chats, streams, calls tools and continues', async () => {
    const model = new ChatOpenAI({ model: 'chat', temperature: 0, ...given() });
    const { content, usage_metadata: usage } = await model.invoke('say A');
    expect([content, usage.output_tokens]).toEqual(['Hello world😀', 8]);
    let text = '';
    for await (const chunk of await model.stream('say A')) text += chunk.content;
    expect(text).toBe('Hello world😀');
    const { tool_calls: calls } = await model.bindTools([{ type: 'function', function: weather }]).invoke('say T');
    expect(calls).toEqual([expect.objectContaining({ name: 'weather', args: { city: 'Paris' } })]);
    expect(await new OpenAI({ model: 'chat', maxTokens: 3, ...given() }).invoke('A')).toBe('Hello world');
  });

  test('gets vectors', async () => {
    const vectors = await new OpenAIEmbeddings({ model: 'embed', ...given() }).embedDocuments(['a', 'b c']);
    expect(vectors.map(({ length }) => length)).toEqual([4, 4]);
  });
});
