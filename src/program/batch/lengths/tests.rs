//! Texts that end earlier than the longest of a joined run give what they give alone; what sees the places after their ends is refused.

use super::super::analyse;
use super::{Refusal, hidden, proof};
use crate::backend::cpu::reference::interpret;
use crate::graph::attribute::Modulo;
use crate::graph::ops::check::CheckIndices;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::cumulative::CumulativeSum;
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, Cast, Clamp, Logical, LogicalKind, UnaryKind, Where,
};
use crate::graph::ops::gather::Gather;
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::movement::{Concat, Expand, Reverse, Slice, Triangular};
use crate::graph::ops::normalization::LayerNormalization;
use crate::graph::ops::quantized::{DynamicQuantizeLinear, QuantizedMatmul};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::testing::{GraphSketch, bytes_of, numbers};
use crate::graph::{DataType, Descriptor, Graph, Number, Op, OperandId};

/// The longest text of a joined run, all of its texts, and the width of what a place of them has.
const LENGTH: u32 = 7;
const TEXTS: [u32; 4] = [3, 7, 2, 5];
const WIDTH: u32 = 4;

/// A graph under construction for so many texts of a length.
type Sketch = GraphSketch<Texts>;

struct Texts {
    texts: u32,
    length: u32,
}

impl Sketch {
    /// `[texts, length, WIDTH]`
    fn x(&mut self) -> OperandId {
        let shape = [self.data.texts, self.data.length, WIDTH];
        self.input("x", &shape)
    }

    /// `[texts, length]`
    fn mask(&mut self) -> OperandId {
        let shape = [self.data.texts, self.data.length];
        self.input_of("mask", DataType::Int32, &shape)
    }

    /// `[texts, 1, 1, length]`: 0, and `hides` where the mask is 0.
    fn bias(&mut self, hides: f32) -> OperandId {
        let mask = self.mask();
        self.bias_of(mask, hides)
    }

    fn bias_of(&mut self, mask: OperandId, hides: f32) -> OperandId {
        let wide = self.reshape(mask, &[self.data.texts, 1, 1, self.data.length]);
        let float = self.push(Cast { input: wide, data_type: DataType::Float32 });
        let (one, lowest) = (self.scalar(1.0), self.scalar(hides));
        let left = self.binary(BinaryKind::Sub, one, float);
        self.binary(BinaryKind::Mul, left, lowest)
    }

    /// Heads of `[texts, length, WIDTH]`: `[texts, 2, length, WIDTH / 2]`.
    fn heads(&mut self, x: OperandId, seed: u32) -> OperandId {
        let weights = self.weights(&[WIDTH, WIDTH], seed);
        let all = self.product(x, weights);
        let apart = self.reshape(all, &[self.data.texts, self.data.length, 2, WIDTH / 2]);
        self.transpose(apart, &[0, 2, 1, 3])
    }

    /// A layer with attention, whose scores are changed so.
    fn attention(&mut self, x: OperandId, change: impl Fn(&mut Sketch, OperandId) -> OperandId) -> OperandId {
        let [q, k, v] = [1, 2, 3].map(|seed| self.heads(x, seed));
        let k = self.transpose(k, &[0, 1, 3, 2]);
        let scores = self.product(q, k);
        let scores = change(self, scores);
        let shares = self.push(Softmax { input: scores, axis: 3 });
        let heads = self.product(shares, v);
        let beside = self.transpose(heads, &[0, 2, 1, 3]);
        let all = self.reshape(beside, &[self.data.texts, self.data.length, WIDTH]);
        let sum = self.binary(BinaryKind::Add, all, x);
        self.normalize(sum)
    }

    /// As exporters write it out.
    fn normalize(&mut self, x: OperandId) -> OperandId {
        let mean = self.reduce(ReduceKind::Mean, x, 2);
        let apart = self.binary(BinaryKind::Sub, x, mean);
        let two = self.scalar(2.0);
        let squares = self.binary(BinaryKind::Pow, apart, two);
        let variance = self.reduce(ReduceKind::Mean, squares, 2);
        let epsilon = self.scalar(1e-12);
        let sum = self.binary(BinaryKind::Add, variance, epsilon);
        let deviation = self.unary(UnaryKind::Sqrt, sum);
        let normal = self.binary(BinaryKind::Div, apart, deviation);
        let (scale, bias) = (self.weights(&[WIDTH], 5), self.weights(&[WIDTH], 6));
        let scaled = self.binary(BinaryKind::Mul, normal, scale);
        self.binary(BinaryKind::Add, scaled, bias)
    }

    /// The mean of those places that the mask has.
    fn masked_mean(&mut self, x: OperandId, mask: OperandId) -> OperandId {
        let wide = self.reshape(mask, &[self.data.texts, self.data.length, 1]);
        let wide = self.push(Expand { input: wide, new_shape: vec![self.data.texts, self.data.length, WIDTH] });
        let float = self.push(Cast { input: wide, data_type: DataType::Float32 });
        let product = self.binary(BinaryKind::Mul, x, float);
        let (sum, count) = (self.reduce(ReduceKind::Sum, product, 1), self.reduce(ReduceKind::Sum, float, 1));
        let count = self.push(Clamp { input: count, min_value: Some(Number::Double(1e-9)), max_value: None });
        self.binary(BinaryKind::Div, sum, count)
    }
}

fn graph(texts: u32, length: u32, build: &impl Fn(&mut Sketch)) -> Graph {
    let mut sketch = GraphSketch::default().and(Texts { texts, length });
    build(&mut sketch);
    sketch.build()
}

/// What a text has as an input: of the mask ones, and zeros for some.
fn text_of(text: usize, name: &str, elements: usize) -> Vec<u8> {
    match name {
        "mask" => (0..elements).flat_map(|at| i32::from(text != 3 || at > 1).to_ne_bytes()).collect(),
        "ids" => (0..elements).flat_map(|at| ((at * 3 + text) as i32 % 9 + 1).to_ne_bytes()).collect(),
        _ => bytes_of(numbers(elements, text as u32 + 17)),
    }
}

/// The elements of a box in a larger one.
fn part(all: &[u8], shape: &[u32], first: &[u32], sizes: &[u32]) -> Vec<f32> {
    let places = super::Places::of(sizes, shape);
    let offset = first.iter().zip(shape).fold(0, |place, (&at, &size)| place * size as usize + at as usize);
    places.map(|place| f32::from_ne_bytes(all[4 * (place + offset)..][..4].try_into().unwrap())).collect()
}

/// Each text is computed as it is alone.
#[track_caller]
fn fits(build: impl Fn(&mut Sketch)) {
    let (one, many) = (graph(1, LENGTH, &build), graph(TEXTS.len() as u32, LENGTH, &build));
    let rows = analyse(&one, &many).unwrap();
    let outputs: Vec<_> = many.outputs.iter().map(|(_, id)| (many.descriptor(*id).clone(), rows.rows(*id))).collect();
    drop(rows);
    let proofs = TEXTS.map(|length| {
        let short = graph(1, length, &build);
        (length < LENGTH).then(|| proof(&short, &one).unwrap())
    });
    let joined = hidden(many, &one, proofs[0].as_ref().unwrap()).unwrap();
    let input = |(name, id): &(String, OperandId)| -> Vec<u8> {
        let shape = joined.descriptor(*id).shape.clone();
        let of_text = |(text, &length): (usize, &u32)| -> Vec<u8> {
            if name == super::hide::HIDDEN {
                let hides = |at: u32| if at < length { 0.0 } else { f32::NEG_INFINITY };
                return (0..LENGTH).flat_map(|at| hides(at).to_ne_bytes()).collect();
            }
            let inner = shape[2..].iter().product::<u32>();
            let mut bytes = text_of(text, name, (length * inner) as usize);
            bytes.resize((LENGTH * inner) as usize * 4, 0);
            bytes
        };
        TEXTS.iter().enumerate().flat_map(of_text).collect()
    };
    let inputs: Vec<Vec<u8>> = joined.inputs.iter().map(input).collect();
    let found = interpret(&joined, &inputs.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
    for (text, &length) in TEXTS.iter().enumerate() {
        let short = graph(1, length, &build);
        let own = |(name, id): &(String, OperandId)| text_of(text, name, short.descriptor(*id).element_count());
        let own: Vec<Vec<u8>> = short.inputs.iter().map(own).collect();
        let alone = interpret(&short, &own.iter().map(|bytes| &bytes[..]).collect::<Vec<_>>());
        for (at, (_, id)) in short.outputs.iter().enumerate() {
            let (Descriptor { shape, .. }, rows) = &outputs[at];
            let sizes = &short.descriptor(*id).shape;
            let mut first = vec![0; shape.len()];
            if let Some(axis) = *rows {
                first[axis] = text as u32 * (shape[axis] / TEXTS.len() as u32);
            }
            let (found, alone) = (part(&found[at], shape, &first, sizes), part(&alone[at], sizes, &vec![0; sizes.len()], sizes));
            for (found, alone) in found.iter().zip(&alone) {
                let is_near = (found - alone).abs() <= 1e-5 * alone.abs().max(1.0) || found.is_nan() && alone.is_nan();
                assert!(is_near, "text {text}, output {at}: {found} instead of {alone}");
            }
        }
    }
}

/// A text that is shorter is refused for this operator.
#[track_caller]
fn refused(operator: &str, build: impl Fn(&mut Sketch)) {
    match proof(&graph(1, 4, &build), &graph(1, LENGTH, &build)) {
        Ok(_) => panic!("accepted"),
        Err(Refusal { operator: found, reason, .. }) => assert_eq!(found, operator, "{reason}"),
    }
}

#[test]
fn what_numbers_can_be_in_their_type() {
    use super::interval::{ANYTHING, FINITE, from_to};
    let one = |number: f64| from_to(number, number);
    // Whole numbers wrap around and are rounded.
    assert_eq!(one(200.0).of_type(DataType::Int8), FINITE);
    assert_eq!(one(200.0).of_type(DataType::Uint8), one(200.0));
    assert_eq!(one(-1.0).of_type(DataType::Uint8), FINITE);
    assert_eq!(one(0.5).of_type(DataType::Int32), from_to(0.0, 1.0));
    // One that is too large is infinite, and one that is too small is nothing.
    assert_eq!(one(1e39).of_type(DataType::Float32), ANYTHING);
    assert_eq!(one(-1e39).of_type(DataType::Float32), from_to(f64::NEG_INFINITY, -f64::from(f32::MAX)));
    assert_eq!(from_to(1e-12, 1.0).of_type(DataType::Float32), from_to(1e-12, 1.0));
    assert_eq!(from_to(1e-12, 1.0).of_type(DataType::Float16), from_to(0.0, 1.0));
}

#[test]
fn attention_with_masks() {
    for hides in [-1e4, f32::MIN, -10.0] {
        fits(|g| {
            let (x, bias) = (g.x(), g.bias(hides));
            // The second layer sees what the first one has put after the end.
            let y = g.attention(x, |g, scores| g.binary(BinaryKind::Add, scores, bias));
            let y = g.attention(y, |g, scores| g.binary(BinaryKind::Add, bias, scores));
            g.end(y);
        });
    }
    // Another mask for each query, as newer exports have it.
    fits(|g| {
        let (x, mask) = (g.x(), g.mask());
        let wide = g.reshape(mask, &[g.data.texts, 1, 1, g.data.length]);
        let all = g.push(Expand { input: wide, new_shape: vec![g.data.texts, 1, g.data.length, g.data.length] });
        let zero = g.integers(&[], [0]);
        let is_hidden = g.push(Logical { kind: LogicalKind::Equal, a: all, b: zero });
        let (lowest, nothing) = (g.scalar(f32::NEG_INFINITY), g.scalar(0.0));
        let bias = g.push(Where { condition: is_hidden, true_value: lowest, false_value: nothing });
        let y = g.attention(x, |g, scores| g.binary(BinaryKind::Add, scores, bias));
        let y = g.attention(y, |g, scores| g.push(Where { condition: is_hidden, true_value: lowest, false_value: scores }));
        g.end(y);
    });
    // Of queries and keys: of a place that is not one of the text the model hides all.
    fits(|g| {
        let (x, mask) = (g.x(), g.mask());
        let [keys, queries] =
            [[g.data.texts, 1, 1, g.data.length], [g.data.texts, 1, g.data.length, 1]].map(|shape| g.reshape(mask, &shape));
        let both = g.push(Binary { kind: BinaryKind::Mul, a: keys, b: queries });
        let float = g.push(Cast { input: both, data_type: DataType::Float32 });
        let (one, lowest) = (g.scalar(1.0), g.scalar(f32::MIN));
        let left = g.binary(BinaryKind::Sub, one, float);
        let bias = g.binary(BinaryKind::Mul, left, lowest);
        let y = g.attention(x, |g, scores| g.binary(BinaryKind::Add, scores, bias));
        let y = g.attention(y, |g, scores| g.binary(BinaryKind::Add, scores, bias));
        g.end(y);
    });
}

#[test]
fn attention_without_a_mask() {
    fits(|g| {
        let x = g.x();
        let y = g.attention(x, |g, scores| {
            let scale = g.scalar(0.7);
            g.binary(BinaryKind::Mul, scores, scale)
        });
        let y = g.attention(y, |_, scores| scores);
        g.end(y);
    });
    // Heads that are folded into the texts.
    fits(|g| {
        let x = g.x();
        let [q, k, v] = [1, 2, 3].map(|seed| {
            let heads = g.heads(x, seed);
            g.reshape(heads, &[2 * g.data.texts, g.data.length, WIDTH / 2])
        });
        let k = g.transpose(k, &[0, 2, 1]);
        let scores = g.product(q, k);
        let shares = g.push(Softmax { input: scores, axis: 2 });
        let y = g.product(shares, v);
        g.end(y);
    });
    // No place looks at later ones.
    fits(|g| {
        let x = g.x();
        let later = (0..g.data.length * g.data.length)
            .map(|at| if at % g.data.length > at / g.data.length { f32::NEG_INFINITY } else { 0.0 });
        let later: Vec<f32> = later.collect();
        let causal = g.floats(&[g.data.length, g.data.length], later);
        let y = g.attention(x, |g, scores| g.binary(BinaryKind::Add, scores, causal));
        let y = g.attention(y, |g, scores| g.binary(BinaryKind::Add, scores, causal));
        g.end(y);
    });
}

#[test]
fn pooling() {
    fits(|g| {
        let (x, mask) = (g.x(), g.mask());
        let bias = g.bias_of(mask, f32::MIN);
        let y = g.attention(x, |g, scores| g.binary(BinaryKind::Add, scores, bias));
        let mean = g.masked_mean(y, mask);
        g.end(mean);
        let first = g.integers(&[], [0]);
        let first = g.push(Gather { input: y, indices: first, axis: 1 });
        let weights = g.weights(&[WIDTH, WIDTH], 11);
        let pooled = g.product(first, weights);
        let pooled = g.push(Activation { kind: ActivationKind::Tanh, input: pooled });
        g.end(pooled);
        let starts = vec![0; 3];
        let first_two = g.push(Slice { input: y, starts, sizes: vec![g.data.texts, 2, WIDTH], strides: None });
        g.end(first_two);
    });
    // Shares of the places that are computed from these.
    fits(|g| {
        let x = g.x();
        let weights = g.weights(&[WIDTH, 1], 4);
        let scores = g.product(x, weights);
        let shares = g.push(Softmax { input: scores, axis: 1 });
        let weighted = g.binary(BinaryKind::Mul, x, shares);
        let sum = g.reduce(ReduceKind::Sum, weighted, 1);
        g.end(sum);
    });
    // By a product of the mask with the places.
    fits(|g| {
        let (x, mask) = (g.x(), g.mask());
        let float = g.push(Cast { input: mask, data_type: DataType::Float32 });
        let line = g.reshape(float, &[g.data.texts, 1, g.data.length]);
        let y = g.product(line, x);
        g.end(y);
    });
    refused("reduceMean", |g| {
        let x = g.x();
        let mean = g.reduce(ReduceKind::Mean, x, 1);
        g.end(mean);
    });
    // A sum is one of zeros only where a mask makes them.
    refused("reduceSum", |g| {
        let x = g.x();
        let y = g.normalize(x);
        let sum = g.reduce(ReduceKind::Sum, y, 1);
        g.end(sum);
    });
    refused("reduceSum", |g| {
        // A mask that does nothing.
        let (x, mask) = (g.x(), g.mask());
        let zero = g.integers(&[], [0]);
        let nothing = g.push(Binary { kind: BinaryKind::Mul, a: mask, b: zero });
        let wide = g.reshape(nothing, &[g.data.texts, g.data.length, 1]);
        let float = g.push(Cast { input: wide, data_type: DataType::Float32 });
        let y = g.binary(BinaryKind::Add, x, float);
        let one = g.scalar(1.0);
        let y = g.binary(BinaryKind::Add, y, one);
        let sum = g.reduce(ReduceKind::Sum, y, 1);
        g.end(sum);
    });
    for kind in [ReduceKind::Max, ReduceKind::Min, ReduceKind::LogSumExp] {
        let operator = Op::from(Reduce { kind, input: OperandId(0), axes: None, keep_dimensions: false }).row().name;
        refused(operator, |g| {
            let (x, mask) = (g.x(), g.mask());
            let float = g.push(Cast { input: mask, data_type: DataType::Float32 });
            let wide = g.reshape(float, &[g.data.texts, g.data.length, 1]);
            let y = g.binary(BinaryKind::Mul, x, wide);
            let y = g.reduce(kind, y, 1);
            g.end(y);
        });
    }
}

#[test]
fn places_of_a_text() {
    // A table of positions, of which the first ones are taken.
    fits(|g| {
        let x = g.x();
        let table = g.weights(&[9, WIDTH], 4);
        let positions = g.push(Slice { input: table, starts: vec![0, 0], sizes: vec![g.data.length, WIDTH], strides: None });
        let y = g.binary(BinaryKind::Add, x, positions);
        g.end(y);
    });
    // Counted by the import, and looked up.
    fits(|g| {
        let x = g.x();
        let table = g.weights(&[9, WIDTH], 4);
        let indices = g.integers(&[1, g.data.length], 0..g.data.length as i32);
        let positions = g.push(Gather { input: table, indices, axis: 0 });
        let y = g.binary(BinaryKind::Add, x, positions);
        g.end(y);
    });
    // Counted by the graph: those after the end stay in the table.
    let counted = |sizes: u32| {
        move |g: &mut Sketch| {
            let (x, mask) = (g.x(), g.mask());
            let two = g.integers(&[], [2]);
            let is_there = g.push(Logical { kind: LogicalKind::NotEqual, a: mask, b: two });
            let ones = g.push(Cast { input: is_there, data_type: DataType::Int32 });
            let count = g.push(CumulativeSum { input: ones, axis: Modulo(1), exclusive: false, reversed: false });
            let indices = g.push(CheckIndices { indices: count, sizes: vec![sizes], from_end: true });
            let table = g.weights(&[sizes, WIDTH], 4);
            let positions = g.push(Gather { input: table, indices, axis: 0 });
            let y = g.binary(BinaryKind::Add, x, positions);
            g.end(y);
        }
    };
    fits(counted(8));
    refused("checkIndices", counted(7));
    // From the end.
    refused("gather", |g| {
        let x = g.x();
        let last = g.integers(&[], [-1]);
        let y = g.push(Gather { input: x, indices: last, axis: 1 });
        g.end(y);
    });
    refused("gather", |g| {
        let x = g.x();
        let after = g.integers(&[], [5]);
        let y = g.push(Gather { input: x, indices: after, axis: 1 });
        g.end(y);
    });
    refused("slice", |g| {
        let x = g.x();
        let starts = vec![0, g.data.length - 1, 0];
        let y = g.push(Slice { input: x, starts, sizes: vec![g.data.texts, 1, WIDTH], strides: None });
        g.end(y);
    });
    refused("reverse", |g| {
        let x = g.x();
        let y = g.push(Reverse { input: x, axes: Some(vec![1]) });
        g.end(y);
    });
    let from_end = |g: &mut Sketch| {
        let x = g.x();
        let counts: Vec<f32> = (0..g.data.length).map(|at| (g.data.length - at) as f32).collect();
        let counts = g.floats(&[1, g.data.length, 1], counts);
        let y = g.binary(BinaryKind::Add, x, counts);
        g.end(y);
    };
    refused("", from_end);
    // Divided by the length.
    refused("", |g| {
        let x = g.x();
        let share = g.scalar(1.0 / g.data.length as f32);
        let y = g.binary(BinaryKind::Mul, x, share);
        g.end(y);
    });
}

#[test]
fn tokens() {
    fits(|g| {
        let (length, texts) = (g.data.length, g.data.texts);
        let ids = g.input_of("ids", DataType::Int32, &[texts, length]);
        let indices = g.push(CheckIndices { indices: ids, sizes: vec![10], from_end: true });
        let table = g.weights(&[10, WIDTH], 4);
        let x = g.push(Gather { input: table, indices, axis: 0 });
        let y = g.attention(x, |_, scores| scores);
        g.end(y);
    });
    // Where 0 becomes an index that is none.
    refused("checkIndices", |g| {
        let (length, texts) = (g.data.length, g.data.texts);
        let ids = g.input_of("ids", DataType::Int32, &[texts, length]);
        let eleven = g.integers(&[], [11]);
        let more = g.push(Binary { kind: BinaryKind::Add, a: ids, b: eleven });
        let indices = g.push(CheckIndices { indices: more, sizes: vec![10], from_end: true });
        let table = g.weights(&[10, WIDTH], 4);
        let x = g.push(Gather { input: table, indices, axis: 0 });
        g.end(x);
    });
}

#[test]
fn what_sees_behind_the_end() {
    refused("layerNormalization", |g| {
        let x = g.x();
        let axes = Some(vec![1]);
        let y = g.push(LayerNormalization { input: x, scale: None, bias: None, axes, epsilon: 1e-5 });
        g.end(y);
    });
    refused("conv2d", |g| {
        let x = g.x();
        let image = g.reshape(x, &[g.data.texts, 1, g.data.length, WIDTH]);
        let filter = g.weights(&[1, 1, 3, 3], 2);
        let y = g.push(Conv2d {
            padding: [1; 4],
            ..Conv2d::new(image, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw)
        });
        g.end(y);
    });
    refused("dynamicQuantizeLinear", |g| {
        let x = g.x();
        let y = g.push(DynamicQuantizeLinear { input: x });
        let y = g.push(Cast { input: y, data_type: DataType::Float32 });
        g.end(y);
    });
    // Something after the text, and before it.
    refused("concat", |g| {
        let x = g.x();
        let more = g.weights(&[1, 1, WIDTH], 3);
        let more = g.push(Expand { input: more, new_shape: vec![g.data.texts, 1, WIDTH] });
        let y = g.push(Concat { inputs: vec![x, more], axis: 1 });
        g.end(y);
    });
    fits(|g| {
        let x = g.x();
        let more = g.weights(&[1, 1, WIDTH], 3);
        let more = g.push(Expand { input: more, new_shape: vec![g.data.texts, 1, WIDTH] });
        let y = g.push(Concat { inputs: vec![more, x], axis: 1 });
        g.end(y);
    });
    // The places one after the other.
    refused("reshape", |g| {
        let x = g.x();
        let transposed = g.transpose(x, &[0, 2, 1]);
        let y = g.reshape(transposed, &[g.data.texts, WIDTH * g.data.length]);
        g.end(y);
    });
    // Sums over all places.
    refused("matmul", |g| {
        let x = g.x();
        let y = g.normalize(x);
        let transposed = g.transpose(y, &[0, 2, 1]);
        let y = g.product(transposed, y);
        g.end(y);
    });
    // Of zeros after the end.
    fits(|g| {
        let x = g.x();
        let y = g.normalize(x);
        let transposed = g.transpose(x, &[0, 2, 1]);
        let y = g.product(transposed, y);
        g.end(y);
    });
    // Zeros, but an infinity after them.
    refused("matmul", |g| {
        let (x, mask) = (g.x(), g.mask());
        let float = g.push(Cast { input: mask, data_type: DataType::Float32 });
        let line = g.reshape(float, &[g.data.texts, 1, g.data.length]);
        let inverse = g.unary(UnaryKind::Reciprocal, x);
        let y = g.product(line, inverse);
        g.end(y);
    });
    // Scores that may be infinite are not hidden by minus infinity.
    refused("softmax", |g| {
        let x = g.x();
        // Not zeros after the end, of which nothing infinite is made.
        let y = g.normalize(x);
        let y = g.attention(y, |g, scores| g.unary(UnaryKind::Exp, scores));
        g.end(y);
    });
    fits(|g| {
        let x = g.x();
        let y = g.transpose(x, &[0, 2, 1]);
        let y = g.product(x, y);
        let y = g.push(Triangular { input: y, upper: false, diagonal: 0 });
        g.end(y);
    });
}

/// Zero points are taken off zeros, too.
#[test]
fn zero_points_of_what_is_summed() {
    for taken_off in [0, 7] {
        let build = |g: &mut Sketch| {
            let ids = g.input_of("ids", DataType::Int32, &[g.data.texts, g.data.length]);
            let bytes = g.push(Cast { input: ids, data_type: DataType::Uint8 });
            let line = g.reshape(bytes, &[g.data.texts, 1, g.data.length]);
            let column = g.reshape(bytes, &[g.data.texts, g.data.length, 1]);
            let zero_point = g.constant(DataType::Uint8, &[], vec![taken_off]);
            let y = g.push(QuantizedMatmul { a: line, b: column, a_zero_point: Some(zero_point), b_zero_point: None });
            let y = g.push(Cast { input: y, data_type: DataType::Float32 });
            g.end(y);
        };
        match taken_off {
            0 => fits(build),
            _ => refused("quantizedMatmul", build),
        }
    }
}
