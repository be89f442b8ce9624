"""Trains the small model of this example, and writes it as ONNX: model.onnx and tokens.json.

    pip install -r requirements.txt
    python train.py [MINUTES]

A decoder like Llama, of two layers, that reads the documents of this repository one character at a time. It is written with the
operators that exporters write, and the names of their inputs: input_ids, attention_mask, position_ids, past_key_values.N.key. A few
minutes on one core are enough for words; a token is a character, so that no tokenizer is needed.
"""

import json
import sys
import time
from pathlib import Path

import autograd.numpy as np
import numpy
import onnx
from autograd import grad
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper

HERE = Path(__file__).parent
LAYERS, WIDTH, HEADS, KEY_HEADS, INSIDE, WINDOW = 2, 80, 5, 1, 160, 48
HEAD = WIDTH // HEADS
BATCH = 16
EPSILON = 1e-5
random = numpy.random.RandomState(3)


def text():
    root = HERE / "../.."
    files = [*sorted((root / "docs").glob("*.md")), root / "README.md", root / "ARCHITECTURE.md", root / "CONTRIBUTING.md"]
    all = "\n".join(file.read_text() for file in files)
    # Tables and code are no sentences.
    lines = [line for line in all.splitlines() if not line.startswith(("|", "    ", "`", "```"))]
    return "".join(c for c in "\n".join(lines) if c == "\n" or " " <= c <= "~")


def initial(tokens):
    def matrix(rows, columns):
        return random.randn(rows, columns) / numpy.sqrt(rows)

    weights = {"embed": random.randn(tokens, WIDTH) * 0.3, "norm": numpy.ones(WIDTH)}
    for layer in range(LAYERS):
        inner = KEY_HEADS * HEAD
        for name, shape in [("q", (WIDTH, WIDTH)), ("k", (WIDTH, inner)), ("v", (WIDTH, inner)), ("o", (WIDTH, WIDTH)),
                            ("gate", (WIDTH, INSIDE)), ("up", (WIDTH, INSIDE)), ("down", (INSIDE, WIDTH))]:
            weights[f"{name}{layer}"] = matrix(*shape)
        weights[f"norm_a{layer}"] = numpy.ones(WIDTH)
        weights[f"norm_b{layer}"] = numpy.ones(WIDTH)
    return {name: w.astype(numpy.float32) for name, w in weights.items()}


def angles(count):
    return numpy.arange(count)[:, None] / 1000 ** (numpy.arange(HEAD // 2) / (HEAD // 2))


COS, SIN = (of(angles(WINDOW)).astype(numpy.float32) for of in (numpy.cos, numpy.sin))
HIDDEN = numpy.triu(numpy.full((WINDOW, WINDOW), -1e9), 1).astype(numpy.float32)


def normal(x, weight):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + EPSILON) * weight


def heads(x, count):
    return np.transpose(np.reshape(x, (BATCH, WINDOW, count, HEAD)), (0, 2, 1, 3))


def rotated(x):
    half = HEAD // 2
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * COS - b * SIN, b * COS + a * SIN], axis=-1)


def loss(weights, ids, wanted):
    x = weights["embed"][ids]
    for layer in range(LAYERS):
        y = normal(x, weights[f"norm_a{layer}"])
        q, k, v = (heads(np.dot(y, weights[f"{name}{layer}"]), count) for name, count in [("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)])
        scores = np.matmul(rotated(q), np.transpose(rotated(k), (0, 1, 3, 2))) * numpy.float32(HEAD**-0.5) + HIDDEN
        e = np.exp(scores - np.max(scores, axis=-1, keepdims=True))
        z = np.matmul(e / np.sum(e, axis=-1, keepdims=True), v)
        x = x + np.dot(np.reshape(np.transpose(z, (0, 2, 1, 3)), (BATCH, WINDOW, WIDTH)), weights[f"o{layer}"])
        y = normal(x, weights[f"norm_b{layer}"])
        gate = np.dot(y, weights[f"gate{layer}"])
        x = x + np.dot(gate / (1 + np.exp(-gate)) * np.dot(y, weights[f"up{layer}"]), weights[f"down{layer}"])
    logits = np.dot(normal(x, weights["norm"]), weights["embed"].T)
    top = np.max(logits, axis=-1, keepdims=True)
    total = top[..., 0] + np.log(np.sum(np.exp(logits - top), axis=-1))
    rows, columns = numpy.indices(wanted.shape)
    return np.mean(total - logits[rows, columns, wanted])


def train(ids, tokens, minutes):
    weights = initial(tokens)
    mean, square = ({name: numpy.zeros_like(w) for name, w in weights.items()} for _ in range(2))
    slope = grad(loss)
    begin, step, recent = time.time(), 0, None
    while (part := (time.time() - begin) / (60 * minutes)) < 1:
        step += 1
        starts = random.randint(0, len(ids) - WINDOW - 1, BATCH)
        given = numpy.stack([ids[start : start + WINDOW] for start in starts])
        wanted = numpy.stack([ids[start + 1 : start + WINDOW + 1] for start in starts])
        change = slope(weights, given, wanted)
        # Adam, with a rate that ends at 0.
        rate = 4e-3 * min(1, step / 50) * (1 - part)
        for name, w in weights.items():
            g = numpy.clip(change[name], -1, 1)
            mean[name] = 0.9 * mean[name] + 0.1 * g
            square[name] = 0.99 * square[name] + 0.01 * g * g
            w -= rate * mean[name] / (1 - 0.9**step) / (numpy.sqrt(square[name] / (1 - 0.99**step)) + 1e-8)
        if step % 20 == 0:
            now = float(loss(weights, given, wanted))
            recent = now if recent is None else 0.8 * recent + 0.2 * now
            print(f"{100 * part:3.0f} %, step {step}: {recent:.3f} nats", flush=True)
    return weights


class Model:
    """The same network as ONNX."""

    def __init__(self, weights):
        self.weights, self.nodes, self.constants = weights, [], {}

    def node(self, operator, inputs, outputs=None, **attributes):
        outputs = outputs or [f"{operator.lower()}_{len(self.nodes)}"]
        self.nodes.append(h.make_node(operator, inputs, outputs, **attributes))
        return outputs[0]

    def constant(self, value, type=numpy.float32):
        name = f"constant_{len(self.constants)}"
        self.constants[name] = numpy.array(value, type)
        return name

    def weight(self, name):
        self.constants[name] = self.weights[name].astype(numpy.float32)
        return name

    def normal(self, x, weight):
        square = self.node("Mul", [x, x])
        mean = self.node("ReduceMean", [square], axes=[-1], keepdims=1)
        root = self.node("Sqrt", [self.node("Add", [mean, self.constant(EPSILON)])])
        return self.node("Mul", [self.node("Div", [x, root]), self.weight(weight)])

    def heads(self, x, count):
        apart = self.node("Reshape", [x, self.constant([0, 0, count, HEAD], numpy.int64)])
        return self.node("Transpose", [apart], perm=[0, 2, 1, 3])

    def rotated(self, x, cos, sin):
        half = HEAD // 2
        a, b = f"{x}_a", f"{x}_b"
        self.node("Split", [x, self.constant([half, half], numpy.int64)], [a, b], axis=-1)
        mul = lambda x, y: self.node("Mul", [x, y])
        first = self.node("Sub", [mul(a, cos), mul(b, sin)])
        second = self.node("Add", [mul(b, cos), mul(a, sin)])
        return self.node("Concat", [first, second], axis=-1)

    def size(self, x, axis):
        return self.node("Gather", [self.node("Shape", [x]), self.constant(axis, numpy.int64)], axis=0)

    def hidden(self):
        """What keeps queries from keys that come later, from those whose mask is 0, and from those further away than any in training."""
        zero, one = self.constant(0, numpy.int64), self.constant(1, numpy.int64)
        length, total = self.size("input_ids", 1), self.size("attention_mask", 1)
        keys = self.node("Range", [zero, total, one])
        queries = self.node("Add", [self.node("Range", [zero, length, one]), self.node("Sub", [total, length])])
        column = self.node("Unsqueeze", [queries, self.constant([1], numpy.int64)])
        earlier = self.node("LessOrEqual", [keys, column])
        given = self.node("Unsqueeze", [self.node("Cast", ["attention_mask"], to=T.BOOL), self.constant([1, 2], numpy.int64)])
        near = self.node("Greater", [keys, self.node("Sub", [column, self.constant(WINDOW, numpy.int64)])])
        shown = self.node("And", [self.node("And", [earlier, near]), given])
        return self.node("Where", [shown, self.constant(0.0), self.constant(-1e9)])

    def build(self, tokens, longest=4096):
        info = h.make_tensor_value_info
        inputs = [
            info("input_ids", T.INT64, ["batch", "sequence"]),
            info("attention_mask", T.INT64, ["batch", "total"]),
            info("position_ids", T.INT64, ["batch", "sequence"]),
        ]
        outputs = [info("logits", T.FLOAT, ["batch", "sequence", tokens])]
        part = lambda table: self.node("Unsqueeze", [self.node("Gather", [self.constant(table), "position_ids"]), self.constant([1], numpy.int64)])
        # Each exists once.
        cos, sin = part(numpy.cos(angles(longest))), part(numpy.sin(angles(longest)))
        hidden = self.hidden()
        x = self.node("Gather", [self.weight("embed"), "input_ids"])
        for layer in range(LAYERS):
            y = self.normal(x, f"norm_a{layer}")
            q, k, v = (
                self.heads(self.node("MatMul", [y, self.weight(f"{name}{layer}")]), count)
                for name, count in [("q", HEADS), ("k", KEY_HEADS), ("v", KEY_HEADS)]
            )
            q, k = self.rotated(q, cos, sin), self.rotated(k, cos, sin)
            cached = []
            for what, new in [("key", k), ("value", v)]:
                past, present = f"past_key_values.{layer}.{what}", f"present.{layer}.{what}"
                inputs.append(info(past, T.FLOAT, ["batch", KEY_HEADS, "past", HEAD]))
                outputs.append(info(present, T.FLOAT, ["batch", KEY_HEADS, "total", HEAD]))
                cached.append(self.node("Concat", [past, new], [present], axis=2))
            turned = self.node("Transpose", [cached[0]], perm=[0, 1, 3, 2])
            scores = self.node("Mul", [self.node("MatMul", [q, turned]), self.constant(HEAD**-0.5)])
            weights = self.node("Softmax", [self.node("Add", [scores, hidden])], axis=-1)
            z = self.node("Transpose", [self.node("MatMul", [weights, cached[1]])], perm=[0, 2, 1, 3])
            z = self.node("Reshape", [z, self.constant([0, 0, WIDTH], numpy.int64)])
            x = self.node("Add", [x, self.node("MatMul", [z, self.weight(f"o{layer}")])])
            y = self.normal(x, f"norm_b{layer}")
            gate = self.node("MatMul", [y, self.weight(f"gate{layer}")])
            gate = self.node("Mul", [gate, self.node("Sigmoid", [gate])])
            inside = self.node("Mul", [gate, self.node("MatMul", [y, self.weight(f"up{layer}")])])
            x = self.node("Add", [x, self.node("MatMul", [inside, self.weight(f"down{layer}")])])
        table = self.node("Transpose", ["embed"], perm=[1, 0])
        self.node("MatMul", [self.normal(x, "norm"), table], ["logits"])
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = h.make_graph(self.nodes, "decoder", inputs, outputs, constants)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=9)


def main():
    minutes = float(sys.argv[1]) if len(sys.argv) > 1 else 4
    all = text()
    characters = sorted(set(all))
    ids = numpy.array([characters.index(c) for c in all])
    print(f"{len(all)} characters, {len(characters)} different ones")
    weights = train(ids, len(characters), minutes)
    model = Model(weights).build(len(characters), longest=1024)
    onnx.checker.check_model(model)
    onnx.save(model, HERE / "model.onnx")
    (HERE / "tokens.json").write_text(json.dumps(characters) + "\n")
    print(f"model.onnx: {(HERE / 'model.onnx').stat().st_size >> 10} KiB")


if __name__ == "__main__":
    main()
