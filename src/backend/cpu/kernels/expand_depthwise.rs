//! A convolution of single pixels and the depthwise one that reads what it makes, as in inverted residual blocks, by bands of
//! rows: what is made for a band stays in a core's second-level cache until it has been read. A depthwise convolution that
//! makes several channels of each is one that reads copies of the channels, and one of bytes reads what they are dequantized to,
//! made in the same way.

use super::conv::{Filter, spread};
use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::depthwise;
use super::depthwise::Depthwise;
use super::panels::{Elements, Panels};
use super::plain::Plain;
use super::quantize::{Quantized, byte};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Subnormals, Target, TensorDesc, require, with_scratch};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{Arguments, View};
use crate::compiler::after_inputs;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{ActivationKind, DequantizeLinear};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{DataType, Op, OperandId};
use crate::looks::Progress;
use smallvec::{SmallVec, smallvec};
use std::ops::Range;
use webnn_kernels::conv::microkernels::Tiles;
use webnn_kernels::depthwise::nhwc::Image;
use webnn_kernels::isa::Isa;
use webnn_kernels::quantize::{Quantize, Scale};

/// Bytes of rows between the two convolutions that a thread works on at a time: they stay in the cache, beside what comes in
/// and goes out.
const BAND_BYTES: usize = 256 << 10;
/// Rows of a band, at most.
const MOST_ROWS: usize = 8;
/// Work of a job, in nanoseconds, at most: as long as what one thread may do before it looks whether its context has ended.
const LONGEST: usize = 10_000_000;

#[derive(Debug)]
struct ExpandDepthwise {
    input: OperandId,
    first: First,
    then: Depthwise,
    /// Rows of the output in a band, and in a job.
    band: usize,
    job: usize,
    /// Rows between the two that are kept.
    kept: usize,
    quantize: Option<Quantized>,
}

/// What makes the rows between the input and the depthwise convolution.
#[derive(Debug)]
enum First {
    Products(Box<Plain>),
    /// So many copies of each of so many channels, beside each other.
    Copies {
        channels: usize,
        times: usize,
    },
    /// What bytes, of so many channels, are dequantized to.
    Dequantized {
        channels: usize,
        by: DequantizeLinear,
    },
}

impl First {
    /// Elements of a pixel that it reads.
    fn channels(&self) -> usize {
        match self {
            First::Products(plain) => plain.panels.depth,
            First::Copies { channels, .. } | First::Dequantized { channels, .. } => *channels,
        }
    }

    /// What makes rows in a run of an image, of so many numbers for each pixel.
    fn making<'a, 'b: 'a>(&'a self, image: View<'b>, outputs: usize, arguments: &Arguments<'b, '_>) -> Making<'a> {
        match self {
            First::Products(plain) => Making::Products(image.elements(), plain, plain.finish.rest(plain.isa, outputs, arguments)),
            First::Copies { times, .. } => Making::Copies(image.elements(), *times),
            First::Dequantized { by, .. } => {
                let scale = arguments.input(by.scale).elements::<f32>()[0];
                Making::Dequantized(image, scale, byte(arguments.input(by.zero_point)))
            }
        }
    }

    fn bytes(&self) -> usize {
        match self {
            First::Products(plain) => plain.bytes(),
            First::Copies { .. } | First::Dequantized { .. } => 0,
        }
    }
}

/// See [`First::making`].
enum Making<'a> {
    /// With what is left to be done to them.
    Products(&'a [f32], &'a Plain, BoundPostOps<'a>),
    Copies(&'a [f32], usize),
    /// With the scale and the zero point.
    Dequantized(View<'a>, f32, i32),
}

impl Making<'_> {
    /// From these elements of the image.
    fn compute(&self, isa: &Isa, from: Range<usize>, output: &mut [f32]) {
        match self {
            Making::Products(image, plain, rest) => plain.compute(&image[from], rest, output),
            Making::Copies(image, 2) => {
                output.as_chunks_mut::<2>().0.iter_mut().zip(&image[from]).for_each(|(copies, x)| *copies = [*x; 2]);
            }
            Making::Copies(image, times) => {
                output.chunks_exact_mut(*times).zip(&image[from]).for_each(|(copies, x)| copies.fill(*x));
            }
            &Making::Dequantized(image, scale, zero) => match image.data_type {
                DataType::Int8 => Scale { integers: &image.elements::<i8>()[from], numbers: output, scale, zero }.compute(isa),
                _ => Scale { integers: &image.elements::<u8>()[from], numbers: output, scale, zero }.compute(isa),
            },
        }
    }
}

impl Kernel for ExpandDepthwise {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let making = self.first.making(arguments.input(self.input), self.then.channels, arguments);
        let added = self.then.finish.added(arguments);
        let rest = self.then.rest(arguments);
        let steps = self.quantize.as_ref().map(|quantize| quantize.steps(arguments));
        let row = self.then.columns.output * self.then.channels;
        let (unit, cost) = (self.job * row, self.job * self.cost());
        let Some(steps) = steps else {
            let output = arguments.output().elements::<f32>();
            return for_each_piece(output, unit, cost, |job, output| {
                let mut left = output;
                self.bands(job, left.len() / row, &making, |number, count, image| {
                    let band;
                    (band, left) = std::mem::take(&mut left).split_at_mut(count * row);
                    self.then.compute(image, added, &rest, number, band);
                });
            });
        };
        for_each_piece(&mut *arguments.output().bytes, unit, cost, |job, mut left| {
            with_scratch(self.band * row, |numbers| {
                self.bands(job, left.len() / row, &making, |number, count, image| {
                    let bytes;
                    (bytes, left) = std::mem::take(&mut left).split_at_mut(count * row);
                    let numbers = &mut numbers[..count * row];
                    self.then.compute(image, added, &rest, number, numbers);
                    Quantize { numbers, bytes, steps }.compute(self.then.isa);
                });
            });
        });
    }

    fn bytes(&self) -> usize {
        self.first.bytes() + self.then.bytes()
    }
}

impl ExpandDepthwise {
    /// Calls `body` with the number of the first row of each band of a job of so many rows, how many rows it has, and the image
    /// that they are made from.
    fn bands(&self, job: usize, rows: usize, making: &Making<'_>, mut body: impl FnMut(usize, usize, Image<'_>)) {
        with_scratch(self.kept * self.between(), |kept| {
            let (mut number, end) = (job * self.job, job * self.job + rows);
            let mut there = 0..0;
            let progress = Progress::of(rows * self.cost());
            while number < end {
                // The rows of a band, all of them of one image.
                let (batch, y) = (number / self.then.rows.output, number % self.then.rows.output);
                let count = self.band.min(self.then.rows.output - y).min(end - number);
                let needed = self.needed(batch, y..y + count);
                self.expand(needed.start.max(there.end)..needed.end, making, kept);
                there = needed;
                body(number, count, Image { numbers: kept, rows: self.kept });
                progress.made(count * self.cost());
                number += count;
            }
        });
    }

    /// Numbers of a row between the two.
    fn between(&self) -> usize {
        self.then.columns.input * self.then.channels
    }

    /// About how many nanoseconds a row of the output takes.
    fn cost(&self) -> usize {
        let window = self.then.rows.window * self.then.columns.window;
        let of_first = match &self.first {
            First::Products(plain) => self.then.rows.stride * self.between() * plain.panels.depth / 64,
            First::Copies { .. } | First::Dequantized { .. } => self.then.columns.output * self.then.channels * window / 16,
        };
        of_first.max(1)
    }

    /// The rows, by their numbers among those of all images, that are under the windows of some rows of the output.
    fn needed(&self, batch: usize, rows: Range<usize>) -> Range<usize> {
        let axis = &self.then.rows;
        let top = (rows.start * axis.stride).saturating_sub(axis.padding).min(axis.input);
        let end = (rows.end - 1) * axis.stride + (axis.window - 1) * axis.dilation + 1;
        let end = end.saturating_sub(axis.padding).clamp(top, axis.input);
        batch * axis.input + top..batch * axis.input + end
    }

    /// Makes some rows, where they are kept.
    fn expand(&self, rows: Range<usize>, making: &Making<'_>, kept: &mut [f32]) {
        let (from, to) = (self.then.columns.input * self.first.channels(), self.between());
        let mut first = rows.start;
        while first < rows.end {
            let place = first % self.kept;
            let count = (rows.end - first).min(self.kept - place);
            making.compute(self.then.isa, first * from..(first + count) * from, &mut kept[place * to..(place + count) * to]);
            first += count;
        }
    }
}

/// A convolution of single pixels that expands an image, and the depthwise one that reads it, band by band.
pub static EXPAND_DEPTHWISE: Implementation = Implementation { name: "conv.expand_depthwise", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let ([Op::Conv2d(first), between @ ..], Op::Conv2d(then)) = (problem.prologue, problem.op) else {
        return Err(Reject("no convolution before a conv2d"));
    };
    let input = problem.input(first.input);
    let (filter, [outputs, channels, height, width]) = Filter::of(first, problem)?;
    require(first.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let is_pointwise = (first.groups, [height, width], first.strides, first.padding) == (1, [1, 1], [1; 2], [0; 4]);
    require(is_pointwise, "a first convolution of more than single pixels")?;
    require(channels >= target.tuning.pointwise_channels, "few channels before")?;
    let mut shape = input.shape.to_vec();
    shape[3] = outputs;
    let bytes = shape.iter().product::<usize>() * size_of::<f32>();
    require(bytes >= target.tuning.expand_bytes, "little between the convolutions")?;
    require(between.iter().all(is_simple) || matches!(between, [Op::Swish(_)]), "something slow between the convolutions")?;
    let fused = after_inputs(between.to_vec(), problem.inputs.len());
    let expanded = TensorDesc { shape: &shape, order: None, ..problem.output };
    let mut finish = ConvEpilogue::new(&Problem { prologue: &[], fused: &fused, output: expanded, ..*problem }, first.bias)?;
    require(finish.is_whole && finish.added.is_none(), "something between the convolutions that is not fused")?;
    let depthwise = depthwise::desc(then, &shape, problem, target)?;
    let Target { isa, threads, .. } = *target;
    Ok(Box::new(move || {
        let tiles = Tiles::of(isa);
        let [column, step, ..] = filter.strides;
        let elements = Elements { elements: filter.elements, length: channels, step, column };
        let panels = Panels::pack(tiles, &elements, std::iter::once(0), outputs);
        let bias = spread(&mut finish.bias, 1, tiles.step);
        let mut consumed = finish.consumed_beside(first.filter);
        consumed.push(then.filter.0 as usize);
        let plain = Plain { isa, tiles, panels, bias, finish };
        let first_layer = First::Products(Box::new(plain));
        Ok(ExpandDepthwise::build(first.input, first_layer, depthwise.build(), None, consumed, threads))
    }))
}

/// What is done to each number on its way in a few instructions.
pub fn is_simple(op: &Op) -> bool {
    match op {
        Op::Clamp(_) | Op::LeakyRelu(_) => true,
        Op::Activation(op) => matches!(op.kind, ActivationKind::Relu | ActivationKind::HardSwish),
        _ => false,
    }
}

/// A depthwise convolution with several outputs for each channel, which is copied as often before.
pub static DEPTHWISE_MULTIPLIER: Implementation = Implementation { name: "conv.depthwise_multiplier", accept: accept_multiplier };

fn accept_multiplier<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let op = problem.conv2d()?;
    let shape = problem.input(op.input).shape;
    let (_, [outputs, of_group, ..]) = Filter::of(op, problem)?;
    let (channels, times) = (op.groups as usize, outputs / op.groups as usize);
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    require(of_group == 1 && channels >= 2 && shape[3] == channels, "not one input channel for each group")?;
    require(times >= 2, "one output channel for each group")?;
    let copied = Conv2d { groups: outputs as u32, ..op.clone() };
    let depthwise = depthwise::desc(&copied, &[shape[0], shape[1], shape[2], outputs], problem, target)?;
    let threads = target.threads;
    Ok(Box::new(move || {
        let first = First::Copies { channels, times };
        let consumed = smallvec![op.filter.0 as usize];
        Ok(ExpandDepthwise::build(op.input, first, depthwise.build(), None, consumed, threads))
    }))
}

/// The kernel for a depthwise convolution of what bytes are dequantized to, which quantizes what it makes if that is wanted. The
/// plan is that of the numbers; `consumed` are the operands that the filter was made from.
pub fn build_dequantized(
    by: &DequantizeLinear,
    depthwise: depthwise::DepthwiseDesc<'_>,
    quantize: Option<Quantized>,
    consumed: SmallVec<[usize; 2]>,
    threads: usize,
) -> Built {
    let depthwise = depthwise.build();
    let first = First::Dequantized { channels: depthwise.channels, by: by.clone() };
    ExpandDepthwise::build(by.input, first, depthwise, quantize, consumed, threads)
}

impl ExpandDepthwise {
    /// `consumed` are the operands that the two have packed, apart from those of what is fused with the second.
    fn build(
        input: OperandId,
        first: First,
        depthwise: Depthwise,
        quantize: Option<Quantized>,
        mut consumed: SmallVec<[usize; 2]>,
        threads: usize,
    ) -> Built {
        let rows = depthwise.rows;
        let reach = (rows.window - 1) * rows.dilation + 1;
        let fit = BAND_BYTES / (depthwise.columns.input * depthwise.channels * 4);
        let band = (fit.saturating_sub(reach) / rows.stride + 1).min(MOST_ROWS);
        // Two rows are computed together.
        let band = if band > 1 { band / 2 * 2 } else { band };
        let kept = ((band - 1) * rows.stride + reach).min(depthwise.batches * rows.input);
        let all = depthwise.batches * rows.output;
        consumed.extend(depthwise.finish.consumed.iter().copied());
        let fuses = depthwise.finish.is_whole;
        let mut kernel = ExpandDepthwise { input, first, then: depthwise, band, job: all, kept, quantize };
        // What is under two jobs is made twice, so there are few.
        let jobs = threads.max((all * kernel.cost()).div_ceil(LONGEST));
        kernel.job = all.div_ceil(jobs).next_multiple_of(2);
        Built { kernel: Box::new(kernel), consumed, fuses }
    }
}
