//! Depthwise convolutions of float32 with the channels last: every channel has a filter of its own, so that a vector of
//! channels is computed at a time.

use super::conv::{Filter, axis};
use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::{Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::InputOperandLayout;
use crate::looks;
use std::mem::take;
use webnn_kernels::depthwise::nhwc::{Convolution, Image, MARGIN};
use webnn_kernels::isa::Isa;

#[derive(Debug)]
pub struct Depthwise {
    pub isa: &'static Isa,
    input: OperandId,
    /// For each element of the window a number for each channel, and [`MARGIN`].
    weights: AlignedBuffer,
    bias: AlignedBuffer,
    pub finish: ConvEpilogue,
    pub batches: usize,
    pub rows: Axis,
    pub columns: Axis,
    pub channels: usize,
    /// See [`Filter::is_finite`].
    is_finite: bool,
    /// What stands for rows in the padding.
    zeros: AlignedBuffer,
}

impl Kernel for Depthwise {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.rest(arguments);
        let output = arguments.output().elements::<f32>();
        let row = self.columns.output * self.channels;
        let image = Image { numbers: image, rows: image.len() / (self.columns.input * self.channels) };
        // Two rows are a unit, since the fast loops compute them together.
        for_each_piece(output, 2 * row, self.cost(), |first, output| self.compute(image, added, &rest, 2 * first, output));
    }

    fn bytes(&self) -> usize {
        self.weights.bytes() + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes()
    }
}

impl Depthwise {
    /// What is left to be done to the sums.
    pub fn rest<'a, 'b: 'a>(&'a self, arguments: &Arguments<'b, '_>) -> BoundPostOps<'a> {
        self.finish.rest(self.isa, self.channels, arguments)
    }

    /// About how many nanoseconds two rows take: to read and to write as long as two products.
    fn cost(&self) -> usize {
        2 * self.columns.output * self.channels * (self.rows.window * self.columns.window + 2) / 16
    }

    fn convolution(&self) -> Convolution<'_> {
        Convolution {
            weights: self.weights.as_slice(),
            bias: self.bias.as_slice(),
            zeros: self.zeros.as_slice(),
            rows: self.rows,
            columns: self.columns,
            channels: self.channels,
            is_finite: self.is_finite,
            clamps: self.finish.clamps,
            pauses: looks::pauses(self.cost()),
        }
    }

    /// Computes some rows of the output, from row number `first` of all images on. The rows of the input under their windows
    /// must be there.
    pub fn compute(&self, image: Image<'_>, added: Option<&[f32]>, rest: &BoundPostOps<'_>, first: usize, output: &mut [f32]) {
        let row = self.columns.output * self.channels;
        if rest.is_empty() {
            return self.convolution().compute(self.isa, image, added, first, output);
        }
        // Little by little, so that the rest is done to what is in the cache.
        for (i, output) in output.chunks_mut(2 * row).enumerate() {
            let first = first + 2 * i;
            self.convolution().compute(self.isa, image, added, first, output);
            rest.apply(first * row, output);
        }
    }
}

/// One input channel for each output channel, with vectors along the channels.
pub static DEPTHWISE: Implementation = Implementation { name: "conv.depthwise", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let op = problem.conv2d()?;
    let desc = desc(op, problem.input(op.input).shape, problem, target)?;
    Ok(Box::new(move || {
        let kernel = desc.build();
        let consumed = kernel.finish.consumed_beside(op.filter);
        let fuses = kernel.finish.is_whole;
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}

/// What is decided before anything is packed.
pub struct DepthwiseDesc<'a> {
    isa: &'static Isa,
    input: OperandId,
    filter: Filter<'a>,
    pub finish: ConvEpilogue,
    batches: usize,
    rows: Axis,
    columns: Axis,
    channels: usize,
}

/// A depthwise convolution of an image of that shape, also as a part of another kernel.
pub fn desc<'a>(op: &Conv2d, input: &[usize], problem: &Problem<'a>, target: &Target) -> Result<DepthwiseDesc<'a>, Reject> {
    let (filter, [outputs, of_group, height, width]) = Filter::of(op, problem)?;
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let is_depthwise = of_group == 1 && op.groups as usize == outputs && input[3] == outputs;
    require(is_depthwise, "not one input channel for each output channel")?;
    // Vectors run along the channels; with a single one the general kernel, whose vectors run along the filter, is far
    // ahead.
    require(outputs > 1, "a single channel")?;
    let finish = ConvEpilogue::new(problem, op.bias)?;
    let (rows, columns) = (axis(op, 0, input[1], height, problem), axis(op, 1, input[2], width, problem));
    Ok(DepthwiseDesc { isa: target.isa, input: op.input, filter, finish, batches: input[0], rows, columns, channels: outputs })
}

impl DepthwiseDesc<'_> {
    pub fn build(self) -> Depthwise {
        let DepthwiseDesc { isa, input, filter, mut finish, batches, rows, columns, channels } = self;
        let distance = channels + MARGIN;
        let weights = AlignedBuffer::packed(&[distance], rows.window * columns.window * distance, |weights| {
            for (tap, numbers) in weights.chunks_exact_mut(distance).enumerate() {
                let number = |o| filter.at([o, 0, tap / columns.window, tap % columns.window]);
                numbers[..channels].iter_mut().enumerate().for_each(|(o, to)| *to = number(o));
            }
        });
        let mut bias = take(&mut finish.bias);
        bias.resize(distance, 0.0);
        let bias = AlignedBuffer::row(&bias);
        let zeros = AlignedBuffer::zeros(columns.input * channels);
        let is_finite = filter.is_finite();
        Depthwise { isa, input, weights, bias, finish, batches, rows, columns, channels, is_finite, zeros }
    }
}
