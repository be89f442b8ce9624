'use strict';

// The operators of ai.onnx.ml, beside onnxruntime-node. What their definitions say is in tests/onnx/definitions.json.

const { loadOnnx } = require('webnn-node/onnx');
const { ml } = require('webnn-node');
const { testCases, x } = require('./compare.js');
const { writeModel } = require('./write.js');

const floats = (...list) => ({ floats: list });
const int64 = { type: 'int64', low: -4, high: 5 };
const linear = { coefficients: floats(1, -0.5, 0.25, -1, 2, 0.75, 0.5, 0.5, -2), intercepts: floats(0.5, -0.25, 0) };

/** Trees of one comparison each, by their thresholds and the weights of both leaves. */
function stumps(prefix, list) {
  const nodes = list.flatMap((_, tree) => [0, 1, 2].map((id) => ({ tree, id })));
  const leaves = nodes.filter(({ id }) => id > 0);
  return {
    nodes_treeids: nodes.map(({ tree }) => tree),
    nodes_nodeids: nodes.map(({ id }) => id),
    nodes_featureids: nodes.map(({ tree, id }) => (id === 0 ? tree % 3 : 0)),
    nodes_modes: nodes.map(({ id }) => (id === 0 ? 'BRANCH_LEQ' : 'LEAF')),
    nodes_values: floats(...nodes.map(({ tree, id }) => (id === 0 ? list[tree].threshold : 0))),
    nodes_truenodeids: nodes.map(({ id }) => (id === 0 ? 1 : 0)),
    nodes_falsenodeids: nodes.map(({ id }) => (id === 0 ? 2 : 0)),
    [`${prefix}_treeids`]: leaves.map(({ tree }) => tree),
    [`${prefix}_nodeids`]: leaves.map(({ id }) => id),
    [`${prefix}_ids`]: leaves.map(({ tree, id }) => list[tree].targets[id - 1]),
    [`${prefix}_weights`]: floats(...leaves.map(({ tree, id }) => list[tree].weights[id - 1])),
  };
}

const trees = [
  { threshold: 0.5, targets: [0, 1], weights: [0.75, -0.5] },
  { threshold: -0.25, targets: [2, 0], weights: [1.5, 0.25] },
  { threshold: 1, targets: [1, 2], weights: [0.125, -1] },
];
const one = trees.map((tree) => ({ ...tree, targets: [0, 0] }));
const vectors = floats(0.5, -1, 0.25, 1, 0.75, -0.5, -1, 0.5, 1, 0.25, 0.25, -0.75);
const machine = { support_vectors: vectors, kernel_params: floats(0.5, 0.25, 2) };
const classes = { coefficients: floats(1, -0.5, 0.25, -1, 0.75, 0.5, -0.25, 1), rho: floats(0.25, -0.5, 0.125), vectors_per_class: [1, 2, 1], classlabels_ints: [3, 1, 4] };
const kernels = ['LINEAR', 'POLY', 'RBF', 'SIGMOID'];

testCases(
  [
    { op: 'Scaler', attributes: { offset: floats(0.5, -1, 2), scale: floats(2, 0.25, -1) }, inputs: [x([5, 3])] },
    ...['MAX', 'L1', 'L2'].map((norm) => ({ op: 'Normalizer', attributes: { norm }, inputs: [x([5, 3])] })),
    { op: 'Binarizer', attributes: { threshold: { float: 0.25 } }, inputs: [x([5, 3])] },
    { op: 'Imputer', attributes: { imputed_value_floats: floats(1, 2, 3), replaced_value_float: { float: NaN } }, inputs: [x([2, 3], { values: [NaN, 1, 0, NaN, NaN, 5] })] },
    { op: 'LabelEncoder', attributes: { keys_int64s: [3, -2, 0], values_floats: floats(0.5, 1.5, -1), default_float: { float: 9 } }, inputs: [x([4, 5], int64)] },
    { op: 'OneHotEncoder', attributes: { cats_int64s: [2, -1, 0], zeros: 1 }, inputs: [x([6], int64)] },
    { op: 'LinearRegressor', attributes: { ...linear, targets: 3 }, inputs: [x([7, 3])] },
    ...['NONE', 'LOGISTIC', 'SOFTMAX'].map((post_transform) => ({ op: 'LinearClassifier', outputs: 2, attributes: { ...linear, post_transform, classlabels_ints: [3, 1, 4] }, inputs: [x([7, 3])] })),
    ...['SUM', 'AVERAGE', 'MIN', 'MAX'].map((aggregate_function) => ({ op: 'TreeEnsembleRegressor', attributes: { ...stumps('target', trees), n_targets: 3, aggregate_function }, inputs: [x([9, 3])] })),
    { op: 'TreeEnsembleClassifier', outputs: 2, attributes: { ...stumps('class', trees), classlabels_int64s: [3, 1, 4], post_transform: 'SOFTMAX' }, inputs: [x([9, 3])] },
    { op: 'TreeEnsembleClassifier', outputs: 2, attributes: { ...stumps('class', one), classlabels_int64s: [3, 1], post_transform: 'LOGISTIC', base_values: floats(0.25) }, inputs: [x([9, 3])] },
    ...kernels.map((kernel_type) => ({ op: 'SVMRegressor', attributes: { ...machine, kernel_type, n_supports: 4, coefficients: floats(1, -0.5, 0.25, -1), rho: floats(0.5) }, inputs: [x([7, 3])] })),
    ...kernels.map((kernel_type) => ({ op: 'SVMClassifier', outputs: 2, attributes: { ...machine, ...classes, kernel_type }, inputs: [x([7, 3])] })),
    { op: 'SVMClassifier', outputs: 2, note: 'probabilities', attributes: { ...machine, ...classes, kernel_type: 'RBF', prob_a: floats(-1, -2, -0.5), prob_b: floats(0.5, 0, 0.25) }, inputs: [x([7, 3])] },
  ].map((item) => ({ ...item, domain: 'ai.onnx.ml', opset: 17 })),
);

test('what is made of strings and maps is refused with what helps', async () => {
  const context = await ml.createContext();
  const refusal = (nodes) =>
    loadOnnx(context, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: [2, 3] }], outputs: [{ name: 'y' }], nodes: nodes.map((node) => ({ domain: 'ai.onnx.ml', ...node })) }));
  const strings = { op: 'LinearClassifier', inputs: ['x'], outputs: ['y', 'scores'], attributes: { ...linear, classlabels_strings: ['a', 'b', 'c'] } };
  await expect(refusal([strings])).rejects.toThrow(/classlabels_strings.*select_model_inputs_outputs/);
  await expect(refusal([{ op: 'ZipMap', inputs: ['x'], outputs: ['y'], attributes: { classlabels_int64s: [0, 1, 2] } }])).rejects.toThrow("options={'zipmap': False}");
  // The scores alone need no strings.
  const loaded = await refusal([{ ...strings, outputs: ['labels', 'y'] }]);
  expect(loaded.outputs).toMatchObject([{ name: 'y', shape: [2, 3] }]);
});

/** Trees of depth 3 with seven nodes and eight leaves each, as lists of nodes and of leaves. */
function forest(count) {
  const nodes = [];
  for (let tree = 0; tree < count; tree++) {
    for (let id = 0; id < 15; id++) {
      const leaf = id >= 7;
      nodes.push({ tree, id, leaf, feature: leaf ? 0 : (tree + id) % 4, value: leaf ? 0 : Math.fround(Math.sin(tree * 7 + id)), target: (tree + id) % 3, weight: Math.fround(Math.cos(tree * 3 + id)) });
    }
  }
  return nodes;
}

const nodesOf = (nodes, leaves, name) => ({
  domain: 'ai.onnx.ml',
  op: 'TreeEnsembleRegressor',
  inputs: ['x'],
  outputs: ['y'],
  attributes: {
    n_targets: 3,
    nodes_treeids: nodes.map(({ tree }) => tree),
    nodes_nodeids: nodes.map(({ id }) => name(id)),
    nodes_featureids: nodes.map(({ feature }) => feature),
    nodes_modes: nodes.map(({ leaf }) => (leaf ? 'LEAF' : 'BRANCH_LEQ')),
    nodes_values: floats(...nodes.map(({ value }) => value)),
    nodes_truenodeids: nodes.map(({ id, leaf }) => (leaf ? 0 : name(2 * id + 1))),
    nodes_falsenodeids: nodes.map(({ id, leaf }) => (leaf ? 0 : name(2 * id + 2))),
    target_treeids: leaves.map(({ tree }) => tree),
    target_nodeids: leaves.map(({ id }) => name(id)),
    target_ids: leaves.map(({ target }) => target),
    target_weights: floats(...leaves.map(({ weight }) => weight)),
  },
});

test('trees whose nodes are numbered and ordered in any way, on any number of rows', async () => {
  const context = await ml.createContext();
  const load = (nodes, leaves, name = (id) => id) =>
    loadOnnx(context, writeModel({ opset: 17, inputs: [{ name: 'x', type: 'float', shape: ['n', 4] }], outputs: [{ name: 'y' }], nodes: [nodesOf(nodes, leaves, name)] }));
  const nodes = forest(300);
  const leaves = nodes.filter(({ leaf }) => leaf);
  const spread = (list) => [...list].sort((a, b) => ((a.tree * 31 + a.id * 17) % 101) - ((b.tree * 31 + b.id * 17) % 101));
  // The first node of a tree is its root.
  const roots = nodes.filter(({ id }) => id === 0);
  const others = nodes.filter(({ id }) => id > 0);
  const models = [
    await load(nodes, leaves),
    await load([...roots, ...spread(others)], spread(leaves)),
    await load(nodes, leaves, (id) => id * 1e9 - 7),
  ];
  for (const rows of [1, 3, 200]) {
    const data = Float32Array.from({ length: rows * 4 }, (_, i) => Math.sin(i * 12.9898));
    const expected = new Float64Array(rows * 3);
    for (let row = 0; row < rows; row++) {
      for (let tree = 0; tree < 300; tree++) {
        let at = nodes[tree * 15];
        while (!at.leaf) at = nodes[tree * 15 + 2 * at.id + (data[row * 4 + at.feature] <= at.value ? 1 : 2)];
        expected[row * 3 + at.target] += at.weight;
      }
    }
    for (const model of models) {
      const { y } = await model.run({ x: { data, shape: [rows, 4] } });
      y.data.forEach((score, i) => expect(Math.abs(score - expected[i])).toBeLessThan(1e-5));
    }
  }
  const run = async (...lists) => (await load(...lists)).run({ x: { data: new Float32Array(4), shape: [1, 4] } });
  await expect(run([...nodes, nodes[20]], leaves)).rejects.toThrow('two nodes 5 of tree 1');
  await expect(run(nodes.filter(({ tree, id }) => tree !== 2 || id !== 4), leaves)).rejects.toThrow('node 1 of tree 2 refers to the missing node 4');
});
