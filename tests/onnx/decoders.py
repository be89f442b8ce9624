"""Writes decoders.json: operators of decoders with the results that their definitions say, computed here in float64.

    python3 tests/onnx/decoders.py

needs numpy and onnx. The cases are like those of definitions.py.
"""

import numpy as np
import onnx

from cases import attribute, tensor, write

MS = "com.microsoft::"
EPSILON = 2.0**-23
random = np.random.RandomState(45)
cases, refused = [], []



def described(name, operator, inputs, constants, given, outputs, opset, attributes):
    named = lambda values: [{"name": key, **tensor(value)} for key, value in values.items()]
    written = {key: attribute(value) for key, value in attributes.items()}
    node = {"operator": operator, "inputs": given, "outputs": [output["name"] for output in outputs], "attributes": written}
    return {
        "name": name, "opset": opset, "nodes": [node], "inputs": named(inputs), "initializers": named(constants), "outputs": outputs,
    }


def case(name, operator, inputs, expected, constants=None, given=None, opset=22, absolute=0.0, **attributes):
    """A node with its results. What is not a product of sums is as near as float32 is."""
    constants = constants or {}
    outputs = [
        {"name": f"y{i}", **tensor(result), "relative": 8 * EPSILON, "absolute": absolute if np.asarray(result).dtype.kind == "f" else 0.0}
        for i, result in enumerate(expected if isinstance(expected, tuple) else (expected,))
    ]
    given = given or [*inputs, *constants]
    cases.append(described(name, operator, inputs, constants, given, outputs, opset, attributes))


def refuse(name, reason, operator, inputs, constants=None, given=None, **attributes):
    constants = constants or {}
    model = described(name, operator, inputs, constants, given or [*inputs, *constants], [{"name": "y0"}], 22, attributes)
    refused.append({**model, "reason": reason})


def floats(*shape, scale=1.0):
    return (random.randn(*shape) * scale).astype(np.float32)


def f64(array):
    return np.asarray(array).astype(np.float64)


# What only moves elements.

x = floats(2, 3, 4)
case("Trilu", MS + "Trilu", {"x": x}, np.triu(x, 1), {"k": np.array(1, np.int64)})
case("Trilu, lower", MS + "Trilu", {"x": x}, np.tril(x), upper=0)
case("Pad", MS + "Pad", {"x": x}, np.pad(x, ((0, 1), (2, 0), (0, 3)), constant_values=7), {"pads": np.array([0, 2, 0, 1, 0, 3]), "value": np.float32(7)})
case("Pad with the edge", MS + "Pad", {"x": x}, np.pad(x, ((1, 0), (0, 2), (0, 0)), "edge"), {"pads": np.array([1, 0, 0, 0, 2, 0])}, mode="edge")
case("GatherND", MS + "GatherND", {"x": x, "i": np.array([[[0, 1], [1, 2]]])}, x[[0, 1], [1, 2]][None])
for axis in (0, 1, -1):
    case(f"ExpandDims {axis}", MS + "ExpandDims", {"x": x}, np.expand_dims(x, axis), {"axis": np.array(axis, np.int32)})

# Rotary embeddings of three positions


def rotated(x, cos, sin, interleaved=False):
    """[batch, heads, sequence, head] with [batch, sequence, half]."""
    half = cos.shape[-1]
    real, imaginary = (x[..., 0 : 2 * half : 2], x[..., 1 : 2 * half : 2]) if interleaved else (x[..., :half], x[..., half : 2 * half])
    cos, sin = cos[:, None], sin[:, None]
    first, second = real * cos - imaginary * sin, real * sin + imaginary * cos
    both = np.stack([first, second], -1).reshape(*first.shape[:-1], -1) if interleaved else np.concatenate([first, second], -1)
    return np.concatenate([both, x[..., 2 * half :]], -1)


angles = np.arange(20)[:, None] / 10 ** (np.arange(6) / 6)
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
positions = random.randint(0, 20, (3, 2, 5)).astype(np.int64)
x = floats(2, 3, 5, 16)
for layout, sections, name in [(0, [1, 2, 3], "sections"), (1, [2, 2, 2], "interleaved sections"), (1, [4, 1, 1], "few interleaved sections"), (0, [6, 0, 0], "one section")]:
    of = [0] * sections[0] + [1] * sections[1] + [2] * sections[2]
    if layout == 1:
        of = [1 if j % 3 == 1 and j < 3 * sections[1] else 2 if j % 3 == 2 and j < 3 * sections[2] else 0 for j in range(6)]
    pick = lambda cache: np.stack([f64(cache)[positions[stream]][..., j] for j, stream in enumerate(of)], -1)
    for pairs in (0, 1):
        expected = rotated(f64(x), pick(cos), pick(sin), bool(pairs))
        attributes = dict(mrope_section=sections, mrope_layout=layout, interleaved=pairs, rotary_embedding_dim=12, num_heads=3)
        case(f"MRotaryEmbedding, {name}, {pairs}", MS + "MRotaryEmbedding", {"x": x, "p": positions}, expected, {"cos": cos, "sin": sin}, absolute=1e-6, **attributes)
packed = x.transpose(0, 2, 1, 3).reshape(2, 5, 48)
case("MRotaryEmbedding of heads together", MS + "MRotaryEmbedding", {"x": packed, "p": positions}, rotated(f64(x), pick(cos), pick(sin)).transpose(0, 2, 1, 3).reshape(2, 5, 48), {"cos": cos, "sin": sin}, absolute=1e-6, mrope_section=[6, 0, 0], rotary_embedding_dim=12, num_heads=3)
refuse("MRotaryEmbedding, other sections", "sections of [1, 2, 2] for caches of 6 elements", MS + "MRotaryEmbedding", {"x": x, "p": positions}, {"cos": cos, "sin": sin}, mrope_section=[1, 2, 2], rotary_embedding_dim=12, num_heads=3)

# Convolutions with a state


def convolved(x, weight, bias, past, dilation, silu):
    """[batch, channels, length]"""
    width, length = weight.shape[-1], x.shape[-1]
    remembered = (width - 1) * dilation
    all = np.concatenate([past, x], -1)
    y = sum(weight[None, :, 0, j, None] * all[..., j * dilation : j * dilation + length] for j in range(width)) + bias[None, :, None]
    return (y / (1 + np.exp(-y)) if silu else y), all[..., -remembered:]


for dilation, last, silu in [(1, 0, "none"), (2, 0, "silu"), (3, 1, "none"), (1, 1, "swish")]:
    x, weight, bias, past = floats(2, 3, 4), floats(3, 1, 3), floats(3), floats(2, 3, 2 * dilation)
    y, state = convolved(f64(x), f64(weight), f64(bias), f64(past), dilation, silu != "none")
    turn = (lambda a: a.transpose(0, 2, 1)) if last else (lambda a: a)
    inputs = {"x": turn(x), "w": weight, "b": bias, "past": turn(past)}
    case(f"CausalConvWithState {dilation} {last}", MS + "CausalConvWithState", inputs, (turn(y), turn(state)), absolute=4e-6, dilation=dilation, channels_last=last, activation=silu)

# Attention of one query


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def heads(x, count):
    return x.reshape(x.shape[0], x.shape[1], count, -1).transpose(0, 2, 1, 3)


q, k, v, bias = floats(2, 1, 8), floats(2, 1, 8), floats(2, 1, 8), floats(24)
past_k, past_v, more = floats(2, 2, 3, 4), floats(2, 2, 3, 4), floats(1, 2, 1, 4)
mask = np.array([[1, 1, 1, 1], [0, 1, 0, 1]], np.int32)
wide = [f64(a) + f64(b) for a, b in zip([q, k, v], np.split(bias, 3))]
keys = np.concatenate([f64(past_k), heads(wide[1], 2)], 2)
values = np.concatenate([f64(past_v), heads(wide[2], 2)], 2)
scores = heads(wide[0], 2) @ keys.transpose(0, 1, 3, 2) / 2 + f64(more) + np.where(mask, 0, -10000.0)[:, None, None]
result = (softmax(scores) @ values).transpose(0, 2, 1, 3).reshape(2, 1, 8)
inputs = {"q": q, "k": k, "v": v, "mask": mask, "more": more, "pk": past_k, "pv": past_v, "bias": bias}
given = ["q", "k", "v", "mask", "more", "pk", "pv", "", "", "", "bias"]
case("DecoderMaskedMultiHeadAttention", MS + "DecoderMaskedMultiHeadAttention", inputs, (result, keys, values), given=given, absolute=4e-6, num_heads=2)
scores = heads(f64(q), 2) @ f64(past_k).transpose(0, 1, 3, 2) / 2
result = (softmax(scores) @ f64(past_v)).transpose(0, 2, 1, 3).reshape(2, 1, 8)
case("DecoderMaskedMultiHeadAttention of another sequence", MS + "DecoderMaskedMultiHeadAttention", {"q": q, "k": past_k, "v": past_v}, result, absolute=4e-6, num_heads=2)
refuse("DecoderMaskedMultiHeadAttention of two queries", "queries of shape [2, 2, 8]", MS + "DecoderMaskedMultiHeadAttention", {"q": floats(2, 2, 8), "k": k, "v": v}, num_heads=2)

# Norms of queries and keys

q, k, v, of_q, of_k = floats(1, 2, 8), floats(1, 2, 4), floats(1, 2, 4), floats(4), floats(4)
norm = lambda x, weight: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3) * f64(weight)
nq, nk = norm(heads(f64(q), 2), of_q), norm(heads(f64(k), 1), of_k)
scores = nq @ nk.transpose(0, 1, 3, 2) / 2 + np.triu(np.full((2, 2), -np.inf), 1)
result = (softmax(scores) @ heads(f64(v), 1)).transpose(0, 2, 1, 3).reshape(1, 2, 8)
inputs = {"q": q, "k": k, "v": v, "last": np.array([1], np.int32), "of_q": of_q, "of_k": of_k}
given = ["q", "k", "v", "", "", "last", "total", *[""] * 7, "of_q", "of_k"]
case("GroupQueryAttention with norms", MS + "GroupQueryAttention", inputs, (result, nk, heads(f64(v), 1)), {"total": np.array([2], np.int32)}, given, absolute=4e-6, num_heads=2, kv_num_heads=1, qk_norm_epsilon=1e-3)

# Mixtures of experts


def mixture(x, router, w1, b1, w2, b2, k, activation, normalize):
    rows = f64(x).reshape(-1, x.shape[-1])
    result = np.zeros_like(rows)
    for t, row in enumerate(rows):
        best = np.argsort(-f64(router[t]), kind="stable")[:k]
        share = softmax(f64(router[t]))[best]
        for expert, part in zip(best, share / share.sum() if normalize else share):
            inside = activation(f64(w1[expert]) @ row + f64(b1[expert]))
            result[t] += part * (f64(w2[expert]) @ inside + f64(b2[expert]))
    return result.reshape(x.shape)


def gated(alpha, beta, limit, interleaved):
    def activation(z):
        gate, up = (z[0::2], z[1::2]) if interleaved else np.split(z, 2)
        gate, up = np.minimum(gate, limit), np.clip(up, -limit, limit)
        return gate / (1 + np.exp(-alpha * gate)) * (up + beta)

    return activation


simple = {
    "relu": lambda z: np.maximum(z, 0),
    "silu": lambda z: z / (1 + np.exp(-z)),
    "identity": lambda z: z,
    # As onnxruntime computes it.
    "gelu": lambda z: 0.5 * z * (1 + np.tanh(np.sqrt(2 / np.pi) * (z + 0.044715 * z**3))),
}
swiglu = dict(activation_type="swiglu", activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.75)
kinds = [({"activation_type": name}, of) for name, of in simple.items()]
kinds += [({**swiglu, "swiglu_fusion": 1}, gated(np.float32(1.702), 1, 0.75, True)), ({**swiglu, "swiglu_fusion": 2}, gated(np.float32(1.702), 1, 0.75, False))]
for shape, k in [((2, 3, 8), 2), ((1, 8), 2), ((1, 1, 8), 1)]:
    for attributes, activation in kinds:
        width = 12 if "swiglu_fusion" in attributes else 6
        tokens, normalize = int(np.prod(shape[:-1])), k % 2
        x, router, w1, b1, w2, b2 = floats(*shape), floats(tokens, 5), floats(5, width, 8), floats(5, width), floats(5, 8, 6), floats(5, 8)
        expected = mixture(x, router, w1, b1, w2, b2, k, activation, normalize)
        weights = {"w1": w1, "b1": b1, "w2": w2, "b2": b2}
        name = f"MoE {attributes['activation_type']} {attributes.get('swiglu_fusion', '')} of {tokens} tokens"
        case(name, MS + "MoE", {"x": x, "router": router}, expected, weights, absolute=4e-5, k=k, normalize_routing_weights=normalize, **attributes)

# Quantized caches

for bits, kind in [(8, "PER_TENSOR"), (8, "PER_CHANNEL"), (4, "PER_TENSOR"), (4, "PER_CHANNEL")]:
    q, k, v = floats(1, 2, 16), floats(1, 2, 8), floats(1, 2, 8)
    scale = np.float32([0.2]) if kind == "PER_TENSOR" else (0.1 + 0.2 * random.rand(1, 1, 1, 8)).astype(np.float32)
    most = 2 ** (bits - 1)
    coded = lambda x: np.clip(np.rint(x / scale), -most, most - 1)
    old = [random.randint(-most, most, (1, 1, 3, 8)).astype(np.float64) for _ in range(2)]
    # Not at a half between two numbers, where float32 may round to the other one.
    all = [np.concatenate([a, coded(heads(f64(b), 1))], 2) for a, b in zip(old, [k, v])]
    held = (lambda x: x.astype(np.int8)) if bits == 8 else (lambda x: ((x[..., 0::2] + 8) + 16 * (x[..., 1::2] + 8)).astype(np.uint8))
    keys, values = all[0] * f64(scale), all[1] * f64(scale)
    scores = heads(f64(q), 2) @ keys.transpose(0, 1, 3, 2) / np.sqrt(8) + np.triu(np.full((2, 5), -np.inf), 4)
    result = (softmax(scores) @ values).transpose(0, 2, 1, 3).reshape(1, 2, 16)
    inputs = {"q": q, "k": k, "v": v, "pk": held(old[0]), "pv": held(old[1]), "last": np.array([4], np.int32)}
    given = ["q", "k", "v", "pk", "pv", "last", "total", *[""] * 5, "scale", "scale"]
    attributes = dict(num_heads=2, kv_num_heads=1, k_quant_type=kind, v_quant_type=kind, kv_cache_bit_width=bits)
    case(f"GroupQueryAttention, a cache of {bits} bits, {kind}", MS + "GroupQueryAttention", inputs, (result, held(all[0]), held(all[1])), {"total": np.array([5], np.int32), "scale": scale}, given, absolute=2e-5, **attributes)

write("decoders.json", {"onnx": onnx.__version__}, cases, refused)
