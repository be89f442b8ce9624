//! Every fast kernel against the reference kernel, with odd sizes, remainders, groups, strides, dilations and padding.

use super::{Bf16Support, Caches, Kernel, Problem, Target, TensorDesc, every, first};
use crate::backend::cpu::dispatch::workspaces;
use crate::backend::cpu::incoming::Incoming;
use crate::backend::cpu::reference;
use crate::backend::cpu::testing::instruction_sets;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::graph::ops::elementwise::{
    Activation, ActivationKind, Binary, BinaryKind, HardSigmoid, LeakyRelu, Linear, Prelu, Unary, UnaryKind,
};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::matmul::{Gemm, Matmul};
use crate::graph::ops::normalization::{InstanceNormalization, LayerNormalization, RmsNormalization};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, FpMath, Op, OperandId};
use crate::host_memory::while_arriving;
use webnn_kernels::bf16::rounding;
use webnn_kernels::isa::Isa;

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
pub type Input = (Vec<usize>, bool);

/// Runs an operator alone; see [`check_fused`].
pub fn check(op: impl Into<Op>, inputs: &[Input], output: &[usize]) {
    check_fused(op, &[], inputs, output);
}

/// Runs an operator, and what is fused with it, with its fast kernel, in a pool and outside, and compares with the reference kernel.
pub fn check_fused(op: impl Into<Op>, fused: &[Op], inputs: &[Input], output: &[usize]) {
    check_with(op, fused, inputs, output, |_| ());
}

/// The same with something done to the first input before.
pub fn check_with(op: impl Into<Op>, fused: &[Op], inputs: &[Input], output: &[usize], spoil: impl Fn(&mut [f32])) {
    compare(op.into(), fused, inputs, output, |data| spoil(&mut data[0]), false);
}

/// The same with something done to the second input before.
pub fn check_with_filter(op: impl Into<Op>, inputs: &[Input], output: &[usize], spoil: impl Fn(&mut [f32])) {
    compare(op.into(), &[], inputs, output, |data| spoil(&mut data[1]), false);
}

/// The same with a first input, an image, whose channels are last for the operator, but first in memory.
pub fn check_planes(op: impl Into<Op>, fused: &[Op], inputs: &[Input], output: &[usize]) {
    compare(op.into(), fused, inputs, output, |_| (), true);
}

#[expect(clippy::too_many_lines, reason = "a kernel in all its variants beside the reference")]
fn compare(op: Op, fused: &[Op], inputs: &[Input], output: &[usize], spoil: impl Fn(&mut [Vec<f32>]), as_planes: bool) {
    let mut data: Vec<Vec<f32>> =
        inputs.iter().zip(1..).map(|((shape, _), seed)| numbers(shape.iter().product(), seed)).collect();
    spoil(&mut data);
    let views: Vec<View<'_>> = inputs
        .iter()
        .zip(&data)
        .map(|((shape, _), data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data)))
        .collect();
    let mut planes = data[0].clone();
    if as_planes {
        let &[_, height, width, channels] = inputs[0].0.as_slice() else { panic!("an image") };
        let pixels = height * width;
        for (to, from) in planes.chunks_exact_mut(pixels * channels).zip(data[0].chunks_exact(pixels * channels)) {
            to.iter_mut().enumerate().for_each(|(i, to)| *to = from[i % pixels * channels + i / pixels]);
        }
    }
    let mut in_order = views.clone();
    in_order[0] = View::new(DataType::Float32, views[0].shape, bytemuck::cast_slice(&planes));
    let run = |views: &[View<'_>], body: &dyn Fn(&mut Arguments<'_, '_>)| {
        let mut result = vec![f32::NAN; output.iter().product()];
        let bytes = bytemuck::cast_slice_mut(&mut result);
        body(&mut Arguments::new(views, &mut [ViewMut { data_type: DataType::Float32, shape: output, bytes }]));
        result
    };
    let mut expected = run(&views, &|arguments| reference::execute(&op, arguments));
    let bounds = bf16_bounds(&op, &data, &expected, |data| {
        let views: Vec<View<'_>> = inputs
            .iter()
            .zip(data)
            .map(|((shape, _), data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data)))
            .collect();
        run(&views, &|arguments| reference::execute(&op, arguments))
    });
    for op in fused {
        let before = expected.clone();
        let mut views = views.clone();
        views.push(View::new(DataType::Float32, output, bytemuck::cast_slice(&before)));
        let bytes = bytemuck::cast_slice_mut(&mut expected);
        let mut outputs = [ViewMut { data_type: DataType::Float32, shape: output, bytes }];
        reference::execute(op, &mut Arguments::new(&views, &mut outputs));
    }
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let shapes: Vec<&[usize]> = inputs.iter().map(|(shape, _)| shape.as_slice()).collect();
    let count = workspaces(&op, &shapes, output, &Target::with(Isa::available()[0], 1)).len();
    let with_and_without: Vec<Option<usize>> = std::iter::once(None).chain((0..count).map(Some)).collect();
    let settings = with_and_without.iter().flat_map(|&workspace| [(1, workspace), (2, workspace)]);
    let settings =
        settings.flat_map(|(threads, workspace)| [FpMath::Strict, FpMath::Bf16].map(|math| (threads, workspace, math)));
    // QEMU, where these run on ARM, emulates products of bfloat16 number by number.
    let settings = settings.filter(|&(threads, workspace, math)| {
        cfg!(target_arch = "x86_64") || math == FpMath::Strict || threads == 1 && workspace.is_none()
    });
    let settings = instruction_sets().iter().flat_map(|isa| settings.clone().map(move |setting| (isa, setting)));
    for (isa, (threads, workspace, fp_math)) in settings {
        let known: Vec<TensorDesc<'_>> = views
            .iter()
            .zip(inputs)
            .enumerate()
            .map(|(i, (view, (_, constant)))| TensorDesc {
                data_type: view.data_type,
                shape: view.shape,
                constant: constant.then_some(view.bytes().into()),
                order: (as_planes && i == 0).then_some(&[0, 2, 3, 1]),
            })
            .collect();
        let problem = Problem {
            prologue: &[],
            dequantized: &[],
            op: &op,
            fused,
            inputs: &known,
            output: TensorDesc { data_type: DataType::Float32, shape: output, constant: None, order: None },
            workspace,
        };
        let caches = if threads == 1 { Caches::USUAL } else { Caches::LARGE };
        let mut every = every(&problem, &Target { caches, fp_math, ..Target::with(isa, threads) });
        if fp_math == FpMath::Bf16 {
            every.retain(|(name, _)| is_bf16(name));
        } else {
            assert!(!every.is_empty(), "no kernel for {op:?}");
        }
        for (number, (name, selection)) in every.into_iter().enumerate() {
            if !selection.fuses && !fused.is_empty() {
                // The one that is chosen does all.
                assert!(number > 0, "{fused:?} is not fused with {op:?} by {name}");
                continue;
            }
            let run_kernel = |views: &[View<'_>]| run(views, &|arguments| selection.kernel.compute(arguments));
            let found = match threads {
                // Its first operand is still on its way.
                1 => while_arriving(in_order[0].bytes(), |buffer| {
                    let mut views = in_order.clone();
                    views[0] = View::of(DataType::Float32, views[0].shape, Incoming::Arriving(buffer));
                    run_kernel(&views)
                }),
                _ => pool.install(|| run_kernel(&in_order)),
            };
            // Where nothing else reads the operand, it may lie in the output.
            let reads = |id: OperandId| {
                let mut count = 0;
                fused.iter().for_each(|op| op.visit(&mut |_, other| count += usize::from(other == id)));
                count
            };
            if let Some(id) = selection.kernel.overwrites().filter(|id| reads(*id) == 1) {
                let position = id.0 as usize;
                let (mut result, mut views) = (data[position].clone(), views.clone());
                views[position] = View::new(DataType::Float32, views[position].shape, &[]);
                let bytes = bytemuck::cast_slice_mut(&mut result);
                let mut outputs = [ViewMut { data_type: DataType::Float32, shape: output, bytes }];
                selection.kernel.compute(&mut Arguments::new(&views, &mut outputs).overwriting(Some(position)));
                assert!(result == found, "{name} on {}: {op:?} in place", isa.name);
            }
            check_storage(selection.kernel.as_ref(), &in_order, output, &format!("{name} on {}: {op:?}", isa.name));
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                // Sums of some thousand products of numbers below 1.
                let allowed = match fp_math {
                    FpMath::Strict => 2e-4 * expected.abs().max(1.0),
                    // What is fused doubles a number at most.
                    FpMath::Bf16 if fused.is_empty() => bounds[i],
                    FpMath::Bf16 => 2.0 * bounds[i] + 1e-5,
                };
                let is_near = (found - expected).abs() <= allowed || found == expected || found.is_nan() && expected.is_nan();
                assert!(is_near, "{name} on {} with {threads} threads: {op:?} at {i}: {found}, not {expected}", isa.name);
            }
        }
    }
}

/// What a kernel loads from bfloat16 and stores so is, by bits, what it makes of the same numbers in float32, rounded.
fn check_storage(kernel: &dyn Kernel, views: &[View<'_>], output: &[usize], name: &str) {
    let Bf16Support { loads, stores, .. } = kernel.bf16_support();
    let round = |numbers: &[f32]| numbers.iter().map(|&x| rounding::round(x)).collect::<Vec<u16>>();
    let widen = |bits: &[u16]| bits.iter().map(|&bits| rounding::widen(bits)).collect::<Vec<f32>>();
    let narrow: Vec<Vec<u16>> = loads.iter().map(|id| round(views[id.0 as usize].elements())).collect();
    let wide: Vec<Vec<f32>> = narrow.iter().map(|bits| widen(bits)).collect();
    let count: usize = output.iter().product();
    let sets = (1..1 << loads.len()).map(|set: u32| (set, false)).chain((0..1 << loads.len()).map(|set| (set, stores)));
    for (set, stores) in sets.filter(|&(set, stores)| set > 0 || stores) {
        let with = |is_narrow: bool| {
            let mut views = views.to_vec();
            for (i, id) in loads.iter().enumerate().filter(|(i, _)| set >> i & 1 == 1) {
                let bytes = if is_narrow { bytemuck::cast_slice(&narrow[i]) } else { bytemuck::cast_slice(&wide[i]) };
                views[id.0 as usize] = View::new(DataType::Float32, views[id.0 as usize].shape, bytes);
            }
            views
        };
        let run = |views: &[View<'_>], bytes: &mut [u8], overwritten| {
            let mut outputs = [ViewMut { data_type: DataType::Float32, shape: output, bytes }];
            kernel.compute(&mut Arguments::new(views, &mut outputs).overwriting(overwritten));
        };
        let mut expected = vec![f32::NAN; count];
        run(&with(false), bytemuck::cast_slice_mut(&mut expected), None);
        let expected: Vec<u8> =
            if stores { bytemuck::cast_slice(&round(&expected)).to_vec() } else { bytemuck::cast_slice(&expected).to_vec() };
        // As aligned as numbers of float32 are.
        let mut found = vec![0u32; if stores { count.div_ceil(2) } else { count }];
        let found: &mut [u8] = &mut bytemuck::cast_slice_mut(&mut found)[..expected.len()];
        run(&with(true), found, None);
        assert!(found == expected.as_slice(), "{name}: loads {set:b} of {loads:?}, stores {stores}");
        // What it overwrites lies there as the output does.
        let overwritten = kernel.overwrites().map(|id| (id, loads.iter().position(|other| *other == id)));
        if let Some((id, Some(i))) = overwritten.filter(|_| stores)
            && set >> i & 1 == 1
        {
            let mut views = with(true);
            views[id.0 as usize] = View::new(DataType::Float32, views[id.0 as usize].shape, &[]);
            let bytes = found;
            bytes.copy_from_slice(bytemuck::cast_slice(&narrow[i]));
            run(&views, bytes, Some(id.0 as usize));
            assert!(bytes == expected.as_slice(), "{name} in place");
        }
    }
}

/// The outputs of a kernel, all of float32, one after the other.
pub fn results(inputs: &[View<'_>], outputs: &[Vec<usize>], body: impl FnOnce(&mut Arguments<'_, '_>)) -> Vec<f32> {
    let mut results: Vec<Vec<f32>> = outputs.iter().map(|shape| vec![f32::NAN; shape.iter().product()]).collect();
    let mut written: Vec<ViewMut<'_>> = results
        .iter_mut()
        .zip(outputs)
        .map(|(result, shape)| ViewMut { data_type: DataType::Float32, shape, bytes: bytemuck::cast_slice_mut(result) })
        .collect();
    body(&mut Arguments::new(inputs, &mut written));
    results.concat()
}

/// What is known of operands, of which some are constant.
pub fn known<'a>(inputs: &[View<'a>], is_constant: impl Fn(usize) -> bool) -> Vec<TensorDesc<'a>> {
    let desc = |(i, view): (usize, &View<'a>)| TensorDesc {
        data_type: view.data_type,
        shape: view.shape,
        constant: is_constant(i).then_some(view.bytes().into()),
        order: None,
    };
    inputs.iter().enumerate().map(desc).collect()
}

/// An operator alone, of operands of any types, with an output of this shape.
pub fn alone<'a>(op: &'a Op, inputs: &'a [TensorDesc<'a>], shape: &'a [usize]) -> Problem<'a> {
    let output = TensorDesc { data_type: DataType::Float32, shape, constant: None, order: None };
    Problem { prologue: &[], dequantized: &[], op, fused: &[], inputs, output, workspace: None }
}

/// Runs an operator with operands of any types and any number of outputs by the implementation that is chosen for it, on each
/// instruction set, alone and in a pool, and compares with the reference kernel. `allowed` is how far off an element of a
/// size may be.
pub fn check_outputs(
    op: impl Into<Op>,
    inputs: &[View<'_>],
    is_constant: impl Fn(usize) -> bool,
    outputs: &[Vec<usize>],
    allowed: &[(FpMath, &dyn Fn(f32) -> f32)],
) {
    let op = op.into();
    let expected = results(inputs, outputs, |arguments| reference::execute(&op, arguments));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
    let known = known(inputs, is_constant);
    let problem = alone(&op, &known, &outputs[0]);
    for isa in instruction_sets() {
        for (threads, (fp_math, allowed)) in
            [1, 3].into_iter().flat_map(|threads| allowed.iter().map(move |each| (threads, each)))
        {
            let built = first(&problem, &Target { fp_math: *fp_math, ..Target::with(isa, threads) });
            let run = || results(inputs, outputs, |arguments| built.kernel.compute(arguments));
            let found = if threads == 1 { run() } else { pool.install(run) };
            for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let is_near = (found - expected).abs() <= allowed(expected.abs());
                assert!(is_near, "{} with {threads} threads: {op:?} at {i}: {found}, not {expected}", isa.name);
            }
        }
    }
}

/// Whether an implementation rounds to bfloat16.
pub fn is_bf16(name: &str) -> bool {
    name.contains("bf16")
}

/// How far a product of operands that are rounded to bfloat16 may be off, by element. Each operand is off by 2⁻⁸ of itself at most, and a
/// product of two by 2⁻⁷ + 2⁻¹⁶ of itself; adding K of them, and rounding the result and what it is compared with, by 2⁻²⁴ for each
/// sum, of the sum of magnitudes. Nothing for other operators.
fn bf16_bounds(op: &Op, data: &[Vec<f32>], expected: &[f32], execute: impl Fn(&[Vec<f32>]) -> Vec<f32>) -> Vec<f32> {
    if !matches!(op, Op::Matmul(_) | Op::Gemm(_) | Op::Conv2d(_) | Op::ConvTranspose2d(_)) {
        return vec![0.0; expected.len()];
    }
    let magnitudes: Vec<Vec<f32>> = data.iter().map(|data| data.iter().map(|x| x.abs()).collect()).collect();
    // No sum is longer than the longer operand.
    let length = data[0].len().max(data[1].len()).min(1 << 14) as f32;
    let factor = 2f32.powi(-7) + 2f32.powi(-16) + (length + 2.0) * 2f32.powi(-24);
    execute(&magnitudes).into_iter().map(|size| factor * size).collect()
}

#[test]
fn products() {
    let matmul = || Matmul { a: OperandId(0), b: OperandId(1) };
    for constant in [false, true] {
        for (rows, depth, columns) in
            [(1, 70, 100), (3, 300, 33), (12, 64, 32), (37, 129, 200), (250, 40, 31), (13, 1024, 130), (300, 70, 1)]
                .into_iter()
                // Of wide tiles: whole ones, and such of which not all columns exist.
                .chain([(37, 129, 256), (20, 1500, 180)])
        {
            check(matmul(), &[(vec![rows, depth], false), (vec![depth, columns], constant)], &[rows, columns]);
            check(matmul(), &[(vec![2, 3, rows, depth], false), (vec![depth, columns], constant)], &[2, 3, rows, columns]);
        }
        check(matmul(), &[(vec![4, 1, 20, 30], false), (vec![3, 30, 17], constant)], &[4, 3, 20, 17]);
        check(matmul(), &[(vec![20, 30], false), (vec![2, 30, 17], constant)], &[2, 20, 17]);
        // Many small products with a column.
        check(matmul(), &[(vec![30, 64, 9], false), (vec![30, 9, 1], constant)], &[30, 64, 1]);
    }
    // Rows that displace each other from the cache, so many that each thread packs its own.
    let add = Op::from(Binary { kind: BinaryKind::Add, a: OperandId(3), b: OperandId(2) });
    let inputs = [(vec![401, 1024], false), (vec![1024, 130], true), (vec![401, 130], false)];
    check_fused(matmul(), &[add], &inputs, &[401, 130]);
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
        // A column, which is read in place.
        for is_constant in [true, false] {
            let shape = |transposed: bool, rows, columns| if transposed { vec![columns, rows] } else { vec![rows, columns] };
            let column = (shape(b_transpose, 70, 1), is_constant);
            let inputs = [(shape(a_transpose, 300, 70), false), column, (vec![1], true), (vec![300, 1], false)];
            let (c, add) = (Some(OperandId(2)), Binary { kind: BinaryKind::Add, a: OperandId(4), b: OperandId(3) });
            let op = Gemm { a: OperandId(0), b: OperandId(1), c, alpha: 1.0, beta: 1.0, a_transpose, b_transpose };
            check_fused(op, &[add.into()], &inputs, &[300, 1]);
        }
        // A few rows, whose right operand is read in place.
        for (rows, columns) in [(1, 300), (2, 1000), (3, 77)] {
            let shape = |transposed: bool, rows, columns| if transposed { vec![columns, rows] } else { vec![rows, columns] };
            let inputs = [(shape(a_transpose, rows, 70), false), (shape(b_transpose, 70, columns), false)];
            let op = Gemm { a: OperandId(0), b: OperandId(1), c: None, alpha: 1.0, beta: 1.0, a_transpose, b_transpose };
            let relu = Op::from(Activation { kind: ActivationKind::Relu, input: OperandId(2) });
            check_fused(op, &[relu], &inputs, &[rows, columns]);
        }
    }
}

#[test]
fn products_of_few_columns() {
    let binary = |kind, a, b| Op::from(Binary { kind, a: OperandId(a), b: OperandId(b) });
    let add = |a, b| binary(BinaryKind::Add, a, b);
    let relu = || Op::from(Activation { kind: ActivationKind::Relu, input: OperandId(5) });
    for (rows, depth, columns) in [(300, 4, 4), (64, 70, 8), (333, 33, 3), (70, 1200, 7), (2000, 16, 2), (31, 90, 5)] {
        let inputs = [
            (vec![2, rows, depth], false),
            (vec![depth, columns], true),
            (vec![columns], true),
            (vec![2, rows, columns], false),
            (vec![1], true),
        ];
        let output = [2, rows, columns];
        let product = || Matmul { a: OperandId(0), b: OperandId(1) };
        check(product(), &inputs[..2], &output);
        check_fused(product(), &[add(5, 2), relu(), add(3, 5)], &inputs, &output);
        check_fused(product(), &[add(5, 4), binary(BinaryKind::Mul, 2, 5), relu(), add(5, 3), add(3, 5)], &inputs, &output);
        for (b_transpose, shape) in [(false, vec![depth, columns]), (true, vec![columns, depth])] {
            let op = Gemm {
                a: OperandId(0),
                b: OperandId(1),
                c: Some(OperandId(2)),
                alpha: 1.0,
                beta: 1.0,
                a_transpose: false,
                b_transpose,
            };
            check(op, &[(vec![rows, depth], false), (shape, true), (vec![1, columns], true)], &[rows, columns]);
        }
    }
}

#[test]
fn what_is_fused() {
    let relu = |running| Op::from(Activation { kind: ActivationKind::Relu, input: OperandId(running) });
    let add = |a, b| Op::from(Binary { kind: BinaryKind::Add, a: OperandId(a), b: OperandId(b) });

    let product = || Matmul { a: OperandId(0), b: OperandId(1) };
    let inputs = [(vec![2, 13, 70], false), (vec![70, 50], true), (vec![50], true), (vec![2, 13, 50], false)];
    check_fused(product(), &[add(4, 2), relu(4), add(3, 4)], &inputs, &[2, 13, 50]);
}

#[test]
fn chains_with_rows() {
    let add = |a, b| Op::from(Binary { kind: BinaryKind::Add, a: OperandId(a), b: OperandId(b) });
    // Several rows are one where they are short; the last of these has fewer.
    for (pixels, channels) in [(500, 2), (341, 3), (300, 8), (129, 24), (1, 40), (57, 36), (5, 700), (3, 2048), (2, 2500)] {
        for is_constant in [true, false] {
            let (shape, row) = (vec![pixels, channels], (vec![channels], is_constant));
            let inputs = [(shape.clone(), false), row.clone(), (shape.clone(), false), row];
            let mul = Binary { kind: BinaryKind::Mul, a: OperandId(1), b: OperandId(0) };
            check_fused(mul, &[add(4, 2), add(3, 4)], &inputs, &shape);
        }
    }
}

#[test]
fn functions_of_elements_and_lines() {
    let unary = |kind| Op::from(Unary { kind, input: OperandId(0) });
    let activation = |kind| Op::from(Activation { kind, input: OperandId(0) });
    let shape = vec![3, 7, 61];
    for op in [unary(UnaryKind::Exp), unary(UnaryKind::Log), unary(UnaryKind::Erf)] {
        check(op, &[(shape.clone(), false)], &shape);
    }
    for kind in [ActivationKind::Tanh, ActivationKind::Sigmoid, ActivationKind::Gelu] {
        check(activation(kind), &[(shape.clone(), false)], &shape);
    }
    let input = OperandId(0);
    check(LeakyRelu { input, alpha: 0.2 }, &[(shape.clone(), false)], &shape);
    check(HardSigmoid { input, alpha: 0.7, beta: 0.3 }, &[(shape.clone(), false)], &shape);
    check(Linear { input, alpha: 0.7, beta: 0.3 }, &[(shape.clone(), false)], &shape);
    for slope in [shape.clone(), vec![61], vec![1]] {
        let constant = slope != shape;
        check(Prelu { input, slope: OperandId(1) }, &[(shape.clone(), false), (slope, constant)], &shape);
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
    // Squares, and sums, of such numbers are infinite.
    for scale in [1e25, 2e38] {
        let enlarge = |numbers: &mut [f32]| numbers.iter_mut().for_each(|x| *x *= scale);
        check_with(normalization(&[2], false), &[], &[(shape.clone(), false)], &shape, enlarge);
    }
    let by_root_mean_square = |axes: &[u32], scale| RmsNormalization { input, scale, axes: Some(axes.to_vec()), epsilon: 1e-5 };
    check(by_root_mean_square(&[2], None), &[(shape.clone(), false)], &shape);
    check(by_root_mean_square(&[2], Some(OperandId(1))), &[(shape.clone(), false), (vec![61], true)], &shape);
    for scale in [1e-30, 1e-10, 1e25, 2e38] {
        let change = |numbers: &mut [f32]| numbers.iter_mut().for_each(|x| *x *= scale);
        let op = RmsNormalization { epsilon: 0.0, ..by_root_mean_square(&[2], None) };
        check_with(op, &[], &[(shape.clone(), false)], &shape, change);
    }
    let line = vec![7, 61];
    check(by_root_mean_square(&[1, 2], Some(OperandId(1))), &[(shape.clone(), false), (line.clone(), false)], &shape);
    check(normalization(&[1, 2], true), &[(shape.clone(), false), (line.clone(), false), (line, false)], &shape);
    for (shape, axis) in [
        (vec![3, 7, 61], 1),
        (vec![7, 16], 0),
        (vec![2, 1, 40], 1),
        (vec![1, 16, 4, 210], 1),
        (vec![2, 5, 6, 33], 2),
        (vec![16, 2], 1),
        (vec![3, 67, 5], 2),
        (vec![130, 15], 1),
        (vec![64, 4], 1),
        (vec![33, 1], 1),
    ] {
        check(Softmax { input, axis }, &[(shape.clone(), false)], &shape);
        // Spoils its column only.
        for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            check_with(Softmax { input, axis }, &[], &[(shape.clone(), false)], &shape, |numbers| numbers[20] = number);
        }
    }
    for given in [false, true] {
        let shape = vec![2, 5, 7, 9];
        let instance = InstanceNormalization {
            input,
            scale: given.then_some(OperandId(1)),
            bias: given.then_some(OperandId(2)),
            epsilon: 1e-5,
            layout: InputOperandLayout::Nchw,
        };
        check(instance, &[(shape.clone(), false), (vec![5], false), (vec![5], true)], &shape);
    }
}
