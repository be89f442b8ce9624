"""Networks of make_models.py and networks.py in double precision, and with OpenVINO: what is off by how much.

    python reference.py FOLDER MODEL...      inputs and results of each model, as raw numbers, to FOLDER
    python reference.py --compare FOLDER MODEL...   errors of all results there against those in double precision

Double precision is onnx's reference implementation (numpy) of the model whose float32 is all widened.
"""

import os
import sys

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

INPUTS = 4


def widened(path):
    model = onnx.load(path)
    constants = [a.t for node in model.graph.node for a in node.attribute if a.HasField('t')]
    for tensor in [*model.graph.initializer, *constants]:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor).astype(np.float64), tensor.name))
    for value in [*model.graph.input, *model.graph.output]:
        if value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT:
            value.type.tensor_type.elem_type = onnx.TensorProto.DOUBLE
    return ReferenceEvaluator(model)


def inputs(model, number):
    random = np.random.default_rng(number)
    feed = {}
    for value in model.graph.input:
        kind = value.type.tensor_type
        shape = [d.dim_value or (1 if i == 0 else 128) for i, d in enumerate(kind.shape.dim)]
        feed[value.name] = random.integers(0, 3000, shape) if kind.elem_type == 7 else random.standard_normal(shape).astype(np.float32)
    return feed


def make(folder, path):
    import openvino
    name, model, exact = os.path.basename(path)[:-5], onnx.load(path), widened(path)
    core = openvino.Core()
    ways = {'ov-default': {}, 'ov-f32': {'INFERENCE_PRECISION_HINT': 'f32'}}
    compiled = {way: core.compile_model(path, 'CPU', options) for way, options in ways.items()}
    print(name, {way: str(one.get_property('INFERENCE_PRECISION_HINT')) for way, one in compiled.items()})
    for number in range(INPUTS):
        feed = inputs(model, number)
        for key, x in feed.items():
            x.tofile(f'{folder}/{name}.{number}.in.{key}')
        result = exact.run(None, {key: x.astype(np.float64) if x.dtype == np.float32 else x for key, x in feed.items()})[0]
        assert result.dtype == np.float64
        result.tofile(f'{folder}/{name}.{number}.f64')
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
