'use strict';

// shared.js FILE USES STAND-IN: uses a model in several ways, one after the other, each of which stays. Prints what each model holds. USES is JSON:
// `{how, fpMath}`; STAND-IN is the package in the place of onnxruntime-node.

const { ml } = require('../..');
const { generate } = require('../../lib/generate.js');
const { loadOnnx } = require('../../lib/onnx.js');
const onnxruntime = require('../../lib/onnxruntime.js');
const { modelOf } = require('../../lib/onnx/onnx-model.js');

const [file, uses, standIn] = process.argv.slice(2);
const SIZE = 256;

async function tokensOf(model) {
  const tokens = [];
  for await (const { id } of generate(model, [1, 2, 3, 4, 5], { maxNewTokens: 3 })) tokens.push(id);
  return tokens;
}

async function inSession({ InferenceSession, Tensor }) {
  const session = await InferenceSession.create(file, { intraOpNumThreads: 1 });
  await session.run({ x: new Tensor('float32', new Float32Array(SIZE), [1, SIZE]) });
  return session;
}

async function open(fpMath) {
  const context = await ml.createContext({ deviceType: 'cpu', numThreads: 1, fpMath });
  return loadOnnx(context, file);
}

/** Each gives what the model is known by, which is kept. */
const WAYS = {
  async loadOnnx(fpMath) {
    const model = await open(fpMath);
    await model.run({ x: { data: new Float32Array(SIZE), shape: [1, SIZE] } });
    return model;
  },
  session: () => inSession(onnxruntime),
  override: () => inSession(require(standIn)),
  async generate(fpMath) {
    const model = await open(fpMath);
    await tokensOf(model);
    return model;
  },
  async generateOfSession() {
    const session = await onnxruntime.InferenceSession.create(file, { intraOpNumThreads: 1 });
    await tokensOf(session);
    return session;
  },
};

/** A session of onnxruntime-common is known by its handler. */
const usageOf = (found) => (modelOf(found) ?? found.handler.model).memoryUsage();

async function main() {
  const kept = [];
  const usages = [];
  for (const { how, fpMath = 'strict' } of JSON.parse(uses)) {
    kept.push(await WAYS[how](fpMath));
    usages.push(usageOf(kept.at(-1)));
  }
  console.log(JSON.stringify(usages));
}

main();
