//! Operators that look at all of a contiguous line of float32: softmax along the last axis, layer and RMS normalization of the
//! last ones, instance normalization where the channels are first.

use super::stored::{for_each_stored_piece, with_numbers};
use super::{Accepted, Bf16Support, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require};
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::softmax::rows;

/// A line shorter than this leaves the vectors empty.
const SHORTEST: usize = 16;

/// Along the last dimension, row by row.
pub static SOFTMAX_ROWS: Implementation = Implementation { name: "softmax.rows", accept: accept_softmax };
/// Of the last dimensions, row by row.
pub static LAYER_NORMALIZATION_ROWS: Implementation =
    Implementation { name: "layer_normalization.rows", accept: accept_layer_normalization };
/// The same by the root of the mean square.
pub static RMS_NORMALIZATION_ROWS: Implementation =
    Implementation { name: "rms_normalization.rows", accept: accept_rms_normalization };
/// With the channels first, plane by plane.
pub static INSTANCE_NORMALIZATION_NCHW: Implementation =
    Implementation { name: "instance_normalization.nchw", accept: accept_instance_normalization };

/// Lines are widened and rounded, each beside the kernel.
fn of_lines(input: OperandId) -> Bf16Support {
    Bf16Support { loads: smallvec![input], widens: smallvec![input], stores: true, rounds_output: true, ..Bf16Support::default() }
}

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
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).stored();
        for_each_stored_piece(self.isa, arguments.output(), self.length, 2 * self.length, |first, piece| {
            let first = first * self.length;
            with_numbers(self.isa, input.part(first..first + piece.len()), |input| {
                let pauses = looks::pauses(self.length);
                rows::SoftmaxRows { input, output: piece, length: self.length, pauses }.compute(self.isa);
            });
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        of_lines(self.input)
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

/// The number of values along some axes, which must be the last ones.
fn row_length(shape: &[usize], axes: &[u32]) -> Result<usize, Reject> {
    let are_last = axes.iter().rev().enumerate().all(|(i, &axis)| axis as usize + i + 1 == shape.len());
    require(are_last, "not the last dimensions in their order")?;
    let length = axes.iter().map(|&axis| shape[axis as usize]).product();
    require(length >= SHORTEST, "rows too short for vectors")?;
    Ok(length)
}

fn accept_layer_normalization<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::LayerNormalization(op) = problem.op else { return Err(Reject("not a layerNormalization")) };
    let length = row_length(problem.output.shape, &op.axes(problem.output.shape.len()))?;
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
        let (input, scale, bias) = (arguments.input(self.input).stored(), self.scale.map(elements), self.bias.map(elements));
        for_each_stored_piece(self.isa, arguments.output(), self.length, self.length, |first, piece| {
            let pauses = looks::pauses(self.length);
            for (number, output) in (first..).zip(piece.chunks_exact_mut(self.length)) {
                with_numbers(self.isa, input.part(number * self.length..(number + 1) * self.length), |input| {
                    rows::NormalizedRow { input, output, scale, bias, epsilon: self.epsilon, pauses }.compute(self.isa);
                });
            }
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        of_lines(self.input)
    }
}

#[derive(Debug)]
struct RmsNormalizationRows {
    isa: &'static Isa,
    input: OperandId,
    scale: Option<OperandId>,
    length: usize,
    epsilon: f32,
}

fn accept_rms_normalization<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::RmsNormalization(op) = problem.op else { return Err(Reject("not an rmsNormalization")) };
    let length = row_length(problem.output.shape, &op.axes(problem.output.shape.len()))?;
    unfused(RmsNormalizationRows { isa: target.isa, input: op.input, scale: op.scale, length, epsilon: op.epsilon as f32 })
}

impl Kernel for RmsNormalizationRows {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let elements = |id| arguments.input(id).elements::<f32>();
        let (input, scale) = (arguments.input(self.input).stored(), self.scale.map(elements));
        for_each_stored_piece(self.isa, arguments.output(), self.length, self.length, |first, piece| {
            let pauses = looks::pauses(self.length);
            for (number, output) in (first..).zip(piece.chunks_exact_mut(self.length)) {
                with_numbers(self.isa, input.part(number * self.length..(number + 1) * self.length), |input| {
                    rows::RmsRow { input, output, scale, epsilon: self.epsilon, pauses }.compute(self.isa);
                });
            }
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        of_lines(self.input)
    }
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
        let (input, scale, bias) = (arguments.input(self.input).stored(), self.scale.map(elements), self.bias.map(elements));
        for_each_stored_piece(self.isa, arguments.output(), self.length, self.length / 4, |first, piece| {
            let pauses = looks::pauses(self.length);
            for (number, output) in (first..).zip(piece.chunks_exact_mut(self.length)) {
                let channel = number % self.channels;
                let (scale, bias) = (scale.map_or(1.0, |scale| scale[channel]), bias.map_or(0.0, |bias| bias[channel]));
                with_numbers(self.isa, input.part(number * self.length..(number + 1) * self.length), |input| {
                    rows::NormalizedChannel { input, output, scale, bias, epsilon: self.epsilon, pauses }.compute(self.isa);
                });
            }
        });
    }

    fn bf16_support(&self) -> Bf16Support {
        of_lines(self.input)
    }
}
