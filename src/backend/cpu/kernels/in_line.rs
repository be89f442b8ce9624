//! Tile after tile of rows that lie one behind the other: what a tile is given is made once for all of them. To make it for each
//! takes as long as 16 to 32 steps in depth of a tile.
#![allow(unsafe_code)]

use super::tile::{MOST_ROWS, Task, Tiles};
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
    /// added to them, lie one behind the other.
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
        assert!(task.runs == 1 && heights.height + usize::from(heights.higher > 0) <= MOST_ROWS);
        let mut starts = [std::ptr::null(); MOST_ROWS];
        // Written and read through the same pointer.
        let starts: *mut *const f32 = starts.as_mut_ptr();
        let (mut task, mut start) = (Task { starts, ..task }, first);
        for tile in tiles {
            let rows = heights.height + usize::from(tile < heights.higher);
            for r in 0..rows {
                // SAFETY: no tile has more rows (asserted).
                unsafe { *starts.add(r) = start };
                start = start.wrapping_add(distance);
            }
            if let Next::Rows = next {
                task.ahead = start;
            }
            // SAFETY: the caller's promise.
            unsafe { self.run(rows, &task) }
            task.output = task.output.wrapping_add(rows * task.stride);
            if !task.added.is_null() {
                task.added = task.added.wrapping_add(rows * task.stride);
            }
            if let Next::Apart(numbers) = next {
                task.ahead = task.ahead.wrapping_add(numbers);
            }
        }
    }
}
