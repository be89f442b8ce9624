"""Writes nodes.json: the node tests of PyPI's package onnx for operators whose results depend on values of the run, and some of Scan as
version 8 of the operators has it, which that package has but one of, computed here by their definition.

    python3 tests/onnx/nodes.py
"""

import base64
import json
import re
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")

import numpy
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

OPERATORS = """Compress ConcatFromSequence ConstantOfShape Expand If LinearAttention Loop NonMaxSuppression NonZero OneHot Optional
OptionalGetElement OptionalHasElement Pad Range Reshape RoiAlign Scan Sequence SequenceMap Slice Split SplitToSequence Tile
TopK Unique""".split()
# Types that there are arrays for.
TYPES = {1: "float", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool", 10: "float16", 11: "double"}


def form(info):
    """Whether it is optional, whether it is a sequence, and the type of its tensors."""
    type, is_optional, is_sequence = info.type, False, False
    if type.HasField("optional_type"):
        type, is_optional = type.optional_type.elem_type, True
    if type.HasField("sequence_type"):
        type, is_sequence = type.sequence_type.elem_type, True
    return is_optional, is_sequence, type.tensor_type if type.HasField("tensor_type") else None


def is_known(info):
    tensor = form(info)[2]
    return tensor is not None and tensor.elem_type in TYPES


def tensor_of(elements, value):
    array = numpy.asarray(value)
    data = array.astype(helper.tensor_dtype_to_np_dtype(elements)).tobytes()
    return {"shape": list(array.shape), "data": base64.b64encode(data).decode()}


def encoded(info, value):
    _, is_sequence, tensor = form(info)
    described = {"name": info.name, "type": TYPES[tensor.elem_type]}
    if value is None:
        return described | {"nothing": True}
    if is_sequence:
        return described | {"sequence": [tensor_of(tensor.elem_type, element) for element in value]}
    return described | tensor_of(tensor.elem_type, value)


def size(values):
    tensors = [tensor for value in values for tensor in value.get("sequence", [value])]
    return sum(len(tensor.get("data", "")) for tensor in tensors)


def wanted(case):
    name = re.sub(r"^test_|_expanded.*|_ver\d+$", "", case.name)
    starts = [re.sub(r"(?<!^)(?=[A-Z])", "_", operator).lower() for operator in OPERATORS]
    starts += [operator.lower() for operator in OPERATORS]
    return any(name == start or name.startswith(start + "_") or re.match(start + r"\d", name) for start in starts)


cases = []
for case in collect_testcases(None):
    model = case.model
    if model is None or not wanted(case) or not case.data_sets:
        continue
    infos = list(model.graph.input) + list(model.graph.output)
    if not all(is_known(info) for info in infos):
        continue
    inputs, outputs = case.data_sets[0]
    cases.append(
        {
            "name": case.name,
            "model": base64.b64encode(model.SerializeToString()).decode(),
            "inputs": [encoded(info, value) for info, value in zip(model.graph.input, inputs)],
            "outputs": [encoded(info, value) for info, value in zip(model.graph.output, outputs)],
        }
    )


def scan_of_batches(name, lengths, directions, widths=(2, 3), batch=3, most=4):
    """A Scan of version 8 with two states and two inputs, computed as its definition says: states go round in float64."""
    random = numpy.random.RandomState(len(name))
    value = lambda *shape: random.randint(-8, 9, shape).astype(numpy.float32) / 4
    a, b = widths
    sum0, count0 = value(batch, a), value(batch)
    x, y = value(batch, most, a), value(batch, most, b)
    scale = value(a)
    infos = lambda *list: [helper.make_tensor_value_info(name, 1, shape) for name, shape in list]
    body = helper.make_graph(
        [
            # Each step: sum = sum * scale + x; count = count + 1; what is shown is sum and y * count.
            helper.make_node("Mul", ["sum_in", "scale"], ["scaled"]),
            helper.make_node("Add", ["scaled", "x_in"], ["sum_out"]),
            helper.make_node("Add", ["count_in", "one"], ["count_out"]),
            helper.make_node("Identity", ["sum_out"], ["shown"]),
            helper.make_node("Mul", ["y_in", "count_out"], ["counted"]),
        ],
        "body",
        infos(("sum_in", [a]), ("count_in", []), ("x_in", [a]), ("y_in", [b])),
        infos(("sum_out", [a]), ("count_out", []), ("shown", [a]), ("counted", [b])),
        [numpy_helper.from_array(numpy.float32(1).reshape(()), "one")],
    )
    given = [] if lengths is None else [helper.make_tensor_value_info("lengths", 7, [batch])]
    attributes = {} if directions is None else {"directions": directions}
    names = ["" if lengths is None else "lengths", "sum0", "count0", "x", "y"]
    node = helper.make_node("Scan", names, ["sum", "count", "sums", "counts"], num_scan_inputs=2, body=body, **attributes)
    graph = helper.make_graph(
        [node],
        name,
        given + infos(("sum0", [batch, a]), ("count0", [batch]), ("x", [batch, most, a]), ("y", [batch, most, b])),
        infos(("sum", [batch, a]), ("count", [batch]), ("sums", [batch, most, a]), ("counts", [batch, most, b])),
        [numpy_helper.from_array(scale, "scale")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 8)], ir_version=4)
    sums, counts = numpy.zeros((batch, most, a)), numpy.zeros((batch, most, b))
    sum, count = sum0.astype(float), count0.astype(float)
    for at in range(batch):
        length = most if lengths is None else lengths[at]
        for run in range(length):
            place = lambda input: length - 1 - run if directions is not None and directions[input] else run
            sum[at] = sum[at] * scale + x[at, place(0)]
            count[at] += 1
            sums[at, run], counts[at, run] = sum[at], y[at, place(1)] * count[at]
    values = ([] if lengths is None else [numpy.array(lengths, dtype=numpy.int64)]) + [sum0, count0, x, y]
    return {
        "name": name,
        "model": base64.b64encode(model.SerializeToString()).decode(),
        "inputs": [encoded(info, value) for info, value in zip(graph.input, values)],
        "outputs": [encoded(info, value) for info, value in zip(graph.output, [sum, count, sums, counts])],
    }


cases += [
    scan_of_batches("scan_8_whole", None, None),
    scan_of_batches("scan_8_lengths", [4, 1, 3], None),
    scan_of_batches("scan_8_lengths_of_0", [0, 4, 0], [0, 0]),
    scan_of_batches("scan_8_backwards", [2, 4, 3], [1, 0]),
    scan_of_batches("scan_8_both_backwards", None, [1, 1], batch=1),
]
cases = [case for case in cases if size(case["inputs"] + case["outputs"]) < 20_000]
lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in sorted(cases, key=lambda case: case["name"]))
Path(__file__).with_name("nodes.json").write_text(f'{{"onnx":"{onnx.__version__}","cases":[\n{lines}\n]}}\n')
print(len(cases))
