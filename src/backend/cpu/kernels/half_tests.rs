//! float16 graphs, which are computed in float32 and rounded, against the reference kernels, which compute in float16.

use super::Isa;
use super::tests::numbers;
use crate::backend::Backend;
use crate::backend::cpu::testing::{run, run_scheduled};
use crate::backend::cpu::{Cpu, reference};
use crate::compiler::testing::Preferring;
use crate::compiler::{Fusing, Preferences, compile};
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, Cast, Clamp, LeakyRelu, QuantizeLinear, Unary, UnaryKind,
};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::{Pad, PaddingMode, Transpose};
use crate::graph::ops::normalization::LayerNormalization;
use crate::graph::ops::pool::{Pool2d, Pool2dKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{ConstantBytes, DataType, Descriptor, FpMath, Graph, GraphBuilder, Limits, Number, Op, OperandId};
use half::f16;
use std::sync::Arc;
use webnn_kernels::bf16;

/// float16 numbers of all sizes, the special ones among them.
fn halves(count: usize, seed: u64) -> Vec<f16> {
    let special = [f16::NAN, f16::INFINITY, f16::NEG_INFINITY, f16::MAX, f16::MIN, f16::from_bits(1), f16::NEG_ZERO];
    let all = numbers(count, seed).into_iter().enumerate().map(|(i, x)| match i % 50 {
        49 => special[i / 50 % special.len()],
        // Large ones, whose products overflow, and small ones, whose products have few digits.
        i => f16::from_f32(x * [1.0, 300.0, 3e-5, 40.0, 60_000.0][i % 5]),
    });
    all.collect()
}

fn small(count: usize, seed: u64) -> Vec<f16> {
    numbers(count, seed).into_iter().map(f16::from_f32).collect()
}

/// Computes the only output of a graph as the backend does, and as the reference kernels do node by node.
fn both(graph: &Graph, inputs: &[Vec<f16>]) -> [Vec<f16>; 2] {
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
    let expected = reference::interpret(graph, &inputs).remove(0);
    let cpu = Cpu::new(1);
    let preferences = Preferences { fusing: Fusing::Quick, patterns: true, orders: true, widens: true, ..Preferences::default() };
    let schedule = compile(graph.clone(), &Preferring { of: cpu.capabilities(), preferences }).unwrap();
    let found = run_scheduled(&cpu, graph, schedule, &inputs).remove(0);
    [found, expected].map(|bytes| bytes.chunks_exact(2).map(|x| f16::from_le_bytes([x[0], x[1]])).collect())
}

fn builder() -> GraphBuilder {
    GraphBuilder::new(Arc::new(Limits::everything()))
}

fn input(builder: &mut GraphBuilder, name: &str, shape: &[u32]) -> OperandId {
    builder.input(name, Descriptor::new(DataType::Float16, shape.iter().copied())).unwrap()
}

fn constant(builder: &mut GraphBuilder, shape: &[u32], seed: u64) -> OperandId {
    let descriptor = Descriptor::new(DataType::Float16, shape.iter().copied());
    let bytes = bytemuck::cast_slice(&small(descriptor.byte_length() / 2, seed)).to_vec();
    builder.constant(descriptor, ConstantBytes::new(bytes)).unwrap()
}

fn push(builder: &mut GraphBuilder, op: impl Into<Op>) -> OperandId {
    builder.push_op(op, "").unwrap()[0]
}

/// How far apart results may be, in steps of float16.
fn compare(graph: &Graph, inputs: &[Vec<f16>], steps: i32, what: &str) {
    let [found, expected] = both(graph, inputs);
    assert_eq!(found.len(), expected.len());
    let place = |x: f16| if x.is_sign_negative() { -((x.to_bits() & 0x7fff) as i32) } else { x.to_bits() as i32 };
    for (i, (found, expected)) in found.into_iter().zip(expected).enumerate() {
        let is_near = if expected.is_nan() { found.is_nan() } else { (place(found) - place(expected)).abs() <= steps };
        assert!(is_near, "{what} at {i}: {found}, not {expected}");
    }
}

#[test]
fn element_wise_operators_give_the_same_bits() {
    // Few elements have no fast kernel, many do.
    for count in [3, 40, 2500] {
        let inputs = [halves(count, 1), halves(count, 2)];
        let shape = [count as u32];
        for kind in [BinaryKind::Add, BinaryKind::Sub, BinaryKind::Mul, BinaryKind::Div, BinaryKind::Max, BinaryKind::Min] {
            let mut builder = builder();
            let (a, b) = (input(&mut builder, "a", &shape), input(&mut builder, "b", &shape));
            let c = push(&mut builder, Binary { kind, a, b });
            // Followed by others, and its value used twice.
            let d = push(&mut builder, Binary { kind: BinaryKind::Mul, a: c, b });
            let e = push(&mut builder, Unary { kind: UnaryKind::Neg, input: d });
            let f = push(&mut builder, Clamp { input: e, min_value: Some(Number::Double(-999.9)), max_value: None });
            let g = push(&mut builder, Binary { kind: BinaryKind::Sub, a: c, b: f });
            let graph = builder.build(vec![("y".into(), g)]).unwrap();
            compare(&graph, &inputs, 0, &format!("{kind:?} of {count}"));
        }
        for kind in [UnaryKind::Sqrt, UnaryKind::Reciprocal, UnaryKind::Abs, UnaryKind::Floor, UnaryKind::Sign, UnaryKind::Log] {
            let mut builder = builder();
            let (a, b) = (input(&mut builder, "a", &shape), input(&mut builder, "b", &shape));
            let c = push(&mut builder, Unary { kind, input: a });
            let d = push(&mut builder, Binary { kind: BinaryKind::Add, a: c, b });
            let graph = builder.build(vec![("y".into(), d)]).unwrap();
            compare(&graph, &inputs, 0, &format!("{kind:?} of {count}"));
        }
    }
}

#[test]
fn functions_differ_by_one_rounding() {
    for (kind, steps) in [(ActivationKind::Tanh, 1), (ActivationKind::Sigmoid, 1), (ActivationKind::HardSwish, 1)] {
        let mut builder = builder();
        let a = input(&mut builder, "a", &[2500]);
        let b = push(&mut builder, Activation { kind, input: a });
        let c = push(&mut builder, LeakyRelu { input: b, alpha: 0.1 });
        let graph = builder.build(vec![("y".into(), c)]).unwrap();
        compare(&graph, &[halves(2500, 3)], steps, &format!("{kind:?}"));
    }
}

#[test]
fn options_are_rounded_to_float16() {
    let mut builder = builder();
    let a = input(&mut builder, "a", &[5, 33]);
    let value = Number::Double(0.1);
    let pad = Pad { input: a, beginning_padding: vec![1, 0], ending_padding: vec![0, 7], mode: PaddingMode::Constant, value };
    let b = push(&mut builder, Activation { kind: ActivationKind::Relu, input: a });
    let b = push(&mut builder, Pad { input: b, ..pad });
    let c = push(&mut builder, Clamp { input: b, min_value: Some(value), max_value: Some(Number::Double(1e9)) });
    // Not rounded: it would be 0, and a line of one number has no variance.
    let d = push(&mut builder, LayerNormalization { input: c, scale: None, bias: None, axes: Some(vec![1]), epsilon: 1e-9 });
    let graph = builder.build(vec![("y".into(), d)]).unwrap();
    compare(&graph, &[vec![f16::from_f32(0.05); 5 * 33]], 0, "layer normalization");
}

#[test]
fn networks_of_float16() {
    for (rows, depth, columns) in [(1, 20, 33), (13, 64, 50), (70, 129, 31)] {
        let mut builder = builder();
        let x = input(&mut builder, "x", &[2, rows, depth]);
        let (w, bias) = (constant(&mut builder, &[depth, columns], 5), constant(&mut builder, &[columns], 6));
        let (scale, shift) = (constant(&mut builder, &[columns], 7), constant(&mut builder, &[columns], 8));
        let y = push(&mut builder, Matmul { a: x, b: w });
        let y = push(&mut builder, Binary { kind: BinaryKind::Add, a: y, b: bias });
        let transposed = push(&mut builder, Transpose { input: y, permutation: Some(vec![0, 2, 1]) });
        let scores = push(&mut builder, Matmul { a: y, b: transposed });
        let factor = builder.scalar(DataType::Float16, Number::Double(0.013)).unwrap();
        let scores = push(&mut builder, Binary { kind: BinaryKind::Mul, a: scores, b: factor });
        let weights = push(&mut builder, Softmax { input: scores, axis: 2 });
        let sums = push(&mut builder, Matmul { a: weights, b: y });
        let sums = push(&mut builder, Binary { kind: BinaryKind::Add, a: sums, b: y });
        let normal =
            LayerNormalization { input: sums, scale: Some(scale), bias: Some(shift), axes: Some(vec![2]), epsilon: 1e-5 };
        let y = push(&mut builder, normal);
        let y = push(&mut builder, Cast { input: y, data_type: DataType::Float32 });
        let y = push(&mut builder, Cast { input: y, data_type: DataType::Float16 });
        let graph = builder.build(vec![("y".into(), y)]).unwrap();
        let [found, expected] = both(&graph, &[small((2 * rows * depth) as usize, 9)]);
        for (i, (found, expected)) in found.into_iter().zip(expected).enumerate() {
            let difference = (found.to_f32() - expected.to_f32()).abs();
            assert!(difference <= 4e-3 * expected.to_f32().abs().max(1.0), "{rows} rows at {i}: {found}, not {expected}");
        }
    }
}

/// Two products, the second one of what the first one makes, within what their lengths allow; and without the permission nothing changes.
#[test]
fn products_go_by_way_of_bfloat16_where_that_is_allowed() {
    let [rows, depth, columns] = [20, 64, 48];
    let mut builder = builder();
    let x = input(&mut builder, "x", &[rows, depth]);
    let [w, v] = [(depth, 5), (columns, 6)].map(|(of, seed)| constant(&mut builder, &[of, columns], seed));
    let y = push(&mut builder, Matmul { a: x, b: w });
    let z = push(&mut builder, Matmul { a: y, b: v });
    let mut graph = builder.build(vec![("z".into(), z)]).unwrap();
    let [rows, depth, columns] = [rows, depth, columns].map(|size| size as usize);
    let x = small(rows * depth, 9);
    let results = |graph: &Graph| bytemuck::pod_collect_to_vec::<u8, f16>(&run(graph, &[bytemuck::cast_slice(&x)])[0]);
    let without = results(&graph);
    graph.fp_math = FpMath::Bf16;
    let with = results(&graph);
    graph.fp_math = FpMath::Strict;
    assert!(results(&graph) == without);
    let isa = Isa::of_this_machine();
    assert!(with != without || !bf16::microkernels(isa).is_native());

    // Operands are rounded to 8 bits, sums to float32, and the result to float16, whose least numbers are 2^-24 apart.
    let of_product = |length: usize| 2f64.powi(-7) + 2f64.powi(-16) + length as f64 * 2f64.powi(-23);
    let stored = |exact: f64, error: f64| error + 2f64.powi(-11) * (exact.abs() + error) + 2f64.powi(-25);
    // Products of numbers that are off, and by how much these are.
    let multiply = |left: &[[f64; 2]], length: usize, right: &[f16]| -> Vec<[f64; 2]> {
        let one = |i: usize| {
            let (row, column) = (i / columns, i % columns);
            let terms = (0..length).map(|k| (left[row * length + k], right[k * columns + column].to_f64()));
            let exact: f64 = terms.clone().map(|([x, _], w)| x * w).sum();
            let error: f64 = terms.map(|([x, off], w)| (off + of_product(length) * (x.abs() + off)) * w.abs()).sum();
            [exact, stored(exact, error)]
        };
        (0..left.len() / length * columns).map(one).collect()
    };
    let x: Vec<[f64; 2]> = x.iter().map(|x| [x.to_f64(), 0.0]).collect();
    let y = multiply(&x, depth, &small(depth * columns, 5));
    let z = multiply(&y, columns, &small(columns * columns, 6));
    assert!(z.iter().map(|z| z[1]).fold(0.0, f64::max) < z.iter().map(|z| z[0]).fold(0.0, f64::max));
    for results in [with, without] {
        for (i, (found, [exact, allowed])) in results.iter().zip(&z).enumerate() {
            assert!((found.to_f64() - exact).abs() <= *allowed, "at {i}: {found}, not {exact} up to {allowed}");
        }
    }
}

#[test]
fn products_overflow_to_infinity() {
    let mut builder = builder();
    let x = input(&mut builder, "x", &[20, 16]);
    let w = input(&mut builder, "w", &[16, 40]);
    let y = push(&mut builder, Matmul { a: x, b: w });
    let image = push(&mut builder, crate::graph::ops::movement::Reshape { input: y, new_shape: vec![1, 1, 20, 40] });
    let pool = Pool2d {
        kind: Pool2dKind::Max,
        input: image,
        window_dimensions: Some([2, 2]),
        padding: [0; 4],
        strides: [2; 2],
        dilations: [1; 2],
        layout: crate::graph::ops::layout::InputOperandLayout::Nchw,
        output_shape_rounding: crate::graph::ops::pool::RoundingType::Floor,
        output_sizes: None,
    };
    let y = push(&mut builder, pool);
    let graph = builder.build(vec![("y".into(), y)]).unwrap();
    // Products of whole numbers are exact, and those of the last rows too great.
    let numbers = |count: usize, step: usize| (0..count).map(|i| f16::from_f32((i / step % 64) as f32 * 2.0)).collect();
    compare(&graph, &[numbers(20 * 16, 16), numbers(16 * 40, 5)], 0, "an overflow");
    let [found, _] = both(&graph, &[numbers(20 * 16, 1), numbers(16 * 40, 5)]);
    assert!(found.contains(&f16::INFINITY));
}

/// Also where the scale is known when the graph is built: one for all, and one for each row.
#[test]
fn quantized_with_known_scales() {
    let (rows, columns) = (2, 40);
    let numbers = halves(rows * columns, 5);
    for scales in [vec![0.125], vec![0.125, 2.0]] {
        for (to, zero) in [(DataType::Int8, -3i32), (DataType::Uint8, 7)] {
            for is_known in [true, false] {
                let mut builder = builder();
                let shape = [scales.len() as u32, 1];
                let halves: Vec<f16> = scales.iter().map(|&scale| f16::from_f64(scale)).collect();
                let scale = if is_known {
                    let bytes: Vec<u8> = halves.iter().flat_map(|x| x.to_le_bytes()).collect();
                    builder.constant(Descriptor::new(DataType::Float16, shape), ConstantBytes::new(bytes)).unwrap()
                } else {
                    input(&mut builder, "scale", &shape)
                };
                let points = vec![zero as u8; scales.len()];
                let zero_point = builder.constant(Descriptor::new(to, shape), ConstantBytes::new(points)).unwrap();
                let x = input(&mut builder, "x", &[rows as u32, columns as u32]);
                let a = push(&mut builder, Unary { kind: UnaryKind::Abs, input: x });
                let y = push(&mut builder, QuantizeLinear { input: a, scale, zero_point });
                let graph = builder.build(vec![("y".into(), y)]).unwrap();
                let inputs = if is_known { vec![numbers.clone()] } else { vec![halves, numbers.clone()] };
                let [found, _] = both(&graph, &inputs);
                let found = found.iter().flat_map(|x| x.to_le_bytes());
                let (low, high) = if to == DataType::Int8 { (-128.0, 127.0) } else { (0.0, 255.0) };
                for (i, (found, x)) in found.zip(&numbers).enumerate() {
                    let scale = scales[if scales.len() == 1 { 0 } else { i / columns }];
                    let expected = ((x.to_f64().abs() / scale).round_ties_even() + f64::from(zero)).clamp(low, high);
                    let found = if to == DataType::Int8 { f64::from(found as i8) } else { f64::from(found) };
                    // What becomes of NaN is nowhere said.
                    assert!(
                        expected.is_nan() || found == expected,
                        "{scales:?} {to:?} {is_known} at {i}: {found}, not {expected}"
                    );
                }
            }
        }
    }
}
