"""How definitions.py and decoders.py write their cases as JSON."""

import json
import math
from pathlib import Path

import numpy as np
from onnx import helper


def plain(x):
    """A number as JSON has it; null for what is not specified."""
    if x is np.ma.masked:
        return None
    if isinstance(x, (bool, np.bool_, int, np.integer)):
        return int(x)
    # As many digits as tell it apart from others of float32, or more than any result here has.
    x = float(str(x)) if isinstance(x, np.float32) else float(f"{x:.12g}")
    if math.isnan(x):
        return "NaN"
    return x if math.isfinite(x) else ("Infinity" if x > 0 else "-Infinity")


def tensor(array):
    array = np.ma.asanyarray(array) if isinstance(array, np.ma.MaskedArray) else np.asarray(array)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    return {"type": kind, "shape": list(array.shape), "data": [plain(x) for x in array.ravel()]}


def attribute(value):
    if isinstance(value, np.ndarray):
        return {"tensor": tensor(value)}
    if isinstance(value, (list, tuple)):
        if any(isinstance(x, str) for x in value):
            return {"strings": list(value)}
        if any(isinstance(x, float) for x in value):
            return {"floats": [plain(np.float32(x)) for x in value]}
        return {"ints": [int(x) for x in value]}
    if isinstance(value, str):
        return {"string": value}
    return {"float": plain(np.float32(value))} if isinstance(value, float) else {"int": int(value)}


def write(name, versions, cases, refused):
    """Writes a file beside this one: the versions of the packages, and a case on each line."""
    both = [("cases", cases), ("refused", refused)]
    lists = [f'"{key}": [\n' + ",\n".join(json.dumps(item) for item in items) + "\n]" for key, items in both]
    text = "{\n" + f'"versions": {json.dumps(versions)},\n' + ",\n".join(lists) + "\n}\n"
    (Path(__file__).parent / name).write_text(text)
    print(f"{len(cases)} cases, {len(refused)} that are refused")
