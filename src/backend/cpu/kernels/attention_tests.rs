//! Attention against the reference kernels of its operators, one after the other, for every instruction set.

use super::tests::{known, numbers};
use super::{Problem, Target, TensorDesc, first};
use crate::backend::cpu::reference;
use crate::backend::cpu::testing::instruction_sets;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::compiler::RUNNING;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Cast, DequantizeLinear, ReplaceNan};
use crate::graph::ops::matmul::Matmul;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, FpMath, Op, OperandId};
use half::f16;

struct Case {
    heads: usize,
    queries: usize,
    depth: usize,
    keys: usize,
    columns: usize,
    /// The shape of what is added to the scores.
    mask: Option<Vec<usize>>,
    scale: Option<(BinaryKind, bool)>,
    /// Whether keys lie in memory one after the other, and are seen transposed.
    is_turned: bool,
    /// Whether all heads have the same keys, as they have the same values.
    shares_keys: bool,
    /// What stands in the place of weights that are NaN, if anything.
    instead_of_nan: Option<f64>,
    spoil: fn(&mut [Vec<f32>]),
}

const PLAIN: Case = Case {
    heads: 3,
    queries: 5,
    depth: 8,
    keys: 20,
    columns: 7,
    mask: None,
    scale: Some((BinaryKind::Mul, true)),
    is_turned: true,
    shares_keys: false,
    instead_of_nan: None,
    spoil: |_| (),
};

fn execute(op: &Op, shapes: &[&[usize]], data: &[&[f32]], output: &[usize]) -> Vec<f32> {
    let views: Vec<View<'_>> =
        shapes.iter().zip(data).map(|(shape, data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data))).collect();
    let mut result = vec![f32::NAN; output.iter().product()];
    let bytes = bytemuck::cast_slice_mut(&mut result);
    reference::execute(op, &mut Arguments::new(&views, &mut [ViewMut { data_type: DataType::Float32, shape: output, bytes }]));
    result
}

/// The operands are: queries, keys, factor, mask, values.
#[expect(clippy::too_many_lines, reason = "an operator, and the same in plain loops")]
fn check(case: &Case) {
    let &Case { heads, queries, depth, keys, columns, is_turned, .. } = case;
    let shapes: [Vec<usize>; 5] = [
        vec![2, heads, queries, depth],
        vec![2, if case.shares_keys { 1 } else { heads }, depth, keys],
        vec![1],
        case.mask.clone().unwrap_or_default(),
        vec![2, 1, keys, columns],
    ];
    let mut data: Vec<Vec<f32>> = shapes.iter().zip(1..).map(|(shape, seed)| numbers(shape.iter().product(), seed)).collect();
    data[2] = vec![0.4];
    (case.spoil)(&mut data);
    let scores_shape = [2, heads, queries, keys];
    let id = OperandId;
    let softmax = |input| Op::from(Softmax { input, axis: 3 });
    let relu = |input| Op::from(Activation { kind: ActivationKind::Relu, input });

    let mut scores =
        execute(&Matmul { a: id(0), b: id(1) }.into(), &[&shapes[0], &shapes[1]], &[&data[0], &data[1]], &scores_shape);
    let mut prologue: Vec<Op> = vec![Matmul { a: id(0), b: id(1) }.into()];
    let mut apply = |kind: BinaryKind, operand: usize, is_right: bool| {
        let order = |x, y| if is_right { (x, y) } else { (y, x) };
        let (a, b) = order(id(0), id(1));
        let shapes: [&[usize]; 2] = [&scores_shape, &shapes[operand]];
        scores = execute(&Binary { kind, a, b }.into(), &shapes, &[&scores, &data[operand]], &scores_shape);
        let (a, b) = order(RUNNING, id(operand as u32));
        prologue.push(Binary { kind, a, b }.into());
    };
    if let Some((kind, is_right)) = case.scale {
        apply(kind, 2, is_right);
    }
    if case.mask.is_some() {
        apply(BinaryKind::Add, 3, queries % 2 == 0);
    }
    prologue.push(softmax(RUNNING));
    let mut weights = execute(&softmax(id(0)), &[&scores_shape], &[&scores], &scores_shape);
    if let Some(number) = case.instead_of_nan {
        let replace = |input| Op::from(ReplaceNan { input, number });
        weights = execute(&replace(id(0)), &[&scores_shape], &[&weights], &scores_shape);
        prologue.push(replace(RUNNING));
    }
    let output_shape = [2, heads, queries, columns];
    let sums = execute(&Matmul { a: id(0), b: id(1) }.into(), &[&scores_shape, &shapes[4]], &[&weights, &data[4]], &output_shape);
    let expected = execute(&relu(id(0)), &[&output_shape], &[&sums], &output_shape);

    if is_turned {
        let matrices = data[1].chunks_exact(depth * keys);
        data[1] = matrices.flat_map(|keys_of| (0..keys * depth).map(|i| keys_of[i % depth * keys + i / depth])).collect();
    }
    let order = [0, 1, 3, 2];
    let views: Vec<View<'_>> =
        shapes.iter().zip(&data).map(|(shape, data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data))).collect();
    let mut known = known(&views, |i| i == 2);
    known[1].order = is_turned.then_some(&order);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    // Of scores, and of what comes out: an error of d of a score changes a weight by a factor of exp(2d) at most.
    let largest = |numbers: &[f32]| numbers.iter().fold(0f32, |most, x| most.max(x.abs()));
    let of_scores = depth as f32 * largest(&data[0]) * largest(&data[1]) * 1.01 * 2f32.powi(-7);
    let bf16_bound = ((2.0 * of_scores).exp_m1() + 1.01 * 2f32.powi(-7)) * largest(&data[4]);
    let settings = [(1, FpMath::Strict), (2, FpMath::Strict), (9, FpMath::Strict), (1, FpMath::Bf16), (2, FpMath::Bf16)];
    for (isa, (threads, fp_math)) in instruction_sets().iter().flat_map(|isa| settings.map(|setting| (isa, setting))) {
        let (op, fused) = (Matmul { a: RUNNING, b: id(4) }.into(), [relu(id(5))]);
        let output = TensorDesc { data_type: DataType::Float32, shape: &output_shape, constant: None, order: None };
        let problem =
            Problem { prologue: &prologue, dequantized: &[], op: &op, fused: &fused, inputs: &known, output, workspace: None };
        let selection = first(&problem, &Target { fp_math, ..Target::with(isa, threads) });
        assert!(selection.fuses);
        let mut found = vec![f32::NAN; expected.len()];
        let mut run = || {
            let bytes = bytemuck::cast_slice_mut(&mut found);
            let mut outputs = [ViewMut { data_type: DataType::Float32, shape: &output_shape, bytes }];
            selection.kernel.compute(&mut Arguments::new(&views, &mut outputs));
        };
        if threads == 1 {
            run()
        } else {
            pool.install(run)
        };
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let allowed = match fp_math {
                FpMath::Strict => 1e-5 * expected.abs().max(1.0),
                FpMath::Bf16 => bf16_bound,
            };
            let is_near = (found - expected).abs() <= allowed || found == expected || found.is_nan() && expected.is_nan();
            let name = isa.name;
            assert!(
                is_near,
                "{name}, {threads} threads, {queries} x {depth} x {keys} x {columns} at {i}: {found}, not {expected}"
            );
        }
    }
}

#[test]
fn all_sizes() {
    let sizes =
        [(1, 1, 1, 1), (1, 64, 257, 64), (2, 33, 65, 70), (3, 7, 18, 130), (4, 32, 16, 32), (13, 40, 33, 31), (50, 64, 129, 96)];
    // More scores of a job than stay in a cache, with a mask of a row for each query.
    check(&Case { queries: 13, depth: 8, keys: 4000, columns: 5, shares_keys: true, mask: Some(vec![13, 4000]), ..PLAIN });
    for (queries, depth, keys, columns) in sizes {
        for (is_turned, shares_keys) in [(false, false), (true, false), (true, true)] {
            check(&Case { queries, depth, keys, columns, is_turned, shares_keys, ..PLAIN });
        }
        // More heads than are computed at once.
        check(&Case { queries, depth, keys, columns, heads: 19, shares_keys: true, ..PLAIN });
    }
}

#[test]
fn scales_and_masks() {
    for queries in [2, 14, 25] {
        for scale in [None, Some((BinaryKind::Mul, false)), Some((BinaryKind::Div, true)), Some((BinaryKind::Add, true))] {
            check(&Case { queries, scale, ..PLAIN });
        }
        let masks = [
            vec![],
            vec![20],
            vec![1],
            vec![queries, 1],
            vec![1, 20],
            vec![3, queries, 20],
            vec![2, 1, 1, 20],
            vec![2, 3, queries, 20],
        ];
        for mask in masks {
            check(&Case { queries, mask: Some(mask.clone()), ..PLAIN });
            check(&Case { queries, mask: Some(mask), shares_keys: true, ..PLAIN });
        }
    }
}

#[test]
fn what_is_no_number_and_infinities() {
    for (queries, instead_of_nan) in [1, 14].into_iter().flat_map(|queries| [None, Some(0.0), Some(-0.25)].map(|x| (queries, x)))
    {
        let mask = Some(vec![queries, 20]);
        let plain = || Case { queries, instead_of_nan, ..PLAIN };
        let masked = || Case { mask: mask.clone(), ..plain() };
        // Of queries, keys, values; and scores that are too large for a power.
        check(&Case { spoil: |data| data[0][3] = f32::NAN, ..plain() });
        check(&Case { spoil: |data| data[0][3] = f32::INFINITY, ..plain() });
        check(&Case { spoil: |data| data[1][30] = f32::INFINITY, ..plain() });
        check(&Case { spoil: |data| data[1][30] = f32::NAN, ..plain() });
        check(&Case { spoil: |data| data[4][9] = f32::NEG_INFINITY, ..plain() });
        check(&Case { spoil: |data| data[4][9] = f32::NAN, ..plain() });
        check(&Case { spoil: |data| data[0].iter_mut().for_each(|x| *x *= 1e20), ..plain() });
        // A mask that hides some keys, and one that hides all, also of one query alone.
        check(&Case { spoil: |data| data[3][3..15].fill(f32::NEG_INFINITY), ..masked() });
        check(&Case { spoil: |data| data[3][..20].fill(f32::NEG_INFINITY), ..masked() });
        check(&Case { spoil: |data| data[3].fill(f32::NEG_INFINITY), ..masked() });
        check(&Case { spoil: |data| data[3].fill(f32::MIN), ..masked() });
        check(&Case { spoil: |data| data[3][4] = f32::INFINITY, ..masked() });
        check(&Case { spoil: |data| data[3][19] = f32::NAN, ..masked() });
    }
}

/// Keys that a mask hides in front are left out, if that is allowed: the others give the same bits, whatever the hidden ones are.
#[test]
fn hidden_keys_are_not_looked_at() {
    const KEYS: usize = 261;
    const DEPTH: usize = 32;
    for queries in [2, 11] {
        hides_keys::<KEYS, DEPTH>(queries, false);
        hides_keys::<KEYS, DEPTH>(queries, true);
    }
}

fn hides_keys<const KEYS: usize, const DEPTH: usize>(queries: usize, are_halves: bool) {
    let shapes: [&[usize]; 5] = [&[1, 3, queries, DEPTH], &[1, 1, DEPTH, KEYS], &[1], &[KEYS], &[1, 1, KEYS, DEPTH]];
    let id = OperandId;
    let prologue: [Op; 4] = [
        Matmul { a: id(0), b: id(1) }.into(),
        Binary { kind: BinaryKind::Mul, a: RUNNING, b: id(2) }.into(),
        Binary { kind: BinaryKind::Add, a: RUNNING, b: id(3) }.into(),
        Softmax { input: RUNNING, axis: 3 }.into(),
    ];
    let op = Matmul { a: RUNNING, b: id(4) }.into();
    let output_shape = [1, 3, queries, DEPTH];
    let widened: [Op; 2] = [1, 4].map(|input| Cast { input: id(input), data_type: DataType::Float32 }.into());
    let dequantized = if are_halves { &widened[..] } else { &[] };
    // How many keys are hidden, and what stands where these and their values are.
    let run = |isa, hidden: usize, in_front: f32, hides: bool| {
        let mut data: Vec<Vec<f32>> = shapes.iter().zip(1..).map(|(shape, seed)| numbers(shape.iter().product(), seed)).collect();
        data[2] = vec![0.4];
        data[3].fill(0.0);
        data[3][..hidden].fill(f32::NEG_INFINITY);
        // Keys lie one after the other.
        data[1][..hidden * DEPTH].fill(in_front);
        data[4][..hidden * DEPTH].fill(in_front);
        let halves: Vec<Vec<f16>> = data.iter().map(|data| data.iter().map(|&number| f16::from_f32(number)).collect()).collect();
        let view = |(i, shape)| match are_halves && matches!(i, 1 | 4) {
            true => View::new(DataType::Float16, shape, bytemuck::cast_slice(&halves[i])),
            false => View::new(DataType::Float32, shape, bytemuck::cast_slice(&data[i])),
        };
        let views: Vec<View<'_>> = shapes.iter().copied().enumerate().map(view).collect();
        let order = [0, 1, 3, 2];
        let mut known = known(&views, |i| i == 2);
        known[1].order = Some(&order);
        let output = TensorDesc { data_type: DataType::Float32, shape: &output_shape, constant: None, order: None };
        let problem = Problem { prologue: &prologue, dequantized, op: &op, fused: &[], inputs: &known, output, workspace: None };
        let mut kernel = first(&problem, &Target::with(isa, 1)).kernel;
        kernel.hide(&|id| hides && id == OperandId(3));
        let mut found = vec![f32::NAN; output_shape.iter().product()];
        let bytes = bytemuck::cast_slice_mut(&mut found);
        let mut outputs = [ViewMut { data_type: DataType::Float32, shape: &output_shape, bytes }];
        kernel.compute(&mut Arguments::new(&views, &mut outputs));
        found
    };
    for isa in instruction_sets() {
        for hidden in [0, 1, 63, 64, 65, 130, 256, 260] {
            let expected = run(isa, hidden, 0.0, false);
            assert!(run(isa, hidden, 0.0, true) == expected, "{} {hidden}", isa.name);
            let left_out = hidden / 64 * 64;
            if hidden == left_out && hidden > 0 {
                assert!(run(isa, hidden, f32::NAN, true) == expected, "{} {hidden}", isa.name);
                assert!(run(isa, hidden, f32::NAN, false).iter().all(|number| number.is_nan()));
            }
        }
        // All of them.
        assert!(run(isa, KEYS, 0.0, true).iter().all(|number| number.is_nan()));
    }
}

/// Keys and values that are float16, or bytes with a scale for each key, give what their numbers give, whether they are packed or not.
#[test]
fn halves_and_bytes_are_read_as_their_numbers() {
    for (queries, depth, keys, columns) in [(1, 64, 130, 64), (2, 33, 65, 7), (13, 40, 31, 33), (50, 64, 129, 96), (1, 1, 1, 1)] {
        for is_turned in [false, true] {
            reads_numbers([3, queries, depth, keys, columns], is_turned);
        }
    }
}

/// Keys [1, 2, depth, keys], each of them one line in memory if `is_turned`, and values [1, 2, keys, columns], for some query heads each.
fn reads_numbers([group, queries, depth, keys, columns]: [usize; 5], is_turned: bool) {
    let q = numbers(2 * group * queries * depth, 1);
    let integers = |count: usize, seed: usize| -> Vec<i8> { (0..count).map(|i| ((i * 37 + seed) % 255) as u8 as i8).collect() };
    let (k, v) = (integers(2 * depth * keys, 3), integers(2 * keys * columns, 5));
    let (of_keys, of_values) = (numbers(2 * keys, 7), numbers(2 * keys, 8));
    // In memory a line of keys is a key, or a number of all keys.
    let key_of = |i: usize| i / (depth * keys) * keys + if is_turned { i / depth % keys } else { i % keys };
    let numbers_of_keys: Vec<f32> = k.iter().enumerate().map(|(i, &byte)| f32::from(byte) * of_keys[key_of(i)]).collect();
    let numbers_of_values: Vec<f32> = v.iter().enumerate().map(|(i, &byte)| f32::from(byte) * of_values[i / columns]).collect();
    let zeros = vec![0i8; 2 * keys];
    let scale = [0.2f32];
    let (order, id) = ([0, 1, 2, 4, 3], OperandId);
    let shapes: [&[usize]; 5] = [
        &[1, 2, group, queries, depth],
        &[1, 2, 1, depth, keys],
        &[1, 2, 1, keys, columns],
        &[1, 2, 1, 1, keys],
        &[1, 2, 1, keys, 1],
    ];
    let output_shape = [1, 2, group, queries, columns];
    let prologue: [Op; 3] = [
        Matmul { a: id(0), b: id(1) }.into(),
        Binary { kind: BinaryKind::Mul, a: RUNNING, b: id(3) }.into(),
        Softmax { input: RUNNING, axis: 4 }.into(),
    ];
    let op = Matmul { a: RUNNING, b: id(2) }.into();
    let dequantize =
        |input, scale, zero_point| DequantizeLinear { input: id(input), scale: id(scale), zero_point: id(zero_point) };
    let dequantized: [Op; 2] = [dequantize(1, 4, 6).into(), dequantize(2, 5, 7).into()];
    let float = |shape, data| View::new(DataType::Float32, shape, bytemuck::cast_slice(data));
    let int8 = |shape, data| View::new(DataType::Int8, shape, bytemuck::cast_slice(data));
    let plain =
        [float(shapes[0], &q), float(shapes[1], &numbers_of_keys), float(shapes[2], &numbers_of_values), float(&[1], &scale)];
    let rounded = |numbers: &[f32]| numbers.iter().map(|&number| f16::from_f32(number)).collect::<Vec<f16>>();
    let halves = [rounded(&numbers_of_keys), rounded(&numbers_of_values)];
    let of_halves = halves.each_ref().map(|halves| halves.iter().map(|half| half.to_f32()).collect::<Vec<f32>>());
    let plain_halves =
        [float(shapes[0], &q), float(shapes[1], &of_halves[0]), float(shapes[2], &of_halves[1]), float(&[1], &scale)];
    let half = |shape, data| View::new(DataType::Float16, shape, bytemuck::cast_slice(data));
    let in_halves = [float(shapes[0], &q), half(shapes[1], &halves[0]), half(shapes[2], &halves[1]), float(&[1], &scale)];
    let widened: [Op; 2] = [1, 2].map(|input| Cast { input: id(input), data_type: DataType::Float32 }.into());
    let in_bytes = [
        float(shapes[0], &q),
        int8(shapes[1], &k),
        int8(shapes[2], &v),
        float(&[1], &scale),
        float(shapes[3], &of_keys),
        float(shapes[4], &of_values),
        int8(shapes[3], &zeros),
        int8(shapes[4], &zeros),
    ];
    let run = |isa, views: &[View<'_>], dequantized: &[Op]| {
        let mut known = known(views, |i| matches!(i, 3 | 6 | 7));
        known[1].order = is_turned.then_some(&order);
        let output = TensorDesc { data_type: DataType::Float32, shape: &output_shape, constant: None, order: None };
        let problem = Problem { prologue: &prologue, dequantized, op: &op, fused: &[], inputs: &known, output, workspace: None };
        let kernel = first(&problem, &Target::with(isa, 1)).kernel;
        let mut found = vec![f32::NAN; output_shape.iter().product()];
        let bytes = bytemuck::cast_slice_mut(&mut found);
        kernel.compute(&mut Arguments::new(views, &mut [ViewMut { data_type: DataType::Float32, shape: &output_shape, bytes }]));
        found
    };
    for isa in instruction_sets() {
        let of_bytes = (run(isa, &in_bytes, &dequantized), run(isa, &plain, &[]));
        let of_halves = (run(isa, &in_halves, &widened), run(isa, &plain_halves, &[]));
        for (i, (found, expected)) in
            [of_bytes, of_halves].iter().flat_map(|(found, expected)| found.iter().zip(expected)).enumerate()
        {
            let is_near = (found - expected).abs() <= 1e-4 * expected.abs().max(1.0);
            assert!(is_near, "{}, {queries} x {depth} x {keys} x {columns} at {i}: {found}, not {expected}", isa.name);
        }
    }
}
