"""Small networks of many kinds, with weights of a seed each: python networks.py FOLDER writes NAME.onnx of each.

What they are made of is that of the networks that they are named after; weights keep the variance of what goes through.
"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Network:
    """A graph that grows by one operator after the other; operands are the names of values."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs = [], [], []

    def input(self, name, shape, kind=TensorProto.FLOAT):
        self.inputs.append(helper.make_tensor_value_info(name, kind, shape))
        return name

    def constant(self, values):
        values = np.asarray(values)
        values = values.astype(np.float32) if values.dtype == np.float64 else values
        name = f'weights{len(self.weights)}'
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def normal(self, *shape, deviation=1.0):
        return self.constant(self.random.standard_normal(shape) * deviation)

    def shape(self, *sizes):
        return self.constant(np.array(sizes, np.int64))

    def op(self, kind, *operands, outputs=1, **attributes):
        names = [f'value{len(self.nodes)}_{i}' for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, [x or '' for x in operands], names, **attributes))
        return names[0] if outputs == 1 else names

    def activation(self, x, kind):
        if kind == 'Swish':
            return self.op('Mul', x, self.op('Sigmoid', x))
        if kind == 'Gelu':
            by_erf = self.op('Add', self.op('Erf', self.op('Div', x, self.constant(np.float32(2 ** 0.5)))), self.constant(np.float32(1)))
            return self.op('Mul', self.op('Mul', x, by_erf), self.constant(np.float32(0.5)))
        return self.op(kind, x) if kind else x

    def conv(self, x, channels, window, activation=None, stride=1, groups=1, dilation=1, padding=None):
        """Of `channels` = (before, behind), with as many pixels behind as before if strides are 1."""
        before, behind = channels
        padding = [(size * dilation - dilation) // 2 for size in window] if padding is None else [padding] * len(window)
        weights = self.normal(behind, before // groups, *window, deviation=1.4 / np.sqrt(before // groups * np.prod(window)))
        y = self.op('Conv', x, weights, self.normal(behind, deviation=0.1), kernel_shape=list(window), group=groups, pads=padding * 2,
                    strides=[stride] * len(window), dilations=[dilation] * len(window))
        return self.activation(y, activation)

    def conv_transpose(self, x, channels, window, padding):
        before, behind = channels
        weights = self.normal(before, behind, *window, deviation=2 / np.sqrt(behind * np.prod(window)))
        return self.op('ConvTranspose', x, weights, self.normal(behind, deviation=0.1), kernel_shape=list(window), strides=[2, 2], pads=[padding] * 4)

    def batch_normalization(self, x, channels):
        scale, bias, mean = (self.constant(at + 0.1 * self.random.standard_normal(channels)) for at in (1, 0, 0))
        return self.op('BatchNormalization', x, scale, bias, mean, self.constant(1 + 0.2 * self.random.random(channels)))

    def linear(self, x, before, behind, activation=None, bias=True):
        y = self.op('MatMul', x, self.normal(before, behind, deviation=before ** -0.5))
        return self.activation(self.op('Add', y, self.normal(behind, deviation=0.1)) if bias else y, activation)

    def feed_forward(self, x, size, activation='Gelu'):
        return self.linear(self.linear(x, size, 4 * size, activation), 4 * size, size)

    def layer_normalization(self, x, size):
        scale, bias = (self.constant(at + 0.1 * self.random.standard_normal(size)) for at in (1, 0))
        return self.op('LayerNormalization', x, scale, bias, axis=-1, epsilon=1e-5)

    def rms_normalization(self, x, size):
        mean = self.op('ReduceMean', self.op('Mul', x, x), self.shape(-1), keepdims=1)
        root = self.op('Sqrt', self.op('Add', mean, self.constant(np.float32(1e-6))))
        return self.op('Mul', self.op('Div', x, root), self.constant(1 + 0.1 * self.random.standard_normal(size)))

    def add(self, x, y):
        return self.op('Add', x, y)

    def concat(self, *operands, axis=1):
        return self.op('Concat', *operands, axis=axis)

    def reshape(self, x, *sizes):
        return self.op('Reshape', x, self.shape(*sizes))

    def transpose(self, x, *order):
        return self.op('Transpose', x, perm=order)

    def max_pool(self, x, window, padding=0):
        return self.op('MaxPool', x, kernel_shape=[window] * 2, strides=[2, 2], pads=[padding] * 4)

    def resized(self, x, scale, **attributes):
        return self.op('Resize', x, None, self.constant(np.array([1, 1, scale, scale], np.float32)), **attributes)

    def classes(self, x, channels, count):
        """Of the mean of all pixels."""
        return self.linear(self.reshape(self.op('GlobalAveragePool', x), 1, channels), channels, count)

    def patches(self, x, size):
        """A row of numbers for each 16 x 16 pixels of 112 x 112."""
        return self.transpose(self.reshape(self.conv(x, (3, size), (16, 16), stride=16, padding=0), 1, size, 49), 0, 2, 1)

    def attention(self, x, other, size, heads, bias=None, is_scaled=True):
        """Of rows of `x` = (value, count) to those of `other`."""
        (x, queries), (other, keys) = x, other
        of_head = size // heads
        split = lambda y, count: self.reshape(self.linear(y, size, size), 1, count, heads, of_head)
        q, k, v = self.transpose(split(x, queries), 0, 2, 1, 3), self.transpose(split(other, keys), 0, 2, 3, 1), self.transpose(split(other, keys), 0, 2, 1, 3)
        scores = self.op('MatMul', q, k)
        scores = self.op('Div', scores, self.constant(np.float32(of_head ** 0.5))) if is_scaled else scores
        scores = self.add(scores, bias) if bias else scores
        y = self.op('MatMul', self.op('Softmax', scores, axis=-1), v)
        return self.linear(self.reshape(self.transpose(y, 0, 2, 1, 3), 1, queries, size), size, size)

    def encoder_layer(self, x, count, size, heads):
        y = self.layer_normalization(x, size)
        x = self.add(x, self.attention((y, count), (y, count), size, heads))
        return self.add(x, self.feed_forward(self.layer_normalization(x, size), size))

    def save(self, path, output, shape):
        self.nodes.append(helper.make_node('Identity', [output], ['output']))
        outputs = [helper.make_tensor_value_info('output', TensorProto.FLOAT, shape)]
        graph = helper.make_graph(self.nodes, 'network', self.inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid('', 18)], ir_version=9)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def unet(n):
    def twice(x, before, behind):
        return n.conv(n.conv(x, (before, behind), (3, 3), 'Relu'), (behind, behind), (3, 3), 'Relu')
    first = twice(n.input('image', [1, 3, 96, 96]), 3, 32)
    second = twice(n.max_pool(first, 2), 32, 64)
    third = twice(n.max_pool(second, 2), 64, 128)
    second = twice(n.concat(n.conv_transpose(third, (128, 64), (2, 2), 0), second), 128, 64)
    first = twice(n.concat(n.conv_transpose(second, (64, 32), (2, 2), 0), first), 64, 32)
    return n.conv(first, (32, 5), (1, 1)), [1, 5, 96, 96]


def shufflenet(n, groups=4):
    def unit(x, before, behind, pixels, is_first):
        inner, outer = behind // 4, behind - before if is_first else behind
        y = n.conv(x, (before, inner), (1, 1), 'Relu', groups=1 if before == 24 else groups)
        y = n.transpose(n.reshape(y, 1, groups, inner // groups, pixels, pixels), 0, 2, 1, 3, 4)
        y = n.conv(n.reshape(y, 1, inner, pixels, pixels), (inner, inner), (3, 3), stride=2 if is_first else 1, groups=inner)
        y = n.conv(y, (inner, outer), (1, 1), groups=groups)
        if is_first:
            x = n.op('AveragePool', x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        return n.op('Relu', n.concat(y, x) if is_first else n.add(y, x))
    x = n.conv(n.input('image', [1, 3, 112, 112]), (3, 24), (3, 3), 'Relu', stride=2)
    x, channels, pixels = n.max_pool(x, 3, 1), 24, 28
    for behind in (272, 544):
        x = unit(x, channels, behind, pixels, True)
        channels, pixels = behind, pixels // 2
        for _ in range(2):
            x = unit(x, channels, channels, pixels, False)
    return n.classes(x, channels, 1000), [1, 1000]


def efficientnet(n):
    def block(x, before, behind, window, stride, factor):
        inner, few = before * factor, max(8, before // 4)
        y = n.conv(x, (before, inner), (1, 1), 'Swish') if factor > 1 else x
        y = n.conv(y, (inner, inner), (window, window), 'Swish', stride=stride, groups=inner)
        squeezed = n.conv(n.op('GlobalAveragePool', y), (inner, few), (1, 1), 'Swish')
        y = n.op('Mul', y, n.conv(squeezed, (few, inner), (1, 1), 'Sigmoid'))
        y = n.conv(y, (inner, behind), (1, 1))
        return n.add(x, y) if stride == 1 and before == behind else y
    x = n.conv(n.input('image', [1, 3, 112, 112]), (3, 32), (3, 3), 'Swish', stride=2)
    for row in ((32, 16, 3, 1, 1), (16, 24, 3, 2, 6), (24, 24, 3, 1, 6), (24, 40, 5, 2, 6), (40, 40, 5, 1, 6), (40, 80, 3, 2, 6),
                (80, 80, 3, 1, 6), (80, 112, 5, 1, 6), (112, 192, 5, 1, 6)):
        x = block(x, *row)
    return n.classes(n.conv(x, (192, 640), (1, 1), 'Swish'), 640, 1000), [1, 1000]


def convnext(n):
    def block(x, size):
        y = n.transpose(n.conv(x, (size, size), (7, 7), groups=size), 0, 2, 3, 1)
        y = n.op('Mul', n.feed_forward(n.layer_normalization(y, size), size), n.constant(np.full(size, 0.5)))
        return n.add(x, n.transpose(y, 0, 3, 1, 2))
    x = n.conv(n.input('image', [1, 3, 112, 112]), (3, 96), (4, 4), stride=4, padding=0)
    for _ in range(2):
        x = block(x, 96)
    x = n.transpose(n.layer_normalization(n.transpose(x, 0, 2, 3, 1), 96), 0, 3, 1, 2)
    x = n.conv(x, (96, 192), (2, 2), stride=2, padding=0)
    for _ in range(3):
        x = block(x, 192)
    return n.classes(x, 192, 1000), [1, 1000]


def vit(n, size=192):
    x = n.concat(n.normal(1, 1, size), n.patches(n.input('image', [1, 3, 112, 112]), size))
    x = n.add(x, n.normal(1, 50, size, deviation=0.1))
    for _ in range(4):
        x = n.encoder_layer(x, 50, size, 3)
    x = n.op('Gather', n.layer_normalization(x, size), n.constant(np.array(0, np.int64)), axis=1)
    return n.linear(x, size, 1000), [1, 1000]


def mixer(n, size=192):
    x = n.patches(n.input('image', [1, 3, 112, 112]), size)
    for _ in range(4):
        y = n.transpose(n.layer_normalization(x, size), 0, 2, 1)
        x = n.add(x, n.transpose(n.linear(n.linear(y, 49, 96, 'Gelu'), 96, 49), 0, 2, 1))
        x = n.add(x, n.feed_forward(n.layer_normalization(x, size), size))
    x = n.op('ReduceMean', n.layer_normalization(x, size), n.shape(1), keepdims=0)
    return n.linear(x, size, 1000), [1, 1000]


def conformer(n, size=144, count=100):
    def half(x):
        return n.op('Mul', n.feed_forward(n.layer_normalization(x, size), size, 'Swish'), n.constant(np.float32(0.5)))
    x = n.transpose(n.conv(n.input('features', [1, 80, 2 * count]), (80, size), (3,), 'Relu', stride=2), 0, 2, 1)
    for _ in range(2):
        x = n.add(x, half(x))
        y = n.layer_normalization(x, size)
        x = n.add(x, n.attention((y, count), (y, count), size, 4))
        y = n.conv(n.transpose(n.layer_normalization(x, size), 0, 2, 1), (size, 2 * size), (1,))
        y, gate = n.op('Split', y, n.shape(size, size), outputs=2, axis=1)
        y = n.conv(n.op('Mul', y, n.op('Sigmoid', gate)), (size, size), (15,), groups=size)
        y = n.conv(n.activation(n.batch_normalization(y, size), 'Swish'), (size, size), (1,))
        x = n.add(x, n.transpose(y, 0, 2, 1))
        x = n.layer_normalization(n.add(x, half(x)), size)
    return n.linear(x, size, 96), [1, count, 96]


def wav2vec(n, size=192):
    x, channels, count = n.input('samples', [1, 1, 8000]), 1, 8000
    for window, stride in ((10, 5), (3, 2), (3, 2), (3, 2), (2, 2)):
        x = n.conv(x, (channels, 256), (window,), 'Gelu', stride=stride, padding=0)
        channels, count = 256, (count - window) // stride + 1
    x = n.linear(n.layer_normalization(n.transpose(x, 0, 2, 1), 256), 256, size)
    places = n.conv(n.transpose(x, 0, 2, 1), (size, size), (17,), 'Gelu', groups=8)
    x = n.encoder_layer(n.add(x, n.transpose(places, 0, 2, 1)), count, size, 4)
    return n.linear(n.layer_normalization(x, size), size, 32), [1, count, 32]


def recurrent(n, kind, gates, states, x, before, hidden, directions):
    weights = [n.normal(directions, gates * hidden, size, deviation=size ** -0.5) for size in (before, hidden)]
    direction = 'bidirectional' if directions == 2 else 'forward'
    attributes = {'linear_before_reset': 1} if kind == 'GRU' else {}
    bias = n.normal(directions, 2 * gates * hidden, deviation=0.1)
    return n.op(kind, x, *weights, bias, outputs=states, hidden_size=hidden, direction=direction, **attributes)[0]


def tagger(n, count=40, hidden=160):
    x = n.op('Gather', n.normal(3000, 128), n.input('words', [count, 1], TensorProto.INT64))
    for before in (128, 2 * hidden):
        y = recurrent(n, 'GRU', 3, 2, x, before, hidden, 2)
        x = n.reshape(n.transpose(y, 0, 2, 1, 3), count, 1, 2 * hidden)
    return n.linear(x, 2 * hidden, 50), [count, 1, 50]


def lstm_layers(n, count=30, hidden=192):
    x = n.input('features', [count, 2, 64])
    for before in (64, hidden):
        x = n.reshape(recurrent(n, 'LSTM', 4, 3, x, before, hidden, 1), count, 2, hidden)
    return n.linear(x, hidden, 100), [count, 2, 100]


def t5(n, size=256, heads=4, sources=48, targets=16):
    words = n.normal(3000, size)
    source, target = (n.op('Gather', words, n.input(name, [1, count], TensorProto.INT64)) for name, count in (('source', sources), ('target', targets)))
    of_source = n.normal(1, heads, sources, sources)
    of_target = n.constant(n.random.standard_normal((1, heads, targets, targets)) + np.triu(np.full((targets, targets), -1e9), 1))

    def attend(x, count, other, others, bias=None):
        y = n.rms_normalization(x, size)
        return n.add(x, n.attention((y, count), (other or y, others), size, heads, bias, is_scaled=False))

    def gated(x):
        y = n.rms_normalization(x, size)
        y = n.op('Mul', n.linear(y, size, 2 * size, 'Gelu', bias=False), n.linear(y, size, 2 * size, bias=False))
        return n.add(x, n.linear(y, 2 * size, size, bias=False))

    for _ in range(2):
        source = gated(attend(source, sources, None, sources, of_source))
    source = n.rms_normalization(source, size)
    for _ in range(2):
        target = attend(attend(target, targets, None, targets, of_target), targets, source, sources)
        target = gated(target)
    return n.linear(n.rms_normalization(target, size), size, 3000, bias=False), [1, targets, 3000]


def dcgan(n):
    x = n.op('Relu', n.reshape(n.linear(n.input('noise', [1, 100]), 100, 256 * 16), 1, 256, 4, 4))
    for before, behind in ((256, 128), (128, 64), (64, 32)):
        x = n.op('Relu', n.batch_normalization(n.conv_transpose(x, (before, behind), (4, 4), 1), behind))
    return n.op('Tanh', n.conv_transpose(x, (32, 3), (4, 4), 1)), [1, 3, 64, 64]


def deeplab(n):
    x = n.conv(n.input('image', [1, 3, 96, 96]), (3, 32), (3, 3), 'Relu', stride=2)
    x = n.conv(n.conv(x, (32, 64), (3, 3), 'Relu', stride=2), (64, 96), (3, 3), 'Relu')
    branches = [n.conv(x, (96, 64), (1, 1), 'Relu')] + [n.conv(x, (96, 64), (3, 3), 'Relu', dilation=d) for d in (2, 4, 6)]
    mean = n.op('Expand', n.conv(n.op('GlobalAveragePool', x), (96, 64), (1, 1), 'Relu'), n.shape(1, 64, 24, 24))
    x = n.conv(n.conv(n.concat(*branches, mean), (320, 96), (1, 1), 'Relu'), (96, 19), (1, 1))
    return n.resized(x, 4, mode='linear', coordinate_transformation_mode='half_pixel'), [1, 19, 96, 96]


def resnext(n):
    def block(x, before, inner, behind, stride):
        y = n.conv(n.conv(x, (before, inner), (1, 1), 'Relu'), (inner, inner), (3, 3), 'Relu', stride=stride, groups=32)
        x = n.conv(x, (before, behind), (1, 1), stride=stride) if before != behind else x
        return n.op('Relu', n.add(n.conv(y, (inner, behind), (1, 1)), x))
    x = n.max_pool(n.conv(n.input('image', [1, 3, 112, 112]), (3, 64), (7, 7), 'Relu', stride=2), 3, 1)
    for row in ((64, 128, 256, 1), (256, 128, 256, 1), (256, 256, 512, 2), (512, 256, 512, 1), (512, 512, 1024, 2)):
        x = block(x, *row)
    return n.classes(x, 1024, 1000), [1, 1000]


def yolo(n):
    def conv(x, before, behind, window=3, stride=1):
        return n.conv(x, (before, behind), (window, window), 'Swish', stride=stride)

    def partial(x, channels):
        half = channels // 2
        y, rest = conv(x, channels, half, 1), conv(x, channels, half, 1)
        for _ in range(2):
            y = n.add(y, conv(conv(y, half, half, 1), half, half))
        return conv(n.concat(y, rest), channels, channels, 1)
    x = partial(conv(conv(n.input('image', [1, 3, 160, 160]), 3, 16, stride=2), 16, 32, stride=2), 32)
    middle = partial(conv(x, 32, 64, stride=2), 64)
    x = conv(partial(conv(middle, 64, 128, stride=2), 128), 128, 64, 1)
    x = n.resized(x, 2, mode='nearest', coordinate_transformation_mode='asymmetric', nearest_mode='floor')
    x = partial(conv(n.concat(x, middle), 128, 64, 1), 64)
    return n.conv(x, (64, 85), (1, 1)), [1, 85, 20, 20]


NETWORKS = [unet, shufflenet, efficientnet, convnext, vit, mixer, conformer, wav2vec, tagger, lstm_layers, t5, dcgan, deeplab, resnext, yolo]

if __name__ == '__main__':
    for seed, make in enumerate(NETWORKS):
        network = Network(seed)
        network.save(f'{sys.argv[1]}/{make.__name__}.onnx', *make(network))
