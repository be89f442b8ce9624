// Clients of the Open Inference Protocol, and how they are timed.
import http from 'node:http';
import { createRequire } from 'node:module';
import { quantile } from '../statistics.mjs';
import { inRepository } from './start.mjs';

const require = createRequire(import.meta.url);
const { datatypes } = require('../../packages/serve/lib/datatypes.js');

/** Tensors behind the JSON of a request. */
export function binaryRequest(tensors) {
  const about = tensors.map(({ name, datatype, shape, bytes }) => ({ name, datatype, shape, parameters: { binary_data_size: bytes.length } }));
  const json = Buffer.from(JSON.stringify({ inputs: about, parameters: { binary_data_output: true } }));
  return { body: Buffer.concat([json, ...tensors.map(({ bytes }) => bytes)]), headers: { 'inference-header-content-length': json.length, 'content-type': 'application/octet-stream' } };
}

/** For servers without the extension for binary data. */
export function jsonRequest(tensors) {
  const inputs = tensors.map(({ name, datatype, shape, bytes }) => {
    const { Wire } = datatypes[datatype];
    const elements = new Wire(bytes.buffer, bytes.byteOffset, bytes.length / Wire.BYTES_PER_ELEMENT);
    return { name, datatype, shape, data: Array.from(elements, Number) };
  });
  return { body: Buffer.from(JSON.stringify({ inputs })), headers: { 'content-type': 'application/json' } };
}

/** Has a connection of its own. */
export function restClient({ url }, { body, headers }) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
  const all = { ...headers, 'content-length': body.length };
  const call = () =>
    new Promise((resolve, reject) => {
      const sent = http.request(`${url}/v2/models/model/infer`, { method: 'POST', agent, headers: all }, (response) => {
        response.resume().on('end', () => (response.statusCode === 200 ? resolve() : reject(new Error(`status ${response.statusCode}`))));
      });
      sent.on('error', reject).end(body);
    });
  return { call, close: () => agent.destroy() };
}

/** The service of the protocol, as grpc-js makes it of its file. */
export function grpcService() {
  const grpc = require('@grpc/grpc-js');
  const definition = require('@grpc/proto-loader').loadSync(inRepository('packages/serve/lib/grpc/inference.proto'), { keepCase: true, longs: Number, defaults: true, oneofs: true });
  return { grpc, Service: grpc.loadPackageDefinition(definition).inference.GRPCInferenceService };
}

/** Has a connection of its own. */
export function grpcClient({ grpc: address }, tensors) {
  const { grpc, Service } = grpcService();
  const client = new Service(address, grpc.credentials.createInsecure(), { 'grpc.use_local_subchannel_pool': 1 });
  const message = { model_name: 'model', inputs: tensors.map(({ name, datatype, shape }) => ({ name, datatype, shape })), raw_input_contents: tensors.map(({ bytes }) => bytes) };
  const call = () =>
    new Promise((resolve, reject) => {
      client.ModelInfer(message, (error) => (error ? reject(error) : resolve()));
    });
  return { call, close: () => client.close() };
}

/** So many clients, each of which calls again when it has its answer. */
export async function measure(make, count, seconds) {
  const all = Array.from({ length: count }, make);
  const times = [];
  const began = performance.now();
  const end = began + seconds * 1000;
  await Promise.all(
    all.map(async ({ call }) => {
      while (performance.now() < end) {
        const start = performance.now();
        await call();
        times.push(performance.now() - start);
      }
    }),
  );
  const took = (performance.now() - began) / 1000;
  for (const { close } of all) close();
  return { perSecond: times.length / took, p50: quantile(times, 0.5), p99: quantile(times, 0.99) };
}
