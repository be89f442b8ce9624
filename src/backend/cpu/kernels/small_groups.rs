//! Convolutions of float32 in groups of a few channels, as many of the input as of the output, with the channels last. A vector
//! has the channels of several groups: each number of a group is brought to all places of the group, one after the other, and
//! multiplied there, so that no part of a vector is empty.

use super::conv::{Filter, axis};
use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::{Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Subnormals, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout;
use crate::looks;
use std::mem::take;
use webnn_kernels::conv::small_groups::{Convolution, MOST_COLUMNS, Row};
use webnn_kernels::isa::Isa;

#[derive(Debug)]
struct SmallGroups {
    isa: &'static Isa,
    input: OperandId,
    /// Channels of a group.
    of_group: usize,
    /// For each element of the window, and each number of a group, one for each channel of the output.
    weights: AlignedBuffer,
    bias: AlignedBuffer,
    finish: ConvEpilogue,
    rows: Axis,
    columns: Axis,
    channels: usize,
    /// What stands for pixels in the padding.
    zeros: AlignedBuffer,
}

/// Groups of 2, 4 or 8 channels, several of which share a vector.
pub static SMALL_GROUPS: Implementation = Implementation { name: "conv.small_groups", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, isa) = (problem.conv2d()?, target.isa);
    let input = problem.input(op.input);
    let (filter, [channels, of_group, height, width]) = Filter::of(op, problem)?;
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let lanes = isa.lanes();
    require([2, 4, 8].contains(&of_group) && of_group < lanes, "not groups of 2, 4 or 8 channels that share a vector")?;
    require(channels % lanes == 0, "channels that do not fill whole vectors")?;
    let is_square = op.groups as usize * of_group == channels && input.shape[3] == channels;
    require(is_square, "not as many output channels as input channels")?;
    require(width <= MOST_COLUMNS, "a window of too many columns")?;
    require(filter.is_finite(), "weights that are not finite")?;
    let mut finish = ConvEpilogue::new(problem, op.bias)?;
    let (rows, columns) = (axis(op, 0, input.shape[1], height, problem), axis(op, 1, input.shape[2], width, problem));
    Ok(Box::new(move || {
        let weights = AlignedBuffer::packed(&[channels], height * width * of_group * channels, |weights| {
            for (place, numbers) in weights.chunks_exact_mut(channels).enumerate() {
                let (tap, number) = (place / of_group, place % of_group);
                numbers.iter_mut().enumerate().for_each(|(o, to)| *to = filter.at([o, number, tap / width, tap % width]));
            }
        });
        let mut bias = take(&mut finish.bias);
        bias.resize(channels, 0.0);
        let bias = AlignedBuffer::row(&bias);
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let zeros = AlignedBuffer::zeros(channels);
        let kernel = SmallGroups { isa, input: op.input, of_group, weights, bias, finish, rows, columns, channels, zeros };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

impl Kernel for SmallGroups {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.channels, arguments);
        let row = self.columns.output * self.channels;
        for_each_piece(arguments.output().elements::<f32>(), row, self.cost(), |first, output| {
            for (number, output) in (first..).zip(output.chunks_exact_mut(row)) {
                self.row(image, added.map(|added| &added[number * row..][..row]), &rest, number, output);
            }
        });
    }

    fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes()
    }
}

impl SmallGroups {
    /// About how many nanoseconds a row of the output takes.
    fn cost(&self) -> usize {
        self.columns.output * self.channels * self.rows.window * self.columns.window * self.of_group / 16
    }

    /// Computes a row of the output, by its number among those of all images.
    fn row(&self, image: &[f32], added: Option<&[f32]>, rest: &BoundPostOps<'_>, number: usize, output: &mut [f32]) {
        let of = Convolution {
            of_group: self.of_group,
            weights: self.weights.as_slice(),
            bias: self.bias.as_slice(),
            zeros: self.zeros.as_slice(),
            clamps: self.finish.clamps,
            rows: self.rows,
            columns: self.columns,
            channels: self.channels,
        };
        let pauses = looks::pauses(self.cost());
        Row { of, image, added, number, output: &mut *output, pauses }.compute(self.isa);
        rest.apply(number * output.len(), output);
    }
}
