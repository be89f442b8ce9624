//! Tile after tile of rows that lie one after the other: what a tile is given is made once for all of them. To make it for each
//! takes as long as 16 to 32 steps in depth of a tile.
#![allow(unsafe_code)]

use crate::conv::microkernels::{MOST_ROWS, Task, Tiles};
use std::ops::Range;

/// Bytes of rows, of the input and the output, that stay in the first-level cache while tiles pass over them.
pub const CLOSE: usize = 16 << 10;

/// Rows in tiles of nearly the same height.
#[derive(Clone, Copy, Debug)]
pub struct Heights {
    pub tiles: usize,
    /// Rows of a tile, and how many of the first tiles have one more.
    height: usize,
    higher: usize,
}

impl Heights {
    pub fn new(tiles: &Tiles, rows: usize) -> Heights {
        let (count, _) = tiles.divide(rows);
        Heights { tiles: count, height: rows / count, higher: rows % count }
    }

    /// Rows of a tile, of which others have one more.
    pub fn least(&self) -> usize {
        self.height
    }

    /// The rows of a tile.
    pub fn tile(&self, number: usize) -> Range<usize> {
        let first = number * self.height + number.min(self.higher);
        first..first + self.height + usize::from(number < self.higher)
    }

    /// The rows of some tiles.
    pub fn rows(&self, tiles: Range<usize>) -> Range<usize> {
        let start = |tile: usize| tile * self.height + tile.min(self.higher);
        start(tiles.start)..start(tiles.end)
    }
}

/// What a tile brings into the cache.
#[derive(Clone, Copy, Debug)]
pub enum Next {
    /// The rows of the next tile, as far as the task fetches numbers with each step.
    Rows,
    /// Numbers that begin so far behind those of the tile before.
    Apart(usize),
}

impl Tiles {
    /// Runs a task for some tiles: it is that of the first of them, but for where rows begin, which is `distance` numbers apart
    /// from `first` on.
    ///
    /// # Safety
    /// As for [`Tiles::run`], of all tiles: there is a run of numbers for each row, and the outputs of all rows, and what is
    /// added to them, lie one after the other.
    ///
    /// # Panics
    /// When a tile has more than one run of numbers, or more rows than there are tiles for.
    #[inline]
    pub unsafe fn run_in_line(
        &self,
        (heights, tiles): (&Heights, Range<usize>),
        (first, distance): (*const f32, usize),
        next: Next,
        task: Task,
    ) {
        assert!(task.input.runs == 1 && heights.height + usize::from(heights.higher > 0) <= MOST_ROWS);
        if task.weights.columns < self.columns {
            // SAFETY: the caller's promise.
            return unsafe { self.run_narrow((heights, tiles), (first, distance), task) };
        }
        let higher = heights.higher.clamp(tiles.start, tiles.end);
        let (mut task, mut start) = (task, first);
        task.input.step = distance;
        for (tiles, rows) in [(tiles.start..higher, heights.height + 1), (higher..tiles.end, heights.height)] {
            let numbers = tiles.len() * rows * task.output.stride;
            (task.input.starts, task.tiles) = (&start, tiles.len());
            match next {
                Next::Rows => (task.ahead.start, task.ahead.of_tile) = (start.wrapping_add(rows * distance), rows * distance),
                Next::Apart(numbers) => task.ahead.of_tile = numbers,
            }
            if task.tiles > 0 {
                // SAFETY: the caller's promise.
                unsafe { self.run_tiles(rows, &task) }
            }
            start = start.wrapping_add(tiles.len() * rows * distance);
            task.ahead.start = task.ahead.start.wrapping_add(tiles.len() * task.ahead.of_tile);
            task.output.start = task.output.after(task.output.start, numbers);
            task.added.start = task.added.after(task.added.start, numbers);
        }
    }

    /// The same for tiles of fewer columns, which bring nothing into the cache.
    ///
    /// # Safety
    /// As for [`Tiles::run_in_line`], which has asserted the heights.
    unsafe fn run_narrow(&self, (heights, tiles): (&Heights, Range<usize>), (first, distance): (*const f32, usize), task: Task) {
        let mut starts = [std::ptr::null(); MOST_ROWS];
        // Written and read through the same pointer.
        let starts: *mut *const f32 = starts.as_mut_ptr();
        let (mut task, mut start) = (task, first);
        task.input.starts = starts;
        for tile in tiles {
            let rows = heights.height + usize::from(tile < heights.higher);
            for r in 0..rows {
                // SAFETY: no tile has more rows (asserted).
                unsafe { *starts.add(r) = start };
                start = start.wrapping_add(distance);
            }
            // SAFETY: the caller's promise.
            unsafe { self.run(rows, &task) }
            task.output.start = task.output.after(task.output.start, rows * task.output.stride);
            task.added.start = task.added.after(task.added.start, rows * task.output.stride);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caches::Caches;
    use crate::conv::microkernels::{Added, Ahead, Input, Output, Weights};
    use crate::epilogue::clamp::{Bounds, Clamps};
    use crate::isa::Isa;
    use crate::testing::numbers;

    /// Multiplies some tiles of rows that are `distance` apart with panels, and compares all of the output.
    fn check(
        tiles: &Tiles,
        [rows, depth, columns, panels]: [usize; 4],
        some: Range<usize>,
        next: Next,
        ahead_step: usize,
        adds: bool,
    ) {
        let (distance, stride) = (depth + 3, panels * columns + 2);
        let of_one = tiles.width(columns);
        let (input, weights) = (numbers(rows * distance, 1), numbers(panels * depth * of_one, 2));
        let (bias, added) = (numbers(panels * of_one, 3), numbers(rows * stride, 4));
        let mut output = vec![f32::NAN; rows * stride];
        let heights = Heights::new(tiles, rows);
        let (wanted, first) = (heights.rows(some.clone()), heights.rows(some.clone()).start);
        let clamps = Clamps { before: Bounds([-0.5, 0.75]), after: Bounds([-0.6, f32::INFINITY]) };
        let task = Task {
            input: Input { runs: 1, length: depth, starts: std::ptr::null(), step: 0, dilation: 1 },
            tiles: 1,
            ahead: Ahead { start: weights.as_ptr(), step: ahead_step, of_tile: 0 },
            weights: Weights { panel: weights.as_ptr(), bias: bias.as_ptr(), columns, panels, step: depth * of_one },
            output: Output { start: output[first * stride..].as_mut_ptr(), stride, is_bits: false, is_far: adds },
            added: if adds { Added { start: added[first * stride..].as_ptr(), is_bits: false } } else { Added::NOTHING },
            clamps,
        };
        // SAFETY: there are numbers for all rows, weights and a bias for all panels, and outputs for all rows and columns.
        unsafe { tiles.run_in_line((&heights, some), (input[first * distance..].as_ptr(), distance), next, task) };
        for (i, &found) in output.iter().enumerate() {
            let (row, column) = (i / stride, i % stride);
            let place = format!("{rows} x {depth} x {panels} x {columns}, {} rows a tile, at {row}, {column}", tiles.rows);
            if !wanted.contains(&row) || column >= panels * columns {
                assert!(found.is_nan(), "{place}: {found}");
                continue;
            }
            let (panel, within) = (column / columns, column % columns);
            let product = |k: usize| input[row * distance + k] * weights[(panel * depth + k) * of_one + within];
            let mut expected = ((0..depth).map(product).sum::<f32>() + bias[panel * of_one + within]).clamp(-0.5, 0.75);
            if adds {
                expected = (expected + added[i]).max(-0.6);
            }
            assert!((found - expected).abs() < 1e-4, "{place}: {found}, not {expected}");
        }
    }

    #[test]
    fn many_tiles_are_computed_as_each_is() {
        for isa in Isa::available() {
            let tiles = Tiles::of(isa);
            let wide = Tiles::for_product(isa, 1000, [16, 64], true, Caches::LARGE);
            for tiles in [tiles, wide, Tiles::of_columns(isa, tiles.step)] {
                for count in [1, 2, 5] {
                    for missing in 0..tiles.rows.min(3) {
                        let rows = count * tiles.rows - missing;
                        for (adds, ahead_step, depth) in [(false, 0, 7), (true, 2, 21), (true, 16, 300)] {
                            for (columns, panels) in [(tiles.columns, 1), (tiles.columns, 3), (tiles.columns - 1, 1)] {
                                let size = [rows, depth, columns, panels];
                                check(tiles, size, 0..count, Next::Rows, ahead_step, adds);
                                check(tiles, size, count / 2..count, Next::Apart(depth), ahead_step, adds);
                            }
                        }
                    }
                }
            }
        }
    }
}
