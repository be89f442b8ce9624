//! Every fast kernel against the reference kernel, with odd sizes, remainders, groups, strides, dilations and padding.

use super::{Known, Site, select};
use crate::backend::cpu::reference;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Clamp, Unary, UnaryKind};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::ops::matmul::{Gemm, Matmul};
use crate::graph::ops::normalization::LayerNormalization;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, Number, Op, OperandId};

/// Pseudo-random numbers between -1 and 1; the seed is fixed.
pub fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    std::iter::repeat_with(next).take(count).collect()
}

/// An operand of a case: its shape, and whether it is constant.
type Input = (Vec<usize>, bool);

/// Runs an operator alone; see [`check_fused`].
fn check(op: impl Into<Op>, inputs: &[Input], output: &[usize]) {
    check_fused(op, &[], inputs, output);
}

/// Runs an operator, and what is fused with it, with its fast kernel, in a pool and outside, and compares with the reference kernel.
fn check_fused(op: impl Into<Op>, fused: &[Op], inputs: &[Input], output: &[usize]) {
    let op = op.into();
    let data: Vec<Vec<f32>> = inputs.iter().zip(1..).map(|((shape, _), seed)| numbers(shape.iter().product(), seed)).collect();
    let views: Vec<View<'_>> = inputs
        .iter()
        .zip(&data)
        .map(|((shape, _), data)| View { data_type: DataType::Float32, shape, bytes: bytemuck::cast_slice(data) })
        .collect();
    let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
        let mut result = vec![f32::NAN; output.iter().product()];
        let bytes = bytemuck::cast_slice_mut(&mut result);
        body(&mut Arguments::new(&views, &mut [ViewMut { data_type: DataType::Float32, shape: output, bytes }]));
        result
    };
    let mut expected = run(&|arguments| reference::execute(&op, arguments));
    for op in fused {
        let before = expected.clone();
        let mut views = views.clone();
        views.push(View { data_type: DataType::Float32, shape: output, bytes: bytemuck::cast_slice(&before) });
        let bytes = bytemuck::cast_slice_mut(&mut expected);
        let mut outputs = [ViewMut { data_type: DataType::Float32, shape: output, bytes }];
        reference::execute(op, &mut Arguments::new(&views, &mut outputs));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for threads in [1, 2] {
        let known: Vec<Known<'_>> = views
            .iter()
            .zip(inputs)
            .map(|(view, (_, constant))| Known {
                data_type: view.data_type,
                shape: view.shape,
                constant: constant.then_some(view.bytes),
                order: None,
            })
            .collect();
        let site = Site {
            op: &op,
            fused,
            inputs: &known,
            output: Known { data_type: DataType::Float32, shape: output, constant: None, order: None },
            threads,
        };
        let selection = select(&site).unwrap_or_else(|| panic!("no kernel for {op:?}"));
        assert!(selection.fuses || fused.is_empty(), "{fused:?} is not fused with {op:?}");
        let run_kernel = || run(&|arguments| selection.kernel.run(arguments));
        let found = if threads == 1 { run_kernel() } else { pool.install(run_kernel) };
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            // Sums of some thousand products of numbers below 1.
            assert!((found - expected).abs() <= 2e-4 * expected.abs().max(1.0), "{op:?} at {i}: {found}, not {expected}");
        }
    }
}

fn conv(groups: u32, strides: [u32; 2], dilations: [u32; 2], padding: [u32; 4], bias: bool) -> Conv2d {
    Conv2d {
        input: OperandId(0),
        filter: OperandId(1),
        padding,
        strides,
        dilations,
        groups,
        input_layout: InputOperandLayout::Nchw,
        filter_layout: Conv2dFilterOperandLayout::Oihw,
        bias: bias.then_some(OperandId(2)),
    }
}

#[test]
fn convolutions() {
    let sizes = [
        // input, output channels, filter, groups
        ([1, 3, 20, 31], 13, [3, 3], 1),
        ([2, 16, 14, 14], 40, [1, 1], 1),
        ([1, 8, 7, 7], 30, [3, 2], 2),
        ([1, 70, 9, 40], 25, [5, 3], 1),
        ([2, 6, 17, 19], 6, [3, 3], 6),
        ([1, 5, 12, 33], 5, [5, 5], 5),
        ([1, 4, 10, 11], 4, [2, 4], 4),
    ];
    for ([batches, channels, height, width], outputs, [filter_height, filter_width], groups) in sizes {
        for (strides, dilations, padding) in [
            ([1, 1], [1, 1], [0; 4]),
            ([1, 1], [1, 1], [1, 1, 1, 1]),
            ([2, 2], [1, 1], [1, 2, 0, 3]),
            ([1, 2], [2, 1], [3, 0, 2, 1]),
        ] {
            for bias in [false, true] {
                let size = |input: usize, filter: usize, axis: usize| {
                    let padded = input + (padding[2 * axis] + padding[2 * axis + 1]) as usize;
                    padded
                        .checked_sub((filter - 1) * dilations[axis] as usize + 1)
                        .map(|reach| reach / strides[axis] as usize + 1)
                };
                let (Some(rows), Some(columns)) = (size(height, filter_height, 0), size(width, filter_width, 1)) else {
                    continue;
                };
                let mut inputs = vec![
                    (vec![batches, channels, height, width], false),
                    (vec![outputs, channels / groups, filter_height, filter_width], true),
                ];
                if bias {
                    inputs.push((vec![outputs], true));
                }
                let op = conv(groups as u32, strides, dilations, padding, bias);
                check(op, &inputs, &[batches, outputs, rows, columns]);
            }
        }
    }
}

#[test]
fn products() {
    let matmul = || Matmul { a: OperandId(0), b: OperandId(1) };
    for constant in [false, true] {
        for (rows, depth, columns) in [(1, 70, 100), (3, 300, 33), (12, 64, 32), (37, 129, 200), (250, 40, 31)] {
            check(matmul(), &[(vec![rows, depth], false), (vec![depth, columns], constant)], &[rows, columns]);
            check(matmul(), &[(vec![2, 3, rows, depth], false), (vec![depth, columns], constant)], &[2, 3, rows, columns]);
        }
        check(matmul(), &[(vec![4, 1, 20, 30], false), (vec![3, 30, 17], constant)], &[4, 3, 20, 17]);
        check(matmul(), &[(vec![20, 30], false), (vec![2, 30, 17], constant)], &[2, 20, 17]);
    }
    for (a_transpose, b_transpose) in [(false, false), (true, false), (false, true), (true, true)] {
        for c in [None, Some(vec![50]), Some(vec![1, 50])] {
            let shape = |transposed: bool, rows, columns| if transposed { vec![columns, rows] } else { vec![rows, columns] };
            let mut inputs = vec![(shape(a_transpose, 13, 70), false), (shape(b_transpose, 70, 50), true)];
            let has_c = c.is_some();
            inputs.extend(c.map(|shape| (shape, true)));
            let c = has_c.then_some(OperandId(2));
            let op = Gemm { a: OperandId(0), b: OperandId(1), c, alpha: 1.0, beta: 1.0, a_transpose, b_transpose };
            check(op, &inputs, &[13, 50]);
        }
    }
}

#[test]
fn what_is_fused() {
    let relu = |running| Op::from(Activation { kind: ActivationKind::Relu, input: OperandId(running) });
    let clamp = |running| Op::from(Clamp { input: OperandId(running), min_value: Some(Number::Double(-0.5)), max_value: None });
    let add = |a, b| Op::from(Binary { kind: BinaryKind::Add, a: OperandId(a), b: OperandId(b) });

    let product = || Matmul { a: OperandId(0), b: OperandId(1) };
    let inputs = [(vec![2, 13, 70], false), (vec![70, 50], true), (vec![50], true), (vec![2, 13, 50], false)];
    check_fused(product(), &[add(4, 2), relu(4), add(3, 4)], &inputs, &[2, 13, 50]);

    let image = [2, 6, 11, 40];
    for (filter, groups) in [(vec![6, 6, 3, 3], 1), (vec![6, 3, 3, 3], 2), (vec![6, 1, 3, 3], 6)] {
        let inputs =
            [(image.to_vec(), false), (filter, true), (vec![6], true), (vec![1, 6, 1, 1], true), (image.to_vec(), false)];
        let op = conv(groups, [1, 1], [1, 1], [1, 1, 1, 1], true);
        check_fused(op, &[add(3, 5), add(5, 4), clamp(5)], &inputs, &image);
    }
}

#[test]
fn functions_of_elements_and_lines() {
    let unary = |kind| Op::from(Unary { kind, input: OperandId(0) });
    let activation = |kind| Op::from(Activation { kind, input: OperandId(0) });
    let shape = vec![3, 7, 61];
    for op in [unary(UnaryKind::Exp), unary(UnaryKind::Erf)] {
        check(op, &[(shape.clone(), false)], &shape);
    }
    for kind in [ActivationKind::Tanh, ActivationKind::Sigmoid, ActivationKind::Gelu] {
        check(activation(kind), &[(shape.clone(), false)], &shape);
    }
    check(Softmax { input: OperandId(0), axis: 2 }, &[(shape.clone(), false)], &shape);
    let normalization = |axes: &[u32], given: bool| LayerNormalization {
        input: OperandId(0),
        scale: given.then_some(OperandId(1)),
        bias: given.then_some(OperandId(2)),
        axes: Some(axes.to_vec()),
        epsilon: 1e-5,
    };
    check(normalization(&[2], false), &[(shape.clone(), false)], &shape);
    let line = vec![7, 61];
    check(normalization(&[1, 2], true), &[(shape.clone(), false), (line.clone(), false), (line, false)], &shape);
}
