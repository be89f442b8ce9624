'use strict';

// Clients that wait and clients that do not read take no place from others.

const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout } = require('node:timers/promises');
const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');
const { createServer, listenGrpc } = require('@webnn-node/serve');
const { twice } = require('./folder.js');
const { END, writeChat } = require('./openai/folders.js');

let folder;
let server;
let origin;
let grpcPort;
beforeAll(async () => {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'webnn-idle-'));
  fs.writeFileSync(path.join(folder, 'double.onnx'), twice('Add'));
  writeChat(path.join(folder, 'chat'), { A: ['Hello', END], L: ['la', ' li', ' lu', 'la'] }, { maxLength: 100_000 });
  server = await createServer({ models: folder, maxInFlight: 4, text: { maxTokens: 90_000 } });
  origin = await server.listen({ port: 0, host: '127.0.0.1' });
  grpcPort = await listenGrpc(server, { port: 0 });
});
afterAll(async () => {
  await server.close();
  fs.rmSync(folder, { recursive: true });
});

const infer = async () => (await fetch(`${origin}/v2/models/double/infer`, { method: 'POST', body: JSON.stringify({ inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2], data: [1, 2] }] }) })).status;

test('a thousand streams of gRPC that wait cost nothing, and each still answers', async () => {
  const { inference } = grpc.loadPackageDefinition(protoLoader.loadSync(path.join(__dirname, '..', '..', 'packages', 'serve', 'lib', 'grpc', 'inference.proto'), { keepCase: true, longs: String, defaults: true, oneofs: true }));
  const clients = Array.from({ length: 10 }, () => new inference.GRPCInferenceService(`127.0.0.1:${grpcPort}`, grpc.credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 }));
  const request = { model_name: 'double', inputs: [{ name: 'x', datatype: 'FP32', shape: [1, 2] }], raw_input_contents: [Buffer.alloc(8)] };
  const streams = [];
  const ask = async (stream) => {
    const answer = once(stream, 'data');
    stream.write(request);
    return (await answer)[0].error_message;
  };
  for (let i = 0; i < 1000; i++) {
    const stream = clients[i % clients.length].ModelStreamInfer().on('error', () => {});
    streams.push(stream);
    expect(await ask(stream)).toBe('');
  }
  expect(server.load.running).toBe(0);
  const before = process.cpuUsage();
  await setTimeout(1000);
  const { user, system } = process.cpuUsage(before);
  // Microseconds, of all threads of this process.
  expect(user + system).toBeLessThan(500_000);
  expect(await Promise.all([1, 2, 3, 4].map(infer))).toEqual([200, 200, 200, 200]);
  for (const stream of [streams[0], streams[500], streams[999]]) expect(await ask(stream)).toBe('');
  for (const stream of streams) stream.cancel();
  for (const client of clients) client.close();
});

test('streams of events that nobody reads leave their places to others, and go on when they are read', async () => {
  const { port } = server.server.address();
  const body = JSON.stringify({ model: 'chat', messages: [{ role: 'user', content: 'say L' }], stream: true, logprobs: true, top_logprobs: 20 });
  const sockets = Array.from({ length: 4 }, () => {
    const socket = net.connect(port, '127.0.0.1').on('error', () => {});
    // It never reads, and what the system keeps for it is soon full.
    socket.pause();
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    return socket;
  });
  while (server.load.running < 4) await setTimeout(5);
  expect(await infer()).toBe(429);
  while (server.load.running > 0) await setTimeout(20);
  expect(await Promise.all([1, 2, 3, 4].map(infer))).toEqual([200, 200, 200, 200]);
  sockets[0].resume();
  while (server.load.running !== 1) await setTimeout(5);
  for (const socket of sockets) socket.destroy();
  while (server.load.running > 0) await setTimeout(5);
  await server.load.drain();
});
