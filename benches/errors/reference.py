"""Networks of make_models.py in double precision, and with OpenVINO: what is off by how much.

    python reference.py FOLDER MODEL...      inputs and results of each model, as raw float32, to FOLDER
    python reference.py --compare FOLDER MODEL...   errors of all results there against those in double precision

The operators are those that these networks have; each is its definition in numpy.
"""

import math
import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper

INPUTS = 4
erf = np.vectorize(math.erf, otypes=[np.float64])


def conv(x, w, b, a):
    groups, (sy, sx) = a.get('group', 1), a.get('strides', [1, 1])
    top, left, bottom, right = a.get('pads', [0, 0, 0, 0])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    outputs, _, kh, kw = w.shape
    windows = np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(2, 3))[:, :, ::sy, ::sx]
    of = x.shape[1] // groups
    y = [np.tensordot(windows[:, g * of:(g + 1) * of], w[g * outputs // groups:(g + 1) * outputs // groups], ((1, 4, 5), (1, 2, 3)))
         for g in range(groups)]
    y = np.moveaxis(np.concatenate(y, axis=-1), -1, 1)
    return y if b is None else y + b.reshape(1, -1, 1, 1)


def max_pool(x, a):
    (kh, kw), (sy, sx) = a['kernel_shape'], a.get('strides', [1, 1])
    top, left, bottom, right = a.get('pads', [0, 0, 0, 0])
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(x, (kh, kw), axis=(2, 3))[:, :, ::sy, ::sx].max(axis=(4, 5))


def softmax(x, axis):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def layer_norm(x, scale, bias, a):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered ** 2).mean(axis=-1, keepdims=True) + a.get('epsilon', 1e-5)) * scale + bias


def evaluate(model, feed):
    wide = lambda x: x.astype(np.float64) if x.dtype == np.float32 else x
    values = {t.name: wide(numpy_helper.to_array(t)) for t in model.graph.initializer}
    values.update({name: wide(x) for name, x in feed.items()})
    for node in model.graph.node:
        x = [values.get(name) for name in node.input]
        a = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
        get = lambda i: x[i] if i < len(x) else None
        operators = {
            'Constant': lambda: wide(numpy_helper.to_array(a['value'])),
            'Conv': lambda: conv(x[0], x[1], get(2), a),
            'MaxPool': lambda: max_pool(x[0], a),
            'GlobalAveragePool': lambda: x[0].mean(axis=(2, 3), keepdims=True),
            'Flatten': lambda: x[0].reshape(x[0].shape[0], -1),
            'Identity': lambda: x[0],
            'Relu': lambda: np.maximum(x[0], 0),
            'Clip': lambda: np.clip(x[0], x[1], x[2]),
            'Add': lambda: x[0] + x[1],
            'Mul': lambda: x[0] * x[1],
            'Div': lambda: x[0] / x[1],
            'MatMul': lambda: x[0] @ x[1],
            'Reshape': lambda: x[0].reshape([n if n else x[0].shape[i] for i, n in enumerate(x[1])]),
            'Transpose': lambda: x[0].transpose(a['perm']),
            'Gather': lambda: np.take(x[0], x[1], axis=a.get('axis', 0)),
            'Erf': lambda: erf(x[0]),
            'Softmax': lambda: softmax(x[0], a.get('axis', -1)),
            'LayerNormalization': lambda: layer_norm(x[0], x[1], x[2], a),
        }
        values[node.output[0]] = operators[node.op_type]()
    return values[model.graph.output[0].name]


def inputs(model, number):
    random = np.random.default_rng(number)
    feed = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [d.dim_value or (1 if i == 0 else 128) for i, d in enumerate(kind.shape.dim)]
        feed[value.name] = random.integers(0, 30000, shape) if kind.elem_type == 7 else random.standard_normal(shape).astype(np.float32)
    return feed


def make(folder, path):
    import openvino
    name, model = os.path.basename(path)[:-5], onnx.load(path)
    core = openvino.Core()
    ways = {'ov-default': {}, 'ov-f32': {'INFERENCE_PRECISION_HINT': 'f32'}}
    compiled = {way: core.compile_model(path, 'CPU', options) for way, options in ways.items()}
    print(name, {way: str(one.get_property('INFERENCE_PRECISION_HINT')) for way, one in compiled.items()})
    for number in range(INPUTS):
        feed = inputs(model, number)
        for key, x in feed.items():
            x.tofile(f'{folder}/{name}.{number}.in.{key}')
        evaluate(model, feed).astype(np.float64).tofile(f'{folder}/{name}.{number}.f64')
        for way, one in compiled.items():
            one(feed)[0].astype(np.float32).tofile(f'{folder}/{name}.{number}.{way}')


def compare(folder, path):
    name = os.path.basename(path)[:-5]
    model = onnx.load(path)
    last = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim][-1:]
    for way in ['ov-default', 'bf16', 'ov-f32', 'strict']:
        errors, largest, cosines, same = [], [], [], []
        for number in range(INPUTS):
            exact = np.fromfile(f'{folder}/{name}.{number}.f64')
            found = np.fromfile(f'{folder}/{name}.{number}.{way}', np.float32).astype(np.float64)
            errors.append(np.linalg.norm(found - exact) / np.linalg.norm(exact))
            largest.append(np.abs(found - exact).max() / np.abs(exact).max())
            cosines.append(found @ exact / np.linalg.norm(found) / np.linalg.norm(exact))
            rows = (exact.reshape(-1, last[0]), found.reshape(-1, last[0])) if last and last[0] else (exact[None], found[None])
            same.append((rows[0].argmax(axis=1) == rows[1].argmax(axis=1)).mean())
        print(f'{name} {way}: error {np.mean(errors):.2e}, largest {np.mean(largest):.2e}, cosine {min(cosines):.6f}, same top {np.mean(same):.4f}')


if __name__ == '__main__':
    what, rest = (compare, sys.argv[2:]) if sys.argv[1] == '--compare' else (make, sys.argv[1:])
    for path in rest[1:]:
        what(rest[0], path)
