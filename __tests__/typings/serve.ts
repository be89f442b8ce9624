// The typings of @webnn-node/serve, as a program uses them.

import { createServer, listenGrpc, serve, ServeError } from '@webnn-node/serve';

async function main(): Promise<void> {
  const server = await createServer({ models: { minilm: './minilm.onnx' }, maxInFlight: 8, onnx: { batching: { maxSize: 8 } } });
  server.get('/own', async () => server.registry.versions('minilm'));
  const address: string = await server.listen({ port: 0 });
  const port: number = await listenGrpc(server, { port: 0 });
  const results = await server.registry.run('minilm', { x: Float32Array.of(1) }, { timeout: 10 });
  await server.load.drain();
  await server.close();
  process.exitCode = await serve({ models: './models', port });
  void [address, results, ServeError];
}

void main();
