"""Writes nodes.json: the node tests of PyPI's package onnx for operators whose results depend on values of the run.

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


def is_tensor(info):
    return info.type.HasField("tensor_type") and info.type.tensor_type.elem_type in TYPES


def encoded(info, value):
    array = numpy.asarray(value)
    return {
        "name": info.name,
        "type": TYPES[info.type.tensor_type.elem_type],
        "shape": list(array.shape),
        "data": base64.b64encode(array.astype(helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)).tobytes()).decode(),
    }


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
    if not all(is_tensor(info) for info in infos):
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
cases = [case for case in cases if sum(len(value["data"]) for value in case["inputs"] + case["outputs"]) < 20_000]
lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in sorted(cases, key=lambda case: case["name"]))
Path(__file__).with_name("nodes.json").write_text(f'{{"onnx":"{onnx.__version__}","cases":[\n{lines}\n]}}\n')
print(len(cases))
