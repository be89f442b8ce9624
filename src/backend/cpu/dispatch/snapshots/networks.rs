//! Networks of published shapes. What computes a step depends on shapes, and on weights being there, not on their values.

use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Clamp};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::{Reshape, Transpose};
use crate::graph::ops::normalization::LayerNormalization;
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Limits, Number, Op, OperandId};
use std::sync::Arc;

/// All networks by name.
pub fn all() -> Vec<(&'static str, Graph)> {
    vec![
        ("mobilenetv2", mobilenetv2()),
        ("mobilenetv3_block", mobilenetv3_block()),
        ("resnet50", resnet50()),
        ("minilm", encoder(6, 384, 12, 1536, 128)),
        ("decoder_step", decoder_step(2, 768, 12, 256)),
    ]
}

struct Network(GraphBuilder);

impl Network {
    fn new() -> Network {
        Network(GraphBuilder::new(Arc::new(Limits::everything())))
    }

    fn input(&mut self, name: &str, shape: &[u32]) -> OperandId {
        self.0.input(name, Descriptor::new(DataType::Float32, shape.to_vec())).unwrap()
    }

    /// Weights: zeros.
    fn weights(&mut self, shape: &[u32]) -> OperandId {
        let descriptor = Descriptor::new(DataType::Float32, shape.to_vec());
        let bytes = ConstantBytes::new(vec![0; descriptor.byte_length()]);
        self.0.constant(descriptor, bytes).unwrap()
    }

    fn number(&mut self, number: f32) -> OperandId {
        self.0.constant(Descriptor::new(DataType::Float32, []), ConstantBytes::new(number.to_le_bytes().to_vec())).unwrap()
    }

    fn op(&mut self, op: impl Into<Op>) -> OperandId {
        self.0.push_op(op, "").unwrap()[0]
    }

    fn binary(&mut self, kind: BinaryKind, a: OperandId, b: OperandId) -> OperandId {
        self.op(Binary { kind, a, b })
    }

    fn activation(&mut self, kind: ActivationKind, input: OperandId) -> OperandId {
        self.op(Activation { kind, input })
    }

    /// A convolution with the channels first, of `[inputs, outputs]` channels, with a bias, padded to keep the size.
    fn conv(&mut self, input: OperandId, [inputs, outputs]: [u32; 2], window: u32, stride: u32, groups: u32) -> OperandId {
        let filter = self.weights(&[outputs, inputs / groups, window, window]);
        let bias = Some(self.weights(&[outputs]));
        self.op(Conv2d {
            input,
            filter,
            padding: [window / 2; 4],
            strides: [stride; 2],
            dilations: [1; 2],
            groups,
            input_layout: InputOperandLayout::Nchw,
            filter_layout: Conv2dFilterOperandLayout::Oihw,
            bias,
        })
    }

    fn relu6(&mut self, input: OperandId) -> OperandId {
        self.op(Clamp { input, min_value: Some(Number::Double(0.0)), max_value: Some(Number::Double(6.0)) })
    }

    /// A product with a weight and a bias.
    fn dense(&mut self, a: OperandId, [inputs, outputs]: [u32; 2]) -> OperandId {
        let b = self.weights(&[inputs, outputs]);
        let product = self.op(Matmul { a, b });
        let bias = self.weights(&[outputs]);
        self.binary(BinaryKind::Add, product, bias)
    }

    fn reshape(&mut self, input: OperandId, shape: &[u32]) -> OperandId {
        self.op(Reshape { input, new_shape: shape.to_vec() })
    }

    fn transpose(&mut self, input: OperandId, permutation: &[u32]) -> OperandId {
        self.op(Transpose { input, permutation: Some(permutation.to_vec()) })
    }

    fn norm(&mut self, input: OperandId, size: u32) -> OperandId {
        let (scale, bias) = (self.weights(&[size]), self.weights(&[size]));
        self.op(LayerNormalization { input, scale: Some(scale), bias: Some(bias), axes: Some(vec![2]), epsilon: 1e-5 })
    }

    /// The mean of each channel.
    fn global_mean(&mut self, input: OperandId) -> OperandId {
        self.op(Reduce { kind: ReduceKind::Mean, input, axes: Some(vec![2, 3]), keep_dimensions: true })
    }

    fn build(mut self, output: OperandId) -> Graph {
        self.0.build(vec![("output".into(), output)]).unwrap()
    }
}

/// Sandler et al., 2018, width 1.0, of 224 x 224 pixels.
fn mobilenetv2() -> Graph {
    let mut network = Network::new();
    let image = network.input("input", &[1, 3, 224, 224]);
    let first = network.conv(image, [3, 32], 3, 2, 1);
    let mut x = network.relu6(first);
    let mut channels = 32;
    // Expansion, output channels, blocks, the stride of the first of them.
    let rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];
    for (expansion, outputs, blocks, stride) in rows {
        for block in 0..blocks {
            let (stride, inner) = (if block == 0 { stride } else { 1 }, channels * expansion);
            let mut y = x;
            if expansion != 1 {
                y = network.conv(y, [channels, inner], 1, 1, 1);
                y = network.relu6(y);
            }
            y = network.conv(y, [inner, inner], 3, stride, inner);
            y = network.relu6(y);
            y = network.conv(y, [inner, outputs], 1, 1, 1);
            x = if stride == 1 && channels == outputs { network.binary(BinaryKind::Add, x, y) } else { y };
            channels = outputs;
        }
    }
    let last = network.conv(x, [320, 1280], 1, 1, 1);
    let last = network.relu6(last);
    let mean = network.global_mean(last);
    let flat = network.reshape(mean, &[1, 1280]);
    let classes = network.dense(flat, [1280, 1000]);
    network.build(classes)
}

/// A block of MobileNetV3 (Howard et al., 2019) with squeeze and excitation, of 28 x 28 pixels.
fn mobilenetv3_block() -> Graph {
    let mut network = Network::new();
    let image = network.input("input", &[1, 40, 28, 28]);
    let expanded = network.conv(image, [40, 120], 1, 1, 1);
    let active = network.activation(ActivationKind::HardSwish, expanded);
    let filtered = network.conv(active, [120, 120], 5, 1, 120);
    let active = network.activation(ActivationKind::HardSwish, filtered);
    let mean = network.global_mean(active);
    let squeezed = network.conv(mean, [120, 32], 1, 1, 1);
    let squeezed = network.activation(ActivationKind::Relu, squeezed);
    let excited = network.conv(squeezed, [32, 120], 1, 1, 1);
    let factors = network.activation(ActivationKind::Sigmoid, excited);
    let scaled = network.binary(BinaryKind::Mul, active, factors);
    let projected = network.conv(scaled, [120, 40], 1, 1, 1);
    let sum = network.binary(BinaryKind::Add, image, projected);
    network.build(sum)
}

/// He et al., 2015, of 224 x 224 pixels, without the pooling after the first convolution.
fn resnet50() -> Graph {
    let mut network = Network::new();
    let image = network.input("input", &[1, 3, 224, 224]);
    let first = network.conv(image, [3, 64], 7, 4, 1);
    let mut x = network.activation(ActivationKind::Relu, first);
    let mut channels = 64;
    for (width, blocks, stride) in [(64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)] {
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            let mut y = network.conv(x, [channels, width], 1, 1, 1);
            y = network.activation(ActivationKind::Relu, y);
            y = network.conv(y, [width, width], 3, stride, 1);
            y = network.activation(ActivationKind::Relu, y);
            y = network.conv(y, [width, 4 * width], 1, 1, 1);
            let shortcut = if block == 0 { network.conv(x, [channels, 4 * width], 1, stride, 1) } else { x };
            let sum = network.binary(BinaryKind::Add, y, shortcut);
            x = network.activation(ActivationKind::Relu, sum);
            channels = 4 * width;
        }
    }
    let mean = network.global_mean(x);
    let flat = network.reshape(mean, &[1, 2048]);
    let classes = network.dense(flat, [2048, 1000]);
    network.build(classes)
}

/// A transformer's encoder, from its embeddings on.
fn encoder(layers: u32, width: u32, heads: u32, inner: u32, length: u32) -> Graph {
    let mut network = Network::new();
    let embeddings = network.input("input", &[1, length, width]);
    let mut x = network.norm(embeddings, width);
    let size = width / heads;
    for _ in 0..layers {
        let [q, k, v] = [[0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]].map(|order: [u32; 4]| {
            let projected = network.dense(x, [width, width]);
            let split = network.reshape(projected, &[1, length, heads, size]);
            network.transpose(split, &order)
        });
        let scores = network.op(Matmul { a: q, b: k });
        let factor = network.number((size as f32).sqrt().recip());
        let scaled = network.binary(BinaryKind::Mul, scores, factor);
        let weights = network.op(Softmax { input: scaled, axis: 3 });
        let sums = network.op(Matmul { a: weights, b: v });
        let joined = network.transpose(sums, &[0, 2, 1, 3]);
        let joined = network.reshape(joined, &[1, length, width]);
        let projected = network.dense(joined, [width, width]);
        let residual = network.binary(BinaryKind::Add, x, projected);
        x = network.norm(residual, width);
        let up = network.dense(x, [width, inner]);
        let active = network.activation(ActivationKind::Gelu, up);
        let down = network.dense(active, [inner, width]);
        let residual = network.binary(BinaryKind::Add, x, down);
        x = network.norm(residual, width);
    }
    network.build(x)
}

/// One token through a decoder whose caches of keys and values have so many positions.
fn decoder_step(layers: u32, width: u32, heads: u32, length: u32) -> Graph {
    let mut network = Network::new();
    let mut x = network.input("input", &[1, 1, width]);
    let size = width / heads;
    for layer in 0..layers {
        let normal = network.norm(x, width);
        let projected = network.dense(normal, [width, width]);
        let query = network.reshape(projected, &[1, heads, 1, size]);
        let keys = network.input(&format!("keys{layer}"), &[1, heads, length, size]);
        let values = network.input(&format!("values{layer}"), &[1, heads, length, size]);
        let transposed = network.transpose(keys, &[0, 1, 3, 2]);
        let scores = network.op(Matmul { a: query, b: transposed });
        let factor = network.number((size as f32).sqrt().recip());
        let scaled = network.binary(BinaryKind::Mul, scores, factor);
        let weights = network.op(Softmax { input: scaled, axis: 3 });
        let sums = network.op(Matmul { a: weights, b: values });
        let joined = network.reshape(sums, &[1, 1, width]);
        let projected = network.dense(joined, [width, width]);
        x = network.binary(BinaryKind::Add, x, projected);
        let normal = network.norm(x, width);
        let up = network.dense(normal, [width, 4 * width]);
        let active = network.activation(ActivationKind::Gelu, up);
        let down = network.dense(active, [4 * width, width]);
        x = network.binary(BinaryKind::Add, x, down);
    }
    let logits = network.dense(x, [width, 50257]);
    network.build(logits)
}
