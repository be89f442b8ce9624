//! The innermost loop of convolutions with the channels last: a tile of some output pixels and some of their channels, as many
//! as one or two registers hold, or four, with all sums in registers.
//!
//! A row of the tile is a pixel. What it is made from are *runs* of consecutive numbers of the input, one for each element
//! of the filter's window (or for each row of it, where few channels lie beside each other), wherever they are: the input is
//! read in place. The weights are packed into panels of the tile's columns, in the order in which the loop reads them.
#![allow(unsafe_code)]

use crate::caches::{CacheClass, Caches};
use crate::epilogue::clamp::Clamps;
use crate::gemm::microkernels::Microkernels;
use crate::isa::{self, Isa, Level};
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::prefetch::LINE;
use crate::simd::vector::Array;
use crate::simd::vector_bundle::{Both, VectorBundle};
pub use crate::tiles::MOST_ROWS;
use crate::tiles::{Operands, TileSet, bundle, by_rows, with_instructions};
use loops::part_of_stream;
use std::ops::Deref;

mod finish;
mod loops;

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
    pub input: Input,
    /// So many tiles one after the other, where rows lie in line.
    pub tiles: usize,
    pub ahead: Ahead,
    pub weights: Weights,
    pub output: Output,
    pub added: Added,
    pub clamps: Clamps,
}

/// The runs that rows are made from.
#[derive(Clone, Copy, Debug)]
pub struct Input {
    pub runs: usize,
    /// Numbers of a run.
    pub length: usize,
    /// Where the runs begin: for each run, for each row; for the first row only of tiles whose rows are evenly apart.
    pub starts: *const *const f32,
    /// Of these: numbers from a row to the next, and from a number of a run to the next.
    pub step: usize,
    pub dilation: usize,
}

/// What will be needed next, to bring into the cache: where it begins, at any address, and how many numbers of it with each number of a
/// run. Only full tiles whose rows begin anywhere do so, and none for 0 numbers.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    pub start: *const f32,
    pub step: usize,
    /// How far it is from what one tile brings into the cache to what the next does.
    pub of_tile: usize,
}

/// Panels of weights, and the bias.
#[derive(Clone, Copy, Debug)]
pub struct Weights {
    /// For each run, for each of its numbers, a row of columns.
    pub panel: *const f32,
    /// A number for each column, or null.
    pub bias: *const f32,
    /// Columns that exist: the last ones of the tile may be missing.
    pub columns: usize,
    /// Panels of so many columns beside each other, which pass over the rows one after the other; the weights of one begin so
    /// many numbers after the other's, and its numbers of the bias, the output and what is added right after.
    pub panels: usize,
    pub step: usize,
}

/// Where pixels are written to.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub start: *mut f32,
    /// Numbers from one pixel to the next.
    pub stride: usize,
    /// Whether it lies as bfloat16, which only tiles of pairs know.
    pub is_bits: bool,
    /// Whether its lines are fetched before they are written to. Where they are in the cache, this only takes time.
    pub is_far: bool,
}

/// What is added to the output, laid out like it.
#[derive(Clone, Copy, Debug)]
pub struct Added {
    /// Or null. It may be the output.
    pub start: *const f32,
    /// Whether it lies as bfloat16, which only tiles of pairs know.
    pub is_bits: bool,
}

impl Output {
    /// Where what lies so many numbers after a place of the output is.
    #[inline(always)]
    pub fn after(&self, place: *mut f32, numbers: usize) -> *mut f32 {
        place.wrapping_byte_add(numbers * if self.is_bits { size_of::<u16>() } else { size_of::<f32>() })
    }
}

impl Added {
    pub const NOTHING: Added = Added { start: std::ptr::null(), is_bits: false };

    /// Where what lies so many numbers after a place of what is added is; null stays.
    #[inline(always)]
    pub fn after(&self, place: *const f32, numbers: usize) -> *const f32 {
        if place.is_null() {
            return place;
        }
        place.wrapping_byte_add(numbers * if self.is_bits { size_of::<u16>() } else { size_of::<f32>() })
    }
}

impl Task {
    /// Whether what is needed later is fetched in several streams.
    fn has_streams(&self) -> bool {
        self.ahead.step >= FAST && part_of_stream::<SEVERAL>(self.input.length, self.ahead.step) >= LONG
    }
}

/// # Safety
/// All pointers of the task must be valid for what they say, nobody else may access the output, and the CPU must have the
/// instructions.
pub type Tile = unsafe fn(&Task);

/// A set of tiles.
#[derive(Debug)]
pub struct Tiles {
    set: TileSet,
    /// By how many columns others are narrower than a full tile.
    pub step: usize,
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

impl Deref for Tiles {
    type Target = TileSet;

    #[inline(always)]
    fn deref(&self) -> &TileSet {
        &self.set
    }
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
        if gemm.is_native_bf16() {
            return &bf16::x86::AVX512_BF16;
        }
        #[cfg(target_arch = "aarch64")]
        if gemm.is_native_bf16() {
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
            wide.caches.includes(caches) && pixels > tiles.rows && fills && is_small && (is_passed || are_few)
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
        debug_assert!(rows <= self.rows && task.weights.columns <= self.columns);
        debug_assert!(task.weights.panels <= 1 || task.weights.columns == self.columns);
        // SAFETY: the caller's promise; the table is that of an instruction set that the CPU has (`Tiles::of`).
        unsafe {
            let widest = self.tiles.len() - 1;
            let number = if task.weights.columns == self.columns { widest } else { (task.weights.columns - 1) / self.step };
            if number < widest || task.ahead.step == 0 {
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
        assert!(rows <= self.rows && task.weights.columns == self.columns && task.input.runs == 1);
        let kind = if task.ahead.step == 0 { 0 } else { 1 + usize::from(task.has_streams()) };
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
        assert!((rows == 1 || rows == self.rows) && task.weights.columns <= self.columns);
        debug_assert!(task.weights.panels <= 1 || task.weights.columns == self.columns);
        let step = if task.input.step > 2 { 2 } else { task.input.step - 1 };
        // SAFETY: the caller's promise; the table is that of an instruction set that the CPU has (`Tiles::of`).
        unsafe { self.spaced[(task.weights.columns - 1) / self.step][step][usize::from(rows > 1)](task) }
    }
}

/// How the rows of a tile begin, and what it brings into the cache.
trait Rows {
    /// # Safety
    /// See [`Tile`].
    unsafe fn run<S: VectorBundle, const ROWS: usize>(task: &Task);
}

/// Anywhere; what will be needed next is fetched in so many streams.
struct Anywhere<const STREAMS: usize>;
/// The same for many tiles in line.
struct InLine<const STREAMS: usize>;
/// So many numbers apart, or any number of them for 0. Nothing is fetched.
struct Spaced<const STEP: usize>;

/// A set of tiles, declared once: its registers, what compiles tiles with the instructions, its name, the rows of a full tile, its vectors,
/// the cores that it is for; the bundles of tiles by so many columns, from the narrowest on; in how many streams tiles fetch what will be
/// needed next, usually and where memory must be fast; whether there are tiles whose rows are evenly apart; and which other sets are
/// higher and narrower, or lower and wider.
macro_rules! tiles {
    (
        $(#[$attribute:meta])*
        $name:ident = $isa:path, vectors of $vector:ty, $operands:expr, compiled by $compiled:ident:
        $title:literal $rows:literal x $vectors:tt for $caches:ident,
        widths by $step:literal [$($bundle:ty),*],
        streams [$one:expr, $several:expr], spaced $spaced:ident, narrow $narrow:expr, wide $wide:expr
    ) => {
        $(#[$attribute])*
        pub(crate) static $name: Tiles = {
            type Whole = bundle!($vectors x $vector);
            const WIDTHS: usize = <Whole as VectorBundle>::LANES / $step;
            Tiles {
                set: TileSet::in_vectors(
                    $title, &$isa, [$rows, $vectors, <$vector as VectorBundle>::LANES], CacheClass::$caches, $operands,
                ),
                step: $step,
                tiles: &widths::<_, WIDTHS>(
                    $step,
                    [$(<$bundle as VectorBundle>::LANES),*],
                    [$(by_rows!(ROWS up to $rows => $compiled::<$bundle, ROWS, Anywhere<0>>, else not_there)),*],
                ),
                ahead: [
                    by_rows!(ROWS up to $rows => $compiled::<Whole, ROWS, Anywhere<{ $one }>>, else not_there),
                    by_rows!(ROWS up to $rows => $compiled::<Whole, ROWS, Anywhere<{ $several }>>, else not_there),
                ],
                in_line: [
                    by_rows!(ROWS up to $rows => $compiled::<Whole, ROWS, InLine<0>>, else not_there),
                    by_rows!(ROWS up to $rows => $compiled::<Whole, ROWS, InLine<{ $one }>>, else not_there),
                    by_rows!(ROWS up to $rows => $compiled::<Whole, ROWS, InLine<{ $several }>>, else not_there),
                ],
                spaced: tiles!(@spaced $spaced, $compiled, $rows, [$($bundle),*]),
                narrow: $narrow,
                wide: $wide,
            }
        };
    };
    (@spaced no, $($rest:tt)*) => { &[] };
    (@spaced too, $compiled:ident, $rows:literal, [$($bundle:ty),*]) => { &[ $( [
        [$compiled::<$bundle, 1, Spaced<1>>, $compiled::<$bundle, $rows, Spaced<1>>],
        [$compiled::<$bundle, 1, Spaced<2>>, $compiled::<$bundle, $rows, Spaced<2>>],
        [$compiled::<$bundle, 1, Spaced<0>>, $compiled::<$bundle, $rows, Spaced<0>>],
    ] ),* ] };
}

/// Tables of some widths, the last ones of all: those of narrower ones panic.
///
/// # Panics
/// When the bundles are not so many columns wider each, up to the widest, as it is compiled.
const fn widths<const SOME: usize, const ALL: usize>(
    step: usize,
    lanes: [usize; SOME],
    tables: [[Tile; MOST_ROWS + 1]; SOME],
) -> [[Tile; MOST_ROWS + 1]; ALL] {
    let mut all = [[not_there as Tile; MOST_ROWS + 1]; ALL];
    let mut i = 0;
    while i < SOME {
        let number = ALL - SOME + i;
        assert!(
            lanes[i] == (number + 1) * step,
            "each bundle is wider by the step than the one before, and the last is the full tile's"
        );
        all[number] = tables[i];
        i += 1;
    }
    all
}

/// # Safety
/// None.
unsafe fn not_there(_: &Task) {
    unreachable!("more rows, or fewer columns, than tiles of this instruction set have");
}

/// Tiles compiled with the instructions of that name.
macro_rules! compile_tiles {
    ($name:ident) => {
        with_instructions! { $name:
            /// # Safety
            /// See [`Tile`].
            unsafe fn $name<S: VectorBundle, const ROWS: usize, R: Rows>(task: &Task) {
                // SAFETY: the caller's promise.
                unsafe { R::run::<S, ROWS>(task) }
            }
        }
    };
}

compile_tiles!(baseline);

tiles! {
    PORTABLE = isa::PORTABLE, vectors of Array, Operands::Float32, compiled by baseline:
    "portable" 6 x 2 for Usual,
    widths by 4 [Array, Both<Array, Array>],
    streams [1, 1], spaced too, narrow None, wide None
}
tiles! {
    #[cfg(target_arch = "aarch64")]
    NEON = isa::NEON, vectors of Neon, Operands::Float32, compiled by baseline:
    "neon" 8 x 2 for Usual,
    widths by 4 [Neon, Both<Neon, Neon>],
    streams [1, SEVERAL], spaced too, narrow None, wide None
}

// After the macros.
mod bf16;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::simd::vector::x86::{Avx2, Avx512};

    compile_tiles!(avx2);
    compile_tiles!(avx512);

    type Two = Both<Avx512, Avx512>;

    tiles! {
        AVX2 = isa::AVX2, vectors of Avx2, Operands::Float32, compiled by avx2:
        "avx2" 6 x 2 for Usual,
        widths by 8 [Avx2, Both<Avx2, Avx2>],
        streams [1, SEVERAL], spaced too, narrow Some(&AVX2_NARROW), wide None
    }
    tiles! {
        AVX2_NARROW = isa::AVX2, vectors of Avx2, Operands::Float32, compiled by avx2:
        "avx2, narrow" 12 x 1 for Usual,
        widths by 8 [Avx2],
        streams [1, SEVERAL], spaced too, narrow None, wide None
    }
    tiles! {
        AVX512 = isa::AVX512, vectors of Avx512, Operands::Float32, compiled by avx512:
        "avx512" 14 x 2 for Usual,
        widths by 8 [Avx2, Avx512, Both<Avx512, Avx2>, Two],
        streams [1, SEVERAL], spaced too, narrow None, wide Some(&AVX512_WIDE)
    }
    // The last panel is more than half of one (`Tiles::for_product`).
    tiles! {
        AVX512_WIDE = isa::AVX512, vectors of Avx512, Operands::Float32, compiled by avx512:
        "avx512, wide" 6 x 4 for LargeSecond,
        widths by 8 [Both<Two, Avx2>, Both<Two, Avx512>, Both<Two, Both<Avx512, Avx2>>, Both<Two, Two>],
        streams [1, SEVERAL], spaced no, narrow None, wide None
    }
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
