'use strict';

// A process of its own in which a model keeps a few plans (WEBNN_PLANS): reads models with sets of inputs from a file, runs them with several
// runs in flight while plans go that others use, and writes the results of each set to another file, those of all its runs.
//
//   node evicting.js MODELS RESULTS

const { readFileSync, writeFileSync } = require('node:fs');
const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { generator } = require('./random.js');
const { TYPES, bytesOf } = require('./write.js');

const IN_FLIGHT = 5;
/** How often each set is run. */
const TIMES = 4;

const base64 = (array) => Buffer.from(bytesOf(array)).toString('base64');

async function main(from, to) {
  const context = await ml.createContext({ accelerated: false });
  const all = [];
  for (const { model, sets } of JSON.parse(readFileSync(from, 'utf8'))) all.push(await run(context, model, sets));
  writeFileSync(to, JSON.stringify(all));
  context.destroy();
}

async function run(context, bytes, sets) {
  const model = await loadOnnx(context, Buffer.from(bytes, 'base64'));
  const results = sets.map(() => []);
  const order = Array.from({ length: TIMES }, () => sets.map((_, i) => i)).flat();
  const random = generator(7);
  for (let i = order.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [order[i], order[j]] = [order[j], order[i]];
  }
  const read = ({ name, type, shape, data }) => {
    const raw = Uint8Array.from(Buffer.from(data, 'base64'));
    return [name, { data: new TYPES[type].array(raw.buffer), shape }];
  };
  const worker = async () => {
    while (order.length > 0) {
      const set = order.pop();
      const found = await model.run(Object.fromEntries(sets[set].map(read)));
      const write = ([name, { shape, data }]) => [name, { shape, data: base64(data) }];
      results[set].push(Object.fromEntries(Object.entries(found).map(write)));
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  model.destroy();
  return results;
}

main(...process.argv.slice(2));
