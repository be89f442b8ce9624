//! Convolutions of scaled images against the reference kernels one after the other.

use super::expand_depthwise_tests::{compare, compare_with};
use crate::compiler::RUNNING;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
use crate::graph::{Op, OperandId};

/// The product of an image and factors in this order or the other, and the convolution that reads it. Factors, filter and bias
/// are operands 1 to 3; the last one has the shape of the output.
fn step([height, width, channels, outputs]: [usize; 4], factors_first: bool) -> (Vec<Vec<usize>>, Op, Op, [usize; 4]) {
    let made = [1, height, width, channels];
    let output = vec![1, height, width, outputs];
    let shapes = vec![made.to_vec(), vec![1, 1, 1, channels], vec![outputs, channels, 1, 1], vec![outputs], output];
    let (a, b) = if factors_first { (OperandId(1), OperandId(0)) } else { (OperandId(0), OperandId(1)) };
    let conv = Conv2d {
        bias: Some(OperandId(3)),
        ..Conv2d::new(RUNNING, OperandId(2), InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Oihw)
    };
    (shapes, Binary { kind: BinaryKind::Mul, a, b }.into(), conv.into(), made)
}

#[test]
fn scaled_images() {
    let swish = Op::from(Activation { kind: ActivationKind::HardSwish, input: RUNNING });
    let add = Op::from(Binary { kind: BinaryKind::Add, a: RUNNING, b: OperandId(4) });
    // One panel, several, and such that are not whole; one tile and many.
    for sizes in [[4, 3, 8, 8], [9, 11, 37, 53], [14, 14, 672, 112], [30, 17, 96, 24], [7, 7, 960, 40], [3, 2, 5, 33]] {
        for factors_first in [false, true] {
            let (shapes, mul, conv, made) = step(sizes, factors_first);
            compare(&shapes, std::slice::from_ref(&mul), &made, &conv, &[]);
            compare(&shapes, &[mul], &made, &conv, &[add.clone(), swish.clone()]);
        }
    }
}

/// Puts other numbers into an image, its factors and the weights.
type Spoil<'a> = dyn Fn(&mut [f32], &mut [f32], &mut [f32]) + 'a;

#[test]
fn scaled_images_with_numbers_that_are_not_and_very_small_ones() {
    let (shapes, mul, conv, made) = step([9, 7, 40, 37], false);
    let compare = |spoil: &Spoil<'_>| {
        compare_with(&shapes, std::slice::from_ref(&mul), &made, &conv, &[], |operands| {
            let [(_, image), (_, factors), (_, weights), ..] = operands else { panic!("there are more") };
            spoil(image, factors, weights);
        });
    };
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        // Of a channel whose factor is usual, zero, or so small that a weight times it is nothing. (A subnormal factor counts as zero,
        // and gives NaN: subnormal_tests.rs.)
        for factor in [0.5, 0.0, f32::MIN_POSITIVE, f32::NAN] {
            compare(&|image, factors, weights| {
                (image[3 * 40 + 5], factors[5]) = (number, factor);
                // A weight of 0, small ones of both signs, and usual ones.
                (weights[5], weights[40 + 5], weights[80 + 5]) = (0.0, 1e-30, -1e-30);
            });
        }
    }
    // Numbers near the greatest and the least.
    compare(&|image, factors, weights| {
        (image[5], factors[5], image[6], factors[6]) = (f32::MAX, 1e-3, 1e-30, 1e-30);
        (weights[5], weights[6]) = (100.0, f32::MAX);
    });
}
