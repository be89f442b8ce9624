//! Graphs with quantized products as the backend runs them, against the reference kernels node by node.

use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::backend::cpu::kernels::tests::numbers;
use crate::backend::cpu::testing::{both, scheduled};
use crate::compiler::testing::Preferring;
use crate::compiler::{Fusing, Preferences, Schedule, compile};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Cast, DequantizeLinear, QuantizeLinear};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::{Expand, Reshape, Slice, Transpose};
use crate::graph::ops::quantized::{DynamicQuantizeLinear, QuantizedMatmul};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Limits, Op, OperandId};
use std::sync::Arc;

fn names(schedule: &Schedule) -> Vec<String> {
    let name = |op: &Op| op.row().name.to_string();
    let step = |step: &crate::compiler::Step| {
        let integers = if step.dequantized.is_empty() { "" } else { "integer " };
        let all: Vec<String> = [&step.op].into_iter().chain(&step.fused).map(name).collect();
        format!("{integers}{}", all.join(" "))
    };
    schedule.steps.iter().map(step).collect()
}

struct Sketch(GraphBuilder);

impl Sketch {
    fn new() -> Sketch {
        Sketch(GraphBuilder::new(Arc::new(Limits::everything())))
    }

    fn input(&mut self, shape: &[u32]) -> OperandId {
        self.0.input("x", Descriptor::new(DataType::Float32, shape.iter().copied())).unwrap()
    }

    fn push(&mut self, op: impl Into<Op>) -> OperandId {
        self.0.push_op(op, "").unwrap()[0]
    }

    fn constant(&mut self, data_type: DataType, shape: &[u32], bytes: Vec<u8>) -> OperandId {
        self.0.constant(Descriptor::new(data_type, shape.iter().copied()), ConstantBytes::new(bytes)).unwrap()
    }

    fn floats(&mut self, shape: &[u32], numbers: &[f32]) -> OperandId {
        self.constant(DataType::Float32, shape, numbers.iter().flat_map(|x| x.to_le_bytes()).collect())
    }

    /// One scale and zero point for a value of that rank.
    fn one(&mut self, rank: usize, to: DataType, scale: f32, zero: u8) -> (OperandId, OperandId) {
        let shape = vec![1; rank];
        (self.floats(&shape, &[scale]), self.constant(to, &shape, vec![zero]))
    }

    fn quantize(&mut self, input: OperandId, rank: usize, to: DataType, scale: f32, zero: u8) -> OperandId {
        let (scale, zero_point) = self.one(rank, to, scale, zero);
        self.push(QuantizeLinear { input, scale, zero_point })
    }

    fn dequantize(&mut self, input: OperandId, rank: usize, of: DataType, scale: f32, zero: u8) -> OperandId {
        let (scale, zero_point) = self.one(rank, of, scale, zero);
        self.push(DequantizeLinear { input, scale, zero_point })
    }

    /// Quantized and dequantized alike.
    fn rounded(&mut self, input: OperandId, rank: usize, scale: f32) -> OperandId {
        let quantized = self.quantize(input, rank, DataType::Uint8, scale, 120);
        self.dequantize(quantized, rank, DataType::Uint8, scale, 120)
    }

    /// Weights with a scale for each element of an axis.
    fn weights(&mut self, shape: &[u32], axis: usize) -> OperandId {
        let count = shape.iter().product::<u32>() as usize;
        let bytes = numbers(count, 9).into_iter().map(|x| (x * 127.0) as i8 as u8).collect();
        let input = self.constant(DataType::Int8, shape, bytes);
        let blocks: Vec<u32> = (0..shape.len()).map(|i| if i == axis { shape[i] } else { 1 }).collect();
        let scales: Vec<f32> = (0..shape[axis]).map(|i| 0.01 + i as f32 * 0.001).collect();
        let scale = self.floats(&blocks, &scales);
        let zero_point = self.constant(DataType::Int8, &blocks, vec![0; scales.len()]);
        self.push(DequantizeLinear { input, scale, zero_point })
    }

    fn build(mut self, outputs: &[OperandId]) -> Graph {
        let outputs = outputs.iter().enumerate().map(|(i, id)| (format!("y{i}"), *id)).collect();
        self.0.build(outputs).unwrap()
    }
}

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|x| f32::from_le_bytes(x.try_into().unwrap())).collect()
}

fn assert_near(graph: &Graph) {
    let [found, expected] = both(graph);
    for (i, (found, expected)) in floats(&found[0]).into_iter().zip(floats(&expected[0])).enumerate() {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1.0), "at {i}: {found}, not {expected}");
    }
}

#[test]
fn products_are_of_integers() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 20, 48]);
    let left = sketch.rounded(x, 3, 0.01);
    let weights = sketch.weights(&[48, 40], 1);
    let product = sketch.push(Matmul { a: left, b: weights });
    let bias = sketch.floats(&[40], &[0.5; 40]);
    let sum = sketch.push(Binary { kind: BinaryKind::Add, a: product, b: bias });
    let relu = sketch.push(Activation { kind: ActivationKind::Relu, input: sum });
    // What others need of the integers is dequantized for them.
    let quantized = sketch.quantize(relu, 3, DataType::Uint8, 0.02, 0);
    let left = sketch.dequantize(quantized, 3, DataType::Uint8, 0.02, 0);
    let weights = sketch.weights(&[40, 40], 1);
    let second = sketch.push(Matmul { a: left, b: weights });
    let output = sketch.push(Binary { kind: BinaryKind::Add, a: second, b: left });
    let graph = sketch.build(&[output]);
    let schedule = scheduled(&graph, &Cpu::new(1));
    let expected = ["quantizeLinear", "integer matmul add relu quantizeLinear", "dequantizeLinear", "integer matmul add"];
    assert_eq!(names(&schedule), expected);
    assert_near(&graph);
}

#[test]
fn operands_may_be_moved_in_between() {
    // A convolution along a line, whose image and filter are reshaped and whose filter comes from a transposition.
    let mut sketch = Sketch::new();
    let x = sketch.input(&[1, 8, 30]);
    let left = sketch.rounded(x, 3, 0.01);
    let input = sketch.push(Reshape { input: left, new_shape: vec![1, 8, 1, 30] });
    let weights = sketch.weights(&[3, 8, 24], 2);
    let transposed = sketch.push(Transpose { input: weights, permutation: Some(vec![2, 1, 0]) });
    let filter = sketch.push(Reshape { input: transposed, new_shape: vec![24, 8, 1, 3] });
    let conv = sketch.push(Conv2d {
        padding: [0, 0, 1, 1],
        ..Conv2d::new(input, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw)
    });
    let relu = sketch.push(Activation { kind: ActivationKind::Relu, input: conv });
    let second = sketch.rounded(relu, 4, 0.05);
    let filter = sketch.weights(&[16, 24, 1, 3], 0);
    let conv = sketch.push(Conv2d::new(second, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw));
    let graph = sketch.build(&[conv]);
    let schedule = scheduled(&graph, &Cpu::new(1));
    let expected = ["quantizeLinear", "transpose", "integer conv2d relu quantizeLinear", "integer conv2d", "transpose"];
    assert_eq!(names(&schedule), expected);
    assert_near(&graph);
}

#[test]
fn both_operands_may_be_computed() {
    for (shape, other) in [([2, 3, 13, 36], vec![2, 3, 36, 21]), ([2, 3, 13, 35], vec![1, 3, 35, 70])] {
        for (of_a, of_b, points) in [(DataType::Uint8, DataType::Int8, [3, 0]), (DataType::Int8, DataType::Uint8, [128, 130])] {
            // A power of two, so that sums are exact and rounded alike.
            let step = 0.015_625;
            let mut sketch = Sketch::new();
            let count = other.iter().product::<u32>() as usize;
            let x = sketch.input(&shape);
            let first = sketch.push(Slice { input: x, starts: vec![0; 4], sizes: vec![1; 4], strides: None });
            let zero = sketch.floats(&[], &[0.0]);
            let nothing = sketch.push(Binary { kind: BinaryKind::Mul, a: first, b: zero });
            let y = sketch.floats(&other, &numbers(count, 5));
            let y = sketch.push(Binary { kind: BinaryKind::Add, a: y, b: nothing });
            let a = sketch.quantize(x, 4, of_a, step, points[0]);
            let a = sketch.dequantize(a, 4, of_a, step, points[0]);
            let b = sketch.quantize(y, 4, of_b, step, points[1]);
            let b = sketch.dequantize(b, 4, of_b, step, points[1]);
            let product = sketch.push(Matmul { a, b });
            let output = sketch.rounded(product, 4, 0.125);
            let graph = sketch.build(&[output]);
            let found = names(&scheduled(&graph, &Cpu::new(1)));
            assert_eq!(found.last().unwrap(), "integer matmul div replaceNaN clamp add sub mul");
            assert_near(&graph);
        }
    }
}

#[test]
fn what_is_no_product_of_integers_is_as_before() {
    // Weights with blocks of scales; and none of them constant.
    let mut sketch = Sketch::new();
    let x = sketch.input(&[20, 48]);
    let left = sketch.rounded(x, 2, 0.01);
    let input = sketch.constant(DataType::Int8, &[48, 40], (0..48 * 40).map(|i| (i * 7) as u8).collect());
    let scale = sketch.floats(&[2, 1], &[0.1, 0.2]);
    let zero_point = sketch.constant(DataType::Int8, &[2, 1], vec![0; 2]);
    let weights = sketch.push(DequantizeLinear { input, scale, zero_point });
    let product = sketch.push(Matmul { a: left, b: weights });
    let transposed = sketch.push(Transpose { input: product, permutation: None });
    let (a, b) = (sketch.rounded(product, 2, 0.3), sketch.rounded(transposed, 2, 0.3));
    let output = sketch.push(Matmul { a, b });
    let graph = sketch.build(&[output]);
    assert!(scheduled(&graph, &Cpu::new(1)).steps.iter().all(|step| step.dequantized.is_empty()));
    let [found, expected] = both(&graph).map(|outputs| floats(&outputs[0]));
    let most = expected.iter().fold(0f32, |most, x| most.max(x.abs()));
    // A value between two steps may be rounded the other way.
    assert!(found.iter().zip(&expected).all(|(found, expected)| (found - expected).abs() < most / 50.0));
}

/// As importers write convolutions of integers: in float32, in parts of the channels, which are cast and added.
#[test]
fn sums_of_integers_stay_whole() {
    let parts = [(0, 28), (28, 12)];
    let mut sketch = Sketch::new();
    let x = sketch.input(&[1, 40, 6, 7]);
    let quantized = sketch.quantize(x, 4, DataType::Uint8, 0.01, 120);
    let a = sketch.dequantize(quantized, 4, DataType::Uint8, 1.0, 250);
    let filter: Vec<u8> = (0..24 * 40 * 9).map(|i| (i * 89 % 251) as u8).collect();
    let filter = sketch.constant(DataType::Uint8, &[24, 40, 3, 3], filter);
    // A zero point for each output channel.
    let one = sketch.floats(&[1, 1, 1, 1], &[1.0]);
    let scale = sketch.push(Expand { input: one, new_shape: vec![24, 1, 1, 1] });
    let zero_point = sketch.constant(DataType::Uint8, &[24, 1, 1, 1], (0..24).map(|i| i * 10).collect());
    let b = sketch.push(DequantizeLinear { input: filter, scale, zero_point });
    let mut sum = None;
    for (start, size) in parts {
        let input = sketch.push(Slice { input: a, starts: vec![0, start, 0, 0], sizes: vec![1, size, 6, 7], strides: None });
        let filter = sketch.push(Slice { input: b, starts: vec![0, start, 0, 0], sizes: vec![24, size, 3, 3], strides: None });
        let part = sketch.push(Conv2d {
            padding: [1; 4],
            strides: [2, 1],
            ..Conv2d::new(input, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw)
        });
        let part = sketch.push(Cast { input: part, data_type: DataType::Int32 });
        sum = Some(match sum {
            Some(sum) => sketch.push(Binary { kind: BinaryKind::Add, a: sum, b: part }),
            None => part,
        });
    }
    let graph = sketch.build(&[sum.unwrap()]);
    let found = names(&scheduled(&graph, &Cpu::new(1)));
    assert!(found.contains(&"integer conv2d cast".into()), "{found:?}");
    let [found, expected] = both(&graph);
    assert_eq!(found, expected);
}

/// A product of bytes whose scale is known at run time only, as exporters write what is quantized dynamically.
#[test]
fn products_of_bytes_are_one_step() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[2, 7, 300]);
    let outputs = sketch.0.push_op(DynamicQuantizeLinear { input: x }, "").unwrap().to_vec();
    let weights = sketch.constant(DataType::Uint8, &[300, 40], (0..300 * 40).map(|i| (i * 89 % 251) as u8).collect());
    let zeros = sketch.constant(DataType::Uint8, &[1, 40], (0..40).map(|i| i * 6).collect());
    let product = QuantizedMatmul { a: outputs[0], b: weights, a_zero_point: Some(outputs[2]), b_zero_point: Some(zeros) };
    let product = sketch.push(product);
    let sums = sketch.push(Cast { input: product, data_type: DataType::Float32 });
    let scales = sketch.floats(&[40], &[0.25; 40]);
    let scale = sketch.push(Binary { kind: BinaryKind::Mul, a: outputs[1], b: scales });
    let scaled = sketch.push(Binary { kind: BinaryKind::Mul, a: sums, b: scale });
    let bias = sketch.floats(&[40], &[0.5; 40]);
    let sum = sketch.push(Binary { kind: BinaryKind::Add, a: scaled, b: bias });
    let output = sketch.push(Activation { kind: ActivationKind::Relu, input: sum });
    let graph = sketch.build(&[output]);
    let found = names(&scheduled(&graph, &Cpu::new(1)));
    assert_eq!(found, ["dynamicQuantizeLinear", "mul", "quantizedMatmul cast mul add relu"]);
    assert_near(&graph);
    // Without a kernel that would do all of it.
    let mut sketch = Sketch::new();
    let a = sketch.constant(DataType::Uint8, &[3, 5], (0..15).collect());
    let x = sketch.input(&[3, 4]);
    let b = sketch.push(Cast { input: x, data_type: DataType::Int8 });
    let b = sketch.push(Reshape { input: b, new_shape: vec![1, 12] });
    let b = sketch.push(Expand { input: b, new_shape: vec![5, 12] });
    let zeros = sketch.constant(DataType::Uint8, &[3, 1], vec![3, 255, 0]);
    let product = sketch.push(QuantizedMatmul { a, b, a_zero_point: Some(zeros), b_zero_point: None });
    let sums = sketch.push(Cast { input: product, data_type: DataType::Float32 });
    let output = sketch.quantize(sums, 2, DataType::Uint8, 8.0, 100);
    let graph = sketch.build(&[output]);
    assert_eq!(names(&scheduled(&graph, &Cpu::new(1))).last().unwrap(), "quantizedMatmul cast quantizeLinear");
    let [found, expected] = both(&graph);
    assert_eq!(found, expected);
}

/// A convolution whose bias is quantized and whose scale is known at run time only, and written down after it.
#[test]
fn sums_of_integers_become_numbers_again() {
    let mut sketch = Sketch::new();
    let x = sketch.input(&[1, 8, 6, 7]);
    let most = sketch.push(Reduce { kind: ReduceKind::Max, input: x, axes: None, keep_dimensions: false });
    let quantized = sketch.quantize(x, 4, DataType::Uint8, 0.01, 120);
    let input = sketch.dequantize(quantized, 4, DataType::Uint8, 1.0, 120);
    let filter: Vec<u8> = (0..24 * 8 * 9).map(|i| (i * 89 % 251) as u8).collect();
    let filter = sketch.constant(DataType::Int8, &[24, 8, 3, 3], filter);
    let filter = sketch.dequantize(filter, 4, DataType::Int8, 1.0, 0);
    let conv = sketch.push(Conv2d {
        padding: [1; 4],
        strides: [2, 1],
        ..Conv2d::new(input, filter, InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw)
    });
    let sum = sketch.push(Cast { input: conv, data_type: DataType::Int32 });
    let bias = sketch.constant(DataType::Int32, &[24, 1, 1], (0..24).flat_map(|i: i32| (i * 1000).to_le_bytes()).collect());
    let sum = sketch.push(Binary { kind: BinaryKind::Add, a: bias, b: sum });
    let sum = sketch.push(Cast { input: sum, data_type: DataType::Float32 });
    let small = sketch.floats(&[], &[1e-4]);
    let scale = sketch.push(Binary { kind: BinaryKind::Mul, a: most, b: small });
    let output = sketch.push(Binary { kind: BinaryKind::Mul, a: sum, b: scale });
    let graph = sketch.build(&[output]);
    let found = names(&scheduled(&graph, &Cpu::new(1)));
    assert!(found.contains(&"integer conv2d cast add cast mul".into()), "{found:?}");
    assert_near(&graph);
}

/// A pair of quantizeLinear and dequantizeLinear becomes arithmetic, of the same results to the last bit.
#[test]
fn what_is_dequantized_as_it_was_quantized_is_only_rounded() {
    let cases = [(DataType::Uint8, 100u8, 0.037f32), (DataType::Int8, 3, 0.5), (DataType::Uint8, 0, 1.7)];
    for (to, zero_point, scale) in cases {
        let mut sketch = Sketch::new();
        let x = sketch.input(&[512]);
        // Halves between steps, in both directions, and what lies outside.
        let steps: Vec<f32> = (0..512).map(|i| (f64::from(i) / 2.0 - 150.0) as f32 * scale * 1.5).collect();
        let steps = sketch.floats(&[512], &steps);
        let zero = sketch.floats(&[], &[0.0]);
        let nothing = sketch.push(Binary { kind: BinaryKind::Mul, a: x, b: zero });
        let input = sketch.push(Binary { kind: BinaryKind::Add, a: steps, b: nothing });
        let quantized = sketch.quantize(input, 1, to, scale, zero_point);
        let rounded = sketch.dequantize(quantized, 1, to, scale, zero_point);
        let other = sketch.dequantize(quantized, 1, to, scale * 2.0, zero_point);
        let graph = sketch.build(&[rounded, quantized, other]);
        // Without kernels for integers the pair stays, and the one with another scale does anyway.
        let cpu = Cpu::new(1);
        let quick = Preferences { fusing: Fusing::Quick, patterns: true, orders: true, ..Preferences::default() };
        for (preferences, expected) in [(quick, 2), (cpu.capabilities().preferences(), 1)] {
            let schedule = compile(graph.clone(), &Preferring { of: cpu.capabilities(), preferences }).unwrap();
            let dequantizes = names(&schedule).iter().filter(|name| name.contains("dequantizeLinear")).count();
            assert_eq!(dequantizes, expected);
        }
        let [found, expected] = both(&graph);
        assert_eq!(found, expected);
    }
}
