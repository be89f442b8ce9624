'use strict';

// Models at random with operators that have caches, whose inputs have any number of dimensions and any of the names that mean something:
// they are loaded, run and continued, or refused. Nothing panics.

const { GenerationCache, generate } = require('../../lib/generate.js');
const { loadOnnx } = require('../../lib/onnx.js');
const { withContexts } = require('./contexts.js');
const { generator, seed } = require('./random.js');
const { TYPES, writeModel } = require('./write.js');

const COUNT = Number(process.env.WEBNN_ROUNDS ?? 1000);
const PANIC = /panick|out of bounds|out of range for slice|internal error|overflow|unwrap|assertion/i;

/** By operator: its domain, its most inputs, its outputs, and attributes that it may have. */
const OPERATORS = {
  Attention: ['', 7, 3, { q_num_heads: 2, kv_num_heads: 2, is_causal: 1 }],
  TensorScatter: ['', 3, 1, { axis: 2 }],
  Concat: ['', 2, 1, { axis: 2 }],
  GroupQueryAttention: ['com.microsoft', 9, 3, { num_heads: 2, kv_num_heads: 2, do_rotary: 1, local_window_size: 2, sliding_window_cache: 1 }],
  MultiHeadAttention: ['com.microsoft', 10, 3, { num_heads: 2, unidirectional: 1 }],
  DecoderMaskedMultiHeadAttention: ['com.microsoft', 10, 3, { num_heads: 2, past_present_share_buffer: 1 }],
  'com.microsoft Attention': ['com.microsoft', 7, 2, { num_heads: 2, unidirectional: 1, past_present_share_buffer: 1 }],
};
const NAMES = ['input_ids', 'inputs_embeds', 'attention_mask', 'position_ids', 'cache_position', 'use_cache_branch', 'num_logits_to_keep', 'past_key_values.0.key', 'past_key_values.0.value', 'past_sequence_length', 'write_indices', 'nonpad_kv_seqlen', 'total'];

function modelOf(random) {
  const one = (list) => list[Math.floor(random() * list.length)];
  const names = [...NAMES];
  const inputs = [];
  /** An input of the model that there was not yet, or nothing. */
  const input = () => {
    if (names.length === 0 || random() < 0.15) return '';
    const [name] = names.splice(Math.floor(random() * names.length), 1);
    const rank = one([0, 1, 2, 3, 3, 4, 4, 4, 5]);
    inputs.push({ name, type: one(['float', 'float', 'float16', 'int32', 'int64', 'bool']), shape: Array.from({ length: rank }, () => one([0, 1, 1, 2, 2, 4, 16, 'batch', 'past', 'all'])) });
    return name;
  };
  const operator = one(Object.keys(OPERATORS));
  const [domain, most, count, attributes] = OPERATORS[operator];
  const op = operator.split(' ').at(-1);
  // Heads nearly always, the others half of the time.
  const allowed = Object.entries(attributes).filter(([name]) => random() < (/heads|axis/.test(name) ? 0.95 : 0.5));
  const outputs = ['logits', 'present.0.key', 'present.0.value'].slice(0, count);
  // Half of them are nearly right.
  const nodes = [];
  if (random() < 0.5) {
    const [heads, width] = [2, 8];
    names.splice(0, names.length, ...names.filter((name) => !name.startsWith('past_key') && name !== 'input_ids'));
    for (const what of ['key', 'value']) inputs.push({ name: `past_key_values.0.${what}`, type: 'float', shape: random() < 0.8 ? ['batch', heads, one(['past', 'past', 4]), width] : [one([1, 'past'])] });
    inputs.push({ name: 'input_ids', type: 'int64', shape: random() < 0.8 ? ['batch', 'sequence'] : [] });
    const wide = ['query', 'keys', 'values'].map((name) => {
      nodes.push({ op: 'Cast', inputs: ['input_ids'], outputs: [`${name}0`], attributes: { to: 1 } }, { op: 'Unsqueeze', inputs: [`${name}0`, 'last'], outputs: [`${name}1`] }, { op: 'Expand', inputs: [`${name}1`, 'wide'], outputs: [name] });
      return name;
    });
    const slots = { GroupQueryAttention: 3, MultiHeadAttention: 6, DecoderMaskedMultiHeadAttention: 5, Attention: 4, TensorScatter: 0, Concat: 0 }[operator] ?? 4;
    const list = Array.from({ length: Math.max(slots + 2, most) }, (_, i) => (i < 3 && slots >= 3 ? wide[i] : i === slots ? 'past_key_values.0.key' : i === slots + 1 ? 'past_key_values.0.value' : input()));
    nodes.push({ op, domain, inputs: list.slice(0, most), outputs, attributes: Object.fromEntries(allowed) });
  } else {
    nodes.push({ op, domain, inputs: Array.from({ length: 1 + Math.floor(random() * most) }, input), outputs, attributes: Object.fromEntries(allowed) });
  }
  // Some that no node reads.
  if (random() < 0.5) input();
  const constants = [['last', [2]], ['wide', [1, 1, 16]]];
  const initializers = constants.map(([name, list]) => ({ name, dims: [list.length], dataType: 7, rawData: new Uint8Array(BigInt64Array.from(list, BigInt).buffer) }));
  return writeModel({ opset: 24, inputs, outputs: outputs.map((name) => ({ name })), nodes, initializers });
}

let context;

withContexts((cpu) => {
  context = cpu;
});

/** What goes wrong, other than by being refused. */
async function attempt(what, found) {
  try {
    return await what();
  } catch (error) {
    if (PANIC.test(error.message)) found.push(error.message);
    return undefined;
  }
}

test(`${COUNT} models with odd caches are run, or refused (WEBNN_SEED=${seed})`, async () => {
  const found = [];
  let [loaded, ran] = [0, 0];
  for (let i = 0; i < COUNT; i++) {
    const random = generator(i + 77);
    const bytes = modelOf(random);
    const of = [];
    const model = await attempt(() => loadOnnx(context, bytes), of);
    if (model !== undefined) {
      loaded++;
      const sizes = { batch: 1, past: Math.floor(random() * 3), all: Math.floor(random() * 5), sequence: 1 + Math.floor(random() * 2) };
      const inputs = Object.fromEntries(
        model.inputs.map(({ name, dataType, elementType, shape }) => {
          const of = shape.map((size) => (typeof size === 'number' ? size : sizes[size] ?? 1));
          const type = Object.values(TYPES).find(({ webnn }) => webnn === dataType) ?? TYPES[elementType];
          const data = new type.array(of.reduce((a, b) => a * b, 1)).fill(type.array === BigInt64Array ? 1n : 1);
          return [name, { data, shape: of }];
        }),
      );
      // Once more, as a step.
      for (let run = 0; run < 2; run++) if ((await attempt(() => model.run(inputs), of)) !== undefined) ran++;
      const others = Object.fromEntries(Object.entries(inputs).filter(([name]) => ['total', 'past_sequence_length', 'write_indices', 'nonpad_kv_seqlen', 'inputs_embeds'].includes(name)));
      for (const given of [{}, others]) {
        await attempt(async () => {
          const cache = new GenerationCache();
          for await (const { id } of generate(model, [1, 2, 3], { maxNewTokens: 2, cache, inputs: given })) expect(id).toBeGreaterThanOrEqual(0);
        }, of);
      }
      model.destroy();
    }
    if (of.length > 0) found.push([i, ...of]);
  }
  expect(found).toEqual([]);
  // Enough of them are no nonsense.
  expect(loaded).toBeGreaterThan(COUNT / 2);
  expect(ran).toBeGreaterThan(COUNT / 20);
}, 300_000);
