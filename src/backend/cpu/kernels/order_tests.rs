//! Graphs whose operators do other ones themselves (attention with its transpositions; a picture that is reordered, expanded
//! and filtered) against the same graphs where these are steps.

use super::tests::numbers;
use crate::backend::Backend;
use crate::backend::cpu::Cpu;
use crate::backend::cpu::testing::run_scheduled;
use crate::compiler::testing::Preferring;
use crate::compiler::{Fusing, Preferences, compile};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::movement::Transpose;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Limits, Number, OperandId};
use std::sync::Arc;

/// softmax(q kᵀ / 2) v for heads that lie between queries and their elements.
fn attention(queries: u32, keys: u32) -> Graph {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut input = |name: &str, shape: [u32; 4]| builder.input(name, Descriptor::new(DataType::Float32, shape)).unwrap();
    let (q, k) = (input("q", [2, queries, 3, 8]), input("k", [2, keys, 3, 8]));
    // One head's values serve all.
    let v = input("v", [2, keys, 1, 5]);
    let transpose = |builder: &mut GraphBuilder, input: OperandId, permutation: [u32; 4]| {
        builder.push_op(Transpose { input, permutation: Some(permutation.to_vec()) }, "").unwrap()[0]
    };
    let q = transpose(&mut builder, q, [0, 2, 1, 3]);
    let k = transpose(&mut builder, k, [0, 2, 3, 1]);
    let v = transpose(&mut builder, v, [0, 2, 1, 3]);
    let scores = builder.push_op(Matmul { a: q, b: k }, "").unwrap()[0];
    let half = builder.scalar(DataType::Float32, Number::Double(0.5)).unwrap();
    let scores = builder.push_op(Binary { kind: BinaryKind::Mul, a: scores, b: half }, "").unwrap()[0];
    let weights = builder.push_op(Softmax { input: scores, axis: 3 }, "").unwrap()[0];
    let sums = builder.push_op(Matmul { a: weights, b: v }, "").unwrap()[0];
    let output = transpose(&mut builder, sums, [0, 2, 1, 3]);
    builder.build(vec![("y".into(), output)]).unwrap()
}

/// A picture, the first convolution of a network, an expansion and a depthwise convolution.
fn residual(strides: [u32; 2]) -> Graph {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    let x = builder.input("x", Descriptor::new(DataType::Float32, [1, 3, 85, 82])).unwrap();
    let mut seed = 10;
    let mut conv = |builder: &mut GraphBuilder, input: OperandId, filter: [u32; 4], groups: u32, strides: [u32; 2]| {
        let mut constant = |builder: &mut GraphBuilder, descriptor: Descriptor| {
            seed += 1;
            let data = numbers(descriptor.byte_length() / 4, seed);
            builder.constant(descriptor, ConstantBytes::new(bytemuck::cast_slice(&data).to_vec())).unwrap()
        };
        let bias = Some(constant(builder, Descriptor::new(DataType::Float32, [filter[0]])));
        let padding = [u32::from(filter[2] > 1); 4];
        let filter = constant(builder, Descriptor::new(DataType::Float32, filter));
        let (input_layout, filter_layout, dilations) = (InputOperandLayout::Nchw, Conv2dFilterOperandLayout::Oihw, [1; 2]);
        let op = Conv2d { input, filter, padding, strides, dilations, groups, input_layout, filter_layout, bias };
        let output = builder.push_op(op, "").unwrap()[0];
        builder.push_op(Activation { kind: ActivationKind::Relu, input: output }, "").unwrap()[0]
    };
    let first = conv(&mut builder, x, [20, 3, 3, 3], 1, [2; 2]);
    let expanded = conv(&mut builder, first, [116, 20, 1, 1], 1, [1; 2]);
    let output = conv(&mut builder, expanded, [116, 1, 3, 3], 116, strides);
    builder.build(vec![("y".into(), output)]).unwrap()
}

/// The operators of the steps, and the output.
fn run(graph: Graph, fusing: Fusing, threads: usize) -> (Vec<&'static str>, Vec<f32>) {
    let cpu = Cpu::new(threads);
    let count = |id: OperandId| graph.descriptor(id).byte_length() / 4;
    let inputs: Vec<Vec<f32>> = graph.inputs.iter().zip(1..).map(|((_, id), seed)| numbers(count(*id), seed)).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
    let is_quick = fusing == Fusing::Quick;
    let preferences = Preferences { fusing, patterns: is_quick, orders: is_quick, channels_last: true, ..Preferences::default() };
    let schedule = compile(graph.clone(), &Preferring { of: cpu.capabilities(), preferences }).unwrap();
    let steps = schedule.steps.iter().map(|step| step.op.row().name).collect();
    let output = run_scheduled(&cpu, &graph, schedule, &inputs).remove(0);
    (steps, output.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect())
}

/// How many transpositions there are.
fn transposes(steps: &[&str]) -> usize {
    steps.iter().filter(|&&name| name == "transpose").count()
}

#[test]
fn products_transpose_what_they_read_and_write() {
    for (queries, keys) in [(1, 20), (13, 13), (40, 33)] {
        let (steps, expected) = run(attention(queries, keys), Fusing::Products, 1);
        assert_eq!(transposes(&steps), 4);
        for threads in [1, 2] {
            let (steps, found) = run(attention(queries, keys), Fusing::Quick, threads);
            assert_eq!(transposes(&steps), 0);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                assert!((found - expected).abs() < 1e-5, "{queries} x {keys} at {i}: {found}, not {expected}");
            }
        }
    }
}

#[test]
fn pictures_are_read_where_they_are_and_expansions_go_by_bands() {
    for strides in [[1, 1], [2, 2]] {
        let (steps, expected) = run(residual(strides), Fusing::Products, 1);
        assert_eq!(steps, ["transpose", "conv2d", "conv2d", "conv2d", "transpose"]);
        for threads in [1, 2] {
            let (steps, found) = run(residual(strides), Fusing::Quick, threads);
            assert_eq!(steps, ["conv2d", "conv2d", "transpose"]);
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let is_near = (found - expected).abs() <= 1e-5 * expected.abs().max(10.0);
                assert!(is_near, "with {threads} threads at {i}: {found}, not {expected}");
            }
        }
    }
}
