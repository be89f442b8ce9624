//! What becomes of subnormal numbers: flushed in products, whose error is bounded, and exact elsewhere.

use super::image_tests::conv;
use super::tests::{Input, alone, known, numbers, results};
use super::{Target, every};
use crate::backend::cpu::reference;
use crate::backend::cpu::testing::instruction_sets;
use crate::backend::cpu::view::View;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{DataType, Op, OperandId};
use webnn_kernels::subnormals::Subnormals;

/// The least normal number.
const LEAST: f32 = f32::MIN_POSITIVE;

fn views<'a>(inputs: &'a [Input], data: &'a [Vec<f32>]) -> Vec<View<'a>> {
    let view = |((shape, _), data): (&'a Input, &'a Vec<f32>)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data));
    inputs.iter().zip(data).map(view).collect()
}

/// What the reference kernel makes of these numbers.
fn expected(op: &Op, inputs: &[Input], data: &[Vec<f32>], output: &[usize]) -> Vec<f32> {
    results(&views(inputs, data), &[output.to_vec()], |arguments| reference::execute(op, arguments))
}

/// What each implementation of an operator makes of these numbers on each instruction set, alone and in a pool.
fn found(op: &Op, inputs: &[Input], data: &[Vec<f32>], output: &[usize], look: impl Fn(&str, &[f32])) {
    let views = views(inputs, data);
    let known = known(&views, |i| inputs[i].1);
    let problem = alone(op, &known, output);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for isa in instruction_sets() {
        for threads in [1, 2] {
            for (name, built) in every(&problem, &Target::with(isa, threads)) {
                let run = || results(&views, &[output.to_vec()], |arguments| built.kernel.compute(arguments));
                let found = if threads == 1 { run() } else { pool.install(run) };
                look(&format!("{name} on {} with {threads} threads", isa.name), &found);
                assert_eq!(Subnormals::here(), Subnormals::Exact, "{name} leaves it so");
            }
        }
    }
}

/// Numbers of an operand, of which every third is subnormal.
fn mixed(count: usize, seed: u64) -> Vec<f32> {
    numbers(count, seed).into_iter().enumerate().map(|(i, x)| if i % 3 == 0 { x * 1e-39 } else { x }).collect()
}

/// A product of two operands against the bound of [`webnn_kernels::subnormals`], of which sums and rounding are computed by the
/// reference kernel from magnitudes. Each number of Winograd's image is a sum of those of a tile with factors whose magnitudes have a sum
/// of up to 10 along each axis, one of the filter of up to 1, and one of the output of up to 19: 19 * 19 * 10 * 10 errors at most.
fn check_bound(op: &Op, inputs: &[Input; 2], output: &[usize], depth: usize) {
    let count = |input: &Input| input.0.iter().product::<usize>();
    let data = [mixed(count(&inputs[0]), 1), mixed(count(&inputs[1]), 2)];
    let sizes: Vec<Vec<f32>> = data.iter().map(|list| list.iter().map(|x| x.abs()).collect()).collect();
    let ones: Vec<Vec<f32>> = data.iter().map(|list| vec![1.0; list.len()]).collect();
    let of = |a: &[f32], b: &[f32]| expected(op, inputs, &[a.to_vec(), b.to_vec()], output);
    let (left, right, both) = (of(&sizes[0], &ones[1]), of(&ones[0], &sizes[1]), of(&sizes[0], &sizes[1]));
    let exact = of(&data[0], &data[1]);
    found(op, inputs, &data, output, |name, found| {
        let errors = if name.starts_with("conv.winograd") { 19.0 * 19.0 * 10.0 * 10.0 } else { 1.0 };
        for i in 0..found.len() {
            let flushed = LEAST * errors * (left[i] + right[i] + 2.0 * depth as f32);
            let allowed = flushed + both[i] * 1e-5;
            assert!((found[i] - exact[i]).abs() <= allowed, "{name}: {} is {:e}, not {:e}", i, found[i], exact[i]);
        }
    });
    // Of subnormal numbers alone nothing is left, and nothing of products that are subnormal: that is where time is saved.
    for factors in [[1e-39f32, 1.0], [1.0, 1e-39], [1e-22, 1e-22]] {
        let data: Vec<Vec<f32>> = (1..)
            .zip(inputs)
            .zip(factors)
            .map(|((seed, input), by)| numbers(count(input), seed).iter().map(|x| x * by).collect())
            .collect();
        found(op, inputs, &data, output, |name, found| assert!(found.iter().all(|&x| x == 0.0), "{name} with {factors:?}"));
    }
}

#[test]
fn products_flush_subnormal_numbers() {
    let op = Op::from(Matmul { a: OperandId(0), b: OperandId(1) });
    for constant in [false, true] {
        for (rows, depth, columns) in [(1, 70, 100), (3, 300, 33), (37, 129, 200), (300, 70, 1), (64, 20, 5)] {
            let inputs = [(vec![rows, depth], false), (vec![depth, columns], constant)];
            check_bound(&op, &inputs, &[rows, columns], depth);
        }
        check_bound(&op, &[(vec![2, 20, 30], false), (vec![2, 30, 17], constant)], &[2, 20, 17], 30);
    }
}

#[test]
fn a_subnormal_number_times_an_infinite_one_is_none() {
    let op = Op::from(Matmul { a: OperandId(0), b: OperandId(1) });
    for (constant, rows) in [(false, 1), (true, 1), (false, 40), (true, 40)] {
        let inputs = [(vec![rows, 20], false), (vec![20, 33], constant)];
        let mut data = [numbers(rows * 20, 1), numbers(20 * 33, 2)];
        data[0][7] = f32::INFINITY;
        data[1][7 * 33..8 * 33].fill(1e-40);
        found(&op, &inputs, &data, &[rows, 33], |name, found| assert!(found[..33].iter().all(|x| x.is_nan()), "{name}"));
    }
}

#[test]
fn convolutions_flush_subnormal_numbers() {
    // Winograd's, pointwise ones, first layers, few outputs, depthwise ones, small groups.
    for (channels, outputs, groups, window) in
        [(16, 24, 1, 3), (16, 40, 1, 1), (3, 16, 1, 3), (16, 2, 1, 3), (16, 16, 16, 3), (16, 16, 4, 3)]
    {
        let pad = window as u32 / 2;
        let op = Op::from(conv(groups as u32, [1, 1], [1, 1], [pad; 4], false));
        let inputs = [(vec![1, 9, 11, channels], false), (vec![outputs, channels / groups, window, window], true)];
        check_bound(&op, &inputs, &[1, 9, 11, outputs], channels / groups * window * window);
    }
}

/// Functions of one element, and sums, keep what they had.
#[test]
fn functions_and_sums_are_exact() {
    let binary = |kind| Op::from(Binary { kind, a: OperandId(0), b: OperandId(1) });
    let (a, b) = (OperandId(0), OperandId(1));
    let inputs = [(vec![200], false), (vec![200], false)];
    let small: Vec<f32> = numbers(200, 1).iter().map(|x| x * 1e-39).collect();
    for (op, others) in [(binary(BinaryKind::Mul), 0.75), (binary(BinaryKind::Add), 1e-40), (binary(BinaryKind::Div), 0.5)] {
        let data = [small.clone(), vec![others; 200]];
        let exact = expected(&op, &inputs, &data, &[200]);
        assert!(exact.iter().any(|x| x.abs() > 0.0 && x.abs() < LEAST));
        found(&op, &inputs, &data, &[200], |name, found| assert_eq!(found, exact, "{name}: {op:?} of {a:?} and {b:?}"));
    }
    let sigmoid = Op::from(Activation { kind: ActivationKind::Sigmoid, input: a });
    let data = [(0..200).map(|i| -87.0 - i as f32 / 20.0).collect::<Vec<f32>>()];
    let exact = expected(&sigmoid, &inputs[..1], &data, &[200]);
    found(&sigmoid, &inputs[..1], &data, &[200], |name, found| {
        for (found, exact) in found.iter().zip(&exact) {
            assert!(found.to_bits().abs_diff(exact.to_bits()) <= 4, "{name}: {found:e}, not {exact:e}");
        }
    });
    let sum = Op::from(Reduce { kind: ReduceKind::Sum, input: a, axes: None, keep_dimensions: false });
    let exact = expected(&sum, &inputs[..1], std::slice::from_ref(&small), &[]);
    assert_ne!(exact, [0.0]);
    found(&sum, &inputs[..1], &[small], &[], |name, found| {
        assert!((found[0] - exact[0]).abs() <= 200.0 * f32::from_bits(1), "{name}: {:e}, not {:e}", found[0], exact[0]);
    });
}
