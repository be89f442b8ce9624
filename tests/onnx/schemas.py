"""Writes schemas.json: the inputs and attributes of the operators that the importer maps, in all their versions.

Needs the packages onnx and onnxruntime of PyPI, whose versions are written down with them:

    python3 tests/onnx/schemas.py
"""

import json
import re
from pathlib import Path

import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

here = Path(__file__).parent
table = (here / "../../src/onnx/ops/mod.rs").read_text()


def rows():
    domain = None
    for line in table.splitlines():
        if found := re.fullmatch(r'    "([a-z.]*)" \{', line):
            domain = found[1]
        elif found := re.match(r'        "(\w+)" \d+ .*=>', line):
            yield domain, found[1]


def input_of(formal):
    mark = {"Single": "", "Optional": "?", "Variadic": "*"}[str(formal.option).split(".")[-1]]
    return formal.name + mark


def default_of(attribute):
    """The default as a text, or nothing where there is none."""
    value = attribute.default_value if hasattr(attribute, "default_value") else attribute._default_value
    if isinstance(value, bytes):
        value = onnx.AttributeProto.FromString(value)
    if value.type == 0:
        return None
    value = onnx.helper.get_attribute_value(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float):
        return f"{value:g}"
    return json.dumps(value, default=lambda part: part.decode())


def described(schema):
    attributes = {name: default_of(attribute) for name, attribute in sorted(schema.attributes.items())}
    return {"since": schema.since_version, "inputs": [input_of(formal) for formal in schema.inputs], "attributes": attributes}


found = {}
for schema in [*onnx.defs.get_all_schemas_with_history(), *get_all_operator_schema()]:
    versions = found.setdefault((schema.domain, schema.name), {})
    versions.setdefault(schema.since_version, described(schema))
operators = {}
for domain, name in rows():
    versions = found.get((domain, name), {})
    operators[f"{domain}::{name}"] = [versions[since] for since in sorted(versions)]

with open(here / "schemas.json", "w") as file:
    heads = [f'"onnx": "{onnx.__version__}"', f'"onnxruntime": "{onnxruntime.__version__}"']
    lines = [f"{json.dumps(name)}: {json.dumps(versions)}" for name, versions in operators.items()]
    file.write("{\n" + ",\n".join(heads) + ',\n"operators": {\n' + ",\n".join(lines) + "\n}\n}\n")
