//! Kernels that compute a line of any length at once look within it whether somebody still wants it, and get the same results.

use super::functions::exact_tests::Given;
use super::tests::numbers;
use super::{Problem, Target, TensorDesc, first};
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::elementwise::{Binary, BinaryKind, DequantizeLinear};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::movement::{Concat, Transpose};
use crate::graph::ops::normalization::{InstanceNormalization, LayerNormalization, RmsNormalization};
use crate::graph::ops::quantized::QuantizeAlong;
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, Op, OperandId};
use crate::looks;
use webnn_kernels::isa::Isa;

/// Elements of a line, and of what comes after it where that is not whole.
const LINE: usize = 1 << 14;
const REST: usize = 37;
/// Units of work between two looks, when looks are counted.
const LONGEST: usize = 1 << 9;
/// Looks that a line demands: parts may be somewhat longer, and are for kernels that take vectors across lines.
const LEAST: usize = LINE / LONGEST / 4;

/// An operator, its operands, and the data types and shapes of its outputs.
type Case = (Op, Vec<Given>, Vec<(DataType, Vec<usize>)>);

fn floats(shape: &[usize]) -> Given {
    Given::of(DataType::Float32, shape, &numbers(shape.iter().product(), 1))
}

/// Operators of one operand whose output has a shape of float32.
fn case(op: impl Into<Op>, input: Given, output: &[usize]) -> Case {
    (op.into(), vec![input], vec![(DataType::Float32, output.to_vec())])
}

fn softmax() -> Vec<Case> {
    let along = |axis: u32, shape: &[usize]| case(Softmax { input: OperandId(0), axis }, floats(shape), shape);
    vec![along(1, &[1, LINE + REST]), along(0, &[LINE / 16 + 1, 16]), along(0, &[LINE / 32 + 1, 37])]
}

fn normalization() -> Vec<Case> {
    let shape = [1, LINE + REST];
    let factors = || floats(&[LINE + REST]);
    // The squares of the larger ones are infinite in float32.
    let large = || {
        let numbers: Vec<f32> = numbers(LINE + REST, 1).iter().map(|x| x * 1e30).collect();
        Given::of(DataType::Float32, &shape, &numbers)
    };
    let mut cases = Vec::new();
    for (scale, bias) in [(None, None), (Some(1), None), (None, Some(1)), (Some(1), Some(2))] {
        let [scale, bias] = [scale, bias].map(|id| id.map(OperandId));
        let op = LayerNormalization { input: OperandId(0), scale, bias, axes: None, epsilon: 1e-5 };
        for input in [floats(&shape), large()] {
            cases.push((op.clone().into(), vec![input, factors(), factors()], vec![(DataType::Float32, shape.to_vec())]));
        }
    }
    for scale in [None, Some(OperandId(1))] {
        let op = RmsNormalization { input: OperandId(0), scale, axes: Some(vec![1]), epsilon: 1e-5 };
        cases.push((op.into(), vec![floats(&shape), factors()], vec![(DataType::Float32, shape.to_vec())]));
    }
    let layout = InputOperandLayout::Nchw;
    let op = InstanceNormalization { input: OperandId(0), scale: None, bias: None, epsilon: 1e-5, layout };
    let plane = [1, 1, 127, LINE / 127];
    cases.push(case(op, floats(&plane), &plane));
    cases
}

fn reductions() -> Vec<Case> {
    let kinds = [ReduceKind::Sum, ReduceKind::L1, ReduceKind::L2, ReduceKind::Mean, ReduceKind::Max, ReduceKind::Min];
    let of = |kind| {
        let along = |axes: &[u32], shape: &[usize], output: &[usize]| {
            let op = Reduce { kind, input: OperandId(0), axes: Some(axes.to_vec()), keep_dimensions: false };
            case(op, floats(shape), output)
        };
        // One run, several of them, and rows of outputs.
        [along(&[0], &[LINE + REST], &[]), along(&[0, 2], &[128, 2, 67], &[2]), along(&[0], &[LINE / 16 + 1, 17], &[17])]
    };
    kinds.into_iter().flat_map(of).collect()
}

fn positions() -> Vec<Case> {
    let of = |kind| {
        let along = |axis: u32, shape: &[usize], output: &[usize]| {
            let data_type = DataType::Int32;
            let op = Arg { kind, input: OperandId(0), axis, keep_dimensions: false, output_data_type: data_type };
            (op.into(), vec![floats(shape)], vec![(data_type, output.to_vec())])
        };
        [along(0, &[LINE + REST], &[]), along(0, &[LINE / 16 + 1, 17], &[17])]
    };
    [ArgKind::Max, ArgKind::Min].into_iter().flat_map(of).collect()
}

fn movement() -> Vec<Case> {
    let [a, b] = [0, 1].map(OperandId);
    let joined = Concat { inputs: vec![a, b], axis: 0 };
    let exchanged = |permutation: &[u32], shape: &[usize], output: &[usize]| {
        case(Transpose { input: a, permutation: Some(permutation.to_vec()) }, floats(shape), output)
    };
    vec![
        (joined.into(), vec![floats(&[LINE]), floats(&[REST])], vec![(DataType::Float32, vec![LINE + REST])]),
        // Squares, and lines that are interleaved.
        exchanged(&[1, 0], &[LINE + REST, 7], &[7, LINE + REST]),
        exchanged(&[0, 2, 3, 1], &[1, 2, 2, LINE], &[1, 2, LINE, 2]),
    ]
}

fn elements() -> Vec<Case> {
    let [a, b, c] = [0, 1, 2].map(OperandId);
    let line = [1, LINE + REST];
    let added = Binary { kind: BinaryKind::Add, a, b };
    let bytes: Vec<i8> = (0..LINE + REST).map(|i| (i * 7) as i8).collect();
    let quantized = vec![(DataType::Int8, line.to_vec()), (DataType::Float32, vec![1, 1])];
    let integers = vec![Given::of(DataType::Int8, &line, &bytes), floats(&[1, 1]), Given::of(DataType::Int8, &[1, 1], &[3i8])];
    vec![
        (added.into(), vec![floats(&[2, LINE + REST]), floats(&[LINE + REST])], vec![(DataType::Float32, vec![2, LINE + REST])]),
        (QuantizeAlong { input: a, axis: 1 }.into(), vec![floats(&line)], quantized),
        (DequantizeLinear { input: a, scale: b, zero_point: c }.into(), integers, vec![(DataType::Float32, line.to_vec())]),
    ]
}

/// What the kernel for an operator makes of its operands, all outputs after each other.
fn run(op: &Op, inputs: &[Given], outputs: &[(DataType, Vec<usize>)], isa: &'static Isa) -> Vec<u64> {
    let words = |bytes: usize| bytes.div_ceil(8);
    let aligned: Vec<Vec<u64>> = inputs
        .iter()
        .map(|given| {
            let mut room = vec![0; words(given.bytes.len())];
            bytemuck::cast_slice_mut(&mut room)[..given.bytes.len()].copy_from_slice(&given.bytes);
            room
        })
        .collect();
    let views: Vec<View<'_>> = inputs
        .iter()
        .zip(&aligned)
        .map(|(given, room)| View::new(given.data_type, &given.shape, &bytemuck::cast_slice(room)[..given.bytes.len()]))
        .collect();
    let desc = |data_type, shape| TensorDesc { data_type, shape, constant: None, order: None };
    let known: Vec<TensorDesc<'_>> = inputs.iter().map(|given| desc(given.data_type, &given.shape)).collect();
    let output = desc(outputs[0].0, &outputs[0].1);
    let problem = Problem { prologue: &[], dequantized: &[], op, fused: &[], inputs: &known, output, workspace: None };
    let kernel = first(&problem, &Target::with(isa, 1)).kernel;
    let mut made: Vec<(usize, Vec<u64>)> = outputs
        .iter()
        .map(|(data_type, shape)| {
            let bytes = shape.iter().product::<usize>() * data_type.bits() / 8;
            (bytes, vec![0; words(bytes)])
        })
        .collect();
    let mut written: Vec<ViewMut<'_>> = outputs
        .iter()
        .zip(&mut made)
        .map(|((data_type, shape), (bytes, room))| ViewMut {
            data_type: *data_type,
            shape,
            bytes: &mut bytemuck::cast_slice_mut(room)[..*bytes],
        })
        .collect();
    kernel.compute(&mut Arguments::new(&views, &mut written));
    made.into_iter().flat_map(|(_, room)| room).collect()
}

fn check(cases: Vec<Case>) {
    for (op, inputs, outputs) in cases {
        for isa in Isa::available() {
            let at_once = run(&op, &inputs, &outputs, isa);
            let (looked, paused) = looks::count(LONGEST, || run(&op, &inputs, &outputs, isa));
            let shape = &inputs[0].shape;
            assert!(paused == at_once, "{}: another result with pauses: {op:?} of {shape:?}", isa.name);
            assert!(looked >= LEAST, "{}: {looked} looks, at least {LEAST} are needed: {op:?} of {shape:?}", isa.name);
        }
    }
}

#[test]
fn softmax_looks_within_a_line() {
    check(softmax());
}

#[test]
fn normalizations_look_within_a_line() {
    check(normalization());
}

#[test]
fn reductions_look_within_a_line() {
    check(reductions());
}

#[test]
fn positions_are_looked_for_with_looks_within_a_line() {
    check(positions());
}

#[test]
fn copies_and_transpositions_look_within_a_line() {
    check(movement());
}

#[test]
fn conversions_and_chains_look_within_a_line() {
    check(elements());
}
