//! Depthwise convolutions with the channels first against the reference kernels, alone and behind each other.

use super::expand_depthwise_tests::compare;
use crate::compiler::RUNNING;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Clamp, LeakyRelu};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::{Number, Op, OperandId};

/// Height and width of a window, dilations and padding.
#[derive(Clone, Copy)]
struct Window([usize; 2], [u32; 2], [u32; 4]);

impl Window {
    /// The size of an output.
    fn positions(self, input: [usize; 2]) -> Option<[usize; 2]> {
        let Window(window, dilations, padding) = self;
        let size = |axis: usize| {
            let padded = input[axis] + (padding[2 * axis] + padding[2 * axis + 1]) as usize;
            Some(padded.checked_sub((window[axis] - 1) * dilations[axis] as usize + 1)? + 1)
        };
        Some([size(0)?, size(1)?])
    }
}

/// Convolutions of an image with such windows; `between` is done to all of them but the last one, `fused` to that.
fn check(image: [usize; 4], windows: &[Window], between: &[Op], fused: &[Op]) {
    let [batches, channels, height, width] = image;
    let (last, before) = windows.split_last().unwrap();
    let Some([rows, columns]) = last.positions([height, width]) else { return };
    let mut shapes = vec![image.to_vec()];
    let mut convolutions = Vec::new();
    for (i, &Window(window, dilations, padding)) in windows.iter().enumerate() {
        let filter = shapes.len() as u32;
        shapes.push(vec![channels, 1, window[0], window[1]]);
        // Every other one has a bias.
        if i % 2 == 1 {
            shapes.push(vec![channels]);
        }
        convolutions.push(Op::from(Conv2d {
            input: if i == 0 { OperandId(0) } else { RUNNING },
            filter: OperandId(filter),
            padding,
            strides: [1; 2],
            dilations,
            groups: channels as u32,
            input_layout: InputOperandLayout::Nchw,
            filter_layout: Conv2dFilterOperandLayout::Oihw,
            bias: (i % 2 == 1).then_some(OperandId(filter + 1)),
        }));
    }
    shapes.push(vec![batches, channels, rows, columns]);
    let add = Op::from(Binary { kind: BinaryKind::Add, a: OperandId(shapes.len() as u32 - 1), b: RUNNING });
    let fused: Vec<Op> = fused.iter().cloned().chain([add]).collect();
    let op = convolutions.pop().unwrap();
    assert!(before.iter().all(|window| window.positions([height, width]) == Some([height, width])));
    let before: Vec<Op> = convolutions.into_iter().flat_map(|op| std::iter::once(op).chain(between.iter().cloned())).collect();
    compare(&shapes, &before, &image, &op, &fused);
}

fn relu() -> Op {
    Activation { kind: ActivationKind::Relu, input: RUNNING }.into()
}

fn clamp() -> Op {
    Clamp { input: RUNNING, min_value: Some(Number::Double(-0.5)), max_value: Some(Number::Double(0.75)) }.into()
}

fn leaky() -> Op {
    LeakyRelu { input: RUNNING, alpha: 0.2 }.into()
}

#[test]
fn one() {
    let windows = [
        Window([3, 3], [1, 1], [1; 4]),
        Window([3, 3], [1, 1], [0; 4]),
        Window([3, 3], [2, 3], [2, 2, 3, 3]),
        Window([3, 3], [1, 1], [5, 4, 7, 6]),
        Window([5, 5], [1, 1], [2; 4]),
        Window([5, 5], [4, 1], [0, 3, 2, 0]),
        Window([5, 5], [1, 2], [2, 2, 4, 3]),
        Window([7, 7], [1, 1], [3, 3, 1, 4]),
        Window([7, 7], [2, 2], [6, 5, 6, 6]),
        Window([1, 1], [1, 1], [0; 4]),
        Window([1, 9], [1, 2], [0, 0, 8, 8]),
        Window([6, 1], [3, 1], [8, 7, 0, 0]),
        Window([2, 4], [1, 1], [0, 1, 1, 2]),
    ];
    let images = [[2, 13, 20, 15], [1, 3, 9, 33], [1, 1, 1, 40], [1, 2, 2, 1], [3, 1, 7, 25], [1, 2, 130, 300], [1, 1, 3, 5000]];
    for image in images {
        for window in windows {
            check(image, &[window], &[], &[relu()]);
            check(image, &[window], &[], &[clamp(), leaky()]);
        }
    }
}

#[test]
fn behind_each_other() {
    let same = Window([3, 3], [1, 1], [1; 4]);
    let wide = Window([1, 7], [1, 2], [0, 0, 6, 6]);
    let high = Window([5, 1], [3, 1], [5, 7, 0, 0]);
    let dilated = Window([5, 5], [2, 2], [4, 4, 3, 5]);
    let even = Window([2, 2], [1, 1], [1, 0, 0, 1]);
    let valid = Window([3, 3], [1, 1], [0; 4]);
    let larger = Window([3, 3], [1, 1], [4, 3, 6, 9]);
    for image in [[2, 13, 14, 17], [1, 100, 7, 12], [1, 5, 3, 56], [2, 3, 1, 16]] {
        check(image, &[same; 2], &[relu()], &[clamp()]);
        check(image, &[same; 8], &[clamp()], &[]);
        check(image, &[wide, high, same], &[leaky(), relu()], &[leaky()]);
        check(image, &[dilated, even, wide, valid], &[], &[relu()]);
        check(image, &[even, dilated, larger], &[relu()], &[]);
    }
}
