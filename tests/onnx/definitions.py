"""Writes definitions.json: models of a few nodes with the results that their definitions say, computed here in float64.

The definitions are written out in plain Python, or are those of scikit-learn, whose networks its converter wrote. Needs the
packages onnx, scipy, scikit-learn and skl2onnx of PyPI, whose versions are written down:

    python3 tests/onnx/definitions.py

`WEBNN_DEFINITIONS=path cargo test --lib definition` runs the cases of another file.

How far a result may be away follows from its sums: each of n terms is rounded to float32 a few times at most.
"""

import math
import warnings
from itertools import product

import numpy as np
import onnx
import scipy
import sklearn
from onnx import TensorProto, helper, numpy_helper
from scipy.special import expit, ndtri
from skl2onnx import to_onnx, __version__ as skl2onnx_version
from sklearn.ensemble import (
    ExtraTreesRegressor, GradientBoostingClassifier, GradientBoostingRegressor, IsolationForest, RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.multioutput import MultiOutputRegressor
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer, MinMaxScaler, Normalizer, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC, OneClassSVM
from sklearn.tree import DecisionTreeClassifier

from cases import attribute, plain, tensor, write

warnings.filterwarnings("ignore")
ML, MS = "ai.onnx.ml::", "com.microsoft::"
EPSILON = 2.0**-23
NAN, INF = math.nan, math.inf
random = np.random.RandomState(40)
cases, refused = [], []



def described(name, nodes, inputs, constants, outputs, opset):
    def nodes_of(node):
        operator, given, made, attributes = node
        written = {key: attribute(value) for key, value in attributes.items() if value is not None}
        return {"operator": operator, "inputs": given, "outputs": made, "attributes": written}

    named = lambda values: [{"name": key, **tensor(value)} for key, value in values.items()]
    return {
        "name": name, "opset": opset, "nodes": [nodes_of(node) for node in nodes], "inputs": named(inputs),
        "initializers": named(constants), "outputs": outputs,
    }


def case(name, operator, inputs, expected, constants=None, opset=22, terms=1, size=0.0, relative=None, **attributes):
    """A node with its results. Sums of so many terms, whose magnitudes are so large together, may be that far away."""
    constants = constants or {}
    results = expected if isinstance(expected, tuple) else (expected,)
    given = list(attributes.pop("given", [*inputs, *constants]))
    relative = 8 * EPSILON if relative is None else relative
    outputs = []
    for i, result in enumerate(results):
        bounds = {"relative": relative, "absolute": plain(max(float(f"{EPSILON * (terms + 2) * np.max(size):.2g}"), 2.0**-149))}
        outputs.append({"name": f"y{i}", **tensor(result), **bounds})
    made = [output["name"] for output in outputs]
    made += [""] * attributes.pop("unused", 0)
    cases.append(described(name, [(operator, given, made, attributes)], inputs, constants, outputs, opset))


def refuse(name, reason, operator, inputs, constants=None, outputs=1, opset=22, **attributes):
    constants = constants or {}
    made = [f"y{i}" for i in range(outputs)]
    nodes = [(operator, [*inputs, *constants], made, attributes)]
    model = described(name, nodes, inputs, constants, [{"name": key} for key in made], opset)
    refused.append({**model, "reason": reason})


def floats(*shape, scale=1.0):
    return (random.randn(*shape) * scale).astype(np.float32)


def f64(array):
    return np.asarray(array).astype(np.float64)


def listed(array):
    return [float(x) for x in np.asarray(array, np.float32).ravel()]


# Features

x = np.array([[1.5, -2.0, 0.0], [NAN, INF, -INF], [1e30, -0.0, 3.0]], np.float32)
offset, scale = [1.0, -2.5, 0.25], [2.0, 0.5, -3.0]
case("Scaler", ML + "Scaler", {"x": x}, (f64(x) - offset) * scale, offset=offset, scale=scale, size=[1], relative=4 * EPSILON)
case("Scaler, one number", ML + "Scaler", {"x": x}, (f64(x) - 1.0) * 3.0, offset=[1.0], scale=[3.0])
whole = np.array([[5, -7, 16777216]], np.int64)
case("Scaler of integers", ML + "Scaler", {"x": whole}, (f64(whole) - offset) * scale, offset=offset, scale=scale)
refuse("Scaler, too few", "attribute scale has 2 numbers; 3 are needed", ML + "Scaler", {"x": x}, scale=[1.0, 2.0])

x = np.array([[-4, 2, 1], [0, 0, 0], [-1, -2, -3], [-1, -2, 0], [3e-30, 1e30, -2e30]], np.float32)
for norm, of in [("MAX", np.max), ("L1", lambda x, axis: np.abs(x).sum(axis)), ("L2", lambda x, axis: np.sqrt((x * x).sum(axis)))]:
    divisor = of(f64(x), 1)[:, None]
    case(f"Normalizer {norm}", ML + "Normalizer", {"x": x}, f64(x) / np.where(divisor == 0, 1, divisor), norm=norm)
case("Normalizer of a vector", ML + "Normalizer", {"x": x[0]}, f64(x[0]) / 7, norm="L1")
refuse("Normalizer, another norm", "allowed are MAX, L1 and L2", ML + "Normalizer", {"x": x}, norm="L3")

x = np.array([[0.5, 0.25, NAN], [INF, -INF, 0.5000001]], np.float32)
case("Binarizer", ML + "Binarizer", {"x": x}, np.array([[0, 0, 0], [1, 0, 1]], np.float32), threshold=0.5)
case("Binarizer of integers", ML + "Binarizer", {"x": np.array([[0, 1, -1]], np.int32)}, np.array([[0, 1, 0]], np.int32))

x = np.array([[NAN, 0.0], [-0.0, 7.0], [INF, NAN]], np.float32)
case("Imputer of NaN", ML + "Imputer", {"x": x}, np.array([[9, 0], [0, 7], [INF, -9]], np.float32),
     imputed_value_floats=[9.0, -9.0], replaced_value_float=NAN)
case("Imputer of 0", ML + "Imputer", {"x": x}, np.array([[NAN, 5], [5, 7], [INF, NAN]], np.float32), imputed_value_floats=[5.0])
whole = np.array([[-1, 2], [2**40, -1]], np.int64)
case("Imputer of integers", ML + "Imputer", {"x": whole}, np.array([[2**50, 2], [2**40, 4]], np.int64),
     imputed_value_int64s=[2**50, 4], replaced_value_int64=-1)
refuse("Imputer without values", "imputed_value_floats is missing", ML + "Imputer", {"x": x}, replaced_value_float=NAN)

x = floats(2, 3, 4)
places = np.array([[3, 0, 3]], np.int64)
case("ArrayFeatureExtractor", ML + "ArrayFeatureExtractor", {"x": x}, x[..., [3, 0, 3]], {"places": places})
case("ArrayFeatureExtractor of a vector", ML + "ArrayFeatureExtractor", {"x": whole[0], "places": places[:, 1:2]}, whole[:1, :1])
refuse("ArrayFeatureExtractor, beyond", "found the index 4 at [0], allowed 0 to 3", ML + "ArrayFeatureExtractor", {"x": x},
       {"places": np.array([4], np.int64)})

x = np.array([[3, -5], [10**12, 7]], np.int64)
case("OneHotEncoder", ML + "OneHotEncoder", {"x": x}, (f64(x)[..., None] == [7, 3, 10**12]).astype(np.float32),
     cats_int64s=[7, 3, 10**12], zeros=1)
case("OneHotEncoder of floats", ML + "OneHotEncoder", {"x": np.array([2.9, -1.5], np.float32)},
     np.array([[1, 0], [0, 1]], np.float32), cats_int64s=[2, -1])
refuse("OneHotEncoder of strings", "cats_strings: strings are not supported", ML + "OneHotEncoder", {"x": x}, cats_strings=["a"])
refuse("OneHotEncoder, twice", "allowed at least one, each once", ML + "OneHotEncoder", {"x": x}, cats_int64s=[1, 1])


def encoded(x, keys, values, default):
    def value(x):
        found = [v for k, v in zip(keys, values) if k == x or (k != k and x != x)]
        return found[0] if found else default

    return np.array([value(x) for x in x.ravel().tolist()]).reshape(x.shape)


x = np.array([[5, 3, 9], [-(2**63), 2**62 + 1, 4]], np.int64)
keys = [9, 2**62 + 1, 5, -(2**63), 5]
case("LabelEncoder", ML + "LabelEncoder", {"x": x}, encoded(x, keys, [1, 2, 3, 4, 5], -1), keys_int64s=keys, values_int64s=[1, 2, 3, 4, 5])
wanted = encoded(x, keys, [1.5, NAN, INF, -0.0, 1], 0.25).astype(np.float32)
case("LabelEncoder to floats", ML + "LabelEncoder", {"x": x}, wanted, keys_int64s=keys, values_floats=[1.5, NAN, INF, 0.0, 1.0], default_float=0.25)
x = np.array([0.1, -0.0, NAN, INF, 7.0, -INF], np.float32)
keys = [float(np.float32(0.1)), NAN, 0.0, INF, NAN]
case("LabelEncoder of floats", ML + "LabelEncoder", {"x": x}, encoded(x, keys, [10, 20, 30, 40, 50], -7),
     keys_floats=keys, values_int64s=[10, 20, 30, 40, 50], default_int64=-7)
case("LabelEncoder of NaN only", ML + "LabelEncoder", {"x": x}, np.array([4, 4, 9, 4, 4, 4], np.int64),
     keys_floats=[NAN], values_int64s=[9], default_int64=4)
many = random.permutation(np.arange(-3000, 3000, 3))[:777]
x = np.arange(-3010, 3010, 7).astype(np.int32).reshape(4, -1)
case("LabelEncoder of many", ML + "LabelEncoder", {"x": x}, encoded(x, many, many * 2, 5).astype(np.int32),
     keys_tensor=many.astype(np.int32), values_tensor=(many * 2).astype(np.int32), default_tensor=np.array([5], np.int32))
refuse("LabelEncoder to strings", "values_strings: strings are not supported", ML + "LabelEncoder", {"x": x},
       keys_int64s=[1], values_strings=["a"])
refuse("LabelEncoder, other keys", "keys of int64 with values of int64 for an input of int32", ML + "LabelEncoder", {"x": x},
       keys_int64s=[1], values_int64s=[2])
refuse("LabelEncoder, too few", "2 keys with 1 values", ML + "LabelEncoder", {"x": x}, keys_int64s=[1, 2], values_int64s=[1])

# What becomes of scores


def softmax(scores):
    powers = np.exp(scores - scores.max(1, keepdims=True))
    return powers / powers.sum(1, keepdims=True)


def softmax_zero(scores):
    most = scores.max(1, keepdims=True)
    counts = np.abs(scores) > 1e-7
    powers = np.where(counts, np.exp(scores - most), 0)
    return np.where(counts, powers, scores * np.exp(-most)) / powers.sum(1, keepdims=True)


TRANSFORMS = {"NONE": lambda x: x, "LOGISTIC": expit, "SOFTMAX": softmax, "SOFTMAX_ZERO": softmax_zero, "PROBIT": ndtri}

# Linear models. The results of the functions are as exact as their operands, times a slope of at most 1, or of PROBIT 7 here.

x = floats(5, 4)
weights, bias = floats(3, 4), floats(3)
scores = f64(x) @ f64(weights).T + f64(bias)
sizes = np.abs(f64(x)) @ np.abs(f64(weights)).T + np.abs(f64(bias))
for name, transform in TRANSFORMS.items():
    if name == "PROBIT":
        continue
    given = {"coefficients": listed(weights), "intercepts": listed(bias), "post_transform": name}
    case(f"LinearRegressor {name}", ML + "LinearRegressor", {"x": x}, transform(scores), terms=5, size=sizes, targets=3, **given)
    labels = np.array([7, -1, 2**40])[scores.argmax(1)]
    case(f"LinearClassifier {name}", ML + "LinearClassifier", {"x": x}, (labels, transform(scores)), terms=5, size=sizes,
         classlabels_ints=[7, -1, 2**40], **given)
case("LinearClassifier of integers", ML + "LinearClassifier", {"x": np.array([[1, 2]], np.int32)},
     (np.array([1]), np.array([[-1.0, 3.0]])), coefficients=[1.0, -1.0, 1.0, 1.0], classlabels_ints=[0, 1])
one = np.array([[0.25], [0.75], [-2.0], [0.0]], np.float32)
for name, result in [("NONE", np.hstack([1 - f64(one), one])), ("LOGISTIC", expit(np.hstack([-f64(one), one])))]:
    case(f"LinearClassifier, one score {name}", ML + "LinearClassifier", {"x": one}, (np.array([7, 7, 5, 5]), result),
         coefficients=[1.0], intercepts=[0.0], classlabels_ints=[5, 7], post_transform=name)
case("LinearClassifier, no labels wanted", ML + "LinearClassifier", {"x": x}, scores, terms=5, size=sizes, given=["x"],
     coefficients=listed(weights), intercepts=listed(bias), classlabels_strings=["a", "b", "c"])
cases[-1]["nodes"][0]["outputs"] = ["labels that nobody needs", "y0"]
# Of all probabilities that float32 has near their ends, and others.
p = np.concatenate([[0, 1, -0.5, 1.5, NAN, 0.5, 0.075, 0.925, 1 - 2**-24, 2**-149, 1e-38, 1e-11], random.rand(400), 10.0 ** -random.uniform(0, 44, 100)])
p = p.astype(np.float32).reshape(-1, 1)
case("PROBIT", ML + "LinearRegressor", {"x": p}, ndtri(f64(p)), coefficients=[1.0], post_transform="PROBIT", terms=8, size=[1], relative=16 * EPSILON)
refuse("LinearClassifier of strings", "classlabels_strings", ML + "LinearClassifier", {"x": x}, outputs=2,
       coefficients=listed(weights), intercepts=listed(bias), classlabels_strings=["a", "b", "c"])
refuse("LinearClassifier, other labels", "coefficients of 3 classes with 2 labels", ML + "LinearClassifier", {"x": x}, outputs=2,
       coefficients=listed(weights), classlabels_ints=[1, 2])
refuse("LinearRegressor, other features", "attribute coefficients has 11 numbers for 4 features", ML + "LinearRegressor", {"x": x},
       coefficients=listed(weights)[1:])
refuse("LinearRegressor, other bias", "attribute intercepts has 1 numbers; 3 are needed", ML + "LinearRegressor", {"x": x},
       coefficients=listed(weights), intercepts=[1.0], targets=3)
refuse("ZipMap", "options={'zipmap': False}", ML + "ZipMap", {"x": x}, classlabels_int64s=[0, 1, 2, 3])

# Trees: lists of (feature, mode, threshold, missing is true, yes, no), or of leaves {target: weight}

COMPARE = {
    "BRANCH_LEQ": lambda x, y: x <= y, "BRANCH_LT": lambda x, y: x < y, "BRANCH_GTE": lambda x, y: x >= y,
    "BRANCH_GT": lambda x, y: x > y, "BRANCH_EQ": lambda x, y: x == y, "BRANCH_NEQ": lambda x, y: x != y,
    "BRANCH_MEMBER": lambda x, y: x in y,
}


def drawn_tree(features, targets, depth, modes, all_targets=False):
    nodes = []

    def draw(depth):
        place = len(nodes)
        nodes.append(None)
        if depth == 0 or random.rand() < 0.15:
            own = range(targets) if all_targets else random.permutation(targets)[: random.randint(1, targets + 1)]
            nodes[place] = {int(target): float(np.float32(random.randn())) for target in own}
        else:
            mode = str(random.choice(modes))
            threshold = float(np.float32(random.randint(-2, 3) / 2))
            if mode == "BRANCH_MEMBER":
                threshold = [x / 2 for x in random.permutation(range(-4, 5))[: random.randint(1, 5)].tolist()]
            yes = draw(depth - 1)
            nodes[place] = (random.randint(features), mode, threshold, int(random.rand() < 0.5), yes, draw(depth - 1))
        return place

    draw(depth)
    return nodes


def leaf_of(tree, row):
    node = tree[0]
    while isinstance(node, tuple):
        feature, mode, threshold, missing, yes, no = node
        holds = COMPARE[mode](row[feature], threshold) or (missing and math.isnan(row[feature]))
        node = tree[yes if holds else no]
    return node


def ensemble_scores(trees, x, targets, aggregate="SUM"):
    result = np.zeros((len(x), targets))
    has = np.zeros((len(x), targets), bool)
    for i, row in enumerate(x.tolist()):
        found = [[] for _ in range(targets)]
        for tree in trees:
            for target, weight in leaf_of(tree, row).items():
                found[target].append(weight)
        for target, weights in enumerate(found):
            has[i, target] = bool(weights)
            if weights:
                total = {"SUM": sum, "AVERAGE": lambda w: sum(w) / len(trees), "MIN": min, "MAX": max}[aggregate]
                result[i, target] = total(weights)
    return result, has


def attributes_of(trees, prefix, as_tensor=False):
    a = {f"nodes_{name}": [] for name in
         ["treeids", "nodeids", "featureids", "modes", "values", "truenodeids", "falsenodeids", "missing_value_tracks_true"]}
    leaves = {f"{prefix}_{name}": [] for name in ["treeids", "nodeids", "ids", "weights"]}
    for t, tree in enumerate(trees):
        for n, node in enumerate(tree):
            is_leaf = isinstance(node, dict)
            feature, mode, threshold, missing, yes, no = (0, "LEAF", 0.0, 0, 0, 0) if is_leaf else node
            for name, value in zip(a, [3 * t, n, feature, mode, float(threshold), yes, no, missing]):
                a[name].append(value)
            for target, weight in node.items() if is_leaf else []:
                for name, value in zip(leaves, [3 * t, n, target, weight]):
                    leaves[name].append(value)
    a.update(leaves)
    if as_tensor:
        for name in ["nodes_values", f"{prefix}_weights"]:
            a[name + "_as_tensor"] = np.array(a.pop(name), np.float64)
    return a


def rows_for_trees(count, features):
    x = (random.randint(-4, 5, (count, features)) / 2).astype(np.float32)
    x[random.rand(count, features) < 0.15] = NAN
    return x


PLAIN = [mode for mode in COMPARE if mode != "BRANCH_MEMBER"]
for targets, aggregate, transform in [
    (1, "SUM", "NONE"), (3, "SUM", "NONE"), (2, "AVERAGE", "SOFTMAX"), (3, "MIN", "LOGISTIC"), (2, "MAX", "SOFTMAX_ZERO"), (1, "MIN", "NONE"),
]:
    trees = [drawn_tree(4, targets, 4, PLAIN) for _ in range(7)]
    x = rows_for_trees(20, 4)
    base = floats(targets)
    scores = ensemble_scores(trees, x, targets, aggregate)[0] + f64(base)
    expected = TRANSFORMS[transform](scores)
    case(f"TreeEnsembleRegressor {targets} {aggregate} {transform}", ML + "TreeEnsembleRegressor", {"x": x}, expected, terms=8, size=[8],
         n_targets=targets, aggregate_function=aggregate, post_transform=transform, base_values=listed(base), **attributes_of(trees, "target"))
trees = [[(0, "BRANCH_LEQ", 0.1, 0, 1, 2), {0: 0.25}, {0: 0.75}], [{0: 0.125}]]
# 0.1 is no number of float32, and equal to itself all the same.
x = np.array([[0.1], [0.05], [0.25]])
case("TreeEnsembleRegressor of doubles", ML + "TreeEnsembleRegressor", {"x": x}, ensemble_scores(trees, x, 1)[0], n_targets=1,
     **attributes_of(trees, "target", as_tensor=True))
case("TreeEnsembleRegressor PROBIT", ML + "TreeEnsembleRegressor", {"x": x.astype(np.float32)}, ndtri(ensemble_scores(trees, x, 1)[0]), n_targets=1,
     post_transform="PROBIT", terms=8, size=[4], **attributes_of(trees, "target", as_tensor=True))
whole = np.array([[0, 1]], np.int64)
tree = [(1, "BRANCH_GTE", 1.0, 0, 1, 2), {0: 2.0}, {0: 3.0}]
case("TreeEnsembleRegressor of integers", ML + "TreeEnsembleRegressor", {"x": whole}, np.array([[2.0]]), n_targets=1, **attributes_of([tree], "target"))

for classes, transform, base in [(3, "NONE", True), (4, "SOFTMAX", False), (3, "LOGISTIC", False), (3, "SOFTMAX_ZERO", False), (2, "NONE", True), (2, "SOFTMAX", False)]:
    for all_classes in [False, True]:
        trees = [drawn_tree(3, classes, 3, PLAIN, all_classes) for _ in range(3)]
        x = rows_for_trees(20, 3)
        bias = floats(classes) if base else np.zeros(classes)
        scores, has = ensemble_scores(trees, x, classes)
        scores += f64(bias)
        # A class for which no leaf says anything is not the one, unless it has a base.
        named = np.where(has | base, scores, -INF)
        keep = np.abs(scores).sum(1) > 0 if transform == "SOFTMAX_ZERO" else np.full(len(x), True)
        x, scores, named = x[keep], scores[keep], named[keep]
        labels = np.array([11, 5, -3, 8])[named.argmax(1)]
        given = attributes_of(trees, "class")
        if base:
            given["base_values"] = listed(bias)
        case(f"TreeEnsembleClassifier {classes} {transform} {all_classes}", ML + "TreeEnsembleClassifier", {"x": x}, (labels, TRANSFORMS[transform](scores)),
             terms=4, size=[8], classlabels_int64s=[11, 5, -3, 8][:classes], post_transform=transform, **given)
stump = lambda a, b, target=0: [(0, "BRANCH_LEQ", 1.0, 0, 1, 2), {target: a}, {target: b}]
x = np.array([[0.0], [2.0]], np.float32)
for name, trees, given, labels, scores in [
    ("probabilities", [stump(0.25, 0.75)], {}, [5, 7], [[0.75, 0.25], [0.25, 0.75]]),
    ("a tie", [stump(0.5, 0.75)], {}, [5, 7], [[0.5, 0.5], [0.25, 0.75]]),
    ("signs", [stump(-0.25, 0.75)], {}, [5, 7], [[0.25, -0.25], [-0.75, 0.75]]),
    ("a base", [stump(0.25, 0.75)], {"base_values": [0.5]}, [7, 7], [[0.25, 0.75], [-0.25, 1.25]]),
    ("LOGISTIC", [stump(-0.25, 0.75)], {"post_transform": "LOGISTIC", "base_values": [-0.25]}, [5, 7], expit([[0.5, -0.5], [-0.5, 0.5]])),
    ("under the second", [stump(0.25, 0.75, 1)], {}, [5, 7], [[0, 0.25], [0, 0.75]]),
]:
    case(f"TreeEnsembleClassifier, one score: {name}", ML + "TreeEnsembleClassifier", {"x": x}, (np.array(labels), np.array(scores)),
         classlabels_int64s=[5, 7], **given, **attributes_of(trees, "class"))


def version5(trees, targets, members=None):
    """Branches and leaves in lists of their own. A tree that is a leaf is a branch both of whose ways lead there."""
    a = {name: [] for name in ["nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids", "nodes_trueleafs", "nodes_falseleafs",
                               "nodes_missing_value_tracks_true", "leaf_targetids", "tree_roots"]}
    modes, splits, weights, sets = [], [], [], []
    for tree in trees:
        tree = [(0, "BRANCH_LEQ", 0.0, 0, 1, 1), tree[0]] if isinstance(tree[0], dict) else tree
        branches = {n: len(modes) + i for i, n in enumerate(n for n, node in enumerate(tree) if isinstance(node, tuple))}
        leaves = {n: len(weights) + i for i, n in enumerate(n for n, node in enumerate(tree) if isinstance(node, dict))}
        a["tree_roots"].append(len(modes))
        for node in tree:
            if isinstance(node, dict):
                ((target, weight),) = node.items()
                a["leaf_targetids"].append(target)
                weights.append(weight)
                continue
            feature, mode, threshold, missing, yes, no = node
            modes.append(list(COMPARE).index(mode))
            splits.append(0.0 if mode == "BRANCH_MEMBER" else threshold)
            sets += [*threshold, NAN] if mode == "BRANCH_MEMBER" else []
            a["nodes_featureids"].append(feature)
            a["nodes_missing_value_tracks_true"].append(missing)
            for side, child in [("true", yes), ("false", no)]:
                a[f"nodes_{side}leafs"].append(int(child in leaves))
                a[f"nodes_{side}nodeids"].append(leaves[child] if child in leaves else branches[child])
    a.update(nodes_modes=np.array(modes, np.uint8), nodes_splits=np.array(splits, np.float32), leaf_weights=np.array(weights, np.float32), n_targets=targets)
    if sets:
        a["membership_values"] = np.array(sets, np.float32)
    return a


def single(tree):
    return [dict(list(node.items())[:1]) if isinstance(node, dict) else node for node in tree]


for targets, number, aggregate, transform, name in [(3, 1, "SUM", 0, "NONE"), (2, 0, "AVERAGE", 2, "LOGISTIC"), (2, 2, "MIN", 1, "SOFTMAX"), (1, 3, "MAX", 0, "NONE")]:
    trees = [single(drawn_tree(4, targets, 4, list(COMPARE) + ["BRANCH_MEMBER"] * 3)) for _ in range(6)] + [[{0: 0.5}]]
    x = rows_for_trees(25, 4)
    expected = TRANSFORMS[name](ensemble_scores(trees, x, targets, aggregate)[0])
    case(f"TreeEnsemble {targets} {aggregate} {name}", ML + "TreeEnsemble", {"x": x}, expected, terms=8, size=[8],
         aggregate_function=number, post_transform=transform, **version5(trees, targets))

good = attributes_of([stump(0.25, 0.75)], "target")
for name, reason, changed in [
    ("circle", "a tree with a cycle", {"nodes_modes": ["BRANCH_LEQ"] * 3, "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0]}),
    ("no such node", "refers to the missing node 9", {"nodes_truenodeids": [9, 0, 0]}),
    ("twice", "two nodes 1 of tree 0", {"nodes_nodeids": [0, 1, 1]}),
    ("mode", "allowed are LEAF, BRANCH_LEQ", {"nodes_modes": ["BRANCH_MAYBE", "LEAF", "LEAF"]}),
    ("feature", "feature 1 of 1", {"nodes_featureids": [1, 0, 0]}),
    ("a feature below 0", "feature -1 of 1", {"nodes_featureids": [-1, 0, 0]}),
    ("lengths", "attribute nodes_values has 2 numbers; 3 are needed", {"nodes_values": [1.0, 0.0]}),
    ("target", "target or class 2 of 1", {"target_ids": [2, 0]}),
    ("a target below 0", "target or class -1", {"target_ids": [-1, 0]}),
    ("targets", "target or class 0 of 0", {"n_targets": 0}),
    ("weights", "attribute weights has 1 numbers; 2 are needed", {"target_weights": [1.0]}),
    ("base", "attribute base_values has 2 numbers; 1 are needed", {"base_values": [1.0, 2.0]}),
    ("aggregate", "allowed are SUM, AVERAGE, MIN and MAX", {"aggregate_function": "MEDIAN"}),
    ("nothing", "an ensemble without trees", {key: None for key in good}),
]:
    refuse(f"TreeEnsembleRegressor, {name}", reason, ML + "TreeEnsembleRegressor", {"x": x[:, :1]}, **{"n_targets": 1, **good, **changed})
good = version5([stump(0.25, 0.75)], 1)
for name, reason, changed in [
    ("circle", "a tree with a cycle", {"nodes_trueleafs": [0], "nodes_truenodeids": [0]}),
    ("leaf", "the leaf 5 of 2", {"nodes_truenodeids": [5]}),
    ("node", "the node 3 of 1", {"nodes_trueleafs": [0], "nodes_truenodeids": [3]}),
    ("root", "the root -1 of 1", {"tree_roots": [-1]}),
    ("mode", "the mode 9", {"nodes_modes": np.array([9], np.uint8)}),
    ("members", "membership_values for too few nodes", {"nodes_modes": np.array([6, 6], np.uint8), **{k: v * 2 for k, v in good.items() if k.startswith("nodes_") and isinstance(v, list)},
                                                   "nodes_splits": np.zeros(2, np.float32), "membership_values": np.array([], np.float32)}),
]:
    refuse(f"TreeEnsemble, {name}", reason, ML + "TreeEnsemble", {"x": x[:, :1]}, **{**good, **changed})
strings = {"classlabels_strings": ["no", "yes"], **attributes_of([stump(0.25, 0.75)], "class")}
refuse("TreeEnsembleClassifier of strings", "select_model_inputs_outputs", ML + "TreeEnsembleClassifier", {"x": x[:, :1]}, outputs=2, **strings)

# Support vector machines


def similar(x, vectors, kind, gamma, offset, degree):
    if kind == "RBF":
        return np.exp(-gamma * ((x[:, None] - vectors[None]) ** 2).sum(2))
    products = x @ vectors.T
    if kind == "LINEAR":
        return products
    products = gamma * products + offset
    return products**degree if kind == "POLY" else np.tanh(products)


def coupled(r):
    """Wu, Lin and Weng's second method, as LIBSVM does it."""
    k = len(r)
    q = np.array([[-r[j, i] * r[i, j] if i != j else sum(r[o, i] ** 2 for o in range(k) if o != i) for j in range(k)] for i in range(k)])
    p = np.full(k, 1 / k)
    for _ in range(max(100, k)):
        qp = q @ p
        form = p @ qp
        if np.abs(qp - form).max() < 0.005 / k:
            break
        for t in range(k):
            change = (form - qp[t]) / q[t, t]
            p[t] += change
            form = (form + change * (change * q[t, t] + 2 * qp[t])) / (1 + change) ** 2
            qp = (qp + change * q[t]) / (1 + change)
            p /= 1 + change
    return p


PARAMETERS = [float(np.float32(0.3)), 0.5, 3.0]
for kind in ["LINEAR", "POLY", "RBF", "SIGMOID"]:
    vectors, weights = floats(6, 4), floats(6)
    x = floats(7, 4)
    near = similar(f64(x), f64(vectors), kind, *PARAMETERS)
    scores = near @ f64(weights) + 0.25
    size = np.abs(near).max() * np.abs(weights).sum() * 4
    given = {"kernel_type": kind, "kernel_params": PARAMETERS, "support_vectors": listed(vectors), "coefficients": listed(weights), "n_supports": 6, "rho": [0.25]}
    case(f"SVMRegressor {kind}", ML + "SVMRegressor", {"x": x}, scores[:, None], terms=30, size=size, **given)
    if kind == "RBF":
        case("SVMRegressor, one class", ML + "SVMRegressor", {"x": x}, np.where(scores > 0, 1.0, -1.0)[:, None], one_class=1, **given)
    for counts, probability in [([2, 4], False), ([2, 4], True), ([1, 3, 2], False), ([3, 0, 2, 1], True)]:
        classes = len(counts)
        starts = np.cumsum([0, *counts])
        weights, pairs = floats(classes - 1, 6), [(i, j) for i in range(classes) for j in range(i + 1, classes)]
        rho = floats(len(pairs))
        scores = np.zeros((7, len(pairs)))
        for n, (i, j) in enumerate(pairs):
            first, second = slice(starts[i], starts[i + 1]), slice(starts[j], starts[j + 1])
            scores[:, n] = near[:, first] @ f64(weights)[j - 1, first] + near[:, second] @ f64(weights)[i, second] + f64(rho)[n]
        votes = np.zeros((7, classes))
        for n, (i, j) in enumerate(pairs):
            votes[:, i] += scores[:, n] > 0
            votes[:, j] += scores[:, n] <= 0
        labels = np.array([3, 1, 4, 15])[votes.argmax(1)]
        result = np.hstack([-scores, scores]) if classes == 2 else scores
        given = {"kernel_type": kind, "kernel_params": PARAMETERS, "support_vectors": listed(vectors), "coefficients": listed(weights), "rho": listed(rho),
                 "vectors_per_class": counts, "classlabels_ints": [3, 1, 4, 15][:classes]}
        size = np.abs(near).max() * np.abs(weights).sum() * 4 + np.abs(rho).max()
        if probability:
            slopes, offsets = -np.abs(floats(len(pairs))), floats(len(pairs))
            given.update(prob_a=listed(slopes), prob_b=listed(offsets))
            beside = np.clip(expit(-(scores * f64(slopes) + f64(offsets))), 1e-7, 1 - 1e-7)
            result = np.zeros((7, classes))
            for row in range(7):
                r = np.zeros((classes, classes))
                for n, (i, j) in enumerate(pairs):
                    r[i, j], r[j, i] = beside[row, n], 1 - beside[row, n]
                result[row] = coupled(r)
            size *= np.abs(slopes).max()
        case(f"SVMClassifier {kind} {counts} {probability}", ML + "SVMClassifier", {"x": x}, (labels, result), terms=30, size=size, **given)
weights = floats(6)
scores = (near[:, :2] @ f64(weights)[:2] + near[:, 2:] @ f64(weights)[2:] + 0.25)[:, None]
given = {"kernel_type": kind, "kernel_params": PARAMETERS, "support_vectors": listed(vectors), "coefficients": listed(weights), "rho": [0.25],
         "vectors_per_class": [2, 4], "classlabels_ints": [3, 1]}
for transform, result in [("LOGISTIC", expit(np.hstack([-scores, scores]))), ("SOFTMAX", np.hstack([1 - scores, scores]))]:
    case(f"SVMClassifier, two classes {transform}", ML + "SVMClassifier", {"x": x}, (np.where(scores[:, 0] > 0, 3, 1), result), terms=30,
         size=np.abs(weights).sum() * 4, post_transform=transform, **given)
weights = floats(3, 4)
scores = f64(x) @ f64(weights).T + 0.5
case("SVMClassifier without vectors", ML + "SVMClassifier", {"x": x}, (np.array([2, 4, 6])[scores.argmax(1)], softmax(scores)), terms=8, size=[8],
     coefficients=listed(weights), rho=[0.5], classlabels_ints=[2, 4, 6], post_transform="SOFTMAX")
good = {"kernel_params": PARAMETERS, "support_vectors": listed(floats(3, 4)), "coefficients": [1.0, 2.0, 3.0], "rho": [1.0], "vectors_per_class": [1, 2], "classlabels_ints": [0, 1]}
for name, reason, changed in [
    ("vectors", "3 support vectors, where classes have [1, 3]", {"vectors_per_class": [1, 3]}),
    ("classes", "attribute vectors_per_class has 3 numbers; 2 are needed", {"vectors_per_class": [1, 1, 1]}),
    ("a count below 0", "-1, allowed a size", {"vectors_per_class": [4, -1]}),
    ("coefficients", "attribute coefficients has 2 numbers; 3 are needed", {"coefficients": [1.0, 2.0]}),
    ("rho", "attribute rho has 2 numbers; 1 are needed", {"rho": [1.0, 2.0]}),
    ("kernel", "allowed are LINEAR, POLY, RBF and SIGMOID", {"kernel_type": "COSINE"}),
    ("parameters", "attribute kernel_params has 1 numbers; 3 are needed", {"kernel_params": [1.0]}),
    ("probabilities", "attribute prob_b has 0 numbers; 1 are needed", {"prob_a": [1.0]}),
]:
    refuse(f"SVMClassifier, {name}", reason, ML + "SVMClassifier", {"x": x}, outputs=2, **{**good, **changed})
refuse("SVMRegressor, too large", "attribute support_vectors has 4 numbers", ML + "SVMRegressor", {"x": x}, n_supports=2**31, support_vectors=[1.0] * 4,
       coefficients=[1.0], rho=[0.0], kernel_params=PARAMETERS)

# Images


def deform_conv(x, w, offset, bias, mask, strides, pads, dilations, group, offset_group):
    n, c, height, width = x.shape
    outputs, per_group, kh, kw = w.shape
    rows = (height + pads[0] + pads[2] - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    columns = (width + pads[1] + pads[3] - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    offset = offset.reshape(n, offset_group, kh * kw, 2, rows, columns)
    mask = mask.reshape(n, offset_group, kh * kw, rows, columns)
    result = np.zeros((n, outputs, rows, columns)) + bias[None, :, None, None]
    for image, out, row, column, k, own in product(range(n), range(outputs), range(rows), range(columns), range(kh * kw), range(per_group)):
        channel = out // (outputs // group) * per_group + own
        at = channel // (c // offset_group)
        y = row * strides[0] - pads[0] + k // kw * dilations[0] + offset[image, at, k, 0, row, column]
        z = column * strides[1] - pads[1] + k % kw * dilations[1] + offset[image, at, k, 1, row, column]
        value = 0.0
        for dy, dx in product(range(2), range(2)):
            py, px = math.floor(y) + dy, math.floor(z) + dx
            weight = (1 - abs(y - py)) * (1 - abs(z - px))
            if 0 <= py < height and 0 <= px < width and weight:
                value += weight * x[image, channel, py, px]
        result[image, out, row, column] += value * mask[image, at, k, row, column] * w[out, own, k // kw, k % kw]
    return result


for name, shape, filters, given, has_mask in [
    ("plain", (1, 1, 4, 5), (1, 1, 2, 2), {}, False),
    ("all", (2, 4, 5, 6), (6, 2, 3, 2), {"pads": [1, 2, 0, 1], "strides": [2, 1], "dilations": [1, 2], "group": 2, "offset_group": 2}, True),
    ("groups of offsets", (1, 4, 3, 3), (2, 4, 1, 1), {"offset_group": 4}, True),
]:
    x, w, bias = floats(*shape), floats(*filters), floats(filters[0])
    full = {"strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1], "group": 1, "offset_group": 1, **given}
    kh, kw = filters[2:]
    sizes = [(shape[2 + d] + full["pads"][d] + full["pads"][2 + d] - (filters[2 + d] - 1) * full["dilations"][d] - 1) // full["strides"][d] + 1 for d in range(2)]
    # Quarters, so that places are exact.
    offset = (random.randint(-9, 10, (shape[0], full["offset_group"] * kh * kw * 2, *sizes)) / 4).astype(np.float32)
    mask = random.rand(shape[0], full["offset_group"] * kh * kw, *sizes).astype(np.float32) if has_mask else np.ones((shape[0], full["offset_group"] * kh * kw, *sizes), np.float32)
    expected = deform_conv(f64(x), f64(w), f64(offset), f64(bias), f64(mask), **full)
    inputs = {"x": x, "w": w, "offset": offset, "bias": bias, **({"mask": mask} if has_mask else {})}
    case(f"DeformConv, {name}", "DeformConv", inputs, expected, terms=4 * w[0].size, size=4 * np.abs(x).max() * np.abs(w).max() * w[0].size, **given)
x = np.ones((1, 1, 3, 3), np.float32)
x[0, 0, 1, 1] = INF
offset = np.zeros((1, 2, 3, 3), np.float32)
offset[0, 0, 0, 0], offset[0, 1, 2, 2] = INF, -1e30
expected = f64(x)
expected[0, 0, 0, 0] = expected[0, 0, 2, 2] = 0
case("DeformConv, what is not finite", "DeformConv", {"x": x, "w": np.ones((1, 1, 1, 1), np.float32), "offset": offset}, expected)
refuse("DeformConv, another offset", "an offset of shape", "DeformConv", {"x": x, "w": np.ones((1, 1, 2, 2), np.float32), "offset": offset})
refuse("DeformConv, groups", "groups of offsets", "DeformConv", {"x": x, "w": np.ones((1, 1, 1, 1), np.float32), "offset": offset}, offset_group=2)


def col2im(x, image, block, strides, pads, dilations):
    d = len(image)
    counts = [(image[i] + pads[i] + pads[d + i] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(d)]
    channels = x.shape[1] // math.prod(block)
    parts = x.reshape(x.shape[0], channels, *block, *counts)
    result = np.zeros((x.shape[0], channels, *image), x.dtype)
    for k in product(*map(range, block)):
        for n in product(*map(range, counts)):
            at = [n[i] * strides[i] - pads[i] + k[i] * dilations[i] for i in range(d)]
            if all(0 <= at[i] < image[i] for i in range(d)):
                result[(slice(None), slice(None), *at)] += parts[(slice(None), slice(None), *k, *n)]
    return result


for name, image, block, given in [
    ("plain", [4, 5], [2, 3], {}),
    ("all", [6, 5], [3, 2], {"strides": [2, 1], "pads": [1, 0, 2, 1], "dilations": [1, 2]}),
    ("apart", [7, 7], [2, 2], {"strides": [3, 4]}),
    ("three dimensions", [3, 4, 5], [2, 2, 3], {"strides": [1, 2, 1], "pads": [0, 1, 1, 0, 0, 1]}),
    ("one dimension", [9], [3], {"strides": [2]}),
]:
    d = len(image)
    full = {"strides": [1] * d, "pads": [0] * (2 * d), "dilations": [1] * d, **given}
    counts = [(image[i] + full["pads"][i] + full["pads"][d + i] - (block[i] - 1) * full["dilations"][i] - 1) // full["strides"][i] + 1 for i in range(d)]
    shape = {"image": np.array(image, np.int64), "block": np.array(block, np.int64)}
    for x in [floats(2, 2 * math.prod(block), math.prod(counts)), random.randint(-9, 9, (1, math.prod(block), math.prod(counts))).astype(np.int32)]:
        case(f"Col2Im, {name} of {x.dtype}", "Col2Im", {"x": x}, col2im(f64(x), image, block, **full).astype(x.dtype if x.dtype == np.int32 else float), shape,
             terms=math.prod(block), size=4.0 * math.prod(block), **given)
x = floats(1, 4, 9)
x[0, 0, 0], x[0, 1, 4] = INF, NAN
shape = {"image": np.array([4, 4], np.int64), "block": np.array([2, 2], np.int64)}
case("Col2Im, what is not finite", "Col2Im", {"x": x}, col2im(f64(x), [4, 4], [2, 2], [1, 1], [0] * 4, [1, 1]), shape, terms=4, size=[16])
refuse("Col2Im, other blocks", "4 columns and 9 blocks; Some(4) blocks", "Col2Im", {"x": x}, {**shape, "image": np.array([3, 3], np.int64)})
refuse("Col2Im, strides of 0", "of 0", "Col2Im", {"x": x}, shape, strides=[0, 1])
refuse("Col2Im, huge", "too many numbers", "Col2Im", {"x": x[:, :, :1]}, {"image": np.array([2**31 - 1, 2], np.int64), "block": np.array([2, 2], np.int64)},
       strides=[2**31 - 1, 1])


def roi_pool(x, rois, sizes, scale):
    result = np.zeros((len(rois), x.shape[1], *sizes))
    away = lambda v: math.floor(abs(v) + 0.5) * (1 if v > 0 else -1)
    for n, roi in enumerate(rois.tolist()):
        left, top, right, bottom = [away(float(np.float32(v) * np.float32(scale))) for v in roi[1:]]
        height, width = max(bottom - top + 1, 1), max(right - left + 1, 1)
        for i, j in product(*map(range, sizes)):
            rows = [top + i * height // sizes[0], top - (-(i + 1) * height // sizes[0])]
            columns = [left + j * width // sizes[1], left - (-(j + 1) * width // sizes[1])]
            part = x[int(roi[0]), :, max(rows[0], 0):max(rows[1], 0), max(columns[0], 0):max(columns[1], 0)]
            if part.size:
                result[n, :, i, j] = part.max((1, 2))
    return result


x = floats(2, 3, 7, 9)
rois = np.array([[0, 0, 0, 8, 6], [1, 2, 1, 5, 5], [0, -3, -2, 3, 3], [1, 6, 4, 20, 20], [0, 5, 5, 4, 4], [1, 2.5, 3.5, 2.5, 3.5], [0, 30, 30, 40, 40]], np.float32)
for sizes, scale in [([2, 3], 1.0), ([1, 1], 0.5), ([5, 4], 0.75)]:
    case(f"MaxRoiPool {sizes}", "MaxRoiPool", {"x": x, "rois": rois}, roi_pool(f64(x), rois, sizes, scale), pooled_shape=sizes, spatial_scale=scale, relative=0.0)
refuse("MaxRoiPool, shape", "attribute pooled_shape", "MaxRoiPool", {"x": x, "rois": rois}, pooled_shape=[1])
refuse("MaxRoiPool, huge", "sizes of 1 to 32768", "MaxRoiPool", {"x": x, "rois": rois}, pooled_shape=[2**31, 1])

for shape in [(3, 3), (2, 5, 5), (1, 1), (2, 3, 8, 8)]:
    x = floats(*shape)
    # The growth of elimination with pivots is small, and so is the sum over permutations of products of rows' lengths.
    size = np.prod(np.sqrt((f64(x) ** 2).sum(-1)), axis=-1)
    case(f"Det {shape}", "Det", {"x": x}, np.linalg.det(f64(x)), terms=shape[-1] ** 2, size=size)
refuse("Det, not square", "square matrices", "Det", {"x": floats(2, 3)})

bits = np.array([0, 1, 2**31, 2**31 - 1, 0x3F800000, 0xFF800000], np.uint32)
for source, to in [(bits, np.float32), (bits[[0, 2, 4, 5]].view(np.float32), np.int32), (bits.view(np.int32), np.uint32), (np.array([200, 3], np.uint8), np.int8), (np.array([-1, 2**62], np.int64), np.uint64)]:
    case(f"BitCast {source.dtype} {np.dtype(to)}", "BitCast", {"x": source}, source.view(to), opset=26, to=helper.np_dtype_to_tensor_dtype(np.dtype(to)), relative=0.0)
refuse("BitCast, other bits", "another number of bits", "BitCast", {"x": bits}, opset=26, to=7)
refuse("BitCast of doubles", "another number of bits here", "BitCast", {"x": np.zeros(2)}, opset=26, to=7)

# com.microsoft

x, bias = floats(2, 3, 4, 5), floats(2, 1, 1, 5)
case("BiasSoftmax, inner", MS + "BiasSoftmax", {"x": x, "bias": bias}, softmax((f64(x) + f64(bias)).reshape(-1, 5)).reshape(x.shape), axis=3, is_inner_broadcast=1, terms=8, size=[8])
bias = floats(1, 3, 4, 5)
case("BiasSoftmax, outer", MS + "BiasSoftmax", {"x": x, "bias": bias}, softmax((f64(x) + f64(bias)).reshape(6, 20)).reshape(x.shape), axis=2, is_inner_broadcast=0, terms=8, size=[8])
refuse("BiasSoftmax, another bias", "for 24 rows of 5", MS + "BiasSoftmax", {"x": x, "bias": floats(4)}, axis=3)


def bucket(distance, buckets, most, both):
    """Of the implementation of T5 that its networks were trained with."""
    result = 0
    if both:
        buckets //= 2
        result += buckets if distance > 0 else 0
        distance = abs(distance)
    else:
        distance = max(-distance, 0)
    exact = buckets // 2
    if distance < exact:
        return result + distance
    large = np.log(np.float32(distance) / np.float32(exact)) / np.log(np.float32(most / exact)) * np.float32(buckets - exact)
    return result + min(exact + int(large), buckets - 1)


for both in [0, 1]:
    table = floats(32, 3)
    queries, keys = (9, 150) if both else (150, 9)
    expected = np.array([[[table[bucket(k - q, 32, 128, both), head] for k in range(keys)] for q in range(queries)] for head in range(3)])[None]
    constants = {"queries": np.array([queries], np.int64), "keys": np.array([keys], np.int64)}
    # The table lies in memory head by head.
    case(f"RelativePositionBias {both}", MS + "RelativePositionBias", {"table": np.ascontiguousarray(table.T).reshape(32, 3)}, expected, constants,
         max_distance=128, is_bidirectional=both, relative=0.0)
refuse("RelativePositionBias, huge", "too many numbers", MS + "RelativePositionBias", {"table": table},
       {"queries": np.array([2**31 - 1], np.int64), "keys": np.array([2**31 - 1], np.int64)}, max_distance=128)
refuse("RelativePositionBias, distance", "32 buckets for distances up to 0", MS + "RelativePositionBias", {"table": table},
       {"queries": np.array([1], np.int64), "keys": np.array([1], np.int64)})

x = random.randint(0, 256, (2, 3, 4)).astype(np.uint8)
quantized = {"s": np.float32(0.5), "z": np.uint8(7), "t": np.float32(0.75), "u": np.uint8(3)}
for axes, keep in [([1], 1), ([0, -1], 0)]:
    mean = ((f64(x) - 7) * 0.5).mean(tuple(axes), keepdims=bool(keep))
    expected = np.clip(np.rint(mean / 0.75) + 3, 0, 255).astype(np.uint8)
    case(f"QLinearReduceMean {axes}", MS + "QLinearReduceMean", {"x": x}, expected, {k: np.asarray(v) for k, v in quantized.items()}, axes=axes, keepdims=keep, relative=0.0)

x, w, bias = floats(2, 5, 6, 4), floats(6, 2, 3, 3), floats(6)
expected = np.zeros((2, 5, 3, 6)) + bias
padded = np.pad(f64(x), [(0, 0), (1, 1), (1, 1), (0, 0)])
for row, column, out in product(range(5), range(3), range(6)):
    part = padded[:, row:row + 3, 2 * column:2 * column + 3, out // 3 * 2:out // 3 * 2 + 2]
    expected[:, row, column, out] += (part * f64(w)[out].transpose(1, 2, 0)).sum((1, 2, 3))
given = {"group": 2, "pads": [1, 1, 1, 1], "strides": [1, 2]}
for name, filters in [("", w), (", filter last", np.ascontiguousarray(w.transpose(0, 2, 3, 1)))]:
    case(f"NhwcConv{name}", MS + "NhwcConv", {"x": x, "w": filters, "bias": bias}, expected, terms=18, size=18 * np.abs(x).max() * np.abs(w).max(), **given)

# float16 is rounded once, at the end, and what is between may be larger than it can be.

half = lambda values: np.array(values, np.float16)
case("Det of float16", "Det", {"x": half([[300, 200], [200, 300]])}, np.array(50000.0), relative=2.0**-10)
columns = half([[[6e4, 1, 6e4], [1, 6e4, 1], [-6e4, -6e4, 1]]])
case("Col2Im of float16", "Col2Im", {"x": columns}, col2im(f64(columns), [5], [3], [1], [0, 0], [1]), {"image": np.array([5], np.int64), "block": np.array([3], np.int64)},
     relative=2.0**-10)
case("DeformConv of float16", "DeformConv", {"x": half([[[[400, 400]]]]), "w": half([[[[400, -399]]]]), "offset": half(np.zeros((1, 4, 1, 1)))}, np.full((1, 1, 1, 1), 400.0),
     relative=2.0**-10)
case("MaxRoiPool of float16", "MaxRoiPool", {"x": half([[[[1, 2], [3, -4]]]]), "rois": half([[0, 0, 0, 1, 1]])}, np.full((1, 1, 1, 1), 3.0), pooled_shape=[1, 1])
case("BiasSoftmax of float16", MS + "BiasSoftmax", {"x": half([[6e4, 6e4]]), "bias": half([[6e4, -6e4]])}, np.array([[1.0, 0.0]]), axis=1, relative=2.0**-10)
trees = [single(drawn_tree(2, 1, 3, list(COMPARE))) for _ in range(4)] + [[{0: 6e4}], [{0: 6e4}], [{0: -6e4}]]
x = rows_for_trees(9, 2)
made = version5(trees, 1)
made.update({key: made[key].astype(np.float16) for key in ["nodes_splits", "leaf_weights"]})
expected = np.array([[sum(float(np.float16(leaf_of(tree, row)[0])) for tree in trees)] for row in x.tolist()])
case("TreeEnsemble of float16", ML + "TreeEnsemble", {"x": x.astype(np.float16)}, expected, relative=2.0**-10, **made)

# Networks of scikit-learn


def exported(name, model, x, results, size, **options):
    written = to_onnx(model, x[:1], **options)
    nodes = []
    for node in written.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        for key, value in attributes.items():
            if isinstance(value, bytes):
                attributes[key] = value.decode()
            elif isinstance(value, onnx.TensorProto):
                attributes[key] = numpy_helper.to_array(value)
            elif isinstance(value, list) and value and isinstance(value[0], bytes):
                attributes[key] = [text.decode() for text in value]
        domain = node.domain + "::" if node.domain else ""
        nodes.append((domain + node.op_type, list(node.input), list(node.output), attributes))
    constants = {c.name: numpy_helper.to_array(c) for c in written.graph.initializer}
    outputs = []
    for output, result in zip(written.graph.output, results):
        outputs.append({"name": output.name, **tensor(result), "relative": 16 * EPSILON, "absolute": plain(EPSILON * 64 * size)})
    opset = max(entry.version for entry in written.opset_import if not entry.domain)
    cases.append(described(f"scikit-learn: {name}", nodes, {written.graph.input[0].name: x}, constants, outputs, opset))


def data(classes, features=5, count=90):
    state = np.random.RandomState(classes)
    x = state.randn(count, features).astype(np.float32)
    raw = x @ state.randn(features, max(classes, 1)) + 0.3 * state.randn(count, max(classes, 1))
    return x, raw[:, 0] if classes < 2 else raw.argmax(1) + 3


for classes in [2, 3]:
    x, y = data(classes)
    for model in [
        DecisionTreeClassifier(max_depth=4, random_state=0), RandomForestClassifier(6, max_depth=4, random_state=0),
        GradientBoostingClassifier(n_estimators=4, random_state=0), LogisticRegression(), SVC(probability=True, random_state=0),
        make_pipeline(StandardScaler(), Normalizer(), LogisticRegression(C=10)), make_pipeline(MinMaxScaler(), MLPClassifier((6,), max_iter=50, random_state=0)),
    ]:
        model.fit(x, y)
        name = type(model[-1] if hasattr(model, "steps") else model).__name__
        chosen = x[:12]
        results = (model.predict(chosen).astype(np.int64), model.predict_proba(f64(chosen) if name != "DecisionTreeClassifier" else chosen))
        # Coupled probabilities end within a bound that float32 may pass a step earlier or later.
        size = 300.0 if name == "SVC" else 8.0
        exported(f"{name} of {classes} classes" + (" behind others" if hasattr(model, "steps") else ""), model, chosen, results, size, options={"zipmap": False})
    for model in [SVC(kernel="poly", degree=2, coef0=1), NuSVC(kernel="sigmoid", nu=0.3), LinearSVC(random_state=0)]:
        model.fit(x, y)
        results = (model.predict(x[:12]).astype(np.int64),)
        exported(f"{type(model).__name__} of {classes} classes", model, x[:12], results, 1.0)
x, y = data(1)
for model in [
    LinearRegression(), RandomForestRegressor(5, max_depth=4, random_state=0), ExtraTreesRegressor(5, max_depth=4, random_state=0),
    GradientBoostingRegressor(n_estimators=5, random_state=0), SVR(), SVR(kernel="linear"), MultiOutputRegressor(LinearRegression()),
]:
    model.fit(x, np.stack([y, -y], 1) if isinstance(model, MultiOutputRegressor) else y)
    result = model.predict(f64(x[:12]))
    kind = getattr(model, "kernel", "")
    exported(f"{type(model).__name__} {kind}".strip(), model, x[:12], (result.reshape(12, -1),), 32.0)
model = OneClassSVM(nu=0.3).fit(x)
exported("OneClassSVM", model, x[:12], (model.predict(x[:12]).reshape(-1, 1).astype(np.int64), model.decision_function(x[:12]).reshape(-1, 1)), 16.0)
missing = x.copy()
missing[random.rand(*x.shape) < 0.2] = NAN
model = make_pipeline(SimpleImputer(strategy="median"), Binarizer(threshold=0.1)).fit(missing)
exported("SimpleImputer and Binarizer", model, missing[:12], (model.transform(missing[:12]),), 0.0)
whole = random.randint(0, 4, (40, 3)).astype(np.int64)
for model in [OneHotEncoder(sparse_output=False, handle_unknown="ignore"), OrdinalEncoder()]:
    model.fit(whole)
    exported(type(model).__name__, model, whole[:8], (model.transform(whole[:8]).astype(np.float32 if "Hot" in type(model).__name__ else np.int64),), 0.0)

versions = {"onnx": onnx.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__, "skl2onnx": skl2onnx_version}
write("definitions.json", versions, cases, refused)
