//! What is done to the sums of a tile in the end.
#![allow(unsafe_code)]

use super::Task;
use crate::epilogue::clamp::Clamps;
use crate::simd::optimization_barrier::{opaque, reloaded};
use crate::simd::vector_bundle::VectorBundle;

/// Finishes sums and writes them to the output from a column on.
///
/// # Safety
/// See [`Tile`](super::Tile).
#[inline(always)]
pub unsafe fn finish<S: VectorBundle, const ROWS: usize>(sums: [S; ROWS], task: &Task, column: usize) {
    let task = reloaded(task);
    if const { S::OF_PAIRS } && (task.output.is_bits || task.added.is_bits) {
        // SAFETY: the caller's promise.
        return unsafe {
            finish_bits(sums, task, task.output.after(task.output.start, column), task.added.after(task.added.start, column))
        };
    }
    let (output, added) = (task.output.start.wrapping_add(column), task.added.start.wrapping_add(column));
    if task.weights.columns >= S::LANES {
        // SAFETY: the caller's promise.
        return unsafe { finish_whole(sums, task, output, added) };
    }
    // A copy, which may lie in memory: the sums themselves would otherwise do so above too.
    let copied = sums;
    for (r, &sum) in copied.iter().enumerate() {
        // SAFETY: the output, and what is added, have `columns` numbers for each row.
        unsafe {
            let added = match task.added.start.is_null() {
                true => None,
                false => Some(S::load_first(added.add(r * task.output.stride), task.weights.columns)),
            };
            task.clamps.finish(sum, added).store_first(output.add(r * task.output.stride), task.weights.columns);
        }
    }
}

/// The same to an output, or with what is added to it, that lies as bfloat16, from there on.
///
/// # Safety
/// See [`Tile`](super::Tile).
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
pub unsafe fn finish_bits<S: VectorBundle, const ROWS: usize>(
    mut sums: [S; ROWS],
    task: &Task,
    output: *mut f32,
    added: *const f32,
) {
    let Clamps { before, after } = task.clamps;
    let count = task.weights.columns.min(S::LANES);
    sums = before.bound_all(sums);
    if !task.added.start.is_null() {
        for r in 0..ROWS {
            let from = task.added.after(added, r * task.output.stride);
            // SAFETY: what is added has `columns` numbers for each row.
            let added = unsafe {
                match task.added.is_bits {
                    true if count == S::LANES => S::load_bits(from.cast(), S::LANES),
                    true => S::load_bits(from.cast(), count),
                    false => S::load_first(from, count),
                }
            };
            sums[r] = sums[r].add(added);
        }
        sums = after.bound_all(sums);
    }
    for r in 0..ROWS {
        let to = task.output.after(output, r * task.output.stride);
        // SAFETY: the output has `columns` numbers for each row.
        unsafe {
            match task.output.is_bits {
                true if count == S::LANES => sums[r].store_bits(to.cast(), S::LANES),
                true => sums[r].store_bits(to.cast(), count),
                false => sums[r].store_first(to, count),
            }
        }
    }
}

/// The same where all columns exist, to outputs and with what is added to them from there on.
///
/// # Safety
/// See [`Tile`](super::Tile).
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
pub unsafe fn finish_whole<S: VectorBundle, const ROWS: usize>(
    mut sums: [S; ROWS],
    task: &Task,
    output: *mut f32,
    added: *const f32,
) {
    let Clamps { before, after } = task.clamps;
    // Operator by operator, with indices that are known when this is compiled: so the sums need not lie in memory.
    sums = before.bound_all(sums);
    if !task.added.start.is_null() {
        let stride = opaque(task.output.stride);
        for r in 0..ROWS {
            // SAFETY: what is added has `columns` numbers for each row.
            sums[r] = sums[r].add(unsafe { S::load(added.add(r * stride)) });
        }
        sums = after.bound_all(sums);
    }
    let stride = opaque(task.output.stride);
    for r in 0..ROWS {
        // SAFETY: the output has `columns` numbers for each row.
        unsafe { sums[r].store(output.add(r * stride)) }
    }
}
