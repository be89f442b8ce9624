//! The innermost loop of convolutions with the channels last: a tile of some output pixels and some of their channels, as many
//! as one or two registers hold, or four, with all sums in registers.
//!
//! A row of the tile is a pixel. What it is made from are *runs* of consecutive numbers of the input, one for each element
//! of the filter's window (or for each row of it, where few channels lie beside each other), wherever they are: the input is
//! read in place. The weights are packed into panels of the tile's columns, in the order in which the loop reads them.
#![allow(unsafe_code)]

use crate::caches::Caches;
use crate::epilogue::clamp::Clamps;
use crate::gemm::microkernels::{Microkernels, Operands};
use crate::isa::{Isa, Level};
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::prefetch::LINE;
use crate::simd::vector::Array;
use crate::simd::vector_bundle::{Both, VectorBundle};
use loops::{in_line, part_of_stream, spaced, tile};

mod finish;
mod loops;

/// The highest tile of any instruction set.
pub const MOST_ROWS: usize = 14;
/// From so many columns on tiles are wide.
const WIDE: usize = 64;

/// The part of the second-level cache that a panel of wide tiles may have: it is read anew for each tile.
const OF_WIDE: usize = 8;
/// So many of them are read anew for each tile, if they do not pass over many.
const FEW_PANELS: usize = 2;

/// How far behind the weights that are read those are that are fetched: at the pace of a tile, as long as memory takes. Wide tiles
/// do so only where memory must be fast: for them it takes as long as it saves.
const SOON: usize = 1024;
/// What is needed later is fetched in so many streams where memory must be fast, which gives several faster than one: from so many
/// numbers with each step on, and a page for each stream. Elsewhere each instruction of a step counts.
const SEVERAL: usize = 4;
const FAST: usize = LINE / 2;
const LONG: usize = 1024;

/// What one tile computes, and where.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub runs: usize,
    /// Numbers of a run.
    pub length: usize,
    /// Where the runs begin: for each run, for each row; for the first row only of tiles whose rows are evenly apart.
    pub starts: *const *const f32,
    /// Of these: numbers from a row to the next, and from a number of a run to the next.
    pub step: usize,
    pub dilation: usize,
    /// So many tiles one after the other, where rows lie in line.
    pub tiles: usize,
    /// What will be needed next, to bring into the cache, and how many numbers of it with each number of a run; any address.
    /// Only full tiles whose rows begin anywhere do so, and none for 0 numbers.
    pub ahead: *const f32,
    pub ahead_step: usize,
    /// How far it is from what one tile brings into the cache to what the next does.
    pub ahead_next: usize,
    /// A panel: for each run, for each of its numbers, a row of columns.
    pub weights: *const f32,
    /// A number for each column, or null.
    pub bias: *const f32,
    pub output: *mut f32,
    /// Whether its lines are fetched before they are written to. Where they are in the cache, this only takes time.
    pub output_is_far: bool,
    /// What is added to the output, laid out like it, or null. It may be the output.
    pub added: *const f32,
    /// Whether the output, and what is added, lie as bfloat16, which only tiles of pairs know.
    pub output_is_bits: bool,
    pub added_is_bits: bool,
    /// Numbers from one output pixel to the next.
    pub stride: usize,
    /// Columns that exist: the last ones of the tile may be missing.
    pub columns: usize,
    /// Panels of so many columns beside each other, which pass over the rows one after the other; the weights of one begin so
    /// many numbers behind the other's, and its numbers of the bias, the output and what is added right behind.
    pub panels: usize,
    pub weights_step: usize,
    pub clamps: Clamps,
}

impl Task {
    /// Where what lies so many numbers behind a place of the output is.
    #[inline(always)]
    pub fn output_behind(&self, place: *mut f32, numbers: usize) -> *mut f32 {
        place.wrapping_byte_add(numbers * if self.output_is_bits { size_of::<u16>() } else { size_of::<f32>() })
    }

    /// The same of what is added; null stays.
    #[inline(always)]
    pub fn added_behind(&self, place: *const f32, numbers: usize) -> *const f32 {
        if place.is_null() {
            return place;
        }
        place.wrapping_byte_add(numbers * if self.added_is_bits { size_of::<u16>() } else { size_of::<f32>() })
    }

    /// Whether what is needed later is fetched in several streams.
    fn has_streams(&self) -> bool {
        self.ahead_step >= FAST && part_of_stream::<SEVERAL>(self.length, self.ahead_step) >= LONG
    }
}

/// # Safety
/// All pointers of the task must be valid for what they say, nobody else may access the output, and the CPU must have the
/// instructions.
pub type Tile = unsafe fn(&Task);

/// The tiles of an instruction set.
#[derive(Debug)]
pub struct Tiles {
    /// What they multiply.
    pub operands: Operands,
    /// Rows of a full tile.
    pub rows: usize,
    /// Columns of a full tile, and by how many others are narrower.
    pub columns: usize,
    pub step: usize,
    /// Numbers in a vector of the instruction set.
    pub lanes: usize,
    /// By number of columns (from `step` on), then of rows (from 0, which does nothing).
    tiles: &'static [[Tile; MOST_ROWS + 1]],
    /// By number of rows, tiles of all columns that fetch what will be needed next, in one stream or several.
    ahead: [[Tile; MOST_ROWS + 1]; 2],
    /// The same that fetch nothing or in one stream or several, many tiles whose rows lie in line.
    in_line: [[Tile; MOST_ROWS + 1]; 3],
    /// By number of columns, tiles whose rows are evenly apart: by 1, by 2, by any distance; with one row, with all. Wide ones
    /// have none.
    spaced: &'static [[[Tile; 2]; 3]],
    /// Higher ones of fewer columns.
    narrow: Option<&'static Tiles>,
    /// Lower ones of more columns: they read fewer numbers for as many products.
    wide: Option<&'static Tiles>,
}

impl Tiles {
    pub fn of(isa: &Isa) -> &'static Tiles {
        match isa.level {
            Level::Portable => &PORTABLE,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => &NEON,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &x86::AVX2,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => &x86::AVX512,
        }
    }

    /// Those that multiply pairs of bfloat16 with the instructions that a set of GEMM's has; any set without such instructions has
    /// those that need none.
    pub fn of_pairs(gemm: &Microkernels) -> &'static Tiles {
        #[cfg(target_arch = "x86_64")]
        if gemm.operands == (Operands::Bf16 { native: true }) {
            return &bf16::x86::AVX512_BF16;
        }
        #[cfg(target_arch = "aarch64")]
        if gemm.operands == (Operands::Bf16 { native: true }) {
            return &bf16::arm::NEON_BFDOT;
        }
        debug_assert!(gemm.rounds());
        &bf16::EMULATED
    }

    /// The same for matrices of so many columns: where a vector has them all, and registers are few, a tile of one vector is
    /// higher.
    pub fn of_columns(isa: &Isa, columns: usize) -> &'static Tiles {
        let tiles = Tiles::of(isa);
        tiles.narrow.filter(|narrow| columns <= narrow.columns).unwrap_or(tiles)
    }

    /// The same where so many pixels are multiplied with a matrix of so many rows and columns, on a core with these caches; panel
    /// after panel if it `is_passed`, and not all of them for each tile.
    pub fn for_product(
        isa: &Isa,
        pixels: usize,
        [depth, columns]: [usize; 2],
        is_passed: bool,
        caches: Caches,
    ) -> &'static Tiles {
        let tiles = Tiles::of_columns(isa, columns);
        let suits = |wide: &&Tiles| {
            // The last panel is more than a lower one, and all its columns exist.
            let fills = columns.next_multiple_of(wide.columns) == columns.next_multiple_of(tiles.columns);
            let fills = fills && columns.is_multiple_of(wide.step);
            // Lower tiles read a panel more often.
            let is_small = depth.saturating_mul(wide.columns * size_of::<f32>()) <= caches.second / OF_WIDE;
            let are_few = columns <= FEW_PANELS * wide.columns;
            caches.second >= Caches::LARGE.second && pixels > tiles.rows && fills && is_small && (is_passed || are_few)
        };
        tiles.wide.filter(suits).unwrap_or(tiles)
    }

    /// The columns of the narrowest tile that has so many.
    pub fn width(&self, columns: usize) -> usize {
        columns.next_multiple_of(self.step)
    }

    /// # Safety
    /// The pointers of the task must be valid: for each run and row, `length` numbers from its start; for each of these,
    /// the weights of the tile's [width](Tiles::width); as many of the bias; `columns` numbers of the output, and of what is
    /// added, for each row; all of these for each panel, of which there is one, or which are whole. Nobody else may access that
    /// output meanwhile.
    ///
    /// # Panics
    /// When there is no tile of so many rows and columns.
    #[inline]
    pub unsafe fn run(&self, rows: usize, task: &Task) {
        debug_assert!(rows <= self.rows && task.columns <= self.columns);
        debug_assert!(task.panels <= 1 || task.columns == self.columns);
        // SAFETY: the caller's promise; the table is that of an instruction set that the CPU has (`Tiles::of`).
        unsafe {
            let widest = self.tiles.len() - 1;
            let number = if task.columns == self.columns { widest } else { (task.columns - 1) / self.step };
            if number < widest || task.ahead_step == 0 {
                return self.tiles[number][rows](task);
            }
            self.ahead[usize::from(task.has_streams())][rows](task)
        }
    }

    /// The same for [`Task::tiles`] whole tiles, one after the other, with one run: its rows begin `step` apart.
    ///
    /// # Safety
    /// As for [`Tiles::run`], for all tiles, but there is one start.
    ///
    /// # Panics
    /// When there is no tile of so many rows.
    #[inline]
    pub unsafe fn run_tiles(&self, rows: usize, task: &Task) {
        assert!(rows <= self.rows && task.columns == self.columns && task.runs == 1);
        let kind = if task.ahead_step == 0 { 0 } else { 1 + usize::from(task.has_streams()) };
        // SAFETY: as above.
        unsafe { self.in_line[kind][rows](task) }
    }

    /// The same for one row or all of a full tile that are `step` apart, as the numbers of a run are `dilation`.
    ///
    /// # Safety
    /// As for [`Tiles::run`], but for the starts: there is one for each run.
    ///
    /// # Panics
    /// When there is no tile of so many rows and columns.
    #[inline]
    pub unsafe fn run_spaced(&self, rows: usize, task: &Task) {
        assert!((rows == 1 || rows == self.rows) && task.columns <= self.columns);
        debug_assert!(task.panels <= 1 || task.columns == self.columns);
        let step = if task.step > 2 { 2 } else { task.step - 1 };
        // SAFETY: the caller's promise; the table is that of an instruction set that the CPU has (`Tiles::of`).
        unsafe { self.spaced[(task.columns - 1) / self.step][step][usize::from(rows > 1)](task) }
    }

    /// Divides rows into tiles of nearly the same height; their number and greatest height.
    pub fn divide(&self, rows: usize) -> (usize, usize) {
        let count = rows.div_ceil(self.rows).max(1);
        (count, rows.div_ceil(count))
    }
}

/// The tiles of some widths, from 0 rows to so many; behind them nothing is instantiated.
macro_rules! tiles {
    ($most:tt: $tile:ident: $($bundle:ty),*) => { &[ $( tiles!($most: $tile ANYWHERE $bundle) ),* ] };
    (6: $tile:ident $kind:ident $bundle:ty) => { tiles!(0 1 2 3 4 5 6; $tile $kind $bundle) };
    (8: $tile:ident $kind:ident $bundle:ty) => { tiles!(0 1 2 3 4 5 6 7 8; $tile $kind $bundle) };
    (12: $tile:ident $kind:ident $bundle:ty) => { tiles!(0 1 2 3 4 5 6 7 8 9 10 11 12; $tile $kind $bundle) };
    (14: $tile:ident $kind:ident $bundle:ty) => { tiles!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14; $tile $kind $bundle) };
    ($($rows:literal)*; $tile:ident $kind:ident $bundle:ty) => { filled_up([ $( $tile::<$bundle, $rows, $kind> ),* ]) };
}

/// The tiles that there are, and for each number of rows beyond one that panics.
const fn filled_up<const COUNT: usize>(tiles: [Tile; COUNT]) -> [Tile; MOST_ROWS + 1] {
    let mut all = [not_there as Tile; MOST_ROWS + 1];
    let mut rows = 0;
    while rows < COUNT {
        all[rows] = tiles[rows];
        rows += 1;
    }
    all
}

/// # Safety
/// None.
unsafe fn not_there(_: &Task) {
    unreachable!("more rows, or fewer columns, than tiles of this instruction set have");
}

/// The same for rows that are evenly apart.
macro_rules! spaced {
    ($tile:ident $rows:literal: $($bundle:ty),*) => { &[ $( [
        [$tile::<$bundle, 1, 1>, $tile::<$bundle, $rows, 1>],
        [$tile::<$bundle, 1, 2>, $tile::<$bundle, $rows, 2>],
        [$tile::<$bundle, 1, 0>, $tile::<$bundle, $rows, 0>],
    ] ),* ] };
}

/// Instead of a distance: rows begin anywhere; and what will be needed next is fetched.
const ANYWHERE: usize = usize::MAX;
const AHEAD: usize = usize::MAX - 1;
const STREAMS: usize = usize::MAX - 2;
/// The same for many tiles in line.
const LINE_ALONE: usize = usize::MAX - 3;
const LINE_AHEAD: usize = usize::MAX - 4;
const LINE_STREAMS: usize = usize::MAX - 5;

/// # Safety
/// See [`Tile`].
#[inline(always)]
unsafe fn any<S: VectorBundle, const ROWS: usize, const STEP: usize>(task: &Task) {
    // SAFETY: the caller's promise.
    unsafe {
        match STEP {
            ANYWHERE => tile::<S, ROWS, 0>(task),
            AHEAD => tile::<S, ROWS, 1>(task),
            STREAMS => tile::<S, ROWS, SEVERAL>(task),
            LINE_ALONE => in_line::<S, ROWS, 0>(task),
            LINE_AHEAD => in_line::<S, ROWS, 1>(task),
            LINE_STREAMS => in_line::<S, ROWS, SEVERAL>(task),
            _ => spaced::<S, ROWS, STEP>(task),
        }
    }
}

/// With the instructions that every CPU of the architecture has.
///
/// # Safety
/// See [`Tile`].
unsafe fn baseline<S: VectorBundle, const ROWS: usize, const STEP: usize>(task: &Task) {
    // SAFETY: the caller's promise.
    unsafe { any::<S, ROWS, STEP>(task) }
}

static PORTABLE: Tiles = Tiles {
    operands: Operands::Float32,
    rows: 6,
    columns: 8,
    step: 4,
    lanes: Array::LANES,
    tiles: tiles!(6: baseline: Array, Both<Array, Array>),
    ahead: [tiles!(6: baseline AHEAD Both<Array, Array>), tiles!(6: baseline STREAMS Both<Array, Array>)],
    in_line: [
        tiles!(6: baseline LINE_ALONE Both<Array, Array>),
        tiles!(6: baseline LINE_AHEAD Both<Array, Array>),
        tiles!(6: baseline LINE_STREAMS Both<Array, Array>),
    ],
    spaced: spaced!(baseline 6: Array, Both<Array, Array>),
    narrow: None,
    wide: None,
};

#[cfg(target_arch = "aarch64")]
static NEON: Tiles = Tiles {
    operands: Operands::Float32,
    rows: 8,
    columns: 8,
    step: 4,
    lanes: Neon::LANES,
    tiles: tiles!(8: baseline: Neon, Both<Neon, Neon>),
    ahead: [tiles!(8: baseline AHEAD Both<Neon, Neon>), tiles!(8: baseline STREAMS Both<Neon, Neon>)],
    in_line: [
        tiles!(8: baseline LINE_ALONE Both<Neon, Neon>),
        tiles!(8: baseline LINE_AHEAD Both<Neon, Neon>),
        tiles!(8: baseline LINE_STREAMS Both<Neon, Neon>),
    ],
    spaced: spaced!(baseline 8: Neon, Both<Neon, Neon>),
    narrow: None,
    wide: None,
};

// Behind the macros.
mod bf16;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{
        AHEAD, ANYWHERE, Both, LINE_AHEAD, LINE_ALONE, LINE_STREAMS, MOST_ROWS, Operands, STREAMS, Task, Tile, Tiles,
        VectorBundle, any, filled_up, not_there,
    };
    use crate::simd::vector::x86::{Avx2, Avx512};

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<S: VectorBundle, const ROWS: usize, const STEP: usize>(task: &Task) {
        // SAFETY: the caller's promise.
        unsafe { any::<S, ROWS, STEP>(task) }
    }

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    unsafe fn avx512<S: VectorBundle, const ROWS: usize, const STEP: usize>(task: &Task) {
        // SAFETY: the caller's promise.
        unsafe { any::<S, ROWS, STEP>(task) }
    }

    pub static AVX2: Tiles = Tiles {
        operands: Operands::Float32,
        rows: 6,
        columns: 16,
        step: 8,
        lanes: Avx2::LANES,
        tiles: tiles!(6: avx2: Avx2, Both<Avx2, Avx2>),
        ahead: [tiles!(6: avx2 AHEAD Both<Avx2, Avx2>), tiles!(6: avx2 STREAMS Both<Avx2, Avx2>)],
        in_line: [
            tiles!(6: avx2 LINE_ALONE Both<Avx2, Avx2>),
            tiles!(6: avx2 LINE_AHEAD Both<Avx2, Avx2>),
            tiles!(6: avx2 LINE_STREAMS Both<Avx2, Avx2>),
        ],
        spaced: spaced!(avx2 6: Avx2, Both<Avx2, Avx2>),
        narrow: Some(&AVX2_NARROW),
        wide: None,
    };
    pub static AVX2_NARROW: Tiles = Tiles {
        operands: Operands::Float32,
        rows: 12,
        columns: 8,
        step: 8,
        lanes: Avx2::LANES,
        tiles: tiles!(12: avx2: Avx2),
        ahead: [tiles!(12: avx2 AHEAD Avx2), tiles!(12: avx2 STREAMS Avx2)],
        in_line: [tiles!(12: avx2 LINE_ALONE Avx2), tiles!(12: avx2 LINE_AHEAD Avx2), tiles!(12: avx2 LINE_STREAMS Avx2)],
        spaced: spaced!(avx2 12: Avx2),
        narrow: None,
        wide: None,
    };
    pub static AVX512: Tiles = Tiles {
        operands: Operands::Float32,
        rows: 14,
        columns: 32,
        step: 8,
        lanes: Avx512::LANES,
        tiles: tiles!(14: avx512: Avx2, Avx512, Both<Avx512, Avx2>, Both<Avx512, Avx512>),
        ahead: [tiles!(14: avx512 AHEAD Both<Avx512, Avx512>), tiles!(14: avx512 STREAMS Both<Avx512, Avx512>)],
        in_line: [
            tiles!(14: avx512 LINE_ALONE Both<Avx512, Avx512>),
            tiles!(14: avx512 LINE_AHEAD Both<Avx512, Avx512>),
            tiles!(14: avx512 LINE_STREAMS Both<Avx512, Avx512>),
        ],
        spaced: spaced!(avx512 14: Avx2, Avx512, Both<Avx512, Avx2>, Both<Avx512, Avx512>),
        narrow: None,
        wide: Some(&AVX512_WIDE),
    };
    type Two = Both<Avx512, Avx512>;
    pub static AVX512_WIDE: Tiles = Tiles {
        operands: Operands::Float32,
        rows: 6,
        columns: 64,
        step: 8,
        lanes: Avx512::LANES,
        // The last panel is more than half of one (`Tiles::for_product`).
        tiles: &[
            [not_there as Tile; MOST_ROWS + 1],
            [not_there as Tile; MOST_ROWS + 1],
            [not_there as Tile; MOST_ROWS + 1],
            [not_there as Tile; MOST_ROWS + 1],
            tiles!(6: avx512 ANYWHERE Both<Two, Avx2>),
            tiles!(6: avx512 ANYWHERE Both<Two, Avx512>),
            tiles!(6: avx512 ANYWHERE Both<Two, Both<Avx512, Avx2>>),
            tiles!(6: avx512 ANYWHERE Both<Two, Two>),
        ],
        ahead: [tiles!(6: avx512 AHEAD Both<Two, Two>), tiles!(6: avx512 STREAMS Both<Two, Two>)],
        in_line: [
            tiles!(6: avx512 LINE_ALONE Both<Two, Two>),
            tiles!(6: avx512 LINE_AHEAD Both<Two, Two>),
            tiles!(6: avx512 LINE_STREAMS Both<Two, Two>),
        ],
        spaced: &[],
        narrow: None,
        wide: None,
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::Isa;

    #[test]
    fn wide_tiles_are_for_products_that_fill_them() {
        let (large, usual) = (Caches::LARGE, Caches::USUAL);
        for isa in Isa::available() {
            let tiles = Tiles::of(isa);
            let chosen = |pixels, matrix, is_passed, caches| {
                let chosen = Tiles::for_product(isa, pixels, matrix, is_passed, caches);
                assert!(std::ptr::eq(chosen, tiles) || tiles.wide.is_some_and(|wide| std::ptr::eq(chosen, wide)));
                !std::ptr::eq(chosen, tiles)
            };
            let Some(wide) = tiles.wide else {
                assert!(!chosen(1000, [64, 64], true, large), "{}", isa.name);
                continue;
            };
            let (pixels, columns) = (tiles.rows + 1, wide.columns);
            assert!(chosen(pixels, [64, columns], false, large) && chosen(pixels, [64, 2 * columns - 8], false, large));
            assert!(chosen(pixels, [64, 5 * columns], true, large));
            // Few pixels, a smaller cache, many panels for each tile, panels that are too deep, columns that are missing.
            assert!(!chosen(tiles.rows, [64, columns], false, large) && !chosen(pixels, [64, columns], false, usual));
            assert!(!chosen(pixels, [64, 5 * columns], false, large) && !chosen(pixels, [2000, columns], true, large));
            assert!(!chosen(pixels, [64, columns + 16], true, large) && !chosen(pixels, [64, columns - 3], true, large));
        }
    }
}
