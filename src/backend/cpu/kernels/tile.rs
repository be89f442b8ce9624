//! The innermost loop of convolutions with the channels last: a tile of some output pixels and one or two vectors of their
//! channels, with all sums in registers.
//!
//! A row of the tile is a pixel. What it is made from are *runs* of consecutive numbers of the input, one for each element
//! of the filter's window (or for each row of it, where few channels lie beside each other), wherever they are: the input is
//! read in place. The weights are packed into panels of the tile's columns, in the order in which the loop reads them.
#![allow(unsafe_code)]

use super::isa::{Isa, Level};
use super::limits::Limits;
use super::vector::{Array, Vector};

/// The highest tile of any instruction set.
pub const MOST_ROWS: usize = 14;
/// The vectors of the widest tile.
pub const WIDEST: usize = 2;

/// What one tile computes, and where.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub runs: usize,
    /// Numbers of a run.
    pub length: usize,
    /// Where the runs begin: for each run, for each row.
    pub starts: *const *const f32,
    /// A panel: for each run, for each of its numbers, a row of columns.
    pub weights: *const f32,
    /// A number for each column, or null.
    pub bias: *const f32,
    pub output: *mut f32,
    /// What is added to the output, laid out like it, or null.
    pub added: *const f32,
    /// Numbers from one output pixel to the next.
    pub stride: usize,
    /// Columns that exist: the last vector may be only partly there.
    pub columns: usize,
    pub limits: Limits,
}

/// # Safety
/// All pointers of the task must be valid for what they say, nobody else may access the output, and the CPU must have the
/// instructions.
pub type Tile = unsafe fn(&Task);

/// The tiles of an instruction set, by number of rows (from 0, which does nothing) and of vectors (from 1).
#[derive(Debug)]
pub struct Tiles {
    /// Rows of a full tile.
    pub rows: usize,
    /// Numbers in a vector.
    pub lanes: usize,
    tiles: [[Tile; WIDEST]; MOST_ROWS + 1],
}

impl Tiles {
    pub fn of(isa: &Isa) -> &'static Tiles {
        match isa.level {
            Level::Portable => &PORTABLE,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &x86::AVX2,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => &x86::AVX512,
        }
    }

    /// # Safety
    /// The pointers of the task must be valid: for each run and row, `length` numbers from its start; for each of these,
    /// the weights of `vectors` whole vectors; as many of the bias; `columns` numbers of the output, and of what is added,
    /// for each row. Nobody else may access that output meanwhile.
    #[inline]
    pub unsafe fn run(&self, rows: usize, vectors: usize, task: &Task) {
        debug_assert!(rows <= self.rows && task.columns <= vectors * self.lanes && task.columns > (vectors - 1) * self.lanes);
        // SAFETY: the caller's promise; the table is that of an instruction set that the CPU has (`Tiles::of`).
        unsafe { self.tiles[rows][vectors - 1](task) }
    }

    /// Divides rows into tiles of nearly the same height; their number and greatest height.
    pub fn divide(&self, rows: usize) -> (usize, usize) {
        let count = rows.div_ceil(self.rows).max(1);
        (count, rows.div_ceil(count))
    }
}

/// # Safety
/// See [`Tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
unsafe fn tile<V: Vector, const ROWS: usize, const VECTORS: usize>(task: &Task) {
    let mut bias = [V::set(0.0); VECTORS];
    if !task.bias.is_null() {
        for (v, bias) in bias.iter_mut().enumerate() {
            // SAFETY: the bias has a number for each column, by the caller's promise.
            *bias = unsafe { V::load(task.bias.add(v * V::LANES)) };
        }
    }
    let mut sums = [bias; ROWS];
    let mut weights = task.weights;
    for run in 0..task.runs {
        // SAFETY: there are ROWS starts for each run.
        let starts = unsafe { &*task.starts.add(run * ROWS).cast::<[*const f32; ROWS]>() };
        for k in 0..task.length {
            // SAFETY: the panel has VECTORS vectors for each number of each run, and a run `length` numbers.
            unsafe {
                let mut factors = [V::set(0.0); VECTORS];
                for (v, factor) in factors.iter_mut().enumerate() {
                    *factor = V::load(weights.add(v * V::LANES));
                }
                weights = weights.add(VECTORS * V::LANES);
                for r in 0..ROWS {
                    let number = V::set(*starts[r].add(k));
                    for v in 0..VECTORS {
                        sums[r][v] = number.mul_add(factors[v], sums[r][v]);
                    }
                }
            }
        }
    }
    let Limits { before, after } = task.limits;
    let place = |r: usize, v: usize| r * task.stride + v * V::LANES;
    if task.columns >= VECTORS * V::LANES {
        // Stage by stage, with indices that are known when this is compiled: so the sums need not lie in memory.
        for r in 0..ROWS {
            for v in 0..VECTORS {
                sums[r][v] = before.bound(sums[r][v]);
            }
        }
        if !task.added.is_null() {
            for r in 0..ROWS {
                for v in 0..VECTORS {
                    // SAFETY: what is added has `columns` numbers for each row.
                    sums[r][v] = sums[r][v].add(unsafe { V::load(task.added.add(place(r, v))) });
                }
            }
            for r in 0..ROWS {
                for v in 0..VECTORS {
                    sums[r][v] = after.bound(sums[r][v]);
                }
            }
        }
        for r in 0..ROWS {
            for v in 0..VECTORS {
                // SAFETY: the output has `columns` numbers for each row.
                unsafe { sums[r][v].store(task.output.add(place(r, v))) }
            }
        }
        return;
    }
    // A copy, which may lie in memory: the sums themselves would otherwise do so in the loop above too.
    let sums = sums;
    for (r, sums) in sums.iter().enumerate() {
        for (v, &sum) in sums.iter().enumerate() {
            let place = place(r, v);
            let count = V::LANES.min(task.columns - v * V::LANES);
            let sum = before.bound(sum);
            // SAFETY: the output, and what is added, have `columns` numbers for each row.
            unsafe {
                match task.added {
                    added if added.is_null() => sum.store_first(task.output.add(place), count),
                    added if count == V::LANES => {
                        after.bound(sum.add(V::load(added.add(place)))).store(task.output.add(place));
                    }
                    added => {
                        let added = V::load_first(added.add(place), count);
                        after.bound(sum.add(added)).store_first(task.output.add(place), count);
                    }
                }
            }
        }
    }
}

macro_rules! tiles {
    ($tile:ident; $($rows:literal)*) => { [ $( [$tile::<$rows, 1>, $tile::<$rows, 2>] ),* ] };
    ($tile:ident) => { tiles!($tile; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14) };
}

/// # Safety
/// See [`Tile`].
unsafe fn portable<const ROWS: usize, const VECTORS: usize>(task: &Task) {
    // SAFETY: the caller's promise.
    unsafe { tile::<Array, ROWS, VECTORS>(task) }
}

static PORTABLE: Tiles = Tiles { rows: 6, lanes: Array::LANES, tiles: tiles!(portable) };

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::super::vector::x86::{Avx2, Avx512};
    use super::{Task, Tiles, Vector, tile};

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<const ROWS: usize, const VECTORS: usize>(task: &Task) {
        // SAFETY: the caller's promise.
        unsafe { tile::<Avx2, ROWS, VECTORS>(task) }
    }

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    unsafe fn avx512<const ROWS: usize, const VECTORS: usize>(task: &Task) {
        // SAFETY: the caller's promise.
        unsafe { tile::<Avx512, ROWS, VECTORS>(task) }
    }

    pub static AVX2: Tiles = Tiles { rows: 6, lanes: Avx2::LANES, tiles: tiles!(avx2) };
    pub static AVX512: Tiles = Tiles { rows: 14, lanes: Avx512::LANES, tiles: tiles!(avx512) };
}
