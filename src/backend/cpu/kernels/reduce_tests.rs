//! Reductions against the reference kernel.

use super::tests::{check, check_with, numbers};
use super::{Problem, Target, TensorDesc, first};
use crate::backend::cpu::reference;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{DataType, Op, OperandId};
use webnn_kernels::isa::Isa;

const KINDS: [ReduceKind; 8] = [
    ReduceKind::Sum,
    ReduceKind::L1,
    ReduceKind::SumSquare,
    ReduceKind::L2,
    ReduceKind::LogSum,
    ReduceKind::Mean,
    ReduceKind::Max,
    ReduceKind::Min,
];

fn reduce(kind: ReduceKind, axes: &[u32]) -> Reduce {
    Reduce { kind, input: OperandId(0), axes: Some(axes.to_vec()), keep_dimensions: false }
}

fn kept(shape: &[usize], axes: &[u32]) -> Vec<usize> {
    (0..shape.len()).filter(|&axis| !axes.contains(&(axis as u32))).map(|axis| shape[axis]).collect()
}

/// What a kernel of each instruction set, for so many threads, gives must be the bits of what the reference kernel gives: a
/// float64 sum is rounded once, whatever its order. (Only where it lies just between two float32 numbers the order matters.)
fn check_bits(kind: ReduceKind, data: &[f32], shape: &[usize], axes: &[u32], threads: usize) {
    let op: Op = reduce(kind, axes).into();
    let output = kept(shape, axes);
    let input = View::new(DataType::Float32, shape, bytemuck::cast_slice(data));
    let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
        let mut result = vec![7f32; output.iter().product()];
        let bytes = bytemuck::cast_slice_mut(&mut result);
        body(&mut Arguments::new(&[input], &mut [ViewMut { data_type: DataType::Float32, shape: &output, bytes }]));
        result
    };
    let expected = run(&|arguments| reference::execute(&op, arguments));
    for isa in Isa::available() {
        let inputs = [TensorDesc { data_type: DataType::Float32, shape, constant: None, order: None }];
        let output = TensorDesc { data_type: DataType::Float32, shape: &output, constant: None, order: None };
        let (before, dequantized, fused) = (&[], &[], &[]);
        let problem = Problem { prologue: before, dequantized, op: &op, fused, inputs: &inputs, output, workspace: None };
        let selection = first(&problem, &Target::with(isa, threads));
        let found = run(&|arguments| selection.kernel.compute(arguments));
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let is_same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(is_same, "{} {kind:?} of {shape:?} along {axes:?} at {i}: {found:e}, not {expected:e}", isa.name);
        }
    }
}

#[test]
fn every_choice_of_axes() {
    let shape = [3, 9, 1, 5, 17];
    let data = numbers(shape.iter().product(), 3);
    for choice in 1..1 << shape.len() {
        let axes: Vec<u32> = (0..shape.len() as u32).filter(|axis| choice >> axis & 1 == 1).collect();
        // A dimension of size 1 alone.
        if axes == [2] {
            continue;
        }
        for kind in KINDS {
            check_bits(kind, &data, &shape, &axes, 1);
        }
    }
}

#[test]
fn runs_and_rows_of_all_lengths() {
    for kind in KINDS {
        for length in (4..35).chain([63, 64, 65, 127, 300]) {
            let data = numbers(7 * length, length as u64);
            check_bits(kind, &data, &[7, length], &[1], 1);
            check_bits(kind, &data, &[7, length], &[0], 1);
        }
        // More columns than are computed together, in several matrices.
        check_bits(kind, &numbers(3 * 5 * 2100, 1), &[3, 5, 2100], &[1], 1);
    }
}

#[test]
fn few_outputs_for_the_threads() {
    for kind in KINDS {
        for (shape, axes) in [
            (vec![100_000], vec![0]),
            (vec![3, 7, 5000], vec![0, 2]),
            (vec![2, 40_001], vec![1]),
            (vec![3001, 30], vec![0]),
            (vec![2, 33, 1300], vec![1]),
            (vec![33, 2, 1300], vec![0]),
        ] {
            let data = numbers(shape.iter().product(), 5);
            check_bits(kind, &data, &shape, &axes, 2);
            check_bits(kind, &data, &shape, &axes, 3);
            check(reduce(kind, &axes), &[(shape.clone(), false)], &kept(&shape, &axes));
        }
    }
}

#[test]
fn numbers_at_the_edge() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let lists: [&[f32]; 12] = [
        &[nan],
        &[-nan],
        &[infinity],
        &[-infinity],
        &[infinity, -infinity],
        &[infinity, nan],
        &[3e38; 9],
        &[3e38, 3e38, -3e38, -2e38],
        &[1e30, -1e-30],
        &[1e-30; 5],
        &[1e-42, -1e-44],
        &[16_777_216.0, 1.0, -16_777_216.0],
    ];
    for kind in KINDS {
        for length in [8, 13, 40] {
            for (list, place) in
                lists.iter().flat_map(|list| (0..length - list.len().min(length)).map(move |place| (list, place)))
            {
                for fill in [0.5, 0.0, -0.0, -1.0] {
                    let mut data = vec![fill; 3 * length];
                    for (i, &x) in list.iter().enumerate() {
                        data[length + place + i] = x;
                    }
                    check_bits(kind, &data, &[3, length], &[1], 1);
                    // The same as columns.
                    let turned: Vec<f32> = (0..9 * length).map(|i| data[i % 9 % 3 * length + i / 9]).collect();
                    check_bits(kind, &turned, &[length, 9], &[0], 1);
                }
            }
            // Zeros of both signs.
            for place in 0..length {
                for x in [0.0f32, -0.0] {
                    let mut data = vec![-x; length * 2];
                    data[place] = x;
                    check_bits(kind, &data, &[2, length], &[1], 1);
                    check_bits(kind, &data, &[length * 2], &[0], 3);
                    let turned: Vec<f32> = (0..length * 8).map(|i| if i / 8 == place { x } else { -x }).collect();
                    check_bits(kind, &turned, &[length, 8], &[0], 1);
                }
            }
        }
    }
}

#[test]
fn an_absent_list_is_all_axes() {
    for kind in KINDS {
        let op = Reduce { kind, input: OperandId(0), axes: None, keep_dimensions: true };
        check_with(op, &[], &[(vec![3, 1, 49], false)], &[1, 1, 1], |data| data[70] = 4.0);
    }
}

#[test]
fn pools_of_whole_images() {
    for kind in [Pool2dKind::Average, Pool2dKind::L2, Pool2dKind::Max] {
        for [height, width] in [[1, 4], [7, 7], [28, 28], [13, 50]] {
            let op = |window| Pool2d {
                kind,
                input: OperandId(0),
                window_dimensions: window,
                padding: [0; 4],
                strides: [2; 2],
                dilations: [1; 2],
                layout: InputOperandLayout::Nchw,
                output_shape_rounding: RoundingType::Floor,
                output_sizes: None,
            };
            for window in [None, Some([height as u32, width as u32])] {
                check(op(window), &[(vec![2, 5, height, width], false)], &[2, 5, 1, 1]);
            }
        }
    }
}
