// Servers that do nothing with a request, to tell what the server of models adds: a route of fastify that reads the body, and a method of grpc-js.
// Argument: the bytes of an answer.
import { fastify as Fastify } from 'fastify';
import { grpcService } from './clients.mjs';

const answer = Buffer.alloc(Number(process.argv[2] ?? 200));
const server = Fastify({ bodyLimit: 64 * 2 ** 20 });
server.removeAllContentTypeParsers();
server.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
server.post('/v2/models/model/infer', async (_request, reply) => reply.type('application/octet-stream').send(answer));
console.log(JSON.stringify({ msg: `listening on ${await server.listen({ port: 0, host: '127.0.0.1' })}` }));

const { grpc, Service } = grpcService();
const own = new grpc.Server();
const response = { model_name: 'model', model_version: '1', outputs: [{ name: 'y', datatype: 'FP32', shape: [1, 2] }], raw_output_contents: [Buffer.alloc(8)] };
own.addService(Service.service, { ModelInfer: (_call, callback) => callback(null, response) });
const port = await new Promise((resolve, reject) => {
  own.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, found) => (error ? reject(error) : resolve(found)));
});
console.log(JSON.stringify({ msg: `listening on 127.0.0.1:${port} (gRPC)` }));
console.log(JSON.stringify({ msg: 'ready' }));
