//! Convolutions of float32 with the channels last, computed directly: every tile of the output reads the runs of the input
//! that it is made from where they are.
#![allow(unsafe_code)]

use super::bf16;
use super::conv_epilogue::{Added, BoundPostOps, ConvEpilogue};
use super::panels::{Elements, Panel, Panels};
use super::pointwise::{CLOSE, Heights, Next};
use super::product::Right;
use super::work_partition::{Extent, divide, even};
use super::{
    Accepted, AlignedBuffer, Bf16Support, Build, Built, Implementation, Kernel, Numbers, Problem, Reject, Subnormals, Target,
    require, with_scratch, with_starts,
};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::OperandId;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::layout::InputOperandLayout;
use crate::looks::{self, Progress};
use smallvec::{SmallVec, smallvec};
use std::mem::take;
use std::ops::Range;
use webnn_kernels::bf16::narrow::Stored;
use webnn_kernels::bf16::rounding::pairs;
use webnn_kernels::conv::microkernels::{self, Task, Tiles};
use webnn_kernels::gemm::microkernels::Microkernels;
use webnn_kernels::isa::Isa;
use webnn_kernels::output::StoredOutput;

mod long_tiles;
mod sizes;
mod windows;
use sizes::{Offsets, Sizes};
pub use windows::Windows;
use windows::round_image;

/// Bytes of weights that stay in a core's second-level cache while tile after tile passes over them.
const KEPT: usize = 512 << 10;
/// The part of that cache which the input has while panel after panel of larger weights passes over it: one by so much.
const PASSED: usize = 4;
/// Rows of a tile that lie multiples of this apart compete for the same places of the first-level cache.
const ALIAS: usize = 4096;
/// With more ways than this they all find one.
const FEW_WAYS: usize = 8;
/// With fewer channels than this the rows of the window are the runs.
const FEW_CHANNELS: usize = 16;
/// Groups of at most so many channels are computed one after the other for the same tiles: to find their runs takes as long as
/// to read them, and those of the next group lie right after.
const SMALL_GROUP: usize = 64;
/// Pixels of a job whose weights stay in the cache, or so.
const PIXELS_OF_JOB: usize = 224;

/// Units of work of a tile that is worth being counted in long convolutions, and those of the shortest one.
const COUNTED: usize = 1000;
const SHORTEST: usize = 16;

/// The first number that is rounded to no finite bfloat16.
const GREATEST: f32 = f32::from_bits(0x7f7f_8000);

/// A filter of `[outputs, channels, height, width]` for one group or all, by strides.
#[derive(Clone, Copy)]
pub struct Filter<'a> {
    pub elements: Numbers<'a>,
    pub strides: [usize; 4],
}

impl<'a> Filter<'a> {
    /// The filter of an operator, with its shape `[outputs, channels of a group, height, width]`.
    pub fn of(op: &Conv2d, problem: &Problem<'a>) -> Result<(Filter<'a>, [usize; 4]), Reject> {
        let filter = problem.inputs[op.filter.0 as usize];
        let &[a, b, c, d] = filter.shape else { return Err(Reject("not a filter of 4 dimensions")) };
        let strides = op.filter_layout.to_oihw(&[b * c * d, c * d, d, 1]);
        Ok((Filter { elements: filter.constant_numbers()?, strides }, op.filter_layout.to_oihw(&[a, b, c, d])))
    }

    /// Where an element is.
    pub fn place(&self, place: [usize; 4]) -> usize {
        place.iter().zip(self.strides).map(|(place, stride)| place * stride).sum()
    }

    pub fn at(&self, place: [usize; 4]) -> f32 {
        self.elements.all()[self.place(place)]
    }

    /// Whether what is over padding may be left out: an infinite weight times 0 is not a number, any other 0.
    pub fn is_finite(&self) -> bool {
        self.elements.greatest().is_finite()
    }
}

#[derive(Debug)]
pub struct Conv {
    isa: &'static Isa,
    tiles: &'static Tiles,
    input: OperandId,
    /// What rounds the image to pairs first, of which all sizes are then.
    rounding: Option<&'static Microkernels>,
    /// Whether the pairs of a pixel are whole.
    is_of_pairs: bool,
    /// One for each group.
    groups: Vec<Panels>,
    /// For each group, a number for each column of its panels, those that do not exist too; and how many these are.
    bias: AlignedBuffer,
    bias_step: usize,
    finish: ConvEpilogue,
    sizes: Sizes,
    /// What stands for runs in the padding, of all groups.
    zeros: AlignedBuffer,
    division: Division,
    /// By tile: all runs but the first and the last ones that are in the padding for each of its pixels.
    inside: Vec<Range<usize>>,
    /// See [`Sizes::over`].
    over: Vec<Range<usize>>,
    offsets: Offsets,
}

/// What a tile is made from.
struct TileOperands<'a> {
    panel: Panel<'a>,
    starts: &'a [*const f32],
    /// See [`Ahead`](microkernels::Ahead).
    ahead: (*const f32, usize),
}

/// What tiles are given for some panels.
type Tasks<'a> = SmallVec<[(Panel<'a>, Task); 2]>;

/// What becomes of the sums, and what they are made with.
struct More<'a> {
    /// Weights instead of those of the only group.
    weights: Option<&'a [f32]>,
    added: Added<'a>,
    rest: BoundPostOps<'a>,
    progress: Progress,
}

/// How the output is divided into jobs and tiles.
#[derive(Clone, Copy, Debug)]
struct Division {
    pixels: usize,
    heights: Heights,
    /// Tiles, panels and groups of a job.
    block_tiles: usize,
    block_panels: usize,
    block_groups: usize,
    /// Whether panel after panel passes over a job's tiles, and not the other way round.
    panels_outside: bool,
    /// Whether tiles are copied together first.
    gather: bool,
    /// Whether the pixels of a tile lie after those of the one before.
    is_in_line: bool,
    /// Whether the output is larger than what stays in a core's caches from one step to the next.
    output_is_far: bool,
}

impl Division {
    /// For so many groups. If something `is_left` to be done to the pixels, that is quickest where they are whole.
    fn new(tiles: &Tiles, sizes: &Sizes, panels: &Panels, (groups, is_left): (usize, bool), target: &Target) -> Division {
        let pixels = sizes.batches * sizes.rows.output * sizes.columns.output;
        let (count, rows) = tiles.divide(pixels);
        let panels_outside = panels.bytes() > KEPT;
        let shares = groups > 1 && sizes.channels <= SMALL_GROUP;
        let wanted = if target.threads == 1 { 1 } else { target.threads * 4 };
        let (block_tiles, across) = if panels_outside {
            // Strides wider than the window leave out pixels between.
            let touched = |axis: &Axis| axis.stride.min(axis.window);
            let of_pixel = sizes.channels * 4 * touched(&sizes.rows) * touched(&sizes.columns);
            let passed = (target.caches.second / PASSED / (rows * of_pixel)).clamp(1, count);
            let extent = Extent {
                rows: pixels * of_pixel,
                columns: panels.bytes(),
                least_down: count.div_ceil(passed),
                most_down: count,
                most_across: panels.count(),
            };
            let [down, across] = divide(wanted, &extent);
            (count.div_ceil(down), across)
        } else {
            let block_tiles = (PIXELS_OF_JOB / tiles.rows).min(count.div_ceil(wanted)).max(1);
            // As many for each thread.
            let blocks = count.div_ceil(block_tiles).next_multiple_of(target.threads);
            let block_tiles = count.div_ceil(blocks).max(1);
            (block_tiles, wanted.div_ceil(count.div_ceil(block_tiles)))
        };
        let (block_panels, block_groups) = if shares {
            (panels.count(), groups.div_ceil(across))
        } else if is_left && !panels_outside {
            (panels.count(), 1)
        } else {
            (even([panels.columns, tiles.columns], across, [count, block_tiles], target.threads), 1)
        };
        let distance = sizes.all_channels * sizes.columns.stride * 4;
        let compete = distance.is_multiple_of(ALIAS) && rows > 4 && target.caches.ways <= FEW_WAYS;
        let gather = !shares && compete;
        let output_is_far = pixels * sizes.all_outputs * 4 > target.caches.second / PASSED;
        let is_in_line = sizes.is_plain() && groups == 1 && !gather;
        Division {
            pixels,
            heights: Heights::new(tiles, pixels),
            block_tiles,
            block_panels,
            block_groups,
            panels_outside,
            gather,
            is_in_line,
            output_is_far,
        }
    }
}

impl Kernel for Conv {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        self.run_with(None, arguments);
    }

    fn bf16_support(&self) -> Bf16Support {
        if self.rounding.is_none() {
            return Bf16Support::default();
        }
        let mut loads = self.finish.whole_tensors();
        loads.extend(self.finish.added.filter(|id| !loads.contains(id)));
        loads.retain(|id| *id != self.input);
        loads.extend(self.is_of_pairs.then_some(self.input));
        Bf16Support { loads, rounds: smallvec![self.input], stores: !self.finish.is_rest_left(), ..Bf16Support::default() }
    }

    /// Each tile is finished and written at once.
    fn overwrites(&self) -> Option<OperandId> {
        self.finish.added
    }

    fn speed(&self) -> usize {
        self.rounding.map_or(1, bf16::speed_of)
    }

    fn bytes(&self) -> usize {
        let inside = (self.inside.len() + self.over.len()) * size_of::<Range<usize>>();
        let packed = self.groups.iter().map(Panels::bytes).sum::<usize>();
        packed + self.bias.bytes() + self.finish.bytes() + self.zeros.bytes() + inside + self.offsets.bytes()
    }
}

impl Conv {
    /// The weights of the first group.
    pub fn weights(&self) -> &Panels {
        &self.groups[0]
    }

    /// Whether it does all that is fused with it.
    pub fn fuses(&self) -> bool {
        self.finish.is_whole
    }

    /// Runs, with other weights than these if there are any.
    pub fn run_with(&self, weights: Option<&[f32]>, arguments: &mut Arguments<'_, '_>) {
        assert!(weights.is_none() || self.groups.len() == 1);
        let image = arguments.input(self.input);
        let rest = self.finish.rest(self.isa, self.sizes.all_outputs, arguments);
        let [of_tile, all] = [self.tiles.rows, self.division.pixels].map(|pixels| self.cost(pixels, self.sizes.all_outputs));
        // To count short tiles takes as long as a part of one.
        let all = if of_tile >= COUNTED { all.max(self.groups.len() * self.division.heights.tiles * SHORTEST) } else { 0 };
        let progress = Progress::of(all);
        let more = More { weights, added: self.finish.added_anywhere(arguments), rest, progress };
        let output = &arguments.output().stored();
        if image.is_narrow() {
            return self.image(image.pairs(), &more, output);
        }
        let image = image.elements::<f32>();
        if let Some(gemm) = self.rounding {
            return round_image(&self.sizes, gemm, image, |pairs| self.image(pairs, &more, output));
        }
        if !self.sizes.is_padded() {
            return self.image(image, &more, output);
        }
        with_scratch(self.sizes.padded(), |padded| {
            self.sizes.pad(image, padded);
            self.image(padded, &more, output);
        });
    }

    fn image(&self, image: &[f32], more: &More<'_>, output: &StoredOutput<'_>) {
        let Division { heights: Heights { tiles, .. }, block_tiles, block_panels, block_groups, .. } = self.division;
        let across = self.groups[0].count().div_ceil(block_panels);
        let group_blocks = self.groups.len().div_ceil(block_groups);
        let down = tiles.div_ceil(block_tiles);
        let cost = self.cost(self.division.pixels, self.sizes.all_outputs);
        for_each_job(group_blocks * across * down, cost, |job| {
            let (groups, job) = (job / (across * down) * block_groups, job % (across * down));
            let panels = job % across * block_panels;
            let first = job / across * block_tiles;
            let groups = groups..self.groups.len().min(groups + block_groups);
            let panels = panels..self.groups[0].count().min(panels + block_panels);
            self.block(image, more, output, groups, first..tiles.min(first + block_tiles), panels);
        });
    }

    /// About how many nanoseconds some channels of some pixels take. A few pixels wait for the weights, which come from far away.
    fn cost(&self, pixels: usize, channels: usize) -> usize {
        let weights = self.groups[0].depth * channels;
        (pixels * weights / 48).max(weights / 8)
    }

    /// Computes some panels of some groups for some tiles; all panels, if there are several groups.
    fn block(
        &self,
        image: &[f32],
        more: &More<'_>,
        output: &StoredOutput<'_>,
        groups: Range<usize>,
        tiles: Range<usize>,
        panels: Range<usize>,
    ) {
        let is_task_long = || Progress::of(self.cost(self.tiles.rows, panels.len() * self.tiles.columns)).is_long;
        if self.division.is_in_line && !(more.progress.is_long && is_task_long()) {
            return self.block_in_line(image, more, output, tiles, panels);
        }
        let (runs, length) = (self.sizes.runs(), self.sizes.length());
        let of_tile = runs * self.tiles.rows;
        // Rows that are copied together do not begin at places that compete for the cache.
        let copied = if self.division.gather { of_tile * (length + 16) } else { 0 };
        let together = if self.division.panels_outside || groups.len() > 1 { tiles.len() } else { 1 };
        with_scratch(together * copied, |scratch| {
            with_starts(together * of_tile, |starts| {
                // What one tile after the other is given, if each passes over all panels at once.
                let of_one =
                    (together == 1 && groups.len() == 1).then(|| self.tasks(more, output, groups.start, &tiles, &panels));
                let mut unfinished = tiles.start;
                for start in tiles.clone().step_by(together) {
                    let some = start..(start + together).min(tiles.end);
                    for (i, tile) in some.clone().enumerate() {
                        let pixels = self.division.heights.tile(tile);
                        let starts = &mut starts[i * of_tile..][..runs * pixels.len()];
                        if !self.offsets.starts(&self.sizes, image, &groups, pixels.clone(), starts) {
                            self.sizes.starts(image, &groups, pixels, (&self.over, self.zeros.as_slice()), starts);
                        }
                        if self.division.gather {
                            gather(starts, length, &mut scratch[i * copied..][..copied]);
                        }
                    }
                    match &of_one {
                        Some(tasks) => tasks.iter().for_each(|task| self.tile(more, task, [tiles.start, start], starts)),
                        None => self.groups(more, output, groups.clone(), some.clone(), panels.clone(), starts),
                    }
                    // Several tiles together, while they are in the cache.
                    let pixels = self.division.heights.rows(unfinished..some.end);
                    if some.end == tiles.end || pixels.len() * self.sizes.all_outputs * 4 >= CLOSE / 2 {
                        self.finish_pixels(&more.rest, output, &groups, pixels, &panels);
                        unfinished = some.end;
                    }
                }
            });
        });
    }

    /// The same where the pixels of the input lie one after the other as those of the output do. Tiles whose pixels stay in the cache
    /// pass over all panels, each of which brings the pixels of the next one nearer, or all tiles over one panel after the other.
    fn block_in_line(
        &self,
        image: &[f32],
        more: &More<'_>,
        output: &StoredOutput<'_>,
        tiles: Range<usize>,
        panels: Range<usize>,
    ) {
        let (of_group, heights, channels) = (&self.groups[0], &self.division.heights, self.sizes.channels);
        let weights = more.weights.unwrap_or(of_group.all());
        let is_passed = self.division.panels_outside && tiles.len() > 1;
        let at_once = if is_passed { 1 } else { panels.len() };
        let of_tile = heights.tile(tiles.start).len() * (channels + self.sizes.all_outputs) * 4;
        let together = if is_passed { tiles.len() } else { (CLOSE / of_tile).max(1) };
        for start in tiles.clone().step_by(together) {
            let tiles = start..(start + together).min(tiles.end);
            let pixels = heights.rows(tiles.clone());
            let image = &image[pixels.start * channels..pixels.end * channels];
            for first in panels.clone().step_by(at_once) {
                let (ahead, ahead_step, next) = if is_passed {
                    let (next, step) = next_panel(of_group, weights, first, tiles.len());
                    (next, step, Next::Apart(step * channels))
                } else {
                    let rows = heights.tile(tiles.start).len();
                    (image.as_ptr(), rows.div_ceil(at_once), Next::Rows)
                };
                for panel in of_group.parts_of(weights, first..first + at_once) {
                    let part = TileOperands { panel, starts: &[], ahead: (ahead, ahead_step) };
                    let task = self.task(more, output, 0, pixels.clone(), part);
                    // SAFETY: there are `channels` numbers for each pixel, one after the other; see `tile`.
                    unsafe { self.tiles.run_in_line((heights, tiles.clone()), (image.as_ptr(), channels), next, task) }
                    more.progress.made(self.cost(pixels.len(), panel.columns));
                }
            }
            self.finish_pixels(&more.rest, output, &(0..1), pixels, &panels);
        }
    }

    /// Computes some panels of some groups, one after the other, for some tiles whose runs are found.
    fn groups(
        &self,
        more: &More<'_>,
        output: &StoredOutput<'_>,
        groups: Range<usize>,
        tiles: Range<usize>,
        panels: Range<usize>,
        starts: &mut [*const f32],
    ) {
        let several = groups.len() > 1;
        for group in groups {
            match tiles.len() {
                1 => {
                    let tasks = self.tasks(more, output, group, &tiles, &panels);
                    tasks.iter().for_each(|task| self.tile(more, task, [tiles.start; 2], starts));
                }
                _ => self.panels(more, output, group, tiles.clone(), panels.clone(), starts),
            }
            if several {
                starts.iter_mut().for_each(|start| *start = start.wrapping_add(self.sizes.channels));
            }
        }
    }

    /// Computes some panels of a group for some tiles, which pass over one panel after the other and bring the next one nearer.
    fn panels(
        &self,
        more: &More<'_>,
        output: &StoredOutput<'_>,
        group: usize,
        tiles: Range<usize>,
        panels: Range<usize>,
        starts: &[*const f32],
    ) {
        let of_group = &self.groups[group];
        let of_tile = self.sizes.runs() * self.tiles.rows;
        let weights = more.weights.unwrap_or(of_group.all());
        let pixels = self.division.heights.rows(tiles.clone());
        for number in panels {
            let (next, step) = next_panel(of_group, weights, number, tiles.len());
            let panel = of_group.panel_of(weights, number);
            let task = self.task(more, output, group, pixels.clone(), TileOperands { panel, starts: &[], ahead: (next, step) });
            let mut given = (panel, task);
            for (i, tile) in tiles.clone().enumerate() {
                self.tile(more, &given, [tiles.start, tile], &starts[i * of_tile..][..of_tile]);
                given.1.ahead.start = given.1.ahead.start.wrapping_add(step * of_group.depth);
            }
        }
    }

    /// What a tile of some is given that passes over some panels of a group at once, for the first of them.
    fn tasks<'a>(
        &'a self,
        more: &More<'a>,
        output: &StoredOutput<'_>,
        group: usize,
        tiles: &Range<usize>,
        panels: &Range<usize>,
    ) -> Tasks<'a> {
        let of_group = &self.groups[group];
        let weights = more.weights.unwrap_or(of_group.all());
        let pixels = self.division.heights.rows(tiles.clone());
        let task = |panel| {
            let part = TileOperands { panel, starts: &[], ahead: (weights.as_ptr(), 0) };
            (panel, self.task(more, output, group, pixels.clone(), part))
        };
        of_group.parts_of(weights, panels.clone()).map(task).collect()
    }

    /// Computes a tile, whose runs are found, by the task of the first of several.
    fn tile(&self, more: &More<'_>, (panel, task): &(Panel<'_>, Task), [first, tile]: [usize; 2], starts: &[*const f32]) {
        let (pixels, inside) = (self.division.heights.tile(tile), self.inside[tile].clone());
        let (rows, runs) = (pixels.len(), self.sizes.runs());
        let after = (pixels.start - self.division.heights.tile(first).start) * task.output.stride;
        let starts = &starts[..runs * rows];
        let mut task = *task;
        task.input.starts = starts.as_ptr();
        task.output.start = task.output.after(task.output.start, after);
        task.added.start = task.added.after(task.added.start, after);
        let task = panel.some_runs(task, inside, starts);
        // SAFETY: `starts` has runs of `length` numbers (`Sizes::starts`, `gather`), in all groups whose channels were asked
        // for, and so many zeros lie in the padding; for all else see `task`, whose pixels these are some of, and jobs and tiles have
        // different pixels or columns.
        unsafe {
            if !more.progress.is_long {
                return self.tiles.run(rows, &task);
            }
            let cost = self.cost(rows, panel.columns);
            if Progress::of(cost).is_long {
                return long_tiles::run(self.tiles, rows, &task);
            }
            self.tiles.run(rows, &task);
            looks::worked(cost.max(SHORTEST));
        }
    }

    /// What becomes of some pixels. The weights' number is asserted, and the bias, the output and what is added are sliced to what is
    /// touched.
    fn task(
        &self,
        more: &More<'_>,
        output: &StoredOutput<'_>,
        group: usize,
        pixels: Range<usize>,
        part: TileOperands<'_>,
    ) -> Task {
        let TileOperands { panel, starts, ahead: (ahead, ahead_step) } = part;
        let (panels, stride) = (&self.groups[group], self.sizes.all_outputs);
        let place = pixels.start * stride + group * panels.columns + panel.first;
        let end = place + (pixels.len() - 1) * stride + panel.columns;
        let bias = self.bias.as_slice();
        let (to, is_bits) = match output {
            StoredOutput::Float32(output) => (output.from(place, end), false),
            StoredOutput::Bf16(output) => (output.from(place, end).cast(), true),
        };
        let (added, is_there) = match more.added {
            Added::Nothing => (microkernels::Added::NOTHING, false),
            Added::Tensor(Stored::Float32(added)) => {
                (microkernels::Added { start: added[place..end].as_ptr(), is_bits: false }, false)
            }
            Added::Tensor(Stored::Bf16(added)) => {
                (microkernels::Added { start: added[place..end].as_ptr().cast(), is_bits: true }, false)
            }
            Added::Output => (microkernels::Added { start: to.cast_const(), is_bits }, true),
        };
        let mut task = panel.task([self.sizes.runs(), self.sizes.length()], starts, (to, stride));
        (task.ahead.start, task.ahead.step) = (ahead, ahead_step);
        task.weights.bias = panel.bias(&bias[group * self.bias_step..]);
        // What is added is fetched anyway.
        (task.output.is_bits, task.output.is_far) = (is_bits, self.division.output_is_far && !is_there);
        (task.added, task.clamps) = (added, self.finish.clamps);
        task
    }
}

impl Conv {
    /// Does the rest to what some panels have made of some pixels, if there is any.
    fn finish_pixels(
        &self,
        rest: &BoundPostOps<'_>,
        output: &StoredOutput<'_>,
        groups: &Range<usize>,
        pixels: Range<usize>,
        panels: &Range<usize>,
    ) {
        if rest.is_empty() {
            return;
        }
        let output = output.numbers();
        let (of_group, stride) = (&self.groups[groups.start], self.sizes.all_outputs);
        let (first, last) = (of_group.panel(panels.start), of_group.panel(panels.end - 1));
        let columns =
            groups.start * of_group.columns + first.first..(groups.end - 1) * of_group.columns + last.first + last.columns;
        // Whole pixels lie one after the other.
        let (count, length) = if columns.len() == stride { (1, pixels.len() * stride) } else { (pixels.len(), columns.len()) };
        for i in 0..count {
            let place = (pixels.start + i) * stride + columns.start;
            // SAFETY: inside the output (`from` asserts that); the pixels and columns are this job's, which has written them.
            let numbers = unsafe { std::slice::from_raw_parts_mut(output.from(place, place + length), length) };
            rest.apply(place, numbers);
        }
    }
}

/// While many tiles pass over a panel they bring the next one nearer, each a part of it: also the next job's, which most often is the
/// same thread's. It, and how many of its numbers with each step.
fn next_panel(panels: &Panels, weights: &[f32], number: usize, tiles: usize) -> (*const f32, usize) {
    let next = if number + 1 < panels.count() { panels.panel_of(weights, number + 1).weights } else { &[] };
    (next.as_ptr(), next.len().div_ceil(tiles * panels.depth))
}

/// Copies runs together, and lets them begin there.
fn gather(starts: &mut [*const f32], length: usize, scratch: &mut [f32]) {
    for (start, row) in starts.iter_mut().zip(scratch.chunks_exact_mut(length + 16)) {
        // SAFETY: `length` numbers lie at every start, in the input or in the zeros, which are borrowed meanwhile.
        row[..length].copy_from_slice(unsafe { std::slice::from_raw_parts(*start, length) });
        *start = row.as_ptr();
    }
}

/// Single pixels: a product of a matrix of pixels with the filter, read in place.
pub static POINTWISE: Implementation = Implementation { name: "conv.pointwise", accept: accept_pointwise };
/// Any window: every tile reads the runs of the input that it is made from where they are.
pub static INDIRECT: Implementation = Implementation { name: "conv.indirect", accept };
/// The same of an image that is rounded to bfloat16 first.
pub static POINTWISE_BF16: Implementation = Implementation { name: "conv.pointwise_bf16", accept: accept_pointwise_bf16 };
pub static INDIRECT_BF16: Implementation = Implementation { name: "conv.indirect_bf16", accept: accept_bf16 };

fn accept_pointwise<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let desc = desc(problem, target)?;
    require(desc.groups == 1, "several groups")?;
    require(desc.sizes.is_plain(), "a window, strides or padding")?;
    Ok(desc.boxed())
}

fn accept_pointwise_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let desc = desc_of_pairs(problem, target)?;
    require(desc.sizes.is_plain(), "a window, strides or padding")?;
    Ok(desc.boxed())
}

fn accept_bf16<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    Ok(desc_of_pairs(problem, target)?.boxed())
}

/// A plan whose sizes are of pairs.
pub fn desc_of_pairs<'a>(problem: &Problem<'a>, target: &Target) -> Result<ConvDesc<'a>, Reject> {
    let gemm = bf16::microkernels(target)?;
    let mut desc = desc(problem, target)?;
    require(desc.groups == 1, "several groups")?;
    let Sizes { channels, all_outputs, rows, columns, .. } = desc.sizes;
    require(channels >= target.tuning.bf16_channels, "few channels")?;
    // Of a pixel that strides leave out nothing is multiplied.
    let touched = rows.window.min(rows.stride) * columns.window.min(columns.stride);
    let times = all_outputs * rows.window * columns.window / (rows.stride * columns.stride).max(touched);
    bf16::require_columns(times, target)?;
    let stays_finite = !desc.is_finite || desc.filter.elements.greatest() < GREATEST;
    require(stays_finite, "a weight that rounding makes infinite")?;
    desc.sizes = Sizes { channels: pairs(channels), all_channels: pairs(channels), by_row: false, ..desc.sizes };
    desc.channels = channels;
    desc.rounding = Some(gemm);
    Ok(desc)
}

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    Ok(desc(problem, target)?.boxed())
}

/// What is decided before anything is packed.
pub struct ConvDesc<'a> {
    target: Target,
    op: &'a Conv2d,
    filter: Filter<'a>,
    groups: usize,
    /// Of the filter.
    channels: usize,
    sizes: Sizes,
    rounding: Option<&'static Microkernels>,
    /// The rows and columns of the filter that any window has over the image.
    taps: [Range<usize>; 2],
    is_finite: bool,
    finish: ConvEpilogue,
}

/// A convolution with the channels last and a constant filter, also as a part of another kernel.
pub fn desc<'a>(problem: &Problem<'a>, target: &Target) -> Result<ConvDesc<'a>, Reject> {
    let op = problem.conv2d()?;
    require(op.input_layout == InputOperandLayout::Nhwc, "channels not last")?;
    let (filter, [outputs, channels, height, width]) = Filter::of(op, problem)?;
    let finish = ConvEpilogue::new(problem, op.bias)?;
    let input = problem.input(op.input);
    let is_finite = filter.is_finite();
    let axis = |number, input, window| match axis(op, number, input, window, problem) {
        whole if is_finite => whole.inside(),
        whole => (whole, 0..window),
    };
    let ((rows, down), (columns, across)) = (axis(0, input.shape[1], height), axis(1, input.shape[2], width));
    let groups = op.groups as usize;
    let by_row = groups == 1 && channels < FEW_CHANNELS && columns.dilation == 1 && columns.window > 1;
    let sizes =
        Sizes { batches: input.shape[0], all_channels: input.shape[3], channels, all_outputs: outputs, rows, columns, by_row };
    Ok(ConvDesc { target: *target, op, filter, groups, channels, sizes, rounding: None, taps: [down, across], is_finite, finish })
}

impl<'a> ConvDesc<'a> {
    fn boxed(self) -> Build<'a> {
        Box::new(move || {
            let (kernel, consumed) = self.build();
            Ok(Built { fuses: kernel.fuses(), kernel: Box::new(kernel), consumed })
        })
    }

    /// Whether the kernel does all that is fused with it.
    pub fn fuses(&self) -> bool {
        self.finish.is_whole
    }

    /// How many pixels the output has, and how many channels of these.
    pub fn output(&self) -> [usize; 2] {
        let Sizes { batches, rows, columns, all_outputs, .. } = self.sizes;
        [batches * rows.output * columns.output, all_outputs]
    }

    /// The filter as a matrix of [`Windows::depth`] rows, of a plan whose sizes are of pairs.
    pub fn pack(&self, gemm: &Microkernels) -> Right {
        let [down, across] = &self.taps;
        let taps: Vec<usize> = down.clone().flat_map(|y| across.clone().map(move |x| self.filter.place([0, 0, y, x]))).collect();
        let [column, step, ..] = self.filter.strides;
        Right::pack_runs(gemm, (self.channels, &taps), self.sizes.all_outputs, self.filter.elements, [step, column])
    }

    /// Whether it is a product of a matrix of pixels with the filter.
    pub fn is_pointwise(&self) -> bool {
        self.groups == 1 && self.sizes.is_plain()
    }

    /// The kernel, with the operands that it has packed.
    pub fn build(self) -> (Conv, SmallVec<[usize; 2]>) {
        let ConvDesc { target, op, filter, groups, channels, sizes, rounding, taps: [down, across], is_finite, mut finish } =
            self;
        let outputs = sizes.all_outputs;
        let of_group = outputs / groups;
        let pixels = sizes.batches * sizes.rows.output * sizes.columns.output;
        let matrix = [sizes.runs() * sizes.length(), of_group];
        let is_passed = matrix[0] * matrix[1] * size_of::<f32>() > KEPT;
        let tiles = match rounding {
            Some(gemm) => Tiles::of_pairs(gemm),
            None => Tiles::for_product(target.isa, pixels, matrix, is_passed, target.caches),
        };
        let packed: Vec<Panels> = (0..groups)
            .map(|group| {
                let taps = down.clone().flat_map(|y| across.clone().map(move |x| filter.place([group * of_group, 0, y, x])));
                let [column, step, ..] = filter.strides;
                let from = Elements { elements: filter.elements, length: channels, step, column };
                match rounding {
                    Some(gemm) => Panels::pack_pairs((gemm, tiles), &from, taps, of_group),
                    None => Panels::pack(tiles, &from, taps, of_group),
                }
            })
            .collect();
        let bias = spread(&mut finish.bias, groups, tiles.step);
        let bias_step = bias.as_slice().len() / groups;
        let zeros = AlignedBuffer::zeros(if groups > 1 { sizes.all_channels } else { sizes.length() });
        let division = Division::new(tiles, &sizes, &packed[0], (groups, finish.is_rest_left()), &target);
        let inside = |tile| if is_finite { sizes.inside(division.heights.tile(tile)) } else { 0..sizes.runs() };
        let inside = (0..division.heights.tiles).map(inside).collect();
        let consumed = finish.consumed_beside(op.filter);
        let kernel = Conv {
            isa: target.isa,
            tiles,
            input: op.input,
            rounding,
            is_of_pairs: rounding.is_some() && channels.is_multiple_of(2),
            groups: packed,
            bias,
            bias_step,
            finish,
            sizes,
            zeros,
            division,
            inside,
            over: sizes.over(),
            offsets: Offsets::new(&sizes, division.heights.least()),
        };
        (kernel, consumed)
    }
}

/// A bias with room for a multiple of `step` numbers in each group. What it is made from is not needed any more.
pub fn spread(bias: &mut Vec<f32>, groups: usize, step: usize) -> AlignedBuffer {
    let bias = take(bias);
    if bias.is_empty() {
        return AlignedBuffer::zeroed(0);
    }
    let of_group = bias.len() / groups;
    let padded = of_group.next_multiple_of(step);
    let mut numbers = vec![0.0; groups * padded];
    for (to, from) in numbers.chunks_exact_mut(padded).zip(bias.chunks_exact(of_group)) {
        to[..of_group].copy_from_slice(from);
    }
    AlignedBuffer::row(&numbers)
}

/// How the filter slides along the height (0) or the width (1) of an nhwc image.
pub fn axis(op: &Conv2d, number: usize, input: usize, window: usize, problem: &Problem<'_>) -> Axis {
    Axis::new(number, (input, problem.output.shape[1 + number], window), (&op.strides, &op.dilations, &op.padding))
}
