"""Makes the other dtypes of the models of make-models.py, with what transformers.js's own conversion uses (onnxruntime's quantizers).

    venv/bin/pip install onnx==1.23.2 onnxruntime==1.32.0
    venv/bin/python make-dtypes.py FOLDER
    node pack-models.mjs FOLDER models.br
"""

import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer
from onnxruntime.transformers import float16

ROOT = sys.argv[1]
FILES = {
    "minilm": ["model"],
    "vit": ["model"],
    "resnet": ["model"],
    "llama": ["model"],
    "t5": ["encoder_model", "decoder_model_merged"],
    "whisper": ["encoder_model", "decoder_model_merged"],
}
DTYPES = {
    "minilm": ["fp16", "int8", "uint8", "q8", "q4", "q4f16", "bnb4", "q2", "q2f16", "q1", "q1f16"],
    "vit": ["fp16", "int8", "uint8", "q8", "q4", "q4f16", "bnb4", "q2", "q2f16"],
    "resnet": ["fp16", "q8", "uint8"],
    "llama": ["fp16", "int8", "q8", "q4", "q4f16", "bnb4", "q2", "q2f16", "q1"],
    "t5": ["fp16", "q8", "q4", "q4f16"],
    "whisper": ["fp16", "q8", "q4", "q4f16"],
}
SUFFIX = {"q8": "quantized"}


def nbits(model, bits, block=32):
    config = DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=True, accuracy_level=None, bits=bits)
    quantizer = MatMulNBitsQuantizer(model, algo_config=config, bits=bits) if bits != 4 else MatMulNBitsQuantizer(model, block_size=block, is_symmetric=True)
    quantizer.process()
    return quantizer.model.model


def one_bit(model, block=32):
    """MatMulNBits of one bit: signs, with the mean of what they replace as scale; 0 stands for −1 and 1 for 1 at the zero point ½, so
    the weights are twice the scale apart and the zero point is written as a float."""
    for graph in graphs(model.graph):
        weights = {tensor.name: tensor for tensor in graph.initializer}
        for i, node in enumerate(list(graph.node)):
            if node.op_type != "MatMul" or node.input[1] not in weights:
                continue
            values = numpy_helper.to_array(weights[node.input[1]])
            if values.ndim != 2:
                continue
            inner, columns = values.shape
            blocks = -(-inner // block)
            padded = np.zeros((blocks * block, columns), values.dtype)
            padded[:inner] = values
            rows = padded.T.reshape(columns, blocks, block)
            scale = 2 * np.abs(rows).mean(axis=2).astype(values.dtype)
            packed = np.packbits((rows > 0).astype(np.uint8), axis=2, bitorder="little")
            base = node.input[1]
            graph.initializer.extend([
                numpy_helper.from_array(packed, base + "_Q1"), numpy_helper.from_array(scale, base + "_scales"),
                numpy_helper.from_array(np.full((columns, blocks), 0.5, values.dtype), base + "_zp")])
            made = helper.make_node("MatMulNBits", [node.input[0], base + "_Q1", base + "_scales", base + "_zp"], node.output, node.name + "_Q1",
                                    domain="com.microsoft", K=inner, N=columns, bits=1, block_size=block)
            graph.node[i].CopyFrom(made)
        used = {name for node in graph.node for name in node.input}
        for tensor in [tensor for tensor in graph.initializer if tensor.name not in used and tensor.name in weights]:
            graph.initializer.remove(tensor)
    if not any(entry.domain == "com.microsoft" for entry in model.opset_import):
        model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return model


def graphs(graph):
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


def name_apart(model):
    """Gives what the branches of merged decoders give other names than what the If gives, which the converter to float16 confuses."""
    for node in model.graph.node:
        for attribute in node.attribute:
            if attribute.type != onnx.AttributeProto.GRAPH:
                continue
            names = {output.name: f"{attribute.name}/{output.name}" for output in attribute.g.output}
            for output in attribute.g.output:
                output.name = names[output.name]
            for inner in attribute.g.node:
                inner.input[:] = [names.get(name, name) for name in inner.input]
                inner.output[:] = [names.get(name, name) for name in inner.output]
    return model


def make(name, file, dtype):
    source = os.path.join(ROOT, name, "onnx", file + ".onnx")
    target = os.path.join(ROOT, name, "onnx", f"{file}_{SUFFIX.get(dtype, dtype)}.onnx")
    if dtype in ("int8", "uint8", "q8"):
        convolves = any(node.op_type == "Conv" for graph in graphs(onnx.load(source).graph) for node in graph.node)
        signed = dtype == "int8" or (dtype == "q8" and not convolves)
        quantize_dynamic(source, target, weight_type=QuantType.QInt8 if signed else QuantType.QUInt8, per_channel=False, reduce_range=False,
                         extra_options={"EnableSubgraph": True, "MatMulConstBOnly": True})
        return
    model = onnx.load(source)
    if dtype.endswith("16"):
        model = float16.convert_float_to_float16(name_apart(model), keep_io_types=True, disable_shape_infer="merged" in file)
    if dtype.startswith("q1"):
        model = one_bit(model)
    elif dtype.startswith("q"):
        model = nbits(model, int(dtype[1]))
    elif dtype == "bnb4":
        quantizer = MatMulBnb4Quantizer(model, block_size=64, quant_type=MatMulBnb4Quantizer.NF4)
        quantizer.process()
        model = quantizer.model.model
    onnx.save(model, target)


for name, dtypes in DTYPES.items():
    for dtype in dtypes:
        for file in FILES[name]:
            try:
                make(name, file, dtype)
            except Exception as error:
                print("FAILED", name, file, dtype, repr(error)[:300], flush=True)
