//! Tiles of enormous depth, in parts between which it is looked whether somebody still wants them. Sums of integers are the same in parts.
#![allow(unsafe_code)]

use crate::looks;
use std::ops::Range;
use webnn_kernels::int8::microkernels::{Epilogue, MOST_NUMBERS, Task, Tiles};

/// About how many nanoseconds a tile of so many bytes, rows and columns takes; reading the weights takes as long as a few rows.
pub fn cost(depth: usize, rows: usize, columns: usize) -> usize {
    (rows * columns).saturating_mul(depth) / 256 + columns.saturating_mul(depth) / 32
}

/// Bytes of the depth of a part: whole ones of every set of tiles.
const PART: usize = 1024;

/// Runs a tile as [`Tiles::run`] does.
///
/// # Safety
/// As there.
pub unsafe fn run(tiles: &Tiles, vectors: usize, task: &Task) {
    let width = vectors * tiles.lanes;
    let (mut sums, mut some) = ([0i32; MOST_NUMBERS], [0u32; MOST_NUMBERS]);
    let none = [0i32; MOST_NUMBERS];
    let epilogue =
        Epilogue { start: none.as_ptr(), zeros: std::ptr::null(), row_sums: std::ptr::null(), factors: std::ptr::null() };
    let gathered = tiles.gathered_step(task.rows);
    // Gathered rows are one run.
    let (runs, length) = if gathered.is_some() { (1, task.runs * task.length) } else { (task.runs, task.length) };
    for run in 0..runs {
        for first in (0..length).step_by(PART) {
            let part = first..length.min(first + PART);
            // SAFETY: there is a start for each run and row, or one of all, and the bytes and weights of the part lie from there on, by the
            // caller's promise.
            let (starts, weights) = unsafe {
                let starts = starts_of(task, run, &part, gathered);
                (starts, task.weights.add((run * length + first) * width * tiles.weight))
            };
            let (starts, output) = (starts.as_ptr(), some.as_mut_ptr());
            let of_part = Task { runs: 1, length: part.len(), starts, weights, epilogue, output, stride: width, ..*task };
            // SAFETY: as above; there is room for the largest tile.
            unsafe { tiles.run(vectors, &of_part) };
            let count = task.rows * width;
            sums[..count].iter_mut().zip(&some).for_each(|(sum, &part)| *sum = sum.wrapping_add(part as i32));
            looks::worked(cost(part.len(), task.rows, width));
        }
    }
    // A tile without depth finishes each row, to which its sums are added.
    for (row, sums) in sums.chunks_exact_mut(width).take(task.rows).enumerate() {
        // SAFETY: there is a number for each column of the tile, and for each row if there are zero points, and the output has the row,
        // by the caller's promise.
        unsafe {
            let start = std::slice::from_raw_parts(task.epilogue.start, width);
            sums.iter_mut().zip(start).for_each(|(sum, start)| *sum = sum.wrapping_add(*start));
            let row_sums = task.epilogue.row_sums.wrapping_add(row);
            let epilogue = Epilogue { start: sums.as_ptr(), row_sums, ..task.epilogue };
            let output = task.output.add(row * task.stride);
            tiles.run(vectors, &Task { runs: 0, rows: 1, epilogue, output, ..*task });
        }
    }
}

/// Where the rows of a part of a run begin.
///
/// # Safety
/// There must be a start for each run and row, or one of gathered rows, and the bytes of the part.
unsafe fn starts_of(task: &Task, run: usize, part: &Range<usize>, gathered: Option<usize>) -> Vec<*const u8> {
    // SAFETY: the caller's promise.
    unsafe {
        match gathered {
            Some(step) => vec![(*task.starts).add(part.start * step)],
            None => (0..task.rows).map(|row| (*task.starts.add(run * task.rows + row)).add(part.start)).collect(),
        }
    }
}
