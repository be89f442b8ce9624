// The server's REST interface as a program of fastify on onnxruntime-node: one session, a run for each request. Arguments: file, threads.
import { createRequire } from 'node:module';
import { fastify as Fastify } from 'fastify';
import ort from 'onnxruntime-node';

const require = createRequire(import.meta.url);
const { HEADER, readInference, writeInference } = require('../../packages/serve/lib/rest/body.js');
const { datatypes } = require('../../packages/serve/lib/datatypes.js');

const [file, threads] = process.argv.slice(2);
const types = { FP32: 'float32', INT64: 'int64', INT32: 'int32', UINT8: 'uint8', INT8: 'int8', BOOL: 'bool' };
const names = Object.fromEntries(Object.entries(types).map(([name, type]) => [type, name]));
const session = await ort.InferenceSession.create(file, { intraOpNumThreads: Number(threads) });

const server = Fastify({ bodyLimit: 64 * 2 ** 20 });
server.removeAllContentTypeParsers();
server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
server.post('/v2/models/model/infer', async (request, reply) => {
  const { inputs } = readInference(request.body, request.headers[HEADER], undefined);
  const feeds = Object.fromEntries(inputs.map(({ name, datatype, shape, bytes }) => {
    const { Wire } = datatypes[datatype];
    return [name, new ort.Tensor(types[datatype], new Wire(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length)), shape)];
  }));
  const results = await session.run(feeds);
  const outputs = Object.entries(results).map(([name, { type, dims, data }]) => ({ name, datatype: datatypes[names[type]], shape: dims, wire: data }));
  const { body, headerLength } = writeInference({ model_name: 'model' }, outputs, () => true);
  return reply.type('application/octet-stream').header(HEADER, headerLength).send(body);
});
const address = await server.listen({ port: 0, host: '127.0.0.1' });
console.log(JSON.stringify({ msg: `listening on ${address}` }));
console.log(JSON.stringify({ msg: 'ready' }));
