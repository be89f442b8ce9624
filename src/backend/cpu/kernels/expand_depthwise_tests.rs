//! Convolutions of single pixels with the depthwise ones after them, against the reference kernels one after the other.

use super::tests::{known, numbers};
use super::{Problem, Target, TensorDesc, first};
use crate::backend::cpu::incoming::Incoming;
use crate::backend::cpu::reference;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::compiler::{RUNNING, after_inputs};
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Clamp, LeakyRelu, Swish};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::{DataType, Number, Op, OperandId};
use crate::host_memory::while_arriving;
use webnn_kernels::isa::Isa;

fn conv(input: OperandId, filter: u32, groups: usize) -> Conv2d {
    Conv2d {
        groups: groups as u32,
        bias: Some(OperandId(filter + 1)),
        ..Conv2d::new(input, OperandId(filter), InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Oihw)
    }
}

/// What an operator makes of operands.
fn execute(op: &Op, operands: &[(Vec<usize>, Vec<f32>)], shape: &[usize]) -> Vec<f32> {
    let mut result = vec![f32::NAN; shape.iter().product()];
    let views: Vec<View<'_>> =
        operands.iter().map(|(shape, data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data))).collect();
    let mut outputs = [ViewMut { data_type: DataType::Float32, shape, bytes: bytemuck::cast_slice_mut(&mut result) }];
    reference::execute(op, &mut Arguments::new(&views, &mut outputs));
    result
}

/// Compares the kernel for an expansion of an image, what is done between, the depthwise convolution and what is fused with it.
fn check(image: [usize; 4], channels: usize, between: &[Op], then: Conv2d, window: [usize; 2], fused: &[Op]) {
    let [batches, height, width, from] = image;
    let size = |axis: usize, input: usize| {
        let padded = input + (then.padding[2 * axis] + then.padding[2 * axis + 1]) as usize;
        (padded - (window[axis] - 1) * then.dilations[axis] as usize - 1) / then.strides[axis] as usize + 1
    };
    let made = [batches, height, width, channels];
    let output = [batches, size(0, height), size(1, width), channels];
    let shapes = [
        image.to_vec(),
        vec![channels, from, 1, 1],
        vec![channels],
        vec![channels, 1, window[0], window[1]],
        vec![channels],
        output.to_vec(),
    ];
    let prologue: Vec<Op> = std::iter::once(conv(OperandId(0), 1, 1).into()).chain(between.iter().cloned()).collect();
    compare(&shapes, &prologue, &made, &then.into(), fused);
}

/// Compares the kernel for a step with the reference kernels one after the other. The operands have such shapes; all between the
/// first and the last one, which has the shape of the output, are constants. What is done before makes values of the shape `made`.
pub fn compare(shapes: &[Vec<usize>], before: &[Op], made: &[usize], op: &Op, fused: &[Op]) {
    compare_with(shapes, before, made, op, fused, |_| ());
}

/// The same with something done to the operands before.
pub fn compare_with(
    shapes: &[Vec<usize>],
    before: &[Op],
    made: &[usize],
    op: &Op,
    fused: &[Op],
    spoil: impl Fn(&mut [(Vec<usize>, Vec<f32>)]),
) {
    let count = shapes.len();
    let output = shapes[count - 1].as_slice();
    let mut operands: Vec<(Vec<usize>, Vec<f32>)> =
        shapes.iter().zip(1..).map(|(shape, seed)| (shape.clone(), numbers(shape.iter().product(), seed))).collect();
    spoil(&mut operands);
    let steps = before.iter().map(|op| (op, made)).chain([(op, output)]).chain(fused.iter().map(|op| (op, output)));
    // The value so far, and what it was before.
    let mut values: Vec<(Vec<usize>, Vec<f32>)> = Vec::new();
    for (op, shape) in steps {
        let all: Vec<_> = operands.iter().chain(&values).cloned().collect();
        // The first operator reads operands alone.
        let op = &after_inputs(vec![op.clone()], count)[0];
        values.insert(0, (shape.to_vec(), execute(op, &all, shape)));
    }
    let (_, expected) = values.swap_remove(0);
    let views: Vec<View<'_>> =
        operands.iter().map(|(shape, data)| View::new(DataType::Float32, shape, bytemuck::cast_slice(data))).collect();
    let known = known(&views, |i| (1..count - 1).contains(&i));
    let fused = after_inputs(fused.to_vec(), count);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for (isa, threads) in Isa::available().iter().flat_map(|isa| [(isa, 1), (isa, 2)]) {
        let problem = Problem {
            prologue: before,
            dequantized: &[],
            op,
            fused: &fused,
            inputs: &known,
            output: TensorDesc { data_type: DataType::Float32, shape: output, constant: None, order: None },
            workspace: None,
        };
        let selection = first(&problem, &Target::with(isa, threads));
        assert!(selection.fuses);
        let mut found = vec![f32::NAN; expected.len()];
        let mut run = |views: &[View<'_>]| {
            let bytes = bytemuck::cast_slice_mut(&mut found);
            let mut outputs = [ViewMut { data_type: DataType::Float32, shape: output, bytes }];
            selection.kernel.compute(&mut Arguments::new(views, &mut outputs));
        };
        match threads {
            // Its first operand is still on its way.
            1 => while_arriving(views[0].bytes(), |buffer| {
                let mut views = views.clone();
                views[0] = View::of(DataType::Float32, views[0].shape, Incoming::Arriving(buffer));
                run(&views);
            }),
            _ => pool.install(|| run(&views)),
        }
        for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let is_near = (found - expected).abs() <= 1e-4 * expected.abs().max(1.0)
                || found == expected
                || found.is_nan() && expected.is_nan();
            assert!(is_near, "{} with {threads} threads: {before:?} {op:?} at {i}: {found}, not {expected}", isa.name);
        }
    }
}

#[test]
fn bands() {
    let clamp = Op::from(Clamp { input: RUNNING, min_value: Some(Number::Double(0.0)), max_value: Some(Number::Double(0.75)) });
    let swish = Op::from(Activation { kind: ActivationKind::HardSwish, input: RUNNING });
    let leaky = Op::from(LeakyRelu { input: RUNNING, alpha: 0.2 });
    let add = Op::from(Binary { kind: BinaryKind::Add, a: RUNNING, b: OperandId(5) });
    let silu = Op::from(Swish { input: RUNNING, alpha: 1.0 });
    // Strides, dilations and padding; the last ones need no rows of the input for some of the output.
    let options = [
        ([3, 3], [1, 1], [1, 1], [1; 4]),
        ([3, 3], [2, 2], [1, 1], [0, 1, 0, 1]),
        ([5, 5], [1, 1], [1, 1], [2; 4]),
        ([5, 5], [2, 2], [1, 1], [2, 2, 1, 2]),
        ([3, 2], [1, 2], [2, 1], [1, 3, 0, 1]),
        ([2, 1], [4, 1], [1, 1], [0; 4]),
        ([3, 3], [1, 1], [1, 1], [5, 4, 1, 1]),
    ];
    for (i, (window, strides, dilations, padding)) in options.into_iter().enumerate() {
        let then = |channels| Conv2d { padding, strides, dilations, ..conv(RUNNING, 3, channels) };
        // Rows that are small, so that a band is a few, and so large that it is one.
        check([2, 23, 9, 8], 21, std::slice::from_ref(&clamp), then(21), window, &[]);
        check([1, 14, 37, 11], 40, &[swish.clone(), leaky.clone()], then(40), window, std::slice::from_ref(&swish));
        check([1, 9, 24, 9], 30, std::slice::from_ref(&silu), then(30), window, &[]);
        check([3, 7, 131, 8], 200 + 40 * i, &[], then(200 + 40 * i), window, &[clamp.clone(), add.clone()]);
    }
}
