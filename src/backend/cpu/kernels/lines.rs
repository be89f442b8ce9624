//! Operators that look at all of a contiguous line of float32: softmax along the last axis, layer normalization of the
//! last ones.

use super::functions::exp;
use super::isa::{Isa, isa};
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::normalization::LayerNormalization;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;

/// Sums that are formed side by side, so that they become one vector, and are exact for long lines.
const SUMS: usize = 32;

/// A line shorter than this leaves the vectors empty.
const SHORTEST: usize = 16;

pub fn select(site: &Site<'_>) -> Option<Selection> {
    let kernel: Box<dyn Kernel> = match site.op {
        Op::Softmax(op) => Box::new(softmax(op, site)?),
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

fn softmax(op: &Softmax, site: &Site<'_>) -> Option<SoftmaxLines> {
    let &length = site.output.shape.last()?;
    let is_last = op.axis as usize + 1 == site.output.shape.len();
    (is_last && length >= SHORTEST).then(|| SoftmaxLines { isa: isa(), input: op.input, length })
}

impl Kernel for SoftmaxLines {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        for_each_piece(arguments.output().elements::<f32>(), self.length, 2 * self.length, |first, piece| {
            let lines = input[first * self.length..].chunks_exact(self.length);
            for (output, input) in piece.chunks_exact_mut(self.length).zip(lines) {
                self.isa.run(|| {
                    let greatest = greatest(input);
                    output.iter_mut().zip(input).for_each(|(output, x)| *output = exp(x - greatest));
                    // What is not a number spoils the sum, and thereby the line.
                    let factor = 1.0 / sum(output, |x| x);
                    output.iter_mut().for_each(|x| *x *= factor);
                });
            }
        });
    }
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
        let count = self.length as f32;
        for_each_piece(arguments.output().elements::<f32>(), self.length, self.length, |first, piece| {
            let lines = input[first * self.length..].chunks_exact(self.length);
            for (output, input) in piece.chunks_exact_mut(self.length).zip(lines) {
                self.isa.run(|| {
                    let mean = sum(input, |x| x) / count;
                    let variance = sum(input, |x| (x - mean) * (x - mean)) / count;
                    let factor = 1.0 / (variance + self.epsilon).sqrt();
                    output.iter_mut().zip(input).for_each(|(output, x)| *output = (x - mean) * factor);
                    if let Some(scale) = scale {
                        output.iter_mut().zip(scale).for_each(|(output, scale)| *output *= scale);
                    }
                    if let Some(bias) = bias {
                        output.iter_mut().zip(bias).for_each(|(output, bias)| *output += bias);
                    }
                });
            }
        });
    }
}

/// The sum of a function over a line.
#[inline(always)]
fn sum(line: &[f32], function: impl Fn(f32) -> f32) -> f32 {
    side_by_side(line, 0.0, |sum, x| sum + function(x)).iter().sum()
}

/// The greatest element of a line, as far as its elements are numbers.
#[inline(always)]
fn greatest(line: &[f32]) -> f32 {
    let greater = |a: f32, b: f32| if b > a { b } else { a };
    side_by_side(line, f32::NEG_INFINITY, greater).into_iter().fold(f32::NEG_INFINITY, greater)
}

/// Folds every [`SUMS`]th element of a line, from the first, the second, … on.
#[inline(always)]
fn side_by_side(line: &[f32], start: f32, function: impl Fn(f32, f32) -> f32) -> [f32; SUMS] {
    let mut sums = [start; SUMS];
    let mut groups = line.chunks_exact(SUMS);
    for group in &mut groups {
        sums.iter_mut().zip(group).for_each(|(sum, x)| *sum = function(*sum, *x));
    }
    sums.iter_mut().zip(groups.remainder()).for_each(|(sum, x)| *sum = function(*sum, *x));
    sums
}
