"""Llama-like decoders of seeded weights, the same numbers as ONNX and as GGUF, for measurements beside onnxruntime-node and llama.cpp.

    python make_decoder.py FOLDER 135M 0.5B 1.5B --weights q4 q8 f16 [--level 4] [--follows 0.8]

needs numpy and onnx, and writes GGUF where the package gguf is there. Weights of 4 and 8 bits have blocks of 32 (MatMulNBits without
zero points; Q4_0 and Q8_0); the level is MatMulNBits' accuracy_level. Caches, activations and logits are float32, also of f16.

With --follows what layers add is so small that the most probable token follows from the last one alone: it is the next of a list that is the
same for all sizes. Of the rest of the tokens, a share of one minus the rate, it is another one. So a model agrees with one that was made with
a rate of 1 at that rate, as a draft does with the model that it guesses for.
"""

import argparse
import os

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

try:
    import gguf
except ImportError:
    gguf = None

# Layers, width, heads, heads of keys and values, width inside, tokens.
SIZES = {
    "tiny": (2, 128, 4, 2, 256, 512),
    "135M": (30, 576, 9, 3, 1536, 32000),
    "0.5B": (24, 896, 14, 2, 4864, 32000),
    "1.5B": (28, 1536, 12, 2, 8960, 32000),
}
LONGEST = 4096
BLOCK = 32


# By how much smaller is what layers add.
QUIET = 1e-3


def successors(tokens, rate):
    """The token after each, in one long cycle; another one for some, as the rate says."""
    rng = np.random.default_rng(11)
    order = rng.permutation(tokens)
    after = np.empty(tokens, np.int64)
    after[order] = np.roll(order, -1)
    others = np.flatnonzero(rng.random(tokens) >= rate)
    after[others] = np.roll(after[others], 1)
    return after


def quantized(w, bits):
    """Weights [n, k] as MatMulNBits has them, their scales, and the blocks of GGUF."""
    n, k = w.shape
    w = w.reshape(n, k // BLOCK, BLOCK)
    if bits == 4:
        peak = np.take_along_axis(w, np.abs(w).argmax(-1)[..., None], -1)
        scale = (peak / -8).astype(np.float16)
    else:
        scale = (np.abs(w).max(-1, keepdims=True) / 127).astype(np.float16)
    wide = scale.astype(np.float32)
    q = np.rint(np.divide(w, wide, out=np.zeros_like(w), where=wide != 0))
    if bits == 4:
        q = np.clip(q + 8, 0, 15).astype(np.uint8)
        packed = q[..., 0::2] | (q[..., 1::2] << 4)
        blocks = np.concatenate([scale.view(np.uint8), q[..., :16] | (q[..., 16:] << 4)], -1)
    else:
        q = np.clip(q, -127, 127)
        packed = (q + 128).astype(np.uint8)
        blocks = np.concatenate([scale.view(np.uint8), q.astype(np.int8).view(np.uint8)], -1)
    return packed, wide[..., 0], blocks.reshape(n, -1)


class Writer:
    """A model under construction, in both formats."""

    def __init__(self, size, weights, level, follows=None):
        self.layers, self.width, self.heads, self.kv, self.inside, self.tokens = SIZES[size]
        self.weights, self.level, self.rng = weights, level, np.random.default_rng(7)
        self.follows = follows
        self.nodes, self.initializers, self.inputs, self.outputs = [], [], [], []
        self.gguf = None

    def begin_gguf(self, path):
        if gguf is None:
            return
        g = self.gguf = gguf.GGUFWriter(path, "llama")
        g.add_block_count(self.layers)
        g.add_context_length(LONGEST)
        g.add_embedding_length(self.width)
        g.add_feed_forward_length(self.inside)
        g.add_head_count(self.heads)
        g.add_head_count_kv(self.kv)
        g.add_layer_norm_rms_eps(1e-5)
        g.add_rope_dimension_count(self.width // self.heads)
        g.add_rope_freq_base(10000.0)
        g.add_vocab_size(self.tokens)
        kinds = {"q4": "MOSTLY_Q4_0", "q8": "MOSTLY_Q8_0", "f16": "MOSTLY_F16"}
        g.add_file_type(getattr(gguf.LlamaFileType, kinds[self.weights]))
        g.add_tokenizer_model("llama")
        names = ["<unk>", "<s>", "</s>"] + [f"<0x{i:02X}>" for i in range(256)] + [f"t{i}" for i in range(259, self.tokens)]
        g.add_token_list(names)
        g.add_token_scores([-float(i) for i in range(self.tokens)])
        g.add_token_types([2, 3, 3] + [6] * 256 + [1] * (self.tokens - 259))
        g.add_bos_token_id(1)
        g.add_eos_token_id(2)
        g.add_unk_token_id(0)
        g.add_add_bos_token(False)

    def node(self, operator, inputs, outputs, domain=None, **attributes):
        self.nodes.append(h.make_node(operator, inputs, outputs, domain=domain, **attributes))
        return outputs[0]

    def contributed(self, operator, inputs, outputs, **attributes):
        return self.node(operator, inputs, outputs, domain="com.microsoft", **attributes)

    def constant(self, name, array):
        self.initializers.append(nh.from_array(array, name))
        return name

    def product(self, x, n, k, name, tensor, w=None):
        if w is None:
            w = self.rng.standard_normal((n, k), dtype=np.float32) / np.sqrt(k)
        if self.weights == "f16":
            w = w.astype(np.float16)
            if self.gguf:
                self.gguf.add_tensor(tensor, w)
            wide = self.node("Cast", [self.constant(name + ".w", np.ascontiguousarray(w.T))], [name + ".wide"], to=T.FLOAT)
            return self.node("MatMul", [x, wide], [name])
        bits = int(self.weights[1:])
        packed, scales, blocks = quantized(w, bits)
        if self.gguf:
            kind = gguf.GGMLQuantizationType.Q4_0 if bits == 4 else gguf.GGMLQuantizationType.Q8_0
            self.gguf.add_tensor(tensor, blocks, raw_shape=blocks.shape, raw_dtype=kind)
        operands = [x, self.constant(name + ".b", packed), self.constant(name + ".s", scales.reshape(-1))]
        return self.contributed("MatMulNBits", operands, [name], K=k, N=n, bits=bits, block_size=BLOCK, accuracy_level=self.level)

    def added(self, x, n, k, name, tensor):
        """What a layer adds."""
        w = self.rng.standard_normal((n, k), dtype=np.float32) / np.sqrt(k)
        return self.product(x, n, k, name, tensor, w if self.follows is None else QUIET * w)

    def head(self, embeddings):
        """The weights of the logits: those of the token after each are its embedding."""
        if self.follows is None:
            return None
        w = np.empty((self.tokens, self.width), np.float32)
        w[successors(self.tokens, self.follows)] = embeddings.astype(np.float32) / np.sqrt(self.width)
        return w

    def norm(self, name, tensor):
        weights = (1 + 0.1 * self.rng.standard_normal(self.width)).astype(np.float32)
        if self.gguf:
            self.gguf.add_tensor(tensor, weights)
        return self.constant(name, weights)

    def build(self):
        width, head = self.width, self.width // self.heads
        embeddings = self.rng.standard_normal((self.tokens, width), dtype=np.float32).astype(np.float16)
        if self.gguf:
            self.gguf.add_tensor("token_embd.weight", embeddings)
        angles = np.arange(LONGEST)[:, None] / 10000 ** (np.arange(0, head, 2) / head)[None]
        self.constant("cos", np.cos(angles).astype(np.float32))
        self.constant("sin", np.sin(angles).astype(np.float32))
        info = h.make_tensor_value_info
        self.inputs += [
            info("input_ids", T.INT64, ["batch_size", "sequence_length"]),
            info("attention_mask", T.INT64, ["batch_size", "total_sequence_length"]),
        ]
        self.constant("one", np.array([1], np.int64))
        self.constant("axis", np.array([1], np.int64))
        self.constant("index", np.array(1, np.int64))
        self.node("ReduceSum", ["attention_mask", "axis"], ["sum"], keepdims=1)
        self.node("Sub", ["sum", "one"], ["last"])
        self.node("Cast", ["last"], ["seqlens_k"], to=T.INT32)
        self.node("Shape", ["attention_mask"], ["mshape"])
        self.node("Gather", ["mshape", "index"], ["total64"], axis=0)
        self.node("Cast", ["total64"], ["total"], to=T.INT32)
        x = self.node("Gather", [self.constant("emb", embeddings), "input_ids"], ["x16"], axis=0)
        x = self.node("Cast", [x], ["x"], to=T.FLOAT)
        first = self.norm("n0", "blk.0.attn_norm.weight")
        hidden = self.node("SimplifiedLayerNormalization", [x, first], ["h0"], axis=-1, epsilon=1e-5)
        for layer in range(self.layers):
            x, hidden = self.layer(layer, x, hidden, head, info)
        self.product(hidden, self.tokens, width, "logits", "output.weight", self.head(embeddings))
        self.outputs.insert(0, info("logits", T.FLOAT, ["batch_size", "sequence_length", self.tokens]))
        graph = h.make_graph(self.nodes, "decoder", self.inputs, self.outputs, self.initializers)
        opsets = [h.make_opsetid("", 17), h.make_opsetid("com.microsoft", 1)]
        return h.make_model(graph, opset_imports=opsets, ir_version=9)

    def layer(self, layer, x, hidden, head, info):
        p, width, inner = f"l{layer}.", self.width, self.kv * head
        q = self.product(hidden, width, width, p + "q", f"blk.{layer}.attn_q.weight")
        k = self.product(hidden, inner, width, p + "k", f"blk.{layer}.attn_k.weight")
        v = self.product(hidden, inner, width, p + "v", f"blk.{layer}.attn_v.weight")
        past = [f"past_key_values.{layer}.{what}" for what in ("key", "value")]
        present = [f"present.{layer}.{what}" for what in ("key", "value")]
        self.inputs += [info(name, T.FLOAT, ["batch_size", self.kv, "past_sequence_length", head]) for name in past]
        self.outputs += [info(name, T.FLOAT, ["batch_size", self.kv, "total_sequence_length", head]) for name in present]
        attributes = dict(num_heads=self.heads, kv_num_heads=self.kv, do_rotary=1, rotary_interleaved=1, scale=1 / np.sqrt(head))
        self.contributed("GroupQueryAttention", [q, k, v, *past, "seqlens_k", "total", "cos", "sin"], [p + "a", *present], **attributes)
        o = self.added(p + "a", width, width, p + "o", f"blk.{layer}.attn_output.weight")
        norm = self.norm(p + "n", f"blk.{layer}.ffn_norm.weight")
        self.contributed("SkipSimplifiedLayerNormalization", [x, o, norm], [p + "h", "", "", p + "x"], epsilon=1e-5)
        gate = self.product(p + "h", self.inside, width, p + "gate", f"blk.{layer}.ffn_gate.weight")
        up = self.product(p + "h", self.inside, width, p + "up", f"blk.{layer}.ffn_up.weight")
        self.node("Sigmoid", [gate], [p + "sig"])
        self.node("Mul", [gate, p + "sig"], [p + "silu"])
        self.node("Mul", [p + "silu", up], [p + "f"])
        down = self.added(p + "f", width, self.inside, p + "d", f"blk.{layer}.ffn_down.weight")
        last = layer + 1 == self.layers
        norm = self.norm(p + "nn", "output_norm.weight" if last else f"blk.{layer + 1}.attn_norm.weight")
        self.contributed("SkipSimplifiedLayerNormalization", [p + "x", down, norm], [p + "y", "", "", p + "z"], epsilon=1e-5)
        return p + "z", p + "y"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("sizes", nargs="*", default=["135M"], choices=list(SIZES))
    parser.add_argument("--weights", nargs="+", default=["q4"], choices=["q4", "q8", "f16"])
    parser.add_argument("--level", type=int, default=4)
    parser.add_argument("--follows", type=float)
    arguments = parser.parse_args()
    os.makedirs(arguments.folder, exist_ok=True)
    for size in arguments.sizes:
        for weights in arguments.weights:
            rate = "" if arguments.follows is None else f"_follows_{arguments.follows:g}"
            path = f"{arguments.folder}/decoder_{size}_{weights}{rate}"
            writer = Writer(size, weights, arguments.level, arguments.follows)
            writer.begin_gguf(path + ".gguf")
            onnx.save(writer.build(), path + ".onnx")
            if writer.gguf:
                writer.gguf.write_header_to_file()
                writer.gguf.write_kv_data_to_file()
                writer.gguf.write_tensors_to_file()
                writer.gguf.close()
            print(path, os.path.getsize(path + ".onnx") >> 20, "MiB")


main()
