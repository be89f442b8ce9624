//! Convolutions of float32 with a window of 3 x 3 and stride 1, by the algorithm of Winograd as Lavin and Gray use it
//! ("Fast Algorithms for Convolutional Neural Networks", 2015): a block of the output needs one product for each *frequency*
//! of the transformed input, where the direct way needs nine for each of its pixels.
//!
//! With a dilation, every so many rows or columns are an image of their own (a *phase*), which a block lies in.
//!
//! Of a block that reaches beyond the output only what is inside is computed, from fewer frequencies.
//!
//! A block that comes out infinite or not a number is computed again directly: the transforms let such numbers, and those
//! that are almost too large, reach pixels that they must not.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

mod division;

use self::division::{Demand, Division};
use super::bf16;
use super::conv::{Filter, axis, spread};
use super::conv_epilogue::{BoundPostOps, ConvEpilogue};
use super::panels::Panels;
use super::pointwise::{Heights, Next};
use super::product::cost;
use super::transform::{Transform, Transform2, Transform4};
use super::workspace::{Workspace, Workspaces};
use super::{
    Accepted, AlignedBuffer, Bf16Support, Built, Implementation, Kernel, Problem, SharedOutput, Subnormals, Target, require,
    with_scratch,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::InputOperandLayout;
use crate::looks::{self, Progress};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicBool;
use webnn_kernels::conv::microkernels::Tiles;
use webnn_kernels::isa::Isa;
use webnn_kernels::output::StoredOutput;
use webnn_kernels::winograd::blocks::{BlockGrid, Order};
use webnn_kernels::winograd::filter::FilterRows;
use webnn_kernels::winograd::input::ToFrequencies;
use webnn_kernels::winograd::output::FromFrequencies;
use webnn_kernels::winograd::{Compiled, LONGEST, distance};

/// Bytes of a frequency's filter that tile after tile passes over at once. Of a larger one, panel after panel comes from
/// memory while tiles pass over the one before.
const KEPT: usize = 32 << 10;

#[derive(Debug)]
struct Winograd<T> {
    transform: PhantomData<T>,
    isa: &'static Isa,
    tiles: &'static Tiles,
    input: OperandId,
    /// The transformed filter, a matrix of channels x outputs for each frequency.
    frequencies: Vec<Panels>,
    bias: AlignedBuffer,
    finish: ConvEpilogue,
    grid: BlockGrid,
    /// Blocks that are computed together.
    jobs: Vec<Order>,
    /// How many these are at most.
    together: usize,
    /// Into how many parts the channels, the frequencies and the outputs of a job are divided, if all threads work on it.
    parts: usize,
}

impl<T: Compiled> Kernel for Winograd<T> {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        let added = self.finish.added(arguments);
        let rest = self.finish.rest(self.isa, self.grid.outputs, arguments);
        let output = arguments.output();
        let length = output.element_count();
        let output = &output.stored();
        let BlockGrid { channels, outputs, .. } = self.grid;
        assert_eq!(image.len(), self.grid.batches * self.grid.rows.input * self.grid.columns.input * channels);
        assert_eq!(length, self.grid.batches * self.grid.rows.output * self.grid.columns.output * outputs);
        assert!(added.is_none_or(|added| added.len() == length));
        let work = Work { image, added, rest: &rest, output };
        let cost = self.grid.blocks() * channels * outputs * T::FREQUENCIES / 64;
        match self.parts {
            1 => for_each_job(self.jobs.len(), cost, |job| self.compute(&self.jobs[job], &work)),
            _ => self.jobs.iter().for_each(|job| self.compute(job, &work)),
        }
    }

    /// In registers; what is left to be done to numbers needs them in memory.
    fn bf16_support(&self) -> Bf16Support {
        Bf16Support { stores: !self.finish.is_rest_left(), ..Bf16Support::default() }
    }

    fn bytes(&self) -> usize {
        self.frequencies.iter().map(Panels::bytes).sum::<usize>() + self.bias.bytes() + self.finish.bytes()
    }
}

impl<T: Compiled> Winograd<T> {
    /// Computes the blocks of a job, which are divided among the threads if it has several parts.
    fn compute(&self, order: &Order, work: &Work<'_>) {
        let BlockGrid { channels, outputs, padded, .. } = self.grid;
        let (from, to) = (T::FREQUENCIES * distance(self.together, channels), T::FREQUENCIES * distance(self.together, padded));
        let blocks = order.blocks().count();
        with_scratch(from + to, |scratch| {
            let (transformed, products) = scratch.split_at_mut(from);
            let (transformed, products) = (SharedOutput::new(transformed), SharedOutput::new(products));
            for_each_job(self.parts, blocks * channels, |part| {
                let channels = share(channels, self.parts, part);
                let (transform, grid, together) = (PhantomData, self.grid, self.together);
                let (image, transformed) = (work.image, &transformed);
                let work = ToFrequencies { transform, grid, together, image, order, transformed, channels };
                // SAFETY: parts have different channels of this job's numbers.
                unsafe { T::to_frequencies(self.isa, work) }
            });
            // As many parts of all frequencies, or of each some panels.
            let several = self.parts.min(T::FREQUENCIES);
            let panels = self.parts.div_ceil(T::FREQUENCIES).min(self.frequencies[0].count());
            for_each_job(several * panels, blocks * channels * outputs * T::FREQUENCIES / 64, |part| {
                let frequencies = range(T::FREQUENCIES, several, part / panels);
                let panels = range(self.frequencies[0].count(), panels, part % panels);
                self.multiply(order, &transformed, &products, frequencies, panels);
            });
            let is_finite = AtomicBool::new(true);
            for_each_job(self.parts, blocks * outputs, |part| {
                let outputs = share(outputs, self.parts, part);
                let work = FromFrequencies {
                    transform: PhantomData,
                    grid: self.grid,
                    together: self.together,
                    bias: self.bias.as_slice(),
                    clamps: self.finish.clamps,
                    order,
                    products: &products,
                    added: work.added,
                    output: work.output,
                    outputs,
                    is_finite: &is_finite,
                };
                // SAFETY: all products are made; parts have different channels, jobs different blocks of the output.
                unsafe { T::from_frequencies(self.isa, work) }
            });
            if !is_finite.into_inner() {
                self.compute_directly(order, work);
            }
            if !work.rest.is_empty() {
                for_each_job(self.parts, blocks * outputs, |part| {
                    self.finish_blocks(order, range(blocks, self.parts, part), work);
                });
            }
        });
    }

    /// At some frequencies, multiplies the channels of all blocks that need it with some panels.
    fn multiply(
        &self,
        order: &Order,
        transformed: &SharedOutput<'_>,
        products: &SharedOutput<'_>,
        frequencies: Range<usize>,
        wanted: Range<usize>,
    ) {
        let BlockGrid { channels, padded, .. } = self.grid;
        let progress = Progress::of(frequencies.len() * cost(self.together, channels, padded));
        for frequency in frequencies {
            let (panels, blocks) = (&self.frequencies[frequency], order.counts[frequency]);
            if blocks == 0 {
                continue;
            }
            let heights = Heights::new(self.tiles, blocks);
            let (from, to) = (frequency * distance(self.together, channels), frequency * distance(self.together, padded));
            let numbers = transformed.from(from, from + blocks * channels).cast_const();
            // Many tiles pass over one panel after the other, or each over all panels at once.
            let at_once = if panels.bytes() > KEPT { 1 } else { wanted.len() };
            for first_panel in wanted.clone().step_by(at_once) {
                let some = first_panel..first_panel + at_once;
                let next = self.after(frequency, &some, &wanted);
                // Whole panels, which come first, fetch it.
                let steps = channels * panels.parts(some.clone()).next().map_or(1, |panel| panel.several);
                let ahead_step = next.len().div_ceil(heights.tiles * steps);
                for panel in panels.parts(some) {
                    assert!(panel.first + panel.width <= padded);
                    let products = products.from(to + panel.first, to + blocks * padded);
                    let mut task = panel.task([1, channels], &[], (products, padded));
                    (task.ahead.start, task.ahead.step) = (next.as_ptr(), ahead_step);
                    task.output.is_far = true;
                    let tiles = (&heights, 0..heights.tiles);
                    // SAFETY: there are `channels` numbers for each block, which nobody writes any more, and rows of whole vectors
                    // of products (asserted), which are this part's; the weights' number was asserted.
                    unsafe { self.tiles.run_in_line(tiles, (numbers, channels), Next::Apart(ahead_step * steps), task) }
                    progress.made(cost(blocks, channels, panel.width));
                }
            }
        }
    }

    /// The weights that are needed after those of so many panels of a frequency, of some panels: also another part's, which most
    /// often is the same thread's.
    fn after(&self, frequency: usize, panels: &Range<usize>, wanted: &Range<usize>) -> &[f32] {
        if panels.end < wanted.end {
            return self.frequencies[frequency].weights(panels.end..wanted.end.min(panels.end + panels.len()));
        }
        match self.frequencies.get(frequency + 1) {
            Some(next) => next.weights(wanted.start..wanted.start + panels.len()),
            None => &[],
        }
    }

    /// Does the rest to some blocks of the output.
    fn finish_blocks(&self, order: &Order, some: Range<usize>, work: &Work<'_>) {
        let BlockGrid { outputs, rows, columns, .. } = self.grid;
        for block in order.blocks().skip(some.start).take(some.len()) {
            let (batch, top, left) = self.grid.place(block, T::WIDTH);
            let [height, width] = self.grid.inside(block, T::WIDTH);
            // Pixels that lie beside each other are finished together.
            let (count, length) = if columns.dilation == 1 { (1, width * outputs) } else { (width, outputs) };
            for i in 0..height * count {
                let (y, x) = (top + i / count * rows.dilation, left + i % count * columns.dilation);
                let place = ((batch * rows.output + y) * columns.output + x) * outputs;
                // SAFETY: inside the output (`from` asserts that); the block is this part's of a job that has written it.
                let numbers =
                    unsafe { std::slice::from_raw_parts_mut(work.output.numbers().from(place, place + length), length) };
                work.rest.apply(place, numbers);
            }
        }
    }

    /// Computes blocks from the filter itself, which the transformed filter still holds.
    fn compute_directly(&self, order: &Order, &Work { image, added, output, .. }: &Work<'_>) {
        let BlockGrid { channels, outputs, rows, columns, .. } = self.grid;
        let mut sums = vec![0.0; order.blocks().count() * T::WIDTH * T::WIDTH];
        for o in 0..outputs {
            sums.fill(self.bias.as_slice().get(o).copied().unwrap_or(0.0));
            for channel in 0..channels {
                let filter = T::restore(|frequency| self.frequencies[frequency].at(channel, o));
                for (block, sums) in order.blocks().zip(sums.chunks_exact_mut(T::WIDTH * T::WIDTH)) {
                    let (batch, y, x) = self.grid.place(block, T::WIDTH);
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let (y, x) = (y + i / T::WIDTH * rows.dilation, x + i % T::WIDTH * columns.dilation);
                        for (tap, factor) in filter.as_flattened().iter().enumerate() {
                            if let (Some(y), Some(x)) = (rows.element(y, tap / 3), columns.element(x, tap % 3)) {
                                *sum += factor * image[((batch * rows.input + y) * columns.input + x) * channels + channel];
                            }
                        }
                    }
                }
                looks::worked(sums.len() * 9);
            }
            for (block, sums) in order.blocks().zip(sums.chunks_exact(T::WIDTH * T::WIDTH)) {
                let (batch, y, x) = self.grid.place(block, T::WIDTH);
                for (i, &sum) in sums.iter().enumerate() {
                    let (y, x) = (y + i / T::WIDTH * rows.dilation, x + i % T::WIDTH * columns.dilation);
                    if y < rows.output && x < columns.output {
                        let place = ((batch * rows.output + y) * columns.output + x) * outputs + o;
                        let finished = self.finish.clamps.finish_number(sum, added.map(|added| added[place]));
                        // SAFETY: inside the output; the blocks are this job's.
                        unsafe { output.write(place, finished) }
                    }
                }
            }
        }
    }
}

/// What a convolution reads and writes.
struct Work<'a> {
    image: &'a [f32],
    added: Option<&'a [f32]>,
    rest: &'a BoundPostOps<'a>,
    output: &'a StoredOutput<'a>,
}

/// One of so many parts of numbers.
fn range(count: usize, parts: usize, part: usize) -> Range<usize> {
    part * count / parts..(part + 1) * count / parts
}

/// The same of channels, whose first ones lie at whole vectors.
fn share(channels: usize, parts: usize, part: usize) -> Range<usize> {
    let vectors = range(channels.div_ceil(LONGEST), parts, part);
    vectors.start * LONGEST..channels.min(vectors.end * LONGEST)
}

fn make<T: Compiled>(
    op: &Conv2d,
    problem: &Problem<'_>,
    target: &Target,
    (filter, [outputs, channels, ..]): (Filter<'_>, [usize; 4]),
    mut finish: ConvEpilogue,
) -> Built {
    let Target { isa, threads, caches, .. } = *target;
    let input = problem.inputs[op.input.0 as usize];
    let (rows, columns) = (axis(op, 0, input.shape[1], 3, problem), axis(op, 1, input.shape[2], 3, problem));
    let tiles = Tiles::of(isa);
    let bias = spread(&mut finish.bias, 1, tiles.lanes);
    let padded = outputs.next_multiple_of(tiles.lanes);
    // Products are whole vectors, with zeros after the last output.
    let frequencies = Panels::pack_several(T::FREQUENCIES, (tiles, channels, padded), |channel, columns, rows| {
        let outputs = columns.start.min(outputs)..columns.end.min(outputs);
        let Filter { elements, strides } = filter;
        T::filter_rows(isa, FilterRows { transform: PhantomData, filter: elements.all(), strides, channel, outputs, rows });
    });
    let blocks_of = |axis: &Axis| axis.output.div_ceil(axis.dilation).div_ceil(T::WIDTH) * axis.dilation;
    let (down, across) = (blocks_of(&rows), blocks_of(&columns));
    let grid = BlockGrid { batches: input.shape[0], channels, outputs, padded, rows, columns, down, across };
    let of_product = (channels + padded) * 4;
    let filter = frequencies.iter().map(Panels::bytes).sum();
    let mut division = None;
    let jobs = grid.jobs::<T>(|products| {
        let demand = Demand { numbers: products * of_product, least: tiles.rows * T::FREQUENCIES * of_product, filter };
        division.insert(Division::new(&demand, threads, caches.second)).jobs
    });
    let parts = if division.is_some_and(|division| division.divides_filter) { threads * 4 } else { 1 };
    let jobs: Vec<Order> = jobs.into_iter().map(|blocks| Order::new::<T>(&grid, blocks)).collect();
    let together = jobs.iter().map(|order| order.blocks().count()).max().unwrap_or(0);
    let consumed = finish.consumed_beside(op.filter);
    let fuses = finish.is_whole;
    let kernel = Winograd::<T> {
        transform: PhantomData,
        isa,
        tiles,
        input: op.input,
        frequencies,
        bias,
        finish,
        grid,
        jobs,
        together,
        parts,
    };
    Built { kernel: Box::new(kernel), consumed, fuses }
}

/// Multiplications that take as long as what is done to one transformed number of the input or the output.
const TRANSFORM: usize = 16;
/// The same of a weight that comes from memory, while others are multiplied.
const WEIGHT: usize = 10;

/// The same of a number of the image that is rounded to bfloat16 in memory.
const ROUNDING: usize = 8;

/// Blocks of 2 x 2 and of 4 x 4 pixels, for a convolution with the channels last and a constant filter that suits.
pub fn workspaces(op: &Conv2d, filter: &[usize], output: &[usize], target: &Target) -> Workspaces {
    let (&[a, b, c, d], &[batches, height, width, _]) = (filter, output) else { return Workspaces::new() };
    let [outputs, channels, rows, columns] = op.filter_layout.to_oihw(&[a, b, c, d]);
    let suits = op.input_layout == InputOperandLayout::Nhwc
        && (rows, columns, op.groups) == (3, 3, 1)
        && op.strides == [1; 2]
        && channels.min(outputs) >= target.tuning.winograd_channels
        && (0..2).all(|axis| [height, width][axis] / op.dilations[axis] as usize >= 4);
    if !suits {
        return Workspaces::new();
    }
    let weights = channels * outputs;
    // Few pixels wait for the weights, which are half as many bytes of bfloat16. There panels are filled up, and the image is rounded.
    let (pixels, speed) = (batches * height * width, bf16::speed(target));
    let (multiplied, rounded) = match bf16::for_products(target) {
        Ok(gemm) if speed > 1 => (channels * outputs.next_multiple_of(gemm.columns / 2), pixels * channels * ROUNDING),
        _ => (weights, 0),
    };
    let directly = (pixels / speed).max(WEIGHT / speed.min(2)) * 9 * multiplied + rounded;
    let with = |implementation: &Implementation, block: usize, frequencies: usize| {
        // Along an axis every block needs two products more than pixels.
        let [down, across] = [height, width].map(|pixels| pixels + 2 * pixels.div_ceil(block));
        let multiplications = batches * down * across * (weights + TRANSFORM * (channels + outputs));
        let all = multiplications.max(WEIGHT * frequencies * weights);
        // What saves nothing is never chosen.
        let saved = if target.switches.is_on(implementation.name) { directly.saturating_sub(all) } else { 0 };
        Workspace { bytes: weights * 4 * (frequencies - 9), taken: all, saved }
    };
    [
        with(&WINOGRAD_F2, Transform2::WIDTH, Transform2::FREQUENCIES),
        with(&WINOGRAD_F4, Transform4::WIDTH, Transform4::FREQUENCIES),
    ]
    .into_iter()
    .collect()
}

/// Blocks of 2 x 2 pixels, from 4 x 4 of the image.
pub static WINOGRAD_F2: Implementation = Implementation { name: "conv.winograd_f2", accept: accept::<Transform2> };
/// Blocks of 4 x 4 pixels, from 6 x 6 of the image.
pub static WINOGRAD_F4: Implementation = Implementation { name: "conv.winograd_f4", accept: accept::<Transform4> };

/// A convolution that has the workspace of this transform.
fn accept<'a, T: Compiled>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let op = problem.conv2d()?;
    require(
        problem.workspace == Some(T::WORKSPACE),
        "no workspace for it: another filter than 3 x 3, or little to save in so much",
    )?;
    let with_sizes = Filter::of(op, problem)?;
    // An infinite number times the padding is not what the transforms make of it.
    let is_small = with_sizes.0.elements.greatest() < f32::MAX / 64.0;
    require(is_small, "weights that overflow in the transforms")?;
    let finish = ConvEpilogue::new(problem, op.bias)?;
    let (problem, target) = (*problem, *target);
    Ok(Box::new(move || Ok(make::<T>(op, &problem, &target, with_sizes, finish))))
}

#[cfg(test)]
mod tests {
    use super::super::image_tests::conv;
    use super::*;
    use crate::graph::FpMath;

    /// What blocks of 2 x 2 and of 4 x 4 pixels save of an image of so many, with as many channels before as after, by the
    /// multiplications of the direct way.
    fn saved(batches: usize, pixels: usize, channels: usize) -> [f64; 2] {
        saved_on(&Target::with(Isa::available()[0], 1), batches, pixels, channels)
    }

    fn saved_on(target: &Target, batches: usize, pixels: usize, channels: usize) -> [f64; 2] {
        let op = conv(1, [1; 2], [1; 2], [1; 4], false);
        let workspaces = workspaces(&op, &[channels, channels, 3, 3], &[batches, pixels, pixels, channels], target);
        let all = batches * pixels * pixels * 9 * channels * channels;
        [0, 1].map(|way| workspaces[way].saved as f64 / all as f64)
    }

    #[test]
    fn larger_blocks_save_more_where_weights_are_used_often() {
        for (batches, pixels, channels) in [(1, 14, 256), (1, 28, 64), (8, 7, 256)] {
            let [small, large] = saved(batches, pixels, channels);
            assert!(large > small && small > 0.3, "{batches} of {pixels}, {channels} channels: {small}, {large}");
        }
    }

    /// Where instructions for bfloat16 are twice as fast, as measured on a Zen 5. With AMX or on ARM products save more.
    #[test]
    fn larger_blocks_save_more_than_bfloat16_of_few_channels_too() {
        let target = Target { fp_math: FpMath::Bf16, ..Target::with(Isa::available()[0], 1) };
        if bf16::speed(&target) > 2 {
            return;
        }
        for (pixels, channels) in [(96, 24), (28, 24), (96, 32), (28, 32), (56, 64)] {
            let [_, large] = saved_on(&target, 1, pixels, channels);
            assert!(large > 0.0, "{pixels} x {pixels}, {channels} channels");
        }
        // A few pixels are blocks of which most are not whole.
        assert_eq!(saved_on(&target, 1, 7, 256)[1] > 0.0, bf16::speed(&target) == 1);
    }

    #[test]
    fn few_pixels_wait_for_weights() {
        for channels in [128, 256, 512] {
            let [small, large] = saved(1, 7, channels);
            assert!(small > large && small > 0.3, "{channels} channels: {small}, {large}");
        }
        // To read four times as many takes longer than to multiply.
        assert!(saved(1, 4, 512)[1] == 0.0);
    }
}
