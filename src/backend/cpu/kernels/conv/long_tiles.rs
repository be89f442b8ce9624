//! Tiles of enormous depth, or of enormously many channels, in parts between which it is looked whether somebody still wants them. Results
//! are the same to the bit: a tile adds the products of each row to its bias in the order of the depth, whatever other rows it has.
#![allow(unsafe_code)]

use super::{Task, Tiles};
use crate::backend::cpu::kernels::product::cost;
use crate::looks::{self, Progress};
use webnn_kernels::conv::microkernels::{Added, Weights};
use webnn_kernels::epilogue::clamp::Clamps;
use webnn_kernels::tiles::{MOST_COLUMNS, MOST_ROWS};

/// Numbers of a run that are multiplied with all rows while their part of the panel is in the cache.
const PART: usize = 1024;

/// Runs a tile as [`Tiles::run`] does, panel by panel, and goes through the depth of a long one in parts.
///
/// # Safety
/// As there.
pub unsafe fn run(tiles: &Tiles, rows: usize, task: &Task) {
    let depth = task.input.runs * task.input.length;
    let width = tiles.width(task.weights.columns);
    let cost = cost(rows, depth, width);
    for panel in 0..task.weights.panels {
        let mut one = after(task, panel * width, 0);
        one.weights.panel = task.weights.panel.wrapping_add(panel * task.weights.step);
        // SAFETY: the caller's promise.
        unsafe {
            if Progress::of(cost).is_long {
                run_panel(tiles, rows, &one, width);
            } else {
                tiles.run(rows, &one);
                looks::worked(cost);
            }
        }
    }
}

/// A task with one panel, whose columns and rows begin so far after the first ones. The weights are the same.
fn after(task: &Task, column: usize, row: usize) -> Task {
    let mut part = *task;
    let place = row * task.output.stride + column;
    part.ahead.step = 0;
    part.weights.panels = 1;
    if !task.weights.bias.is_null() {
        part.weights.bias = task.weights.bias.wrapping_add(column);
    }
    part.output.start = task.output.after(task.output.start, place);
    part.added.start = task.added.after(task.added.start, place);
    part
}

/// Runs a tile of one panel, which has so many columns. Each row is a tile of its own: the sums of a part of the depth are the bias of the
/// next one.
///
/// # Safety
/// As [`run`].
unsafe fn run_panel(tiles: &Tiles, rows: usize, task: &Task, width: usize) {
    let Task { input, weights, .. } = task;
    let mut sums = [[0.0; MOST_COLUMNS]; MOST_ROWS];
    if !weights.bias.is_null() {
        // SAFETY: the bias has a number for each column, by the caller's promise.
        let bias = unsafe { std::slice::from_raw_parts(weights.bias, width) };
        sums[..rows].iter_mut().for_each(|sums| sums[..width].copy_from_slice(bias));
    }
    let mut of_part = Task { added: Added::NOTHING, clamps: Clamps::default(), ..*task };
    (of_part.input.runs, of_part.output.is_bits, of_part.output.is_far) = (1, false, false);
    of_part.weights = Weights { columns: width, ..*weights };
    for run in 0..input.runs {
        for first in (0..input.length).step_by(PART) {
            of_part.input.length = PART.min(input.length - first);
            of_part.weights.panel = weights.panel.wrapping_add((run * input.length + first) * width);
            for (row, sums) in sums[..rows].iter_mut().enumerate() {
                // SAFETY: there is a start for each run and row, by the caller's promise.
                let start = unsafe { *input.starts.add(run * rows + row) }.wrapping_add(first);
                let sums = sums.as_mut_ptr();
                (of_part.input.starts, of_part.weights.bias, of_part.output.start) = (&raw const start, sums.cast_const(), sums);
                // SAFETY: the part's numbers lie at the start of each run, and a row of columns for each of them in the panel, by the caller's
                // promise; the sums have room for them, and are read as the bias before they are written.
                unsafe { tiles.run(1, &of_part) }
            }
            looks::worked(cost(rows, of_part.input.length, width));
        }
    }
    // A tile without depth finishes each row.
    for (row, sums) in sums[..rows].iter().enumerate() {
        let mut finished = after(task, 0, row);
        (finished.input.runs, finished.weights.bias) = (0, sums.as_ptr());
        // SAFETY: nothing is read of the input; there is a sum for each column of the tile, and the output and what is added have this row,
        // by the caller's promise.
        unsafe { tiles.run(1, &finished) }
    }
}
