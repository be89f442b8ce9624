//! Convolutions of float32 with few output channels: with the channels last their vectors would be mostly empty. The rows of the
//! input are copied, one after the other, into planes of the channels that have room for those under a window, and vectors run
//! along the pixels of a row.
//!
//! With a stride, every so many pixels lie beside each other in a plane (a *phase*), so that a vector reads consecutive ones.
#![allow(unsafe_code)]

use super::conv::{Filter, axis};
use super::conv_epilogue::{ConvEpilogue, Rest};
use super::isa::Isa;
use super::packing::interleave;
use super::tile::Tiles;
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Accepted, AlignedBuffer, Built, Implementation, Kernel, Problem, SharedOutput, Target, require, with_scratch};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::layout::InputOperandLayout;
use std::ops::Range;

/// The most output channels.
const MOST_OUTPUTS: usize = 12;
/// AlignedBuffer of planes that a job works on: they stay in a core's second-level cache.
const AT_ONCE: usize = 64 << 10;
/// Beyond so many, the rows under a window lie too far apart to be kept.
const MOST: usize = 8 * AT_ONCE;
/// The most pixels that are computed together, and numbers behind a line that they may read.
const WIDEST: usize = 64;

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
    sizes: Sizes,
}

#[derive(Clone, Copy, Debug)]
struct Sizes {
    batches: usize,
    channels: usize,
    outputs: usize,
    /// As many as a kernel has.
    padded: usize,
    rows: Axis,
    columns: Axis,
    /// Rows and columns of the output in a job.
    height: usize,
    width: usize,
}

impl Sizes {
    fn down(&self) -> usize {
        self.rows.output.div_ceil(self.height)
    }

    fn across(&self) -> usize {
        self.columns.output.div_ceil(self.width)
    }

    /// Columns of the input under the windows of so many of the output.
    fn reach(&self, width: usize) -> usize {
        (width - 1) * self.columns.stride + (self.columns.window - 1) * self.columns.dilation + 1
    }

    /// AlignedBuffer of a phase of a line.
    fn line(&self) -> usize {
        self.reach(self.width).div_ceil(self.columns.stride) + WIDEST
    }

    /// See [`FewOutputs::places`].
    fn places(&self) -> Vec<usize> {
        let Axis { window, stride, dilation, .. } = self.columns;
        (0..window).map(|tap| tap * dilation % stride * self.line() + tap * dilation / stride).collect()
    }

    /// Rows of the input that planes have room for: those under a window.
    fn covered(&self) -> usize {
        (self.rows.window - 1) * self.rows.dilation + 1
    }

    /// AlignedBuffer of the planes.
    fn numbers(&self) -> usize {
        self.channels * self.covered() * self.columns.stride * self.line()
    }
}

impl Kernel for FewOutputs {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.sizes.outputs, arguments);
        let output = SharedOutput::new(arguments.output().elements::<f32>());
        let Sizes { batches, channels, outputs, rows, columns, height, width, .. } = self.sizes;
        assert_eq!(image.len(), batches * rows.input * columns.input * channels);
        let (down, across) = (self.sizes.down(), self.sizes.across());
        let cost = batches * rows.output * columns.output * outputs * channels * rows.window * columns.window / 32;
        let length = self.sizes.numbers();
        for_each_job(batches * down * across, cost, |job| {
            let (batch, top, left) = (job / across / down, job / across % down * height, job % across * width);
            with_scratch(length, |planes| {
                let job = Job {
                    of: self,
                    image: &image[batch * rows.input * columns.input * channels..][..rows.input * columns.input * channels],
                    added,
                    rest: &rest,
                    output: &output,
                    batch,
                    rows: top..rows.output.min(top + height),
                    columns: left..columns.output.min(left + width),
                    planes,
                };
                with_vectors(self.isa, job);
            });
        });
    }

    fn bytes(&self) -> usize {
        self.weights.bytes() + self.finish.bytes()
    }
}

/// Some rows and columns of the output.
struct Job<'a> {
    of: &'a FewOutputs,
    image: &'a [f32],
    added: Option<&'a [f32]>,
    rest: &'a Rest<'a>,
    output: &'a SharedOutput<'a>,
    batch: usize,
    rows: Range<usize>,
    columns: Range<usize>,
    planes: &'a mut [f32],
}

impl OnVectors for Job<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let wide = V::LANES == 16;
        match self.of.sizes.padded {
            1 => self.compute::<V, 1, 1, 4>(),
            2 => self.compute::<V, 2, 2, 4>(),
            3 if wide => self.compute::<V, 3, 3, 4>(),
            3 => self.compute::<V, 3, 3, 3>(),
            4 if wide => self.compute::<V, 4, 4, 4>(),
            4 => self.compute::<V, 4, 4, 3>(),
            6 if wide => self.compute::<V, 6, 6, 3>(),
            6 => self.compute::<V, 6, 6, 2>(),
            8 if wide => self.compute::<V, 8, 8, 3>(),
            8 => self.compute::<V, 8, 4, 3>(),
            _ if wide => self.compute::<V, 12, 12, 2>(),
            _ => self.compute::<V, 12, 6, 2>(),
        }
    }
}

impl Job<'_> {
    /// Where the planes have a row under the windows, counted with the padding above.
    fn place(&self, row: usize) -> usize {
        row % self.of.sizes.covered()
    }

    /// Copies rows under the windows, counted with the padding above, into the planes. Rows in the padding are left out.
    #[inline(always)]
    fn fill(&mut self, wanted: Range<usize>) {
        let sizes = self.of.sizes;
        let Sizes { channels, rows, columns, .. } = sizes;
        let (line, stride) = (sizes.line(), columns.stride);
        let phases = stride * line;
        let distance = sizes.covered() * phases;
        let reach = sizes.reach(self.columns.len());
        // Columns of the input: those there are, and how many numbers of the padding stand before them.
        let first = (self.columns.start * stride) as isize - columns.padding as isize;
        let before = first.min(0).unsigned_abs().min(reach);
        let from = first.max(0) as usize;
        let count = columns.input.saturating_sub(from).min(reach - before);
        for row in wanted {
            let place = self.place(row) * phases;
            let Some(row) = row.checked_sub(rows.padding).filter(|&row| row < rows.input) else { continue };
            let image = &self.image[row * columns.input * channels..][..columns.input * channels];
            if stride == 1 {
                for plane in self.planes.chunks_exact_mut(distance) {
                    let plane = &mut plane[place..place + phases];
                    plane[..before].fill(0.0);
                    plane[before + count..].fill(0.0);
                }
                if channels == 1 {
                    self.planes[place + before..][..count].copy_from_slice(&image[from..from + count]);
                } else if count > 0 {
                    let pixels = &image[from * channels..(from + count) * channels];
                    interleave(pixels, channels, count, channels, &mut self.planes[place + before..], distance);
                }
                continue;
            }
            for channel in 0..channels {
                let plane = &mut self.planes[channel * distance + place..][..phases];
                plane.fill(0.0);
                for (phase, to) in plane.chunks_exact_mut(line).enumerate() {
                    // The first column that is in this phase.
                    let skipped = (phase + stride - before % stride) % stride;
                    if skipped < count {
                        let numbers = image[(from + skipped) * channels + channel..].iter().step_by(stride * channels);
                        let to = to[(before + skipped) / stride..].iter_mut().take((count - skipped).div_ceil(stride));
                        to.zip(numbers).for_each(|(to, from)| *to = *from);
                    }
                }
            }
        }
    }

    /// Tiles are VECTORS vectors of pixels, and TOGETHER of the outputs: as many sums as there are registers.
    #[inline(always)]
    fn compute<V: Vector, const OUTPUTS: usize, const TOGETHER: usize, const VECTORS: usize>(&mut self) {
        const { assert!(OUTPUTS.is_multiple_of(TOGETHER) && TOGETHER > 0) };
        let Sizes { outputs, rows, columns, .. } = self.of.sizes;
        let mut sums = [[0f32; WIDEST]; OUTPUTS];
        let mut filled = 0;
        for y in self.rows.clone() {
            let under = y * rows.stride..y * rows.stride + self.of.sizes.covered();
            self.fill(under.start.max(filled)..under.end);
            filled = under.end;
            let mut x = 0;
            while x < self.columns.len() {
                let left = self.columns.len() - x;
                let is_wide = left > (VECTORS - 1) * V::LANES;
                for (i, sums) in sums.chunks_exact_mut(TOGETHER).enumerate() {
                    let sums = sums.try_into().expect("a chunk of TOGETHER");
                    if is_wide {
                        self.tile::<V, OUTPUTS, TOGETHER, VECTORS>(y, x, i * TOGETHER, sums);
                    } else {
                        self.tile::<V, OUTPUTS, TOGETHER, 1>(y, x, i * TOGETHER, sums);
                    }
                }
                let count = left.min(if is_wide { VECTORS * V::LANES } else { V::LANES });
                let place = (self.batch * rows.output + y) * columns.output + self.columns.start + x;
                let (place, length) = (place * outputs, count * outputs);
                // SAFETY: inside the output (`from` asserts that); the pixels are this job's.
                let numbers = unsafe { std::slice::from_raw_parts_mut(self.output.from(place, place + length), length) };
                if OUTPUTS == 1 {
                    numbers.copy_from_slice(&sums[0][..count]);
                } else {
                    interleave(sums.as_flattened(), WIDEST, outputs, count, numbers, outputs);
                }
                self.finish::<V>(place, numbers);
                x += count;
            }
        }
    }

    /// Sums of VECTORS vectors of pixels from column `x` of the job on, of TOGETHER outputs from number `first` on.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn tile<V: Vector, const OUTPUTS: usize, const TOGETHER: usize, const VECTORS: usize>(
        &self,
        y: usize,
        x: usize,
        first: usize,
        results: &mut [[f32; WIDEST]; TOGETHER],
    ) {
        let sizes = self.of.sizes;
        let Sizes { channels, rows, columns, .. } = sizes;
        let (line, covered) = (sizes.line(), sizes.covered());
        let phases = columns.stride * line;
        let taps = rows.taps(y);
        let (down, across) = (columns.window * OUTPUTS, rows.window * columns.window * OUTPUTS);
        assert!(self.planes.len() >= channels * covered * phases && x + VECTORS * V::LANES <= sizes.width + WIDEST);
        assert!(self.of.weights.as_slice().len() == channels * across && VECTORS * V::LANES <= WIDEST);
        assert!(first + TOGETHER <= OUTPUTS && OUTPUTS <= MOST_OUTPUTS && self.of.places.len() == columns.window);
        let mut sums = [[V::set(0.0); VECTORS]; TOGETHER];
        for (o, sums) in sums.iter_mut().enumerate() {
            *sums = [V::set(self.of.bias[first + o]); VECTORS];
        }
        for tap_y in taps {
            let row = self.place(y * rows.stride + tap_y * rows.dilation);
            for channel in 0..channels {
                // SAFETY: the planes have room for the row, and the numbers lie `WIDEST` or more before the end of their line:
                // the last column that is wanted lies at `reach` - 1 or before, and vectors reach less than `WIDEST` further.
                // The weights have OUTPUTS numbers for every tap of every channel. (Both lengths were asserted.)
                unsafe {
                    let from = self.planes.as_ptr().add((channel * covered + row) * phases + x);
                    let mut weights = self.of.weights.as_slice().as_ptr().add(channel * across + tap_y * down + first);
                    for &place in &self.of.places {
                        let from = from.add(place);
                        let mut numbers = [V::set(0.0); VECTORS];
                        for (v, numbers) in numbers.iter_mut().enumerate() {
                            *numbers = V::load(from.add(v * V::LANES));
                        }
                        for o in 0..TOGETHER {
                            let factor = V::set(*weights.add(o));
                            for v in 0..VECTORS {
                                sums[o][v] = numbers[v].mul_add(factor, sums[o][v]);
                            }
                        }
                        weights = weights.add(OUTPUTS);
                    }
                }
            }
        }
        // A copy, which may lie in memory: the sums themselves would otherwise do so in the loop above too.
        let sums = sums;
        for (result, sums) in results.iter_mut().zip(&sums) {
            for (v, sum) in sums.iter().enumerate() {
                // SAFETY: VECTORS vectors are no more than `WIDEST` numbers (asserted).
                unsafe { sum.store(result.as_mut_ptr().add(v * V::LANES)) }
            }
        }
    }

    /// Does what is fused to some pixels.
    #[inline(always)]
    fn finish<V: Vector>(&self, place: usize, numbers: &mut [f32]) {
        let limits = self.of.finish.limits;
        if limits != Default::default() || self.added.is_some() {
            let added = self.added.map(|added| &added[place..place + numbers.len()]);
            for first in (0..numbers.len()).step_by(V::LANES) {
                let count = V::LANES.min(numbers.len() - first);
                // SAFETY: so many numbers are left, of both.
                unsafe {
                    let to = numbers.as_mut_ptr().add(first);
                    let added = added.map(|added| V::load_first(added.as_ptr().add(first), count));
                    limits.finish(V::load_first(to, count), added).store_first(to, count);
                }
            }
        }
        self.rest.finish(place, numbers);
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
    let mut sizes = Sizes { batches: input.shape[0], channels, outputs, padded, rows, columns, height: 1, width: columns.output };
    // As wide as there is room for.
    while sizes.numbers() > AT_ONCE && sizes.width > 4 * WIDEST {
        sizes.width = sizes.width.div_ceil(2).next_multiple_of(WIDEST);
    }
    require(sizes.numbers() <= MOST, "more numbers under a window than a job copies")?;
    Ok(Box::new(move || {
        let mut weights = AlignedBuffer::zeroed(channels * height * width * padded);
        for (place, numbers) in weights.as_mut_slice().chunks_exact_mut(padded).enumerate() {
            let (channel, tap) = (place / (height * width), place % (height * width));
            for (o, number) in numbers[..outputs].iter_mut().enumerate() {
                *number = filter.at([o, channel, tap / width, tap % width]);
            }
        }
        let mut bias = [0.0; MOST_OUTPUTS];
        bias[..finish.bias.len()].copy_from_slice(&finish.bias);
        // The first rows under a job's windows are copied for the job before too.
        let jobs = threads * 4;
        if rows.output == 1 {
            sizes.width = sizes.width.min(columns.output.div_ceil(jobs).next_multiple_of(WIDEST));
        }
        sizes.height = rows.output.div_ceil(jobs.div_ceil(sizes.batches * sizes.across())).max(1);
        let consumed = finish.consumed_beside(op.filter);
        let fuses = finish.is_whole;
        let kernel = FewOutputs { isa, input: op.input, weights, bias, places: sizes.places(), finish, sizes };
        Ok(Built { kernel: Box::new(kernel), consumed, fuses })
    }))
}
