//! Products of enormous depth look within one piece of their output whether somebody still wants it, and get the same results.

use super::functions::exact_tests::Given;
use super::tests::{known, numbers};
use super::{Built, Kernel, Problem, Target, TensorDesc, every};
use crate::backend::cpu::dispatch::workspaces;
use crate::backend::cpu::testing::instruction_sets;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::compiler::RUNNING;
use crate::graph::ops::block_quantized::{BlockQuantizedMatmul, WeightCoding};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Binary, BinaryKind, Cast, DequantizeLinear};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::{Gemm, Matmul};
use crate::graph::ops::quantized::QuantizedMatmul;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, FpMath, Op, OperandId};
use crate::looks;
use half::f16;
use std::collections::BTreeSet;

mod wide;

/// The depth, of which the last block is not whole.
const DEPTH: usize = (1 << 14) + 38;
/// Units of work between two looks, when looks are counted.
const LONGEST: usize = 1 << 9;
/// Looks that it demands, whatever the kernel takes for a unit of work.
const LEAST: usize = DEPTH / LONGEST / 4;

struct Case {
    prologue: Vec<Op>,
    dequantized: Vec<Op>,
    op: Op,
    inputs: Vec<Given>,
    /// Which of them are constants.
    constants: &'static [usize],
    outputs: Vec<(DataType, Vec<usize>)>,
}

fn floats(shape: &[usize], seed: u64) -> Given {
    Given::of(DataType::Float32, shape, &numbers(shape.iter().product(), seed))
}

fn bytes(shape: &[usize]) -> Given {
    let bytes: Vec<u8> = (0..shape.iter().product()).map(|i: usize| (i * 37 + i / 7) as u8).collect();
    Given::of(DataType::Uint8, shape, &bytes)
}

/// An operator with an output of float32.
fn case(op: impl Into<Op>, inputs: Vec<Given>, constants: &'static [usize], output: &[usize]) -> Case {
    let outputs = vec![(DataType::Float32, output.to_vec())];
    Case { prologue: vec![], dequantized: vec![], op: op.into(), inputs, constants, outputs }
}

/// Of a row, a few and several tiles, with a column, a few and several panels.
const SIZES: [[usize; 2]; 6] = [[1, 1], [1, 3], [1, 200], [3, 40], [4, 3], [30, 33]];

fn products() -> Vec<Case> {
    let [a, b] = [0, 1].map(OperandId);
    let of = |[rows, columns]: [usize; 2]| {
        let output = [rows, columns];
        let matmul =
            |constants| case(Matmul { a, b }, vec![floats(&[rows, DEPTH], 1), floats(&[DEPTH, columns], 2)], constants, &output);
        let gemm = |a_transpose: bool| {
            let left = if a_transpose { [DEPTH, rows] } else { [rows, DEPTH] };
            let op = Gemm { a, b, c: None, alpha: 1.0, beta: 1.0, a_transpose, b_transpose: true };
            case(op, vec![floats(&left, 1), floats(&[columns, DEPTH], 2)], &[], &output)
        };
        [matmul(&[]), matmul(&[1]), gemm(false), gemm(true)]
    };
    SIZES.into_iter().flat_map(of).collect()
}

fn block_quantized() -> Vec<Case> {
    let [a, weights, scales] = [0, 1, 2].map(OperandId);
    let mut cases = Vec::new();
    for [rows, columns] in [[1, 3], [1, 70], [3, 20], [70, 3]] {
        for (bits, block, approximate) in
            [(4u32, 32, false), (8, DEPTH.next_multiple_of(16), false), (4, 32, true), (8, 64, true)]
        {
            let blocks = DEPTH.div_ceil(block);
            let of_row = (block * bits as usize).div_ceil(8) * blocks;
            let op = BlockQuantizedMatmul {
                a,
                weights,
                scales,
                bits,
                block_size: block as u32,
                zero_points: None,
                code_book: None,
                bias: None,
                coding: WeightCoding::Unsigned,
                by_depth: false,
                high_first: false,
                approximate,
            };
            let inputs = vec![floats(&[rows, DEPTH], 1), bytes(&[columns, of_row]), floats(&[columns, blocks], 3)];
            cases.push(case(op, inputs, &[1, 2], &[rows, columns]));
        }
    }
    cases
}

/// One query and several, of many keys of a few elements and of a few keys of many: of float32, of float16, and of bytes.
fn attention() -> Vec<Case> {
    let [q, k, v, mask, of_keys, of_values, zeros] = [0, 1, 2, 3, 4, 5, 6].map(OperandId);
    let add = |b| Op::from(Binary { kind: BinaryKind::Add, a: RUNNING, b });
    let with = |[depth, keys]: [usize; 2], [queries, masks]: [usize; 2], form: DataType| {
        let mut prologue: Vec<Op> = vec![Matmul { a: q, b: k }.into()];
        prologue.extend((0..masks).map(|_| add(mask)));
        prologue.push(Softmax { input: RUNNING, axis: 3 }.into());
        let shapes = [[1, 1, queries, depth], [1, 1, depth, keys], [1, 1, keys, depth], [1, 1, 1, keys]];
        let mut inputs: Vec<Given> = shapes.iter().zip(1..).map(|(shape, seed)| floats(shape, seed)).collect();
        let halves = |given: &Given| {
            let numbers: &[f32] = bytemuck::cast_slice(&given.bytes);
            let halves: Vec<u16> = numbers.iter().map(|&number| f16::from_f32(number).to_bits()).collect();
            Given::of(DataType::Float16, &given.shape, &halves)
        };
        let (mut dequantized, mut constants) = (vec![], &[][..]);
        if form == DataType::Float16 {
            inputs[1..3].iter_mut().for_each(|given| *given = halves(given));
            dequantized = [k, v].map(|input| Cast { input, data_type: DataType::Float32 }.into()).to_vec();
        } else if form == DataType::Int8 {
            inputs[1..3].iter_mut().for_each(|given| *given = Given { data_type: DataType::Int8, ..bytes(&given.shape) });
            // Both have a scale for each key, and no zero points.
            let of = |shape: &[usize]| [floats(shape, 7), Given::of(DataType::Int8, shape, &vec![0u8; keys])];
            let [[scales, zeros_of_keys], [scales_of_values, zeros_of_values]] = [of(&[1, 1, 1, keys]), of(&[1, 1, keys, 1])];
            inputs.extend([scales, scales_of_values, zeros_of_keys, zeros_of_values]);
            constants = &[6, 7];
            let zeros_of_values = OperandId(7);
            dequantized = vec![
                DequantizeLinear { input: k, scale: of_keys, zero_point: zeros }.into(),
                DequantizeLinear { input: v, scale: of_values, zero_point: zeros_of_values }.into(),
            ];
        }
        let alone = case(Matmul { a: RUNNING, b: v }, inputs, constants, &[1, 1, queries, depth]);
        Case { prologue, dequantized, ..alone }
    };
    let mut cases = Vec::new();
    for form in [DataType::Float32, DataType::Float16, DataType::Int8] {
        for sizes in [[8, DEPTH], [DEPTH, 5]] {
            cases.extend([[1, 0], [1, 1], [2, 2], [20, 1]].map(|queries| with(sizes, queries, form)));
        }
    }
    cases
}

/// Constant weights and computed ones, with a zero point of the columns.
fn quantized() -> Vec<Case> {
    let [a, b, zero] = [0, 1, 2].map(OperandId);
    let of = |[rows, columns]: [usize; 2]| {
        [&[][..], &[1, 2]].map(|constants| {
            let op = QuantizedMatmul { a, b, a_zero_point: None, b_zero_point: Some(zero) };
            let zero = Given::of(DataType::Uint8, &[1], &[3u8]);
            let inputs = vec![bytes(&[rows, DEPTH]), bytes(&[DEPTH, columns]), zero];
            Case { outputs: vec![(DataType::Int32, vec![rows, columns])], ..case(op, inputs, constants, &[]) }
        })
    };
    SIZES.into_iter().flat_map(of).collect()
}

fn aligned(case: &Case) -> Vec<Vec<u64>> {
    let words = |given: &Given| -> Vec<u64> {
        let mut room = vec![0; given.bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut room)[..given.bytes.len()].copy_from_slice(&given.bytes);
        room
    };
    case.inputs.iter().map(words).collect()
}

fn views<'a>(case: &'a Case, aligned: &'a [Vec<u64>]) -> Vec<View<'a>> {
    let view = |(given, room): (&'a Given, &'a Vec<u64>)| {
        View::new(given.data_type, &given.shape, &bytemuck::cast_slice(room)[..given.bytes.len()])
    };
    case.inputs.iter().zip(aligned).map(view).collect()
}

/// Calls `body` with what kernels are asked for: on each instruction set, with each workspace that there may be, and without one.
fn for_each_problem(case: &Case, mut body: impl FnMut(&Problem<'_>, &Target)) {
    let aligned = aligned(case);
    let order = [0, 1, 3, 2];
    // Keys lie one after the other, as they do in a cache.
    let is_attention = !case.prologue.is_empty();
    let mut known = known(&views(case, &aligned), |i| case.constants.contains(&i));
    known[1].order = is_attention.then_some(&order[..]);
    let Case { prologue, dequantized, op, outputs, .. } = case;
    let (data_type, shape) = &outputs[0];
    let output = TensorDesc { data_type: *data_type, shape, constant: None, order: None };
    let shapes: Vec<&[usize]> = case.inputs.iter().map(|given| &given.shape[..]).collect();
    for (isa, fp_math) in instruction_sets().iter().flat_map(|isa| [(isa, FpMath::Strict), (isa, FpMath::Bf16)]) {
        let target = Target { fp_math, ..Target::with(isa, 1) };
        let workspaces = 0..workspaces(op, &shapes, shape, &target).len();
        for workspace in workspaces.map(Some).chain([None]) {
            body(&Problem { prologue, dequantized, op, fused: &[], inputs: &known, output, workspace }, &target);
        }
    }
}

/// Calls `body` with each kernel for a case, its name, and what runs it.
fn for_each_kernel(case: &Case, mut body: impl FnMut(&str, &dyn Fn() -> Vec<Vec<u64>>)) {
    let aligned = aligned(case);
    let views = views(case, &aligned);
    let run = |kernel: &dyn Kernel| {
        let length = |(data_type, shape): &(DataType, Vec<usize>)| shape.iter().product::<usize>() * data_type.bits() / 8;
        let mut rooms: Vec<Vec<u64>> = case.outputs.iter().map(|output| vec![0; length(output).div_ceil(8)]).collect();
        let written = case.outputs.iter().zip(&mut rooms).map(|(output, room)| {
            let bytes = &mut bytemuck::cast_slice_mut(room)[..length(output)];
            ViewMut { data_type: output.0, shape: &output.1, bytes }
        });
        kernel.compute(&mut Arguments::new(&views, &mut written.collect::<Vec<_>>()));
        rooms
    };
    for_each_problem(case, |problem, target| {
        for (name, built) in every(problem, target) {
            body(&format!("{name} on {}", target.isa.name), &|| run(&*built.kernel));
        }
    });
}

/// Each kernel for the cases must look so often, and get the same results then; their names.
fn check(cases: Vec<Case>) -> BTreeSet<String> {
    let mut failures = Vec::new();
    let mut names = BTreeSet::new();
    for case in &cases {
        let mut kernels = 0;
        for_each_kernel(case, |name, run| {
            kernels += 1;
            names.insert(name.split_once(' ').expect("a name on a set").0.to_owned());
            let at_once = run();
            let (looked, paused) = looks::count(LONGEST, run);
            let shapes = || case.inputs.iter().map(|given| given.shape.clone()).collect::<Vec<_>>();
            if paused != at_once {
                failures.push(format!("{name}: another result with pauses: {:?} of {:?}", case.op, shapes()));
            }
            if looked < LEAST {
                failures.push(format!("{name}: {looked} looks, at least {LEAST} are needed: {:?} of {:?}", case.op, shapes()));
            }
        });
        assert!(kernels > 0, "no kernel for {:?}", case.op);
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    names
}

fn convolutions() -> Vec<Case> {
    let [image, filter, bias] = [0, 1, 2].map(OperandId);
    // Single pixels, and a window of many.
    let of = |(channels, window, outputs, size): (usize, [usize; 2], usize, [usize; 2])| {
        let shape = [1, size[0] + window[0] - 1, size[1] + window[1] - 1, channels];
        let weights = [outputs, window[0], window[1], channels];
        let layouts = (InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Ohwi);
        let op = Conv2d { bias: Some(bias), ..Conv2d::new(image, filter, layouts.0, layouts.1) };
        let inputs = vec![floats(&shape, 1), floats(&weights, 2), floats(&[outputs], 3)];
        case(op, inputs, &[1, 2], &[1, size[0], size[1], outputs])
    };
    let sizes =
        [(DEPTH, [1, 1], 3, [1, 1]), (DEPTH, [1, 1], 70, [4, 5]), (DEPTH / 9, [3, 3], 9, [3, 2]), (16, [32, 33], 40, [2, 2])];
    sizes.into_iter().map(of).collect()
}

/// Weights are packed when a kernel is built.
#[test]
fn packing_looks_within_a_panel_and_a_column() {
    let cases = [products(), block_quantized(), quantized(), convolutions()].into_iter().flatten();
    let mut all = 0;
    for case in cases.filter(|case| !case.constants.is_empty()) {
        for_each_problem(&case, |problem, target| {
            // Others read weights where they are.
            let packs = |built: &Built| built.kernel.bytes() > 0;
            let count = || every(problem, target).iter().filter(|(_, built)| packs(built)).count();
            let (looked, packed) = looks::count(LONGEST, count);
            assert!(looked >= packed * LEAST, "{looked} looks for {packed} kernels: {:?} of {:?}", case.op, case.outputs);
            all += packed;
        });
    }
    assert!(all > 20, "{all} kernels pack");
}

#[test]
fn convolutions_look_within_their_depth() {
    check(convolutions());
}

#[test]
fn products_look_within_their_depth() {
    check(products());
}

#[test]
fn products_with_weights_of_a_few_bits_look_within_their_depth() {
    check(block_quantized());
}

#[test]
fn attention_looks_within_its_keys_and_their_elements() {
    check(attention());
}

#[test]
fn products_of_bytes_look_within_their_depth() {
    check(quantized());
}
