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

# Linear recurrences


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def recurrence(q, k, v, state, decay=None, rate=None, scale=1.0, window=1):
    """[batch, tokens, heads, size], a state of [batch, heads, key size, value size]; a decay of [batch, tokens, heads, key size or 1], a
    rate of [batch, tokens, heads]. The results, and the states after the last tokens."""
    tokens, heads, results, states = q.shape[1], v.shape[2], [], [np.zeros_like(state)] * window
    key_of = lambda x: np.repeat(x, heads // x.shape[1], 1) if x.shape[1] < heads else x
    for t in range(tokens):
        key, value = key_of(k[:, t]), v[:, t]
        if decay is not None:
            state = state * np.exp(decay[:, t])[..., None]
        if rate is not None:
            value = rate[:, t, :, None] * (value - np.einsum("bhkv,bhk->bhv", state, key))
        state = state + key[..., :, None] * value[..., None, :]
        query = key_of(q[:, t])
        results.append(scale * np.einsum("bhkv,bhk->bhv", np.repeat(state, query.shape[1] // heads, 1), query))
        states.append(state)
    return np.stack(results, 1), np.stack(states[-window:])


def joined(x):
    return x.reshape(*x.shape[:2], -1)


RULES = ["linear", "gated", "delta", "gated_delta"]
for number, (rule, query_heads, key_heads, value_heads, by_row, window, scale) in enumerate([
    ("linear", 2, 2, 2, False, 0, 0.0), ("gated", 2, 2, 2, True, 0, 0.0), ("gated", 4, 2, 2, False, 0, 0.5), ("delta", 3, 3, 3, False, 0, 0.0),
    ("gated_delta", 2, 2, 2, False, 0, 1.0), ("gated_delta", 4, 2, 2, True, 0, 0.0), ("gated_delta", 2, 2, 4, False, 0, 1.0),
    ("gated_delta", 2, 2, 2, False, 3, 0.0), ("gated_delta", 2, 2, 2, True, 8, 0.0),
]):
    batch, tokens, width, depth = 2, 5, 4, 6
    unit = lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True))
    q, k, v = floats(batch, tokens, query_heads, width), unit(floats(batch, tokens, key_heads, width)), floats(batch, tokens, value_heads, depth)
    slots = floats(max(window, 1), batch, value_heads, width, depth)
    decay = -np.abs(floats(batch, tokens, value_heads, width if by_row else 1))
    rate = np.float32(sigmoid(floats(batch, tokens, value_heads)))
    given = [f64(x) for x in (q, k, v, slots[-1])]
    result, states = recurrence(*given, f64(decay) if "gated" in rule else None, f64(rate) if "delta" in rule else None, scale or 0.5, max(window, 1))
    inputs = {"q": joined(q), "k": joined(k), "v": joined(v), "past": slots if window else slots[0]}
    if "gated" in rule:
        inputs["decay"] = joined(decay)
    if "delta" in rule:
        inputs["rate"] = rate
    names = ["q", "k", "v", "past", "decay" if "gated" in rule else "", "rate" if "delta" in rule else ""]
    attributes = dict(q_num_heads=query_heads, kv_num_heads=value_heads, update_rule=rule, scale=scale)
    expected = (joined(result), states if window else states[0])
    title = f"LinearAttention, {rule}, {query_heads} and {value_heads} heads{', rows' if by_row else ''}"
    if value_heads <= query_heads and not window:
        case(title, "LinearAttention", inputs, expected, given=names, opset=27, absolute=2e-5, **attributes)
    case(f"{title} of com.microsoft{f', {window} states' if window else ''}", MS + "LinearAttention", inputs, expected, given=names, absolute=2e-5, **attributes, **({"state_window": window} if window else {}))

q, k, v = (floats(1, 3, 8) for _ in range(3))
result, states = recurrence(*(f64(x).reshape(1, 3, 2, 4) for x in (q, k, v)), np.zeros((1, 2, 4, 4)), scale=0.5)
case("LinearAttention without a state", MS + "LinearAttention", {"q": q, "k": k, "v": v}, (joined(result), states[0]), absolute=2e-5, q_num_heads=2, kv_num_heads=2, update_rule="linear")
refuse("LinearAttention, gated without a decay", "the update rule \"gated\" needs the input decay", MS + "LinearAttention", {"q": q, "k": k, "v": v}, q_num_heads=2, kv_num_heads=2, update_rule="gated")
refuse("LinearAttention, another rule", "the update rule \"other\"", MS + "LinearAttention", {"q": q, "k": k, "v": v}, q_num_heads=2, kv_num_heads=2, update_rule="other")
refuse("LinearAttention, many states", "the attribute state_window is 9, allowed 0 to 8", MS + "LinearAttention", {"q": q, "k": k, "v": v}, q_num_heads=2, kv_num_heads=2, update_rule="linear", state_window=9)

a, b, bias, factor = floats(2, 3, 4), floats(2, 3, 4), floats(4), -np.abs(floats(4))
case("LinearAttentionGate", MS + "LinearAttentionGate", {"a": a, "b": b}, (f64(factor) * softplus(f64(a) + f64(bias)), sigmoid(f64(b))), {"bias": bias, "factor": factor}, ["a", "bias", "factor", "b"], absolute=1e-6)
case("LinearAttentionGate without a rate", MS + "LinearAttentionGate", {"a": a}, f64(factor) * softplus(f64(a) + f64(bias)), {"bias": bias, "factor": factor}, absolute=1e-6)

x, gate, scale = floats(2, 3, 8), floats(2, 3, 8), floats(4)
apart = f64(x).reshape(2, 3, 2, 4)
normal = (apart / np.sqrt((apart * apart).mean(-1, keepdims=True) + 1e-3) * f64(scale)).reshape(2, 3, 8)
for activation, of in [("silu", f64(gate) * sigmoid(f64(gate))), ("sigmoid", sigmoid(f64(gate)))]:
    case(f"GatedRMSNorm, {activation}", MS + "GatedRMSNorm", {"x": x, "gate": gate}, normal * of, {"scale": scale}, ["x", "scale", "gate"], absolute=2e-6, epsilon=1e-3, activation=activation)
gate = floats(2, 3, 1)
case("GatedAdd", MS + "GatedAdd", {"x": x, "y": x[::-1].copy(), "gate": gate}, f64(x) + f64(x[::-1]) * f64(gate), absolute=1e-6)

for rule, gate_activation, rate_activation, normalize, uneven, packed, by_row in [
    ("gated_delta", "none", "none", 0, False, False, False), ("gated_delta", "softplus", "sigmoid", 1, True, False, False),
    ("gated_delta", "kda", "none", 1, False, False, True), ("gated", "none", "none", 0, True, False, True),
    ("delta", "none", "sigmoid", 1, False, True, False), ("linear", "none", "none", 0, False, True, False),
    ("gated_delta", "softplus", "sigmoid", 1, True, True, True),
]:
    tokens, query_heads, value_heads, width, depth = 6, 2, 4, 4, 3
    ends = np.array([0, 1, 4, 6] if uneven else [0, 3, 6], np.int32)
    batch = len(ends) - 1
    q, k, v = floats(tokens, query_heads, width), floats(tokens, query_heads, width), floats(tokens, value_heads, depth)
    if not normalize:
        k = unit(k)
    state = floats(batch, value_heads, depth, width)
    decay = -np.abs(floats(tokens, value_heads, width)) if by_row else -np.abs(floats(tokens, value_heads))
    rate = floats(tokens, value_heads) if rate_activation == "sigmoid" else np.float32(sigmoid(floats(tokens, value_heads)))
    logarithm = floats(value_heads)
    of_gate = floats(value_heads, width) if by_row else floats(value_heads)
    of_heads = lambda x: f64(x)[:, None] if by_row else f64(x)
    g = f64(decay)
    if gate_activation == "softplus":
        g = -np.exp(of_heads(logarithm)) * softplus(g + f64(of_gate))
    elif gate_activation == "kda":
        g = -5 * sigmoid(np.exp(of_heads(logarithm)) * (g + f64(of_gate)))
    g = g if by_row else g[..., None]
    of_rate = sigmoid(f64(rate)) if rate_activation == "sigmoid" else f64(rate)
    norm = (lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True) + 1e-6)) if normalize else (lambda x: x)
    results, states = [], []
    for i in range(batch):
        part = slice(ends[i], ends[i + 1])
        one = lambda x: x[None, part]
        if "delta" in rule:
            values, of_part = f64(v), one(of_rate)
        else:
            values, of_part = f64(v), None
        result, after = recurrence(one(norm(f64(q))), one(norm(f64(k))), one(values), f64(state[i : i + 1]).transpose(0, 1, 3, 2), one(g) if "gated" in rule else None, of_part, 0.5)
        results.append(result[0])
        states.append(after[0].transpose(0, 1, 3, 2))
    inputs = {"q": np.concatenate([x.reshape(tokens, -1) for x in (q, k, v)], 1)} if packed else {"q": q, "k": k, "v": v}
    inputs.update({"state": state})
    if "gated" in rule:
        inputs["decay"] = decay
    if "delta" in rule:
        inputs["rate"] = rate
    activated = gate_activation != "none"
    constants = {"ends": ends} if uneven else {}
    if activated:
        constants.update({"logarithm": logarithm, "of_gate": of_gate})
    names = [*(["q", "", ""] if packed else ["q", "k", "v"]), "ends" if uneven else "", "decay" if "gated" in rule else "", "rate" if "delta" in rule else "", "state", *(["logarithm", "of_gate"] if activated else [])]
    attributes = dict(update_rule=rule, gate_activation=gate_activation, beta_activation=rate_activation, qk_l2_norm=normalize)
    case(f"GatedDeltaNet, {rule}, {gate_activation}, {rate_activation}{', uneven' if uneven else ''}{', packed' if packed else ''}{', rows' if by_row else ''}", MS + "GatedDeltaNet", inputs, (np.concatenate(results), np.concatenate(states)), constants, names, absolute=2e-5, **attributes)

x, weight, bias, past = floats(7, 3), floats(3, 1, 3), floats(3), floats(3, 3, 4)
ends, counts = np.array([0, 1, 5, 7], np.int32), np.array([1, 2, 0], np.int32)
parts = [convolved(f64(x[a:b]).T[None], f64(weight), f64(bias), f64(past[i : i + 1]), 2, True) for i, (a, b) in enumerate(zip(ends, ends[1:]))]
results, states = np.concatenate([y[0].T for y, _ in parts]), np.concatenate([state for _, state in parts])
captured = np.zeros((3, 3, 3))
for i, count in enumerate(counts):
    count = min(count, 3, ends[i + 1] - ends[i])
    captured[i, :count] = x[ends[i] : ends[i] + count]
inputs = {"x": x, "w": weight, "b": bias, "past": past, "counts": counts}
case("VarlenCausalConvWithState", MS + "VarlenCausalConvWithState", inputs, (results, states, captured), {"ends": ends}, ["x", "w", "ends", "b", "past", "counts"], absolute=4e-6, dilation=2, activation="silu", state_update_capacity=3)

for last, window in [(0, 2), (1, 6)]:
    x, past = floats(2, 3, 4), floats(window, 2, 3, 2)
    y, _ = convolved(f64(x), f64(weight), f64(bias), f64(past[-1]), 1, False)
    all = np.concatenate([f64(past[-1]), f64(x)], -1)
    states = np.stack([np.zeros((2, 3, 2))] * max(window - 4, 0) + [all[..., t + 1 : t + 3] for t in range(max(4 - window, 0), 4)])
    turn = (lambda a: a.swapaxes(-1, -2)) if last else (lambda a: a)
    case(f"CausalConvWithState, {window} states {last}", MS + "CausalConvWithState", {"x": turn(x), "w": weight, "b": bias, "past": turn(past)}, (turn(y), turn(states)), absolute=4e-6, channels_last=last, state_window=window)
x, past = floats(2, 4, 8), floats(2, 3, 5)
y, _ = convolved(f64(x[..., 2:5]).transpose(0, 2, 1), f64(weight), f64(bias), f64(past[..., 3:]), 1, False)
states = np.concatenate([f64(past), f64(x[..., 2:5]).transpose(0, 2, 1)], -1)[..., -5:]
captured = np.concatenate([x[..., 2:5], np.zeros((2, 2, 3), np.float32)], 1)
case("CausalConvWithState of some channels", MS + "CausalConvWithState", {"x": x, "w": weight, "b": bias, "past": past}, (y.transpose(0, 2, 1), states, captured), absolute=4e-6, channels_last=1, input_channel_offset=2, input_channels=3, state_channels_last=0, state_length=5, state_update_capacity=6)

# Inverses

x = floats(2, 3, 4, 4) + 3 * np.eye(4, dtype=np.float32)
case("Inverse", MS + "Inverse", {"x": x}, np.linalg.inv(f64(x)), absolute=1e-5)

# Caches that follow a window, chunks that are padded, and scores as results


def resident(total, capacity, width):
    """How many positions a cache has after so many."""
    chunk = capacity - width + 1
    return total if total <= capacity else total - chunk * -(-(total - capacity) // chunk)


def windowed(q, k, v, totals, counts, width, capacity, held, bias=None, turn=None, groups=2, sinks=None, window=None):
    """Results of queries [batch, heads, sequence, size] of which `counts` are valid, and the caches, each a list of the rows that count.
    `held` has all keys and values before, from the first position on."""
    batch, heads, length, size = q.shape
    results, caches = np.full(q.shape, np.nan), []
    for b in range(batch):
        total, count = totals[b], counts[b]
        past = total - count
        at = np.arange(past, total)
        new_k = np.stack([turn(x, at) if turn else x for x in k[b, :, :count]])
        all_k, all_v = np.concatenate([held[0][b][:, :past], new_k], 1), np.concatenate([held[1][b][:, :past], v[b, :, :count]], 1)
        kept = resident(total, capacity, width) if width else total
        caches.append((all_k[:, total - kept :], all_v[:, total - kept :]))
        near = width or window
        for h in range(heads):
            query = turn(q[b, h, :count], at) if turn else q[b, h, :count]
            scores = query @ all_k[h // groups].T / np.sqrt(size)
            if bias is not None:
                scores = scores + bias[b % bias.shape[0], h % bias.shape[1], :count, :total]
            sees = (np.arange(total) <= at[:, None]) & ((np.arange(total) > at[:, None] - near) if near else True)
            results[b, h, :count] = softmax(np.where(sees, scores, -np.inf)) @ all_v[h // groups]
    return results, caches


def unspecified(x):
    """NaN stands for what may be anything."""
    return np.ma.masked_invalid(x)


def turned(x, at):
    return rotated(x[None, None], np.cos(angles[at])[None], np.sin(angles[at])[None])[0, 0]


angles = np.arange(40)[:, None] / 10 ** (np.arange(8) / 8)
cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
for name, batch, length, totals, counts, width, capacity, rotary, bias in [
    ("one more", 2, 1, [6, 3], None, 3, 4, False, False), ("one more, the cache as wide as the window", 2, 1, [9, 2], None, 4, 4, True, False),
    ("many at once", 1, 7, [9], None, 3, 5, True, False), ("a prompt", 2, 7, [7, 7], None, 3, 5, True, False),
    ("with a bias", 2, 1, [12, 5], None, 3, 6, True, True), ("padded chunks", 3, 4, [9, 3, 6], [2, 3, 0], 3, 5, True, False),
    ("padded chunks of whole caches", 3, 3, [8, 2, 5], [2, 1, 0], 0, 12, True, False), ("padded chunks with a window", 2, 3, [8, 2], [3, 1], 0, 12, False, False),
]:
    counts_of = counts or [min(length, total) for total in totals]
    q, k, v = floats(batch, 4, length, 16), floats(batch, 2, length, 16), floats(batch, 2, length, 16)
    held = [[floats(2, 40, 16) for _ in range(batch)] for _ in range(2)]
    more = floats(1, 4, length, max(totals)) if bias else None
    window = 3 if name.endswith("with a window") else None
    result, caches = windowed(f64(q), f64(k), f64(v), totals, counts_of, width, capacity, [[f64(x) for x in part] for part in held], more, turned if rotary else None, window=window)
    pasts = np.zeros((2, batch, 2, capacity, 16), np.float32)
    presents = np.full((2, batch, 2, capacity, 16), np.nan)
    for b in range(batch):
        before = totals[b] - counts_of[b]
        old = resident(before, capacity, width) if width else before
        for part in range(2):
            pasts[part, b, :, :old] = held[part][b][:, before - old : before]
            presents[part, b, :, : caches[b][part].shape[1]] = caches[b][part]
    packed = lambda x: x.transpose(0, 2, 1, 3).reshape(batch, length, -1)
    inputs = {"q": packed(q), "k": packed(k), "v": packed(v), "pk": pasts[0], "pv": pasts[1], "last": np.array(totals, np.int32) - 1}
    if counts:
        inputs["counts"] = np.array(counts, np.int32)
    constants = {"total": np.array([max(totals)], np.int32)}
    if rotary:
        constants.update({"cos": cos, "sin": sin})
    if bias:
        inputs["more"] = more
    given = ["q", "k", "v", "pk", "pv", "last", "total", *(["cos", "sin"] if rotary else ["", ""]), "", "more" if bias else "", *[""] * 5, *(["counts"] if counts else [])]
    attributes = dict(num_heads=4, kv_num_heads=2, do_rotary=int(rotary))
    if width:
        attributes.update(local_window_size=width, sliding_window_cache=1)
    elif window:
        attributes.update(local_window_size=window)
    case(f"GroupQueryAttention, a cache that follows the window: {name}" if width else f"GroupQueryAttention, {name}", MS + "GroupQueryAttention", inputs, (unspecified(packed(result)), *map(unspecified, presents)), constants, given, absolute=4e-6, **attributes)

for kind, softcap, past in [(1, 0.0, 0), (2, 0.0, 0), (1, 2.0, 2), (2, 2.0, 2)]:
    q, k, v = floats(1, 2, 16), floats(1, 2, 8), floats(1, 2, 8)
    old_k, old_v = floats(1, 1, past, 8), floats(1, 1, past, 8)
    keys, values = np.concatenate([f64(old_k), heads(f64(k), 1)], 2), np.concatenate([f64(old_v), heads(f64(v), 1)], 2)
    scores = heads(f64(q), 2) @ keys.transpose(0, 1, 3, 2) / np.sqrt(8)
    if softcap:
        scores = softcap * np.tanh(scores / softcap)
    hidden = np.triu(np.full((2, 2 + past), -np.inf), 1 + past)
    weights = softmax(scores + hidden)
    result = (weights @ values).transpose(0, 2, 1, 3).reshape(1, 2, 16)
    inputs = {"q": q, "k": k, "v": v, **({"pk": old_k, "pv": old_v} if past else {}), "last": np.array([1 + past], np.int32)}
    shown = np.where(hidden == 0, scores, np.nan) if kind == 1 else weights
    case(f"GroupQueryAttention, scores {kind}, {softcap}", MS + "GroupQueryAttention", inputs, (result, keys, values, unspecified(shown)), {"total": np.array([2 + past], np.int32)}, ["q", "k", "v", *(["pk", "pv"] if past else ["", ""]), "last", "total"], absolute=4e-6, num_heads=2, kv_num_heads=1, qk_output=kind, softcap=softcap)

# Attention to some blocks

for name, length, totals, rotary, packs in [("a prompt", 20, [20, 20], True, False), ("one more", 1, [37, 18], True, True), ("some more", 3, [34], False, False)]:
    batch, block, most, head = len(totals), 16, 3, 8
    masks = np.tril(random.randint(0, 2, (2, most, most))) | np.eye(most, dtype=int)
    rows = np.array([[0, *np.cumsum(mask.sum(1))] for mask in masks], np.int32)
    nonzero = [np.nonzero(mask)[1] for mask in masks]
    columns = np.full((2, max(map(len, nonzero))), -1, np.int32)
    for i, list in enumerate(nonzero):
        columns[i, : len(list)] = list
    q, k, v = floats(batch, 4, length, head), floats(batch, 2, length, head), floats(batch, 2, length, head)
    half = np.arange(most * block)[:, None] / 10 ** (np.arange(4) / 4)
    turn = lambda x, at: rotated(x[None, None], np.cos(half[at])[None], np.sin(half[at])[None])[0, 0] if rotary else x
    pasts, presents, result = floats(2, batch, 2, most * block, head), None, np.zeros((batch, 4, length, head))
    presents = f64(pasts)
    for b, total in enumerate(totals):
        at = np.arange(total - length, total)
        presents[0, b, :, at] = np.stack([turn(f64(x), at) for x in k[b]]).transpose(1, 0, 2)
        presents[1, b, :, at] = f64(v[b]).transpose(1, 0, 2)
        for h in range(4):
            seen = (np.arange(total) <= at[:, None]) & (masks[h % 2][at[:, None] // block, np.arange(total) // block] > 0)
            scores = turn(f64(q[b, h]), at) @ presents[0, b, h // 2, :total].T / np.sqrt(head)
            result[b, h] = softmax(np.where(seen, scores, -np.inf)) @ presents[1, b, h // 2, :total]
    written = presents.copy()
    for b, total in enumerate(totals):
        written[:, b, :, total:] = np.nan
    packed = lambda x: x.transpose(0, 2, 1, 3).reshape(batch, length, -1)
    inputs = {"q": np.concatenate([packed(x) for x in (q, k, v)], -1)} if packs else {"q": packed(q), "k": packed(k), "v": packed(v)}
    inputs.update({"pk": pasts[0], "pv": pasts[1], "totals": np.array(totals, np.int32)})
    constants = {"rows": rows, "columns": columns, "total": np.array(max(totals), np.int32)}
    if rotary:
        constants.update({"cos": np.cos(half).astype(np.float32), "sin": np.sin(half).astype(np.float32)})
    given = [*(["q", "", ""] if packs else ["q", "k", "v"]), "pk", "pv", "rows", "columns", "total", "totals", *(["cos", "sin"] if rotary else [])]
    case(f"SparseAttention, {name}", MS + "SparseAttention", inputs, (packed(result), *map(unspecified, written)), constants, given, absolute=1e-5, num_heads=4, kv_num_heads=2, sparse_block_size=block, do_rotary=int(rotary))

# More mixtures: a third layer, weights of few bits


def experts(x, shares, w1, b1, w2, b2, activation, w3=None):
    """The experts that have a share, of each token."""
    rows = f64(x).reshape(-1, x.shape[-1])
    result = np.zeros_like(rows)
    for t, row in enumerate(rows):
        for expert in np.nonzero(shares[t])[0]:
            inside = w1[expert] @ row + b1[expert]
            inside = activation(inside) if w3 is None else activation(inside, w3[expert] @ row)
            result[t] += shares[t, expert] * (w2[expert] @ inside + b2[expert])
    return result.reshape(x.shape)


def shared(router, k, of=None, normalize=True):
    shares = np.zeros(router.shape)
    for t, row in enumerate(f64(router)):
        best = np.argsort(-row, kind="stable")[:k]
        part = softmax(row)[best] if of is None else f64(of[t])[best]
        shares[t, best] = part / part.sum() if normalize else part
    return shares


silu = lambda z: z / (1 + np.exp(-z))
tanh_gelu = simple["gelu"]
two = lambda act: lambda gate, up: act(gate) * up


def limited(gate, up):
    return np.minimum(gate / (1 + np.exp(-np.float32(1.702) * gate)), 0.75) * (np.clip(up, -0.75, 0.75) + 1)


for tokens in (1, 4):
    for name, activation, attributes in [
        ("silu", two(silu), {}), ("relu", two(simple["relu"]), {}), ("swiglu", two(silu), {}),
        ("swiglu", limited, dict(activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.75, swiglu_limit_after_activation=1)),
    ]:
        x, router, w1, b1, w2, b2, w3 = floats(tokens, 8), floats(tokens, 5), floats(5, 6, 8), floats(5, 6), floats(5, 8, 6), floats(5, 8), floats(5, 6, 8)
        expected = experts(x, shared(router, 2, normalize=False), f64(w1), f64(b1), f64(w2), f64(b2), activation, f64(w3))
        case(f"MoE {name}{', limited later' if attributes else ''}, three layers, {tokens} tokens", MS + "MoE", {"x": x, "router": router}, expected, {"w1": w1, "b1": b1, "w2": w2, "b2": b2, "w3": w3}, absolute=4e-5, k=2, activation_type=name, **attributes)
    x, router, w1, b1, w2, b2 = floats(tokens, 8), floats(tokens, 5), floats(5, 12, 8), floats(5, 12), floats(5, 8, 6), floats(5, 8)
    expected = experts(x, shared(router, 2, normalize=False), f64(w1), f64(b1), f64(w2), f64(b2), lambda z: tanh_gelu(z[:6]) * z[6:])
    case(f"MoE geglu, {tokens} tokens", MS + "MoE", {"x": x, "router": router}, expected, {"w1": w1, "b1": b1, "w2": w2, "b2": b2}, absolute=4e-5, k=2, activation_type="geglu", swiglu_fusion=2)


def packed_bits(codes, bits):
    """Rows of codes, the first one in the lowest bits."""
    stream = ((codes[..., None] >> np.arange(bits)) & 1).reshape(*codes.shape[:-1], -1)
    stream = np.concatenate([stream, np.zeros((*stream.shape[:-1], -stream.shape[-1] % 8), int)], -1)
    return np.packbits(stream.astype(np.uint8), axis=-1, bitorder="little")


def quantized_experts(count, outputs, inputs, bits, block, points):
    """Bits, scales, zero points, and the numbers that they stand for."""
    blocks = inputs // (block or inputs)
    codes, scale = random.randint(0, 2**bits, (count, outputs, inputs)), (np.abs(floats(count, outputs, blocks)) * 0.8 / 2**bits).astype(np.float32)
    zeros = random.randint(0, 2**bits, (count, outputs, blocks)) if points else np.full((count, outputs, blocks), 2 ** (bits - 1))
    numbers = (codes.reshape(count, outputs, blocks, -1) - zeros[..., None]) * f64(scale)[..., None]
    given = packed_bits(zeros if block else zeros[..., 0], bits)
    return packed_bits(codes, bits), scale if block else scale[..., 0], given, numbers.reshape(count, outputs, inputs)


for tokens, bits, block, points, name in [
    (1, 4, 0, False, "silu"), (4, 4, 0, True, "silu"), (1, 4, 16, True, "silu"), (4, 4, 16, True, "relu"), (1, 8, 16, False, "silu"), (4, 8, 32, True, "silu"),
    (1, 2, 16, True, "silu"), (4, 2, 0, False, "identity"), (1, 4, 32, False, "swiglu"), (4, 4, 32, False, "swiglu"), (4, 3, 32, False, "swiglu"), (1, 3, 32, False, "swiglu"),
    (3, 4, 16, False, "three layers"), (1, 4, 16, True, "three layers"), (4, 4, 16, True, "shares of their own"), (1, 4, 16, False, "shares of their own, normalized"),
]:
    fused, three = name == "swiglu", name == "three layers"
    x, router = floats(tokens, 32), floats(tokens, 3)
    w1, w2, w3 = (quantized_experts(3, *sizes, bits, block, points) for sizes in ((64 if fused else 32, 32), (32, 32), (32, 32)))
    b1, b2 = floats(3, 64 if fused else 32), floats(3, 32)
    kind = name if name in (*simple, "swiglu") else "silu"
    activation = gated(np.float32(1.702), 1, 0.75, True) if fused else two(silu) if three else simple[kind]
    own = np.abs(floats(tokens, 3)) if name.startswith("shares") else None
    normalize = own is None or name.endswith("normalized")
    expected = experts(x, shared(router, 2, own, normalize), w1[3], f64(b1), w2[3], f64(b2), activation, w3[3] if three else None)
    inputs, constants = {"x": x, "router": router}, {"w1": w1[0], "s1": w1[1], "b1": b1, "w2": w2[0], "s2": w2[1], "b2": b2}
    given = ["x", "router", "w1", "s1", "b1", "w2", "s2", "b2", *(["w3", "s3", ""] if three else ["", "", ""])]
    if three:
        constants.update({"w3": w3[0], "s3": w3[1]})
    if points:
        constants.update({"z1": w1[2], "z2": w2[2], **({"z3": w3[2]} if three else {})})
        given += ["z1", "z2", "z3" if three else ""]
    if own is not None:
        inputs["own"] = own
        given += [""] * (14 - len(given)) + ["own"]
    attributes = dict(k=2, expert_weight_bits=bits, activation_type=kind, normalize_routing_weights=int(name.endswith("normalized")))
    if block:
        attributes["block_size"] = block
    if fused:
        attributes.update(swiglu_fusion=1, activation_alpha=1.702, activation_beta=1.0, swiglu_limit=0.75, weights_prepacked=0)
    case(f"QMoE {name}, {tokens} tokens, {bits} bits, blocks of {block}{', zero points' if points else ''}", MS + "QMoE", inputs, expected, constants, given, absolute=1e-4, **attributes)
w1, w2 = quantized_experts(3, 32, 32, 8, 16, False), quantized_experts(3, 32, 32, 4, 16, False)
expected = experts(x, shared(router, 1), w1[3], np.zeros((3, 32)), w2[3], np.zeros((3, 32)), simple["relu"])
case("QMoE of different bits", MS + "QMoE", {"x": x, "router": router}, expected, {"w1": w1[0], "s1": w1[1], "w2": w2[0], "s2": w2[1]}, ["x", "router", "w1", "s1", "", "w2", "s2"], absolute=1e-4, block_size=16, fc1_expert_weight_bits=8)
refuse("QMoE, other weights", "weights of shape [3, 32, 16] for 32 inputs in blocks of 16, where [3, 32, 32] is needed", MS + "QMoE", {"x": x, "router": router}, {"w1": w2[0], "s1": w1[1], "w2": w2[0], "s2": w2[1]}, ["x", "router", "w1", "s1", "", "w2", "s2"], block_size=16, fc1_expert_weight_bits=8)
refuse("QMoE of floats", "the attribute quant_type is \"fp8\", allowed int", MS + "QMoE", {"x": x, "router": router}, {"w1": w2[0], "s1": w1[1], "w2": w2[0], "s2": w2[1]}, ["x", "router", "w1", "s1", "", "w2", "s2"], quant_type="fp8")

# Keys and values in pages

for name, counts, pasts, attributes in [
    ("one sequence", [3], [5], {}), ("several", [3, 1, 2], [0, 9, 4], dict(do_rotary=1)), ("a window", [2, 1], [7, 6], dict(local_window_size=4, do_rotary=1, rotary_offset=4)),
    ("both ways", [3, 2], [2, 0], dict(is_causal=0)), ("in one, with a sink", [1, 3], [4, 3], dict(softcap=5.0)), ("with norms", [2, 2], [3, 1], dict(qk_norm_epsilon=1e-3)),
    ("slots of their own", [2, 1], [4, 2], {}), ("8 bits", [2, 1], [4, 2], dict(k_quant_type="PER_TENSOR", v_quant_type="PER_CHANNEL")),
    ("4 bits", [2, 1], [4, 2], dict(k_quant_type="PER_CHANNEL", v_quant_type="PER_TENSOR", k_cache_dtype="int4", v_cache_dtype="int4")),
    ("latent", [2, 1], [4, 2], dict(kv_cache_layout="LATENT", v_head_size=4, scale=0.3)),
]:
    batch, block, pages, columns, width, query_heads = len(counts), 4, 9, 3, 8, 4
    latent, bits = "LATENT" in attributes.values(), 4 if "int4" in attributes.values() else 8 if "k_quant_type" in attributes else 0
    key_heads, depth = (1, attributes["v_head_size"]) if latent else (2, width)
    tokens = sum(counts)
    ends = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    table = random.permutation(pages)[: batch * columns].reshape(batch, columns).astype(np.int32)
    for b in range(batch):
        table[b, -(-(pasts[b] + counts[b]) // block) :] = -1
    q, k, v = floats(tokens, query_heads, width), floats(tokens, key_heads, width), floats(tokens, key_heads, width)
    most = 2 ** (bits - 1) if bits else 0
    scales = [(np.float32([0.4]) if attributes.get(kind) == "PER_TENSOR" else (0.3 + 0.2 * random.rand(key_heads, 1, width)).astype(np.float32)) / np.float32(16 if bits == 8 else 1) for kind in ("k_quant_type", "v_quant_type")]
    code = lambda x, scale: np.clip(np.rint(x / (scale if scale.size == 1 else scale[:, 0])), -most, most - 1) if bits else x
    number = lambda x, scale: x * f64(scale if scale.size == 1 else scale[:, 0]) if bits else x
    hold = lambda x: x.astype(np.float32) if not bits else x.astype(np.int8) if bits == 8 else ((x[..., 0::2] + 8) + 16 * (x[..., 1::2] + 8)).astype(np.uint8)
    old = [random.randint(-most, most, (pages * block, key_heads, width)).astype(float) if bits else f64(floats(pages * block, key_heads, width)) for _ in range(2)]
    new = [old[0].copy(), old[1].copy()]
    norm = [floats(width), floats(width)] if "qk_norm_epsilon" in attributes else None
    quarter = np.arange(20)[:, None] / 10 ** (np.arange(2) / 2)
    sink = floats(query_heads) if name.endswith("sink") else None
    given_slots = np.full(tokens, -1, np.int32)
    result = np.zeros((tokens, query_heads, depth))
    for b in range(batch):
        at = np.arange(pasts[b], pasts[b] + counts[b])
        part = slice(ends[b], ends[b + 1])
        query, key, value = f64(q[part]).transpose(1, 0, 2), f64(k[part]).transpose(1, 0, 2), f64(v[part]).transpose(1, 0, 2)
        if norm:
            query, key = (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-3) * f64(weight) for x, weight in zip((query, key), norm))
        if attributes.get("do_rotary"):
            start = attributes.get("rotary_offset", 0)
            turn = lambda x: np.concatenate([x[..., :start], rotated(x[None, ..., start:], np.cos(quarter[at])[None], np.sin(quarter[at])[None])[0]], -1)
            query, key = turn(query), turn(key)
        slots = table[b, at // block] * block + at % block
        given_slots[part] = slots
        if name.startswith("slots"):
            given_slots[ends[b]] = -1
        for i, slot in enumerate(given_slots[part] if name.startswith("slots") else slots):
            if slot >= 0:
                new[0][slot], new[1][slot] = code(key[:, i], scales[0]), code(value[:, i], scales[1])
        total = pasts[b] + counts[b]
        places = table[b, np.arange(total) // block] * block + np.arange(total) % block
        keys = number(new[0][places], scales[0]).transpose(1, 0, 2)
        values = keys[..., :depth] if latent else number(new[1][places], scales[1]).transpose(1, 0, 2)
        for h in range(query_heads):
            scores = query[h] @ keys[h * key_heads // query_heads].T * (np.float32(attributes.get("scale", 1 / np.sqrt(8))))
            if "softcap" in attributes:
                scores = 5 * np.tanh(scores / 5)
            sees = np.full((counts[b], total), True) if attributes.get("is_causal") == 0 else np.arange(total) <= at[:, None]
            sees = sees & (np.arange(total) > at[:, None] - attributes.get("local_window_size", 100))
            scores = np.where(sees, scores, -np.inf)
            if sink is not None:
                scores = np.concatenate([scores, np.full((counts[b], 1), sink[h])], 1)
            result[part, h] = softmax(scores)[:, :total] @ values[h * key_heads // query_heads]
    caches = [hold(x.reshape(pages, block, key_heads, width)) for x in old[: 1 if latent else 2]]
    written = [hold(x.reshape(pages, block, key_heads, width)) for x in new[: 1 if latent else 2]]
    flat = [x.reshape(tokens, -1) for x in (q, k, v)]
    in_one = name.startswith("in one")
    inputs = {"q": np.concatenate(flat, 1)} if in_one else {"q": flat[0], "k": flat[1], **({} if latent else {"v": flat[2]})}
    inputs.update({"pk": caches[0], **({} if latent else {"pv": caches[1]}), "ends": ends, "pasts": np.array(pasts, np.int32), "table": table})
    constants = {}
    if attributes.get("do_rotary"):
        constants.update({"cos": np.cos(quarter).astype(np.float32), "sin": np.sin(quarter).astype(np.float32)})
    if name.startswith("slots"):
        inputs["slots"] = given_slots
    if sink is not None:
        inputs["sink"] = sink
    if norm:
        constants.update({"of_q": norm[0], "of_k": norm[1]})
    if bits:
        constants.update({"k_scale": scales[0], "v_scale": scales[1]})
    has = lambda key: key if key in inputs or key in constants else ""
    given = [has(key) for key in ("q", "k", "v", "pk", "pv", "ends", "pasts", "table", "cos", "sin", "slots", "sink", "of_q", "of_k", "k_scale", "v_scale")]
    case(f"PagedAttention, {name}", MS + "PagedAttention", inputs, (result.reshape(tokens, -1), *written), constants, given, absolute=1e-5, num_heads=query_heads, kv_num_heads=key_heads, **attributes)

# Weights of few bits whose groups are of any length

for bits, points, inner in [(4, "bits", 64), (4, "numbers", 50), (8, None, 64), (2, "bits", 64)]:
    columns, block = 6, 16
    blocks = -(-inner // block)
    codes, scale = random.randint(0, 2**bits, (columns, inner)), np.abs(floats(columns, blocks)) * np.float32(0.2)
    zeros = random.randint(0, 2**bits, (columns, blocks)) if points else np.full((columns, blocks), 2 ** (bits - 1))
    groups = random.choice([0, 0, 0, 1, 2], inner).astype(np.int32)
    groups[-1] = blocks - 1
    numbers = (codes - zeros[:, groups]) * f64(scale)[:, groups]
    x = floats(3, inner)
    filled = np.concatenate([codes, np.zeros((columns, blocks * block - inner), int)], 1).reshape(columns, blocks, block)
    constants = {"w": packed_bits(filled, bits), "s": scale.ravel()}
    if points:
        constants["z"] = packed_bits(zeros, bits).ravel() if points == "bits" else zeros.astype(np.float32)
    constants["g"] = groups
    given = ["x", "w", "s", "z" if points else "", "g"]
    case(f"MatMulNBits, uneven groups of {bits} bits, zero points as {points}", MS + "MatMulNBits", {"x": x}, f64(x) @ numbers.T, constants, given, absolute=4e-5, K=inner, N=columns, bits=bits, block_size=block)
refuse("MatMulNBits, a group too many", "the group 4 in g_idx, allowed 0 to 3", MS + "MatMulNBits", {"x": floats(3, 64)}, {"w": np.zeros((6, 4, 8), np.uint8), "s": scale, "g": np.full(64, 4, np.int32)}, ["x", "w", "s", "", "g"], K=64, N=6, bits=4, block_size=16)

# Caches of a fixed size

size, count = 8, 3
for beams, masked in [(1, False), (1, True), (3, False), (3, True)]:
    batch = 2 * beams
    q, k, v = floats(batch, 1, 8), floats(batch, 1, 8), floats(batch, 1, 8)
    past_k, past_v = floats(batch, 2, size, 4), floats(batch, 2, size, 4)
    past_k[:, :, count:], past_v[:, :, count:] = 100, 100
    inputs = {"q": q, "k": k, "v": v, "pk": past_k, "pv": past_v, "count": np.array([count], np.int32)}
    mask = np.where(random.rand(batch, count + 1) < 0.7, 1, 0).astype(np.int32) if masked else np.ones((batch, count + 1), np.int32)
    mask[:, -1] = 1
    named = random.randint(0, beams, (2, beams, size)).astype(np.int32)
    if masked:
        inputs["mask"] = mask
    if beams > 1:
        inputs["beams"] = named
    present_k, present_v = f64(past_k).copy(), f64(past_v).copy()
    present_k[:, :, count], present_v[:, :, count] = heads(f64(k), 2)[:, :, 0], heads(f64(v), 2)[:, :, 0]
    result = np.zeros((batch, 2, 1, 4))
    for b in range(batch):
        own = [b // beams * beams + (named[b // beams, b % beams, t] if t < count else b % beams) for t in range(count + 1)]
        key, value = ([present[own[t], :, t] for t in range(count + 1)] for present in (present_k, present_v))
        key, value = np.stack(key, 1), np.stack(value, 1)
        scores = heads(f64(q), 2)[b] @ key.transpose(0, 2, 1) / 2 + np.where(mask[b], 0, -10000.0)
        result[b] = softmax(scores) @ value
    result = result.transpose(0, 2, 1, 3).reshape(batch, 1, 8)
    given = ["q", "k", "v", "mask" if masked else "", "", "pk", "pv", "count", "", "beams" if beams > 1 else ""]
    name = f"DecoderMaskedMultiHeadAttention in a cache of a fixed size, {beams} beams{', with a mask' if masked else ''}"
    case(name, MS + "DecoderMaskedMultiHeadAttention", inputs, (result, present_k, present_v), given=given, absolute=4e-6, num_heads=2, past_present_share_buffer=1)
for length, causal, masked in [(1, 0, False), (1, 1, True), (3, 1, False), (3, 0, True)]:
    x, weights, bias, past = floats(2, length, 6), floats(6, 24), floats(24), floats(2, 2, 2, size, 4)
    past[:, :, :, count:] = 100
    total = count + length
    q, k, v = (heads(part, 2) for part in np.split(f64(x) @ f64(weights) + f64(bias), 3, -1))
    present = f64(past).copy()
    present[0, :, :, count:total], present[1, :, :, count:total] = k, v
    mask = np.where(random.rand(2, total) < 0.7, 1, 0).astype(np.int32)
    mask[:, 0] = 1
    scores = q @ present[0][:, :, :total].transpose(0, 1, 3, 2) / 2
    if masked:
        scores = scores + np.where(mask, 0, -10000.0)[:, None, None]
    if causal:
        scores = scores + np.where(np.arange(total) <= count + np.arange(length)[:, None], 0, -np.inf)
    result = (softmax(scores) @ present[1][:, :, :total]).transpose(0, 2, 1, 3).reshape(2, length, 8)
    inputs = {"x": x, "past": past, "count": np.array([count], np.int32), **({"mask": mask} if masked else {})}
    given = ["x", "w", "b", "mask" if masked else "", "past", "", "count"]
    name = f"Attention of com.microsoft in a cache of a fixed size, {length} queries{', causal' if causal else ''}{', with a mask' if masked else ''}"
    case(name, MS + "Attention", inputs, (result, present), {"w": weights, "b": bias}, given, absolute=2e-5, num_heads=2, past_present_share_buffer=1, unidirectional=causal)


# MultiHeadAttention of com.microsoft in caches of a fixed size, and the scores that it and the one of decoders show
for length, beams, causal, extra, shown in [
    (1, 1, 0, "", True), (3, 1, 1, "", False), (2, 1, 0, "mask and bias", True), (3, 1, 1, "mask", True), (1, 3, 0, "bias", False),
    (1, 2, 1, "mask and bias", True), (1, 2, 0, "", True), (2, 3, 1, "mask", True),
]:
    batch, total = 2 * beams, count + length
    q, k, v = floats(batch, length, 8), floats(batch, length, 8), floats(batch, length, 8)
    past_k, past_v = floats(batch, 2, size, 4), floats(batch, 2, size, 4)
    past_k[:, :, count:], past_v[:, :, count:] = 100, 100
    inputs = {"q": q, "k": k, "v": v, "pk": past_k, "pv": past_v, "count": np.array([count], np.int32)}
    mask = np.where(random.rand(batch, total) < 0.7, 1, 0).astype(np.int32) if "mask" in extra else np.ones((batch, total), np.int32)
    mask[:, 0] = 1
    more = floats(1, 2, length, total) if "bias" in extra else np.zeros((1, 2, length, total), np.float32)
    named = random.randint(0, beams, (2, beams, size)).astype(np.int32)
    if "mask" in extra:
        inputs["mask"] = mask
    if "bias" in extra:
        inputs["more"] = more
    if beams > 1:
        inputs["beams"] = named
    present_k, present_v = f64(past_k).copy(), f64(past_v).copy()
    present_k[:, :, count:total], present_v[:, :, count:total] = heads(f64(k), 2), heads(f64(v), 2)
    scores, result = np.zeros((batch, 2, length, total)), np.zeros((batch, 2, length, 4))
    for b in range(batch):
        own = [b // beams * beams + (named[b // beams, b % beams, t] if t < count else b % beams) for t in range(total)]
        key, value = (np.stack([present[own[t], :, t] for t in range(total)], 1) for present in (present_k, present_v))
        scores[b] = heads(f64(q), 2)[b] @ key.transpose(0, 2, 1) / 2 + f64(more)[0] + np.where(mask[b], 0, -10000.0)
        if causal:
            scores[b] += np.where(np.arange(total) <= count + np.arange(length)[:, None], 0, -1e30)
        result[b] = softmax(scores[b]) @ value
    result = result.transpose(0, 2, 1, 3).reshape(batch, length, 8)
    # Hidden scores that are shown are as low as float32 is.
    scores = np.where(scores < -1e29, float(np.finfo(np.float32).min), scores)
    expected = (result, present_k, present_v, *([scores] if shown else []))
    # How many rows are shown has to be known.
    constants = {"count": inputs.pop("count")} if shown and not extra else {}
    has = lambda name: name if name in inputs else ""
    name = f"{length} queries, {beams} beams{', causal' if causal else ''}{', with a ' + extra if extra else ''}{', with scores' if shown else ''}"
    case(f"MultiHeadAttention in a cache of a fixed size, {name}", MS + "MultiHeadAttention", inputs, expected, constants, ["q", "k", "v", "", has("mask"), has("more"), "pk", "pv", "count", has("beams")], absolute=1e-5, num_heads=2, unidirectional=causal)
    if length == 1 and shown:
        given = ["q", "k", "v", has("mask"), has("more"), "pk", "pv", "count", "", has("beams")]
        case(f"DecoderMaskedMultiHeadAttention in a cache of a fixed size, {name}", MS + "DecoderMaskedMultiHeadAttention", inputs, expected, constants, given, absolute=1e-5, num_heads=2, past_present_share_buffer=1, output_qk=1)
refuse("MultiHeadAttention with beams of no cache", "cache_indirection without a cache and past_sequence_length", MS + "MultiHeadAttention", {"q": q, "k": k, "v": v, "beams": named}, given=["q", "k", "v", *[""] * 6, "beams"], num_heads=2)

# Scores that GroupQueryAttention shows have what is added to them; and its result is of the type of the queries where the cache has another one
q, k, v, more = floats(1, 2, 16), floats(1, 2, 8), floats(1, 2, 8), floats(1, 2, 2, 5)
old_k, old_v = floats(1, 1, 3, 8), floats(1, 1, 3, 8)
keys, values = np.concatenate([f64(old_k), heads(f64(k), 1)], 2), np.concatenate([f64(old_v), heads(f64(v), 1)], 2)
scores = 2 * np.tanh(heads(f64(q), 2) @ keys.transpose(0, 1, 3, 2) / np.sqrt(8) / 2) + f64(more)
hidden = np.triu(np.full((2, 5), -np.inf), 4)
result = (softmax(scores + hidden) @ values).transpose(0, 2, 1, 3).reshape(1, 2, 16)
inputs = {"q": q, "k": k, "v": v, "pk": old_k, "pv": old_v, "last": np.array([4], np.int32), "more": more}
shown = np.where(hidden == 0, scores, np.nan)
case("GroupQueryAttention, scores with a bias", MS + "GroupQueryAttention", inputs, (result, keys, values, unspecified(shown)), {"total": np.array([5], np.int32)}, ["q", "k", "v", "pk", "pv", "last", "total", "", "", "", "more"], absolute=4e-6, num_heads=2, kv_num_heads=1, qk_output=1, softcap=2.0)
turn = lambda x: rotated(f64(x), f64(turns[0])[None, :2], f64(turns[1])[None, :2])
turns = [np.cos(np.arange(8).reshape(2, 4)).astype(np.float16), np.sin(np.arange(8).reshape(2, 4)).astype(np.float16)]
q, k, v = (floats(1, 2, width).astype(np.float16) for width in (16, 8, 8))
scale = np.float32([0.03])
codes = [np.clip(np.rint(x / f64(scale)), -128, 127) for x in (turn(heads(k, 1)), f64(heads(v, 1)))]
scores = turn(heads(q, 2)) @ (codes[0] * f64(scale)).transpose(0, 1, 3, 2) / np.sqrt(8) + np.triu(np.full((2, 2), -np.inf), 1)
result = (softmax(scores) @ (codes[1] * f64(scale))).transpose(0, 2, 1, 3).reshape(1, 2, 16)
inputs = {"q": q, "k": k, "v": v, "last": np.array([1], np.int32)}
given = ["q", "k", "v", "", "", "last", "total", "cos", "sin", "", "", "", "scale", "scale"]
# A code may be the next one, of values rounded to float16.
case("GroupQueryAttention of float16, a cache of 8 bits", MS + "GroupQueryAttention", inputs, (result.astype(np.float16), codes[0].astype(np.int8), codes[1].astype(np.int8)), {"total": np.array([2], np.int32), "cos": turns[0], "sin": turns[1], "scale": scale}, given, absolute=0.05, num_heads=2, kv_num_heads=1, do_rotary=1, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR", kv_cache_bit_width=8)

write("decoders.json", {"onnx": onnx.__version__}, cases, refused)
