//! The loops of tiles: over panels, runs, and the numbers of each.
#![allow(unsafe_code)]

use super::finish::{finish, finish_bits, finish_whole};
use super::{Anywhere, InLine, Rows, SOON, Spaced, Task, WIDE};
use crate::gemm::unrolled_depth::{add_steps, are_worth_it};
use crate::simd::optimization_barrier::{opaque, reloaded};
use crate::simd::prefetch::{LINE, fetch};
use crate::simd::vector_bundle::VectorBundle;

impl<const STREAMS: usize> Rows for Anywhere<STREAMS> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn run<S: VectorBundle, const ROWS: usize>(task: &Task) {
        let mut ahead = task.ahead.start;
        for panel in 0..task.weights.panels {
            let task = reloaded(task);
            let (mut weights, column) = (task.weights.panel.wrapping_add(panel * task.weights.step), panel * S::LANES);
            // SAFETY: the caller's promise.
            let mut sums = [unsafe { bias::<S>(task, column) }; ROWS];
            // What will be written to, and what is added, arrive while the tile is computed.
            if task.output.is_far {
                expect::<S, ROWS>(task.output.start.cast_const(), task, column, task.output.is_bits);
            }
            if !task.added.start.is_null() {
                expect::<S, ROWS>(task.added.start, task, column, task.added.is_bits);
            }
            for run in 0..task.input.runs {
                // SAFETY: there are ROWS starts for each run.
                let starts = unsafe { &*task.input.starts.add(run * ROWS).cast::<[*const f32; ROWS]>() };
                let mut first = 0;
                if const { are_worth_it::<S>(ROWS) } {
                    // SAFETY: the panel has a bundle for each number of each run, and a run `length` numbers.
                    unsafe {
                        first = add_steps::<S, ROWS, STREAMS>(
                            &mut sums,
                            starts,
                            weights,
                            task.input.length,
                            (ahead, task.ahead.step),
                        );
                        weights = weights.add(first * S::LANES);
                        ahead = ahead.wrapping_add(first * task.ahead.step);
                    }
                }
                let part = part_of_stream::<STREAMS>(task.input.length - first, task.ahead.step);
                for k in first..task.input.length {
                    // SAFETY: the panel has a bundle for each number of each run, and a run `length` numbers.
                    unsafe {
                        let factors = S::load(weights);
                        weights = weights.add(S::LANES);
                        fetch_next::<S, STREAMS>(k, weights, &mut ahead, part, task.ahead.step);
                        for r in 0..ROWS {
                            sums[r] = S::splat(*starts[r].add(k)).mul_add(factors, sums[r]);
                        }
                    }
                }
                if STREAMS > 1 {
                    // Those of the other streams.
                    ahead = ahead.wrapping_add((STREAMS - 1) * part);
                }
            }
            // SAFETY: the caller's promise.
            unsafe { finish(sums, task, column) }
        }
    }
}

/// Several tiles, one after the other: rows begin [`Input::step`](super::Input::step) numbers apart, from the only start on, and so do the
/// outputs of all of them lie. Nothing is decided between tiles, and nothing kept in memory: products that were begun go on meanwhile for
/// some 100 cycles only.
impl<const STREAMS: usize> Rows for InLine<STREAMS> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn run<S: VectorBundle, const ROWS: usize>(task: &Task) {
        // SAFETY: there is one start.
        let mut start = unsafe { *task.input.starts };
        let (mut output, mut added, mut first_ahead) = (task.output.start, task.added.start, task.ahead.start);
        for _ in 0..task.tiles {
            let mut ahead = first_ahead;
            for panel in 0..task.weights.panels {
                let task = reloaded(task);
                let (mut weights, column) = (task.weights.panel.wrapping_add(panel * task.weights.step), panel * S::LANES);
                // SAFETY: the caller's promise.
                let mut sums = [unsafe { bias::<S>(task, column) }; ROWS];
                if task.output.is_far {
                    expect::<S, ROWS>(output.cast_const(), task, column, task.output.is_bits);
                }
                if !added.is_null() {
                    expect::<S, ROWS>(added, task, column, task.added.is_bits);
                }
                let distance = task.input.step;
                let mut first = 0;
                if const { are_worth_it::<S>(ROWS) } {
                    let starts: [_; ROWS] = std::array::from_fn(|r| start.wrapping_add(opaque(r * distance)));
                    // SAFETY: the panel has a bundle for each number of a run, and a run `length` numbers.
                    unsafe {
                        first = add_steps::<S, ROWS, STREAMS>(
                            &mut sums,
                            &starts,
                            weights,
                            task.input.length,
                            (ahead, task.ahead.step),
                        );
                        weights = weights.add(first * S::LANES);
                        ahead = ahead.wrapping_add(first * task.ahead.step);
                    }
                }
                let mut numbers = start.wrapping_add(first);
                let part = part_of_stream::<STREAMS>(task.input.length - first, task.ahead.step);
                for k in first..task.input.length {
                    // SAFETY: the panel has a bundle for each number of a run, and a run `length` numbers.
                    unsafe {
                        let factors = S::load(weights);
                        weights = weights.add(S::LANES);
                        fetch_next::<S, STREAMS>(k, weights, &mut ahead, part, task.ahead.step);
                        for r in 0..ROWS {
                            sums[r] = S::splat(*numbers.add(r * distance)).mul_add(factors, sums[r]);
                        }
                        numbers = numbers.add(1);
                    }
                }
                if STREAMS > 1 {
                    // Those of the other streams.
                    ahead = ahead.wrapping_add((STREAMS - 1) * part);
                }
                let task = reloaded(task);
                // SAFETY: tiles in line have all columns.
                unsafe {
                    if const { S::OF_PAIRS } && (task.output.is_bits || task.added.is_bits) {
                        finish_bits(sums, task, task.output.after(output, column), task.added.after(added, column));
                    } else {
                        finish_whole(sums, task, output.wrapping_add(column), added.wrapping_add(column));
                    }
                }
            }
            start = start.wrapping_add(ROWS * task.input.step);
            if const { S::OF_PAIRS } {
                output = task.output.after(output, ROWS * task.output.stride);
                added = task.added.after(added, ROWS * task.output.stride);
            } else {
                output = output.wrapping_add(ROWS * task.output.stride);
                if !added.is_null() {
                    added = added.wrapping_add(ROWS * task.output.stride);
                }
            }
            first_ahead = first_ahead.wrapping_add(task.ahead.of_tile);
        }
    }
}

/// What the sums of columns begin with.
///
/// # Safety
/// See [`Tile`](super::Tile).
#[inline(always)]
unsafe fn bias<S: VectorBundle>(task: &Task, column: usize) -> S {
    if task.weights.bias.is_null() {
        return S::splat(0.0);
    }
    // SAFETY: the bias, if there is one, has a number for each column, by the caller's promise.
    unsafe { S::load(task.weights.bias.add(column)) }
}

/// Brings closer what is needed after a step in depth: weights that may still be on their way from memory, and a line of each
/// stream of what comes later.
#[inline(always)]
fn fetch_next<S: VectorBundle, const STREAMS: usize>(
    k: usize,
    weights: *const f32,
    ahead: &mut *const f32,
    part: usize,
    ahead_step: usize,
) {
    if STREAMS == 0 {
        return;
    }
    if STREAMS > 1 || S::LANES < WIDE {
        for line in 0..S::LANES.div_ceil(LINE) {
            fetch::<0>(weights.wrapping_add(SOON + line * LINE));
        }
    }
    if k.is_multiple_of(STREAMS) {
        for stream in 0..STREAMS {
            fetch::<1>(ahead.wrapping_add(stream * part));
        }
        if ahead_step > LINE {
            (0..STREAMS).for_each(|stream| fetch::<1>(ahead.wrapping_add(stream * part + LINE)));
        }
        *ahead = ahead.wrapping_add(ahead_step);
    }
}

/// How far apart streams are that together are as many numbers as are fetched with so many steps.
#[inline(always)]
pub fn part_of_stream<const STREAMS: usize>(steps: usize, of_step: usize) -> usize {
    steps.checked_div(STREAMS).unwrap_or(0) * of_step
}

/// Brings the lines of a tile that lies like the output into the cache.
#[inline(always)]
fn expect<S: VectorBundle, const ROWS: usize>(start: *const f32, task: &Task, column: usize, is_bits: bool) {
    let stride = reloaded(task).output.stride;
    if const { S::OF_PAIRS } && is_bits {
        for r in 0..ROWS {
            let row = start.cast::<u16>().wrapping_add(r * stride + column);
            fetch::<0>(row.cast());
            fetch::<0>(row.wrapping_add(S::LANES - 1).cast());
        }
        return;
    }
    for r in 0..ROWS {
        let row = start.wrapping_add(r * stride + column);
        fetch::<0>(row);
        fetch::<0>(row.wrapping_add(S::LANES - 1));
    }
}

/// For each run there is the start of the first row.
impl<const STEP: usize> Rows for Spaced<STEP> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn run<S: VectorBundle, const ROWS: usize>(task: &Task) {
        let step = if STEP == 0 { task.input.step } else { STEP };
        for panel in 0..task.weights.panels {
            let task = reloaded(task);
            let (mut weights, column) = (task.weights.panel.wrapping_add(panel * task.weights.step), panel * S::LANES);
            // SAFETY: the caller's promise.
            let mut sums = [unsafe { bias::<S>(task, column) }; ROWS];
            for run in 0..task.input.runs {
                // SAFETY: there is a start for each run.
                let mut number = unsafe { *task.input.starts.add(run) };
                for _ in 0..task.input.length {
                    // SAFETY: the panel has a bundle for each number of each run, and every row's run `length` numbers.
                    unsafe {
                        let factors = S::load(weights);
                        weights = weights.add(S::LANES);
                        for r in 0..ROWS {
                            sums[r] = S::splat(*number.add(r * step)).mul_add(factors, sums[r]);
                        }
                        number = number.wrapping_add(task.input.dilation);
                    }
                }
            }
            // SAFETY: the caller's promise.
            unsafe { finish(sums, task, column) }
        }
    }
}
