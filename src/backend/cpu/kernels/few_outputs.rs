//! Convolutions of float32 with few output channels: with the channels last their vectors would be mostly empty. The rows of the
//! input are copied, one after the other, into planes of the channels that have room for those under a window, and vectors run
//! along the pixels of a row.
//!
//! With a stride, every so many pixels lie beside each other in a plane (a *phase*), so that a vector reads consecutive ones.
#![allow(unsafe_code)]

use super::conv::{Filter, axis};
use super::conv_epilogue::ConvEpilogue;
use super::{
    Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, SharedOutput, Subnormals, Target, require, with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout;
use crate::looks;
use webnn_kernels::conv::few_outputs::{Convolution, Job, MOST_OUTPUTS, Tiling, WIDEST};
use webnn_kernels::conv::microkernels::Tiles;
use webnn_kernels::isa::Isa;

/// Numbers of planes that a job works on: they stay in a core's second-level cache.
const AT_ONCE: usize = 64 << 10;
/// Beyond so many, the rows under a window lie too far apart to be kept.
const MOST: usize = 8 * AT_ONCE;
#[derive(Debug)]
struct FewOutputs {
    isa: &'static Isa,
    input: OperandId,
    /// For each channel, row and column of the window a number for each output, and zeros up to `padded`.
    weights: AlignedBuffer,
    bias: [f32; MOST_OUTPUTS],
    /// Where in a plane's row the numbers under each column of the window begin.
    places: Vec<usize>,
    finish: ConvEpilogue,
    tiling: Tiling,
}

impl Kernel for FewOutputs {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.tiling.outputs, arguments);
        let output = SharedOutput::new(arguments.output().elements::<f32>());
        let Tiling { batches, channels, rows, columns, height, width, .. } = self.tiling;
        assert_eq!(image.len(), batches * rows.input * columns.input * channels);
        let (down, across) = (self.tiling.down(), self.tiling.across());
        let cost = self.tiling.cost(batches * rows.output * columns.output);
        let pauses = looks::pauses(self.tiling.cost(height * width));
        let length = self.tiling.numbers();
        for_each_job(batches * down * across, cost, |job| {
            let (batch, top, left) = (job / across / down, job / across % down * height, job % across * width);
            with_scratch(length, |planes| {
                let job = Job {
                    of: Convolution {
                        tiling: self.tiling,
                        weights: self.weights.as_slice(),
                        bias: &self.bias,
                        places: &self.places,
                        clamps: self.finish.clamps,
                    },
                    image: &image[batch * rows.input * columns.input * channels..][..rows.input * columns.input * channels],
                    added,
                    rest: &rest,
                    output: &output,
                    batch,
                    rows: top..rows.output.min(top + height),
                    columns: left..columns.output.min(left + width),
                    planes,
                    pauses,
                };
                // SAFETY: jobs have different rows or columns of the output.
                unsafe { job.compute(self.isa) }
            });
        });
    }

    fn bytes(&self) -> usize {
        self.weights.bytes() + self.finish.bytes()
    }
}

/// Few output channels, where vectors along the pixels of a row are fuller than vectors along the channels.
pub static FEW_OUTPUTS: Implementation = Implementation { name: "conv.few_outputs", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let (op, isa, threads) = (problem.conv2d()?, target.isa, target.threads);
    let (filter, [outputs, channels, height, width]) = Filter::of(op, problem)?;
    let input = problem.input(op.input);
    let lanes = Tiles::of(isa).lanes;
    let pixels = problem.output.shape[2];
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    require(op.groups == 1, "several groups")?;
    require(outputs <= MOST_OUTPUTS, "too many output channels")?;
    require(channels * height * width >= target.tuning.few_outputs_products, "too few products for each output")?;
    // Parts of the vectors that are used in this way and in the other.
    let (along, across) = (pixels * outputs.next_multiple_of(lanes), outputs * pixels.next_multiple_of(lanes));
    require(along * 5 > across * 6, "vectors along the channels are as full")?;
    require(filter.is_finite(), "weights that are not finite")?;
    let finish = ConvEpilogue::new(problem, op.bias)?;
    let padded = [1, 2, 3, 4, 6, 8].into_iter().find(|&count| outputs <= count).unwrap_or(MOST_OUTPUTS);
    let (rows, columns) = (axis(op, 0, input.shape[1], height, problem), axis(op, 1, input.shape[2], width, problem));
    let mut tiling =
        Tiling { batches: input.shape[0], channels, outputs, padded, rows, columns, height: 1, width: columns.output };
    // As wide as there is room for.
    while tiling.numbers() > AT_ONCE && tiling.width > 4 * WIDEST {
        tiling.width = tiling.width.div_ceil(2).next_multiple_of(WIDEST);
    }
    require(tiling.numbers() <= MOST, "more numbers under a window than a job copies")?;
    Ok(Box::new(move || {
        let weights = AlignedBuffer::packed(&[padded], channels * height * width * padded, |weights| {
            for (place, numbers) in weights.chunks_exact_mut(padded).enumerate() {
                let (channel, tap) = (place / (height * width), place % (height * width));
                for (o, number) in numbers[..outputs].iter_mut().enumerate() {
                    *number = filter.at([o, channel, tap / width, tap % width]);
                }
            }
        });
        let mut bias = [0.0; MOST_OUTPUTS];
        bias[..finish.bias.len()].copy_from_slice(&finish.bias);
        // The first rows under a job's windows are copied for the job before too.
        let jobs = threads * 4;
        if rows.output == 1 {
            tiling.width = tiling.width.min(columns.output.div_ceil(jobs).next_multiple_of(WIDEST));
        }
        tiling.height = rows.output.div_ceil(jobs.div_ceil(tiling.batches * tiling.across())).max(1);
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let kernel = FewOutputs { isa, input: op.input, weights, bias, places: tiling.places(), finish, tiling };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}
