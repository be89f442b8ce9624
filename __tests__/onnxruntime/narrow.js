'use strict';

// Rows on integers of 16 and 4 bits, which lie in 32 bits here: every operator that onnxruntime-node computes on them.

const { TYPES, tensor, value, writeModel } = require('./models.js');

const FED = { int16: [3, -2, 32767, -32768, 100, 7, -300, 5], uint16: [3, 2, 65535, 40000, 100, 7, 300, 5], int4: [3, -2, 7, -8, 4, 0, -1, 5], uint4: [3, 2, 15, 9, 4, 0, 8, 5] };
const SHAPE = [2, 4];
const WIDE = Object.keys(FED).filter((type) => type.endsWith('16'));

/** Constants, by type. */
const int64s = (...values) => ['int64', [values.length], values];
const indices = ['int64', [2, 2], [1, 0, 2, 3]];
const chosen = (...values) => ['bool', [values.length], values];
const own = (shape, values) => ['own', shape, values];
const others = own(SHAPE, [1, 2, 3, 5, 7, 1, 2, 3]);
const updates = own([2, 2], [5, 6, 7, 1]);

/**
 * Nodes on `x`, [2, 4], by their operators: their further inputs, attributes, the version, the types where onnxruntime has them.
 * @type {Record<string, {inputs?: any[], attributes?: object, opset?: number, types?: string[], outputs?: number, alone?: boolean, domain?: string, note?: string}[]>}
 */
const nodes = {
  Abs: [{}],
  Add: [{ inputs: [others] }],
  BitwiseAnd: [{ inputs: [others] }],
  BitwiseNot: [{}],
  BitwiseOr: [{ inputs: [others] }],
  BitwiseXor: [{ inputs: [others] }],
  BlackmanWindow: [{ alone: true, inputs: [['int64', [], [8]]], attributes: { output_datatype: 'own' } }],
  Cast: [
    { attributes: { to: TYPES.float.number }, types: Object.keys(FED) },
    { attributes: { to: TYPES.int32.number }, types: Object.keys(FED) },
    // It says how float8e8m0 is rounded; onnxruntime refuses others than the default for other types.
    { attributes: { to: TYPES.float16.number, round_mode: 'up' }, opset: 24 },
  ],
  CastLike: [{ inputs: [others], types: Object.keys(FED) }],
  Compress: [{ inputs: [chosen(1, 0, 1, 1)], attributes: { axis: 1 } }, { inputs: [chosen(1, 0, 1, 1, 0, 1)], note: 'of all elements' }],
  Concat: [{ inputs: [others], attributes: { axis: 0 } }],
  ConstantOfShape: [{ alone: true, inputs: [int64s(...SHAPE)], attributes: { value: own([1], [3]) } }],
  DequantizeLinear: [{ inputs: [['float', [], [0.5]]], types: Object.keys(FED) }],
  Div: [{ inputs: [others] }],
  Equal: [{ inputs: [others] }],
  Expand: [{ inputs: [int64s(3, 2, 4)] }],
  Flatten: [{}],
  Gather: [{ inputs: [int64s(1, 3)], attributes: { axis: 1 } }],
  GatherElements: [{ inputs: [indices], attributes: { axis: 1 } }],
  GatherND: [{ inputs: [indices.with(2, [0, 1, 1, 2])] }],
  Greater: [{ inputs: [others] }],
  GreaterOrEqual: [{ inputs: [others] }],
  HammingWindow: [{ alone: true, inputs: [['int64', [], [8]]], attributes: { output_datatype: 'own' } }],
  HannWindow: [8, 7].map((size) => ({ alone: true, inputs: [['int64', [], [size]]], attributes: { output_datatype: 'own', periodic: 8 - size } })),
  Identity: [{ types: Object.keys(FED) }],
  Less: [{ inputs: [others] }],
  LessOrEqual: [{ inputs: [others] }],
  MatMulInteger16: [own([4, 3], [1, 2, 3, 5, -7, 1, -2, 3, 32767, -32768, 255, -256]), own([4, 1], [-32768, 32767, -1, 127])].map((right) => ({ domain: 'com.microsoft', inputs: [right], types: ['int16'] })),
  Mod: [{ inputs: [others] }],
  Mul: [{ inputs: [others] }],
  Neg: [{ types: ['int16'] }],
  Range: [[2, 7, 2], [7, 1, -2]].map((bounds) => ({ alone: true, inputs: bounds.map((bound) => own([], [bound])), types: ['int16'] })),
  Reshape: [{ inputs: [int64s(8)] }],
  ReverseSequence: [{ inputs: [int64s(2, 3)], attributes: { batch_axis: 0, time_axis: 1 } }],
  Scatter: [{ inputs: [indices, updates], attributes: { axis: 1 }, opset: 9 }],
  ScatterElements: ['none', 'add', 'mul', 'min', 'max'].map((reduction) => ({ inputs: [indices, updates], attributes: { axis: 1, reduction }, opset: 18 })),
  ScatterND: ['none', 'add', 'mul', 'min', 'max'].map((reduction) => ({ inputs: [indices.with(2, [0, 1, 1, 2]), own([2], [5, 32767])], attributes: { reduction }, opset: 18 })),
  Shape: [{ types: Object.keys(FED) }],
  Shrink: [{}, { attributes: { bias: { float: 1.5 }, lambd: { float: 2.5 } } }, { attributes: { bias: { float: -3 }, lambd: { float: 1 } } }],
  Sign: [{}],
  Size: [{}],
  Slice: [{ inputs: [int64s(3), int64s(-9), int64s(1), int64s(-2)] }],
  Split: [{ attributes: { axis: 1, num_outputs: 2 }, outputs: 2 }],
  Squeeze: [{}],
  Sub: [{ inputs: [others] }],
  TensorScatter: [{ inputs: [own([2, 2], [8, 9, 10, 11]), int64s(1, 2)], attributes: { axis: 1 }, opset: 24 }],
  Tile: [{ inputs: [int64s(2, 3)] }],
  TopK: [{ inputs: [int64s(2)], attributes: { axis: 1 }, outputs: 2, types: ['int16'] }, { inputs: [int64s(1)], attributes: { axis: 0, largest: 0 }, outputs: 2, types: ['int16'] }],
  Transpose: [{ attributes: { perm: [1, 0] }, types: Object.keys(FED) }],
  Unsqueeze: [{ inputs: [int64s(0)] }],
};

/** A constant; of 4 bits two elements lie in a byte. */
function constant(name, type, shape, values) {
  if (!type.endsWith('int4')) {
    const { array } = TYPES[type];
    return tensor(name, type, shape, array.from(values, array.name.startsWith('Big') ? BigInt : Number));
  }
  const bytes = Uint8Array.from({ length: Math.ceil(values.length / 2) }, (_, i) => (values[2 * i] & 15) | ((values[2 * i + 1] ?? 0) << 4));
  return tensor(name, type, shape, bytes);
}

function modelOf(op, type, { domain = '', inputs = [], attributes = {}, opset = 21, outputs = 1, alone = false }) {
  const typed = (of) => (of === 'own' ? type : of);
  const initializers = inputs.map(([of, shape, values], i) => constant(`c${i}`, typed(of), shape, values));
  const attribute = ([name, given]) => {
    if (given === 'own') return [name, TYPES[type].number];
    return [name, Array.isArray(given) && given[0] === 'own' ? { tensor: constant('', type, given[1], given[2]) } : given];
  };
  const list = [{
    op,
    domain,
    inputs: [...(alone ? [] : ['x']), ...initializers.map(({ name }) => name)],
    outputs: Array.from({ length: outputs }, (_, i) => `y${i}`),
    attributes: Object.fromEntries(Object.entries(attributes).map(attribute)),
  }];
  // Nobody can be given 4 bits by onnxruntime-node, and what is given is widened before it is shown.
  const fed = type.endsWith('int4') ? 'int32' : type;
  if (fed !== type) list.unshift({ op: 'Cast', inputs: ['fed'], outputs: ['x'], attributes: { to: TYPES[type].number } });
  for (let i = 0; i < outputs; i++) list.push({ op: 'Cast', inputs: [`y${i}`], outputs: [`shown${i}`], attributes: { to: TYPES.float.number } });
  return writeModel({
    opset,
    inputs: [value(fed === type ? 'x' : 'fed', fed, ...SHAPE)],
    outputs: Array.from({ length: outputs }, (_, i) => ({ name: `shown${i}` })),
    nodes: list,
    initializers,
  });
}

/** @type {Record<string, (ort: any) => Promise<unknown>>} */
const rows = {};
for (const [op, list] of Object.entries(nodes)) {
  for (const [i, node] of list.entries()) {
    for (const type of node.types ?? WIDE) {
      const note = node.note ?? JSON.stringify(node.attributes ?? node.inputs?.map(([, , values]) => values) ?? {});
      rows[`${op} of ${type}, ${i}: ${note}`] = async (ort) => {
        const session = await ort.InferenceSession.create(modelOf(op, type, node));
        const fed = type.endsWith('int4') ? ['fed', 'int32', Int32Array] : ['x', type, TYPES[type].array];
        const results = await session.run({ [fed[0]]: new ort.Tensor(fed[1], fed[2].from(FED[type]), SHAPE) });
        return Object.values(results).map(({ type: of, dims, data }) => [of, dims, [...data].map(String)]);
      };
    }
  }
}

module.exports = { rows };
