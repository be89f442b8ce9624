// client.mjs <model> <seed> <cpu or device>: runs a model through onnxruntime-web's WebNN execution provider on top of
// webnn-node/register, on a context on the CPU or on a GPUDevice of Dawn's, and through onnxruntime-node. Prints, as JSON, what both computed; onnxruntime-web's log, which says
// where nodes were placed, is on stderr.
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import 'webnn-node/register';
import * as web from 'onnxruntime-web/webgpu';
import node from 'onnxruntime-node';
import { models } from './models.mjs';

web.env.wasm.numThreads = 1;

const [name, seed, where] = process.argv.slice(2);

function tensors({ Tensor }, inputs) {
  return Object.fromEntries(Object.entries(inputs).map(([name, { type, data, shape }]) => [name, new Tensor(type, data, shape)]));
}

function plain(outputs) {
  return Object.fromEntries(Object.entries(outputs).map(([name, { type, dims, data }]) => [name, { type, dims, data: [...data] }]));
}

/** Dawn is there for as long as somebody has it. */
let gpu;

/** The options of the execution provider. */
async function provider(where) {
  if (where === 'cpu') return { name: 'webnn', deviceType: 'cpu' };
  const driver = fileURLToPath(new URL('../../target/swiftshader/vk_swiftshader_icd.json', import.meta.url));
  if (process.env.VK_DRIVER_FILES === undefined && existsSync(driver)) process.env.VK_DRIVER_FILES = driver;
  const { create } = await import('webgpu');
  gpu = create([]);
  const gpuDevice = await (await gpu.requestAdapter()).requestDevice();
  return { name: 'webnn', deviceType: 'gpu', context: await navigator.ml.createContext(gpuDevice), gpuDevice };
}

async function throughWebNN({ model, inputs, freeDimensionOverrides }) {
  const session = await web.InferenceSession.create(model, {
    executionProviders: [await provider(where)],
    freeDimensionOverrides,
    logSeverityLevel: 0,
    // A node that WebNN does not take makes the session fail instead of running elsewhere.
    extra: { session: { disable_cpu_ep_fallback: '1' } },
  });
  const first = plain(await session.run(tensors(web, inputs)));
  // Once more, with the memory that is there by then.
  const second = plain(await session.run(tensors(web, inputs)));
  await session.release();
  return { first, second };
}

async function throughNode({ model, inputs }) {
  const session = await node.InferenceSession.create(model, { executionProviders: ['cpu'], graphOptimizationLevel: 'disabled' });
  return plain(await session.run(tensors(node, inputs)));
}

const described = models[name](Number(seed));
const result = { tolerance: described.tolerance, expected: await throughNode(described), ...(await throughWebNN(described)) };
process.stdout.write(JSON.stringify(result), () => {
  // Dawn's own threads would keep the process.
  if (where === 'device') process.exit();
});
