//! Operators that look at all of a contiguous line of float32: softmax along the last axis, layer normalization of the
//! last ones, instance normalization where the channels are first.
#![allow(unsafe_code)]

use super::isa::{Isa, Loop};
use super::softmax::{Lines, Scores, load_first};
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;

/// Sums that are formed side by side, so that they become one vector, and are exact for long lines.
const SUMS: usize = 32;

/// A line shorter than this leaves the vectors empty.
const SHORTEST: usize = 16;

/// Along the last dimension, row by row.
pub static SOFTMAX: Implementation = Implementation { name: "softmax.rows", accept: accept_softmax };
/// Of the last dimensions, row by row.
pub static LAYER_NORMALIZATION: Implementation =
    Implementation { name: "layer_normalization.rows", accept: accept_layer_normalization };
/// With the channels first, plane by plane.
pub static INSTANCE_NORMALIZATION: Implementation =
    Implementation { name: "instance_normalization.nchw", accept: accept_instance_normalization };

fn unfused<'a>(kernel: impl Kernel + 'a + 'static) -> Accepted<'a> {
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: false })))
}

#[derive(Debug)]
struct SoftmaxRows {
    isa: &'static Isa,
    input: OperandId,
    length: usize,
}

fn accept_softmax<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Softmax(op) = problem.op else { return Err(Reject("not a softmax")) };
    let length = problem.output.shape.last().copied().unwrap_or(0);
    require(op.axis as usize + 1 == problem.output.shape.len(), "not along the last dimension")?;
    require(length >= SHORTEST, "rows too short for vectors")?;
    unfused(SoftmaxRows { isa: target.isa, input: op.input, length })
}

impl Kernel for SoftmaxRows {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        for_each_piece(arguments.output().elements::<f32>(), self.length, 2 * self.length, |first, piece| {
            let input = &input[first * self.length..];
            with_vectors(self.isa, Piece { input, output: piece, length: self.length });
        });
    }
}

struct Piece<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    length: usize,
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Piece { input, output, length } = self;
        let count = output.len() / length;
        assert!(count * length <= input.len());
        let lines = Lines { start: output.as_mut_ptr(), count, length, stride: length };
        // SAFETY: the output has so many lines, and the input as many.
        unsafe { lines.softmax::<V>(Input { start: input.as_ptr(), length }) }
    }
}

/// Lines behind each other.
struct Input {
    start: *const f32,
    length: usize,
}

impl<V: Vector> Scores<V> for Input {
    #[inline(always)]
    unsafe fn at(&self, line: usize, at: usize, count: usize) -> V {
        // SAFETY: the caller's promise.
        unsafe { load_first(self.start.add(line * self.length + at), count) }
    }
}

#[derive(Debug)]
struct LayerNormalizationRows {
    isa: &'static Isa,
    input: OperandId,
    scale: Option<OperandId>,
    bias: Option<OperandId>,
    length: usize,
    epsilon: f32,
}

fn accept_layer_normalization<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::LayerNormalization(op) = problem.op else { return Err(Reject("not a layerNormalization")) };
    let rank = problem.output.shape.len();
    let axes = op.axes(rank);
    let are_last = axes.iter().rev().enumerate().all(|(i, &axis)| axis as usize + i + 1 == rank);
    require(are_last, "not the last dimensions in their order")?;
    let length = axes.iter().map(|&axis| problem.output.shape[axis as usize]).product();
    require(length >= SHORTEST, "rows too short for vectors")?;
    unfused(LayerNormalizationRows {
        isa: target.isa,
        input: op.input,
        scale: op.scale,
        bias: op.bias,
        length,
        epsilon: op.epsilon as f32,
    })
}

impl Kernel for LayerNormalizationRows {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let elements = |id| arguments.input(id).elements::<f32>();
        let (input, scale, bias) = (elements(self.input), self.scale.map(elements), self.bias.map(elements));
        for_each_piece(arguments.output().elements::<f32>(), self.length, self.length, |first, piece| {
            let lines = input[first * self.length..].chunks_exact(self.length);
            for (output, input) in piece.chunks_exact_mut(self.length).zip(lines) {
                self.isa.run_loop(NormalizedLine { input, output, scale, bias, epsilon: self.epsilon });
            }
        });
    }
}

struct NormalizedLine<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    scale: Option<&'a [f32]>,
    bias: Option<&'a [f32]>,
    epsilon: f32,
}

impl Loop for NormalizedLine<'_> {
    #[inline(always)]
    fn run(self) {
        let NormalizedLine { input, output, scale, bias, epsilon } = self;
        let (mean, factor) = mean_and_factor(input, epsilon);
        let normal = |x: f32| (x - mean) * factor;
        match (scale, bias) {
            (Some(scale), Some(bias)) => {
                for (((y, &x), scale), bias) in output.iter_mut().zip(input).zip(scale).zip(bias) {
                    *y = normal(x) * scale + bias;
                }
            }
            (Some(scale), None) => {
                for ((y, &x), scale) in output.iter_mut().zip(input).zip(scale) {
                    *y = normal(x) * scale;
                }
            }
            (None, Some(bias)) => {
                for ((y, &x), bias) in output.iter_mut().zip(input).zip(bias) {
                    *y = normal(x) + bias;
                }
            }
            (None, None) => {
                for (y, &x) in output.iter_mut().zip(input) {
                    *y = normal(x);
                }
            }
        }
    }
}

/// The mean of a line, and what makes its variance 1.
#[inline(always)]
fn mean_and_factor(line: &[f32], epsilon: f32) -> (f32, f32) {
    let count = line.len() as f32;
    let mean = sum(line, |x| x) / count;
    let variance = sum(line, |x| (x - mean) * (x - mean)) / count;
    if variance.is_finite() { (mean, 1.0 / (variance + epsilon).sqrt()) } else { mean_and_factor_of_large(line, epsilon) }
}

/// The same in float64, for numbers whose sum or squares are infinite as float32 ones.
#[cold]
fn mean_and_factor_of_large(line: &[f32], epsilon: f32) -> (f32, f32) {
    let count = line.len() as f64;
    let mean = line.iter().map(|&x| f64::from(x)).sum::<f64>() / count;
    let variance = line.iter().map(|&x| (f64::from(x) - mean).powi(2)).sum::<f64>() / count;
    (mean as f32, (1.0 / (variance + f64::from(epsilon)).sqrt()) as f32)
}

#[derive(Debug)]
struct InstanceNormalizationPlanes {
    isa: &'static Isa,
    input: OperandId,
    scale: Option<OperandId>,
    bias: Option<OperandId>,
    channels: usize,
    length: usize,
    epsilon: f32,
}

fn accept_instance_normalization<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::InstanceNormalization(op) = problem.op else { return Err(Reject("not an instanceNormalization")) };
    let &[_, channels, height, width] = problem.output.shape else { return Err(Reject("not an image")) };
    require(op.layout == InputOperandLayout::Nchw, "channels not first")?;
    require(height * width >= SHORTEST, "planes too small for vectors")?;
    unfused(InstanceNormalizationPlanes {
        isa: target.isa,
        input: op.input,
        scale: op.scale,
        bias: op.bias,
        channels,
        length: height * width,
        epsilon: op.epsilon as f32,
    })
}

impl Kernel for InstanceNormalizationPlanes {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let elements = |id| arguments.input(id).elements::<f32>();
        let (input, scale, bias) = (elements(self.input), self.scale.map(elements), self.bias.map(elements));
        for_each_piece(arguments.output().elements::<f32>(), self.length, self.length / 4, |first, piece| {
            let lines = input[first * self.length..].chunks_exact(self.length);
            for (number, (output, input)) in (first..).zip(piece.chunks_exact_mut(self.length).zip(lines)) {
                let channel = number % self.channels;
                let (scale, bias) = (scale.map_or(1.0, |scale| scale[channel]), bias.map_or(0.0, |bias| bias[channel]));
                self.isa.run_loop(NormalizedChannel { input, output, scale, bias, epsilon: self.epsilon });
            }
        });
    }
}

struct NormalizedChannel<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    scale: f32,
    bias: f32,
    epsilon: f32,
}

impl Loop for NormalizedChannel<'_> {
    #[inline(always)]
    fn run(self) {
        let NormalizedChannel { input, output, scale, bias, epsilon } = self;
        let (mean, factor) = mean_and_factor(input, epsilon);
        for (y, &x) in output.iter_mut().zip(input) {
            *y = (x - mean) * factor * scale + bias;
        }
    }
}

/// The sum of a function over a line.
#[inline(always)]
fn sum(line: &[f32], function: impl Fn(f32) -> f32) -> f32 {
    total(side_by_side(line, 0.0, |sum, x| sum + function(x)))
}

#[inline(always)]
fn total(sums: [f32; SUMS]) -> f32 {
    halved(sums, |a, b| a + b)
}

/// Folds one half of the numbers into the other, and so on: side by side, not one after the other.
#[inline(always)]
fn halved<const N: usize>(mut numbers: [f32; N], function: impl Fn(f32, f32) -> f32) -> f32 {
    let mut half = N / 2;
    while half > 0 {
        for i in 0..half {
            numbers[i] = function(numbers[i], numbers[half + i]);
        }
        half /= 2;
    }
    numbers[0]
}

/// Folds every [`SUMS`]th element of a line, from the first, the second, … on.
#[inline(always)]
fn side_by_side(line: &[f32], start: f32, function: impl Fn(f32, f32) -> f32) -> [f32; SUMS] {
    let mut sums = [start; SUMS];
    let (groups, rest) = line.as_chunks::<SUMS>();
    for group in groups {
        let group = *group;
        for i in 0..SUMS {
            sums[i] = function(sums[i], group[i]);
        }
    }
    for (sum, x) in sums.iter_mut().zip(rest) {
        *sum = function(*sum, *x);
    }
    sums
}
