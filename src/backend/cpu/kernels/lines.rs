//! Operators that look at all of a contiguous line of float32: softmax along the last axis, layer normalization of the
//! last ones, instance normalization where the channels are first.
#![allow(unsafe_code)]

use super::formulas::{each, exp};
use super::isa::{Isa, Loop, isa};
use super::softmax_columns::{SoftmaxColumns, SoftmaxShortLines};
use super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::ops::normalization::{InstanceNormalization, LayerNormalization};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;

/// Sums that are formed side by side, so that they become one vector, and are exact for long lines.
const SUMS: usize = 32;

/// A line shorter than this leaves the vectors empty.
const SHORTEST: usize = 16;

pub fn select(site: &Site<'_>) -> Option<Selection> {
    let kernel: Box<dyn Kernel> = match site.op {
        Op::Softmax(op) if op.axis as usize + 1 < site.output.shape.len() => {
            Box::new(SoftmaxColumns::new(op, site.output.shape, isa())?)
        }
        Op::Softmax(op) => softmax_lines(op, site)?,
        Op::InstanceNormalization(op) => Box::new(instance_normalization(op, site)?),
        Op::LayerNormalization(op) => Box::new(layer_normalization(op, site)?),
        _ => return None,
    };
    Some(Selection { kernel, taken: smallvec![], fuses: false })
}

#[derive(Debug)]
struct SoftmaxLines {
    isa: &'static Isa,
    input: OperandId,
    length: usize,
}

fn softmax_lines(op: &Softmax, site: &Site<'_>) -> Option<Box<dyn Kernel>> {
    let &length = site.output.shape.last()?;
    let (isa, input) = (isa(), op.input);
    if length >= SHORTEST {
        return Some(Box::new(SoftmaxLines { isa, input, length }));
    }
    let is_worth_it = length > 0 && site.output.shape.iter().product::<usize>() / length >= SHORTEST;
    is_worth_it.then(|| Box::new(SoftmaxShortLines { isa, input, length }) as Box<dyn Kernel>)
}

impl Kernel for SoftmaxLines {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        for_each_piece(arguments.output().elements::<f32>(), self.length, 2 * self.length, |first, piece| {
            let lines = input[first * self.length..].chunks_exact(self.length);
            for (output, input) in piece.chunks_exact_mut(self.length).zip(lines) {
                with_vectors(self.isa, SoftmaxLine { input, output });
            }
        });
    }
}

struct SoftmaxLine<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
}

impl OnVectors for SoftmaxLine<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let SoftmaxLine { input, output } = self;
        output.copy_from_slice(input);
        softmax::<V>(output);
    }
}

/// Softmax of a line in its place.
#[inline(always)]
pub fn softmax<V: Vector>(line: &mut [f32]) {
    let greatest = V::set(greatest::<V>(line));
    let mut sums = [V::set(0.0); 2];
    let (start, length) = (line.as_mut_ptr(), line.len());
    let mut i = 0;
    while i + 2 * V::LANES <= length {
        for (half, sum) in sums.iter_mut().enumerate() {
            // SAFETY: two whole vectors lie at `i`.
            unsafe {
                let at = start.add(i + half * V::LANES);
                let powers = exp(V::load(at).sub(greatest));
                *sum = sum.add(powers);
                powers.store(at);
            }
        }
        i += 2 * V::LANES;
    }
    while i < length {
        let count = V::LANES.min(length - i);
        // SAFETY: so many numbers lie at `i`.
        unsafe {
            // Beyond the end there is nothing: the power of minus infinity is zero.
            let powers = exp(load_above::<V>(start.add(i), count).sub(greatest));
            sums[0] = sums[0].add(powers);
            powers.store_first(start.add(i), count);
        }
        i += count;
    }
    let mut lanes = [0f32; MOST_LANES];
    // SAFETY: as above.
    unsafe { sums[0].add(sums[1]).store(lanes.as_mut_ptr()) };
    // What is not a number spoils the sum, and thereby the line.
    let factor = V::set(1.0 / halved(lanes, |a, b| a + b));
    each!(V, line, |x| x.mul(factor));
}

#[derive(Debug)]
struct LayerNormalizationLines {
    isa: &'static Isa,
    input: OperandId,
    scale: Option<OperandId>,
    bias: Option<OperandId>,
    length: usize,
    epsilon: f32,
}

fn layer_normalization(op: &LayerNormalization, site: &Site<'_>) -> Option<LayerNormalizationLines> {
    let rank = site.output.shape.len();
    let axes = op.axes(rank);
    // The last axes, in their order.
    let are_last = axes.iter().rev().enumerate().all(|(i, &axis)| axis as usize + i + 1 == rank);
    let length = axes.iter().map(|&axis| site.output.shape[axis as usize]).product();
    (are_last && length >= SHORTEST).then(|| LayerNormalizationLines {
        isa: isa(),
        input: op.input,
        scale: op.scale,
        bias: op.bias,
        length,
        epsilon: op.epsilon as f32,
    })
}

impl Kernel for LayerNormalizationLines {
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
    (mean, 1.0 / (variance + epsilon).sqrt())
}

#[derive(Debug)]
struct InstanceNormalizationLines {
    isa: &'static Isa,
    input: OperandId,
    scale: Option<OperandId>,
    bias: Option<OperandId>,
    channels: usize,
    length: usize,
    epsilon: f32,
}

fn instance_normalization(op: &InstanceNormalization, site: &Site<'_>) -> Option<InstanceNormalizationLines> {
    let &[_, channels, height, width] = site.output.shape else { return None };
    let suits = op.layout == InputOperandLayout::Nchw && height * width >= SHORTEST;
    let (scale, bias, epsilon) = (op.scale, op.bias, op.epsilon as f32);
    suits.then(|| InstanceNormalizationLines {
        isa: isa(),
        input: op.input,
        scale,
        bias,
        channels,
        length: height * width,
        epsilon,
    })
}

impl Kernel for InstanceNormalizationLines {
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

/// The greatest element of a line, as far as its elements are numbers.
#[inline(always)]
fn greatest<V: Vector>(line: &[f32]) -> f32 {
    let mut greatest = [V::set(f32::NEG_INFINITY); 2];
    let mut pairs = line.chunks_exact(2 * V::LANES);
    for pair in &mut pairs {
        for (half, greatest) in greatest.iter_mut().enumerate() {
            // SAFETY: two vectors long.
            *greatest = greatest.raise(unsafe { V::load(pair.as_ptr().add(half * V::LANES)) });
        }
    }
    for rest in pairs.remainder().chunks(V::LANES) {
        // SAFETY: the length is that of the rest.
        greatest[0] = greatest[0].raise(unsafe { load_above(rest.as_ptr(), rest.len()) });
    }
    let mut lanes = [f32::NEG_INFINITY; MOST_LANES];
    // SAFETY: as above.
    unsafe { greatest[0].raise(greatest[1]).store(lanes.as_mut_ptr()) };
    halved(lanes, |a, b| if b > a { b } else { a })
}

/// Loads the first `count` numbers, and minus infinity behind them.
///
/// # Safety
/// There must be `count` numbers at `from`, at most [`MOST_LANES`].
#[inline(always)]
unsafe fn load_above<V: Vector>(from: *const f32, count: usize) -> V {
    static BEHIND: [f32; 2 * MOST_LANES] = {
        let mut numbers = [0.0; 2 * MOST_LANES];
        let mut i = MOST_LANES;
        while i < numbers.len() {
            numbers[i] = f32::NEG_INFINITY;
            i += 1;
        }
        numbers
    };
    let behind = &BEHIND[MOST_LANES - count..];
    // SAFETY: the caller's promise; at least `MOST_LANES` numbers are left.
    unsafe { V::load_first(from, count).add(V::load(behind.as_ptr())) }
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
