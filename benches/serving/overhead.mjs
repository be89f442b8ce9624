// What the server adds to a run: the time of a request for a tiny model, less that of the same request to a server that does nothing, less that of the run
// itself in this process. One client, so nothing waits.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { median, quantile } from '../statistics.mjs';
import { binaryRequest, grpcClient, measure, restClient } from './clients.mjs';
import { inRepository, startNode, startServe } from './start.mjs';

const require = createRequire(import.meta.url);
const { ml } = require('../../lib/index.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { twice } = require('../../__tests__/serve/folder.js');

export async function measureOverhead({ seconds, rounds, threads }) {
  const folder = mkdtempSync(path.join(tmpdir(), 'webnn-overhead-'));
  const file = path.join(folder, 'model.onnx');
  writeFileSync(file, twice('Add'));
  const tensors = [{ name: 'x', datatype: 'FP32', shape: [1, 2], bytes: Buffer.from(Float32Array.of(1, 2).buffer) }];
  const request = binaryRequest(tensors);
  const serve = await startServe(file, threads);
  const empty = await startNode([inRepository('benches/serving/empty.mjs'), '200']);
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: Number(threads) });
  const model = await loadOnnx(context, file, { batching: true });
  const feeds = { x: { data: Float32Array.of(1, 2), shape: [1, 2] } };
  const ways = {
    run: () => ({ call: () => model.run(feeds), close() {} }),
    'REST, server': () => restClient(serve, request),
    'REST, nothing': () => restClient(empty, request),
    'gRPC, server': () => grpcClient(serve, tensors),
    'gRPC, nothing': () => grpcClient(empty, tensors),
  };
  const found = Object.fromEntries(Object.keys(ways).map((way) => [way, []]));
  for (let round = 0; round < rounds; round++) {
    const order = round % 2 === 0 ? Object.keys(ways) : Object.keys(ways).reverse();
    for (const way of order) {
      if (round === 0) await measure(ways[way], 1, 1);
      found[way].push((await measure(ways[way], 1, seconds)).p50 * 1000);
    }
  }
  model.destroy();
  context.destroy();
  rmSync(folder, { recursive: true });
  for (const [way, times] of Object.entries(found)) console.log(`  ${way.padEnd(14)} p50 ${median(times).toFixed(0).padStart(5)} µs   from ${quantile(times, 0).toFixed(0)} to ${quantile(times, 1).toFixed(0)}`);
  for (const protocol of ['REST', 'gRPC']) {
    const adds = found.run.map((run, i) => found[`${protocol}, server`][i] - found[`${protocol}, nothing`][i] - run);
    console.log(`${protocol}: the server adds ${median(adds).toFixed(0)} µs to a run, from ${quantile(adds, 0).toFixed(0)} to ${quantile(adds, 1).toFixed(0)}`);
  }
  return found;
}
