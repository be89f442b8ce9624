'use strict';

// Models as exporters write them (tests/onnx/exported/, by exported.py), at random sequences of shapes, beside onnxruntime-node:
// all runs of a sequence are in flight at once, and then one follows the other; and once more while plans go that other runs use.

const { execFileSync } = require('node:child_process');
const { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { ml } = require('webnn-node');
const { loadOnnx } = require('webnn-node/onnx');
const { references } = require('./compare.js');
const { generator, seed } = require('./random.js');
const { TYPES, bytesOf } = require('./write.js');

const FOLDER = path.join(__dirname, '../../tests/onnx/exported');
/** Sets of shapes for each model. */
const SETS = 10;

const product = (shape) => shape.reduce((all, size) => all * size, 1);
const size = (random, low, high) => low + Math.floor(random() * (high - low + 1));

function floats(random, name, shape) {
  return { name, type: 'float', shape, array: Float32Array.from({ length: product(shape) }, () => 4 * random() - 2) };
}

function longs(random, name, shape, most, least = 0) {
  return { name, type: 'int64', shape, array: BigInt64Array.from({ length: product(shape) }, () => BigInt(size(random, least, most - 1))) };
}

/** By the network's name: inputs of random shapes. */
const INPUTS = {
  encoder(random) {
    const shape = [size(random, 1, 3), size(random, 1, 20)];
    const mask = longs(random, 'mask', shape, 2);
    // A row without a token is the mean of none.
    for (let row = 0; row < shape[0]; row += 1) mask.array[row * shape[1]] = 1n;
    return [longs(random, 'ids', shape, 50), mask];
  },
  pyramid: (random) => [floats(random, 'image', [size(random, 1, 2), 3, 2 * size(random, 3, 16), 2 * size(random, 3, 16)])],
  decoder(random) {
    const batch = size(random, 1, 3);
    const past = size(random, 0, 6);
    const ids = longs(random, 'ids', [batch, size(random, 1, 4)], 40);
    return [ids, ...['past_key', 'past_value'].map((name) => floats(random, name, [batch, 2, past, 8]))];
  },
  tagger: (random) => [longs(random, 'ids', [size(random, 1, 3), size(random, 1, 15)], 30)],
  detector: (random) => [floats(random, 'image', [1, 1, size(random, 4, 20), size(random, 4, 20)])],
  durations: (random) => [longs(random, 'ids', [1, size(random, 1, 9)], 20)],
  greedy: (random) => [
    floats(random, 'state', [size(random, 1, 4), 4]),
    { name: 'limit', type: 'int64', shape: [], array: BigInt64Array.of(BigInt(size(random, 0, 6))) },
  ],
  classifier: (random) => [floats(random, 'image', [size(random, 1, 3), 3, size(random, 10, 24), size(random, 10, 24)])],
  conv: (random) => [floats(random, 'image', [size(random, 1, 2), size(random, 4, 20), size(random, 4, 20), 3])],
  rnn(random) {
    const { shape, array } = longs(random, 'words', [size(random, 1, 3), size(random, 1, 12)], 30);
    return [{ name: 'words', type: 'int32', shape, array: Int32Array.from(array, Number) }];
  },
  sklearn: (random) => [floats(random, 'X', [size(random, 1, 30), 4])],
};

/** A model's inputs by the name of its file: exporter_network_version. */
function inputsOf(file) {
  const [exporter, network] = file.replace(/\.onnx$/, '').split('_');
  return INPUTS[exporter] ?? INPUTS[network];
}

/** Whether a number is what onnxruntime-node computes, within a tolerance relative to the largest number. */
function isNear(found, expected, allowed) {
  return Object.is(found, expected) || found === expected || Math.abs(found - expected) <= allowed;
}

function compare(results, reference) {
  for (const { name, type, shape, data } of reference) {
    const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
    const expected = Array.from(new TYPES[type].array(bytes.buffer), Number);
    expect([name, results[name].shape]).toEqual([name, shape]);
    const found = Array.from(results[name].data, Number);
    const scale = Math.max(1, ...expected.map(Math.abs));
    // Sums of some hundred products in float32, in another order: 2^-24 for each, and what a few layers make of it.
    const allowed = type === 'float' ? 2e-5 * scale : 0;
    const wrong = expected.findIndex((value, i) => !isNear(found[i], value, allowed));
    if (wrong >= 0) throw new Error(`${name}[${wrong}] is ${found[wrong]}, and should be ${expected[wrong]} (WEBNN_SEED=${seed})`);
  }
}

const files = readdirSync(FOLDER).filter((file) => file.endsWith('.onnx')).sort();
const cases = files.map((file, i) => {
  const random = generator(500 + i);
  const model = readFileSync(path.join(FOLDER, file));
  return { file, model, sets: Array.from({ length: SETS }, () => inputsOf(file)(random)) };
});

/** Plans of which each model keeps so many, those of later parts and of loops among them. */
const PLANS = 2;

/** For each set of each model the results of all its runs, in a process that keeps few plans. */
function evicted() {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'webnn-node-plans-'));
  const [from, to] = ['models.json', 'results.json'].map((name) => path.join(folder, name));
  const base64 = (array) => Buffer.from(bytesOf(array)).toString('base64');
  try {
    const written = (fed) => fed.map(({ name, type, shape, array }) => ({ name, type, shape, data: base64(array) }));
    writeFileSync(from, JSON.stringify(cases.map(({ model, sets }) => ({ model: base64(model), sets: sets.map(written) }))));
    const env = { ...process.env, WEBNN_PLANS: String(PLANS) };
    execFileSync(process.execPath, [path.join(__dirname, 'evicting.js'), from, to], { env, stdio: ['ignore', 'ignore', 'inherit'] });
    return JSON.parse(readFileSync(to, 'utf8'));
  } finally {
    rmSync(folder, { recursive: true });
  }
}

let context;
let expected;
let withFewPlans;
beforeAll(async () => {
  context = await ml.createContext({ accelerated: false });
  expected = references(cases.flatMap(({ model, sets }) => sets.map((fed) => ({ reference: model, fed }))));
}, 60_000);
afterAll(() => context.destroy());

test('there are models of each exporter', () => {
  expect([...new Set(files.map((file) => file.split('_')[0]))]).toEqual(['dynamo', 'sklearn', 'tensorflow', 'torchscript']);
});

describe.each(cases.map((item, i) => [item.file, item, i]))('%s', (_, { model, sets }, index) => {
  test('at random shapes', async () => {
    const loaded = await loadOnnx(context, model);
    const own = (fed) => Object.fromEntries(fed.map(({ name, shape, array }) => [name, { data: array, shape }]));
    const reference = (i) => {
      const found = expected[index * SETS + i];
      if (found.error !== undefined) throw new Error(`onnxruntime-node refuses the model: ${found.error}`);
      return found;
    };
    const check = async (fed, i) => compare(await loaded.run(own(fed)), reference(i));
    await Promise.all(sets.map(check));
    for (const [i, fed] of sets.entries()) await check(fed, i);
    loaded.destroy();
  });

  test('while plans go', () => {
    withFewPlans ??= evicted();
    for (const [i, runs] of withFewPlans[index].entries()) {
      const reference = expected[index * SETS + i];
      const types = new Map(reference.map(({ name, type }) => [name, type]));
      const read = ([name, { shape, data }]) => {
        const bytes = Uint8Array.from(Buffer.from(data, 'base64'));
        return [name, { shape, data: new TYPES[types.get(name)].array(bytes.buffer) }];
      };
      expect(runs.length).toBeGreaterThan(1);
      for (const results of runs) compare(Object.fromEntries(Object.entries(results).map(read)), reference);
    }
  }, 120_000);
});
