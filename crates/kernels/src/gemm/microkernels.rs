//! The microkernels of GEMM in float32, a set of them for each instruction set and size of tile.
//!
//! A *tile* is the innermost loop of every product: some rows of a left operand times a packed right panel of
//! [`Microkernels::columns`] columns, with all sums in registers.
//!
//! Between two tiles little may be written to the stack: stores wait for those of the tile's sums, and the next tile's first
//! instructions for them. So a tile has its arguments in registers as far as there are any.
#![allow(unsafe_code)]

use crate::bf16::{amx, packing, rounding};
use crate::caches::Caches;
use crate::gemm::packing::pack_panel;
use crate::gemm::unrolled_depth::{add_steps, are_worth_it};
use crate::isa::{self, Isa};
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::optimization_barrier::opaque;
use crate::simd::prefetch::{LINE, fetch, fetch_to_write};
use crate::simd::vector::Array;
use crate::simd::vector_bundle::{Both, VectorBundle};
use std::ops::Range;

/// The tiles of a set, from 0 rows to so many; behind them nothing is instantiated.
macro_rules! tiles {
    (4: $tile:ident, $set:ty, $bundle:ty) => { tiles!(0 1 2 3 4; $tile, $set, $bundle) };
    (6: $tile:ident, $set:ty, $bundle:ty) => { tiles!(0 1 2 3 4 5 6; $tile, $set, $bundle) };
    (8: $tile:ident, $set:ty, $bundle:ty) => { tiles!(0 1 2 3 4 5 6 7 8; $tile, $set, $bundle) };
    (12: $tile:ident, $set:ty, $bundle:ty) => { tiles!(0 1 2 3 4 5 6 7 8 9 10 11 12; $tile, $set, $bundle) };
    ($($rows:literal)*; $tile:ident, $set:ty, $bundle:ty) => { filled_up([ $( $tile::<$set, $bundle, $rows> ),* ]) };
}

/// A set of microkernels, declared once: its instruction set, the rows and columns of a full tile (a literal, since [`tiles`]
/// counts them), the bundle of a whole row and of half of one, and what compiles its tiles with the instructions.
macro_rules! microkernels {
    (
        $(#[$attribute:meta])*
        $name:ident, $set:ident: $title:literal, $isa:path, $rows:tt x $columns:literal, $whole:ty, $half:ty, $tile:ident, $below:ident,
        large_l2: $large_l2:literal, wide: $wide:expr, operands: $operands:expr
    ) => {
        $(#[$attribute])*
        struct $set;
        $(#[$attribute])*
        impl Set for $set {
            const ROWS: usize = $rows;
            const COLUMNS: usize = $columns;
            const FETCHES_PANEL: bool = $large_l2;
        }
        const _: () = assert!($rows <= MOST_ROWS && $columns <= MOST_COLUMNS && $rows * $columns <= MOST_NUMBERS);
        $(#[$attribute])*
        pub(crate) static $name: Microkernels = Microkernels {
            name: $title,
            isa: &$isa,
            rows: $rows,
            columns: $columns,
            for_large_l2: $large_l2,
            operands: $operands,
            matrices: false,
            tiles: tiles!($rows: $tile, $set, $whole),
            halves: tiles!($rows: $tile, $set, $half),
            below: [$below::<$set, $whole, $rows>, $below::<$set, $half, $rows>],
            wide: $wide,
        };
    };
}

/// A tile, and all those of a [`Column`], compiled with these features of the CPU; without any, with what each of its architecture has.
macro_rules! compile_tiles {
    ($tile:ident, $below:ident, $(#[$features:meta])?) => {
        /// # Safety
        /// See [`Tile`]($crate::gemm::microkernels::Tile).
        $(#[$features])?
        pub(in crate::gemm::microkernels) unsafe fn $tile<Of: Set, S: VectorBundle, const ROWS: usize>(
            a: *const f32,
            row: usize,
            step: usize,
            b: *const f32,
            depth: usize,
            c: *mut f32,
            stride: usize,
            ahead: *const f32,
            ahead_step: usize,
            plus: *const f32,
            plus_stride: usize,
        ) {
            // SAFETY: the caller's promise.
            unsafe { tile::<Of, S, ROWS>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
        }

        /// # Safety
        /// See [`tiles_below`]($crate::gemm::microkernels::tiles_below).
        $(#[$features])?
        pub(in crate::gemm::microkernels) unsafe fn $below<Of: Set, S: VectorBundle, const ROWS: usize>(column: &Column) {
            // SAFETY: the caller's promise.
            unsafe { tiles_below::<Of, S, ROWS>(column) }
        }
    };
}

/// The tiles that there are, and one that panics for each number of rows beyond.
const fn filled_up<const COUNT: usize>(tiles: [Tile; COUNT]) -> [Tile; MOST_ROWS + 1] {
    let mut all = [too_high as Tile; MOST_ROWS + 1];
    let mut rows = 0;
    while rows < COUNT {
        all[rows] = tiles[rows];
        rows += 1;
    }
    all
}

/// # Safety
/// None.
unsafe fn too_high(
    _: *const f32,
    _: usize,
    _: usize,
    _: *const f32,
    _: usize,
    _: *mut f32,
    _: usize,
    _: *const f32,
    _: usize,
    _: *const f32,
    _: usize,
) {
    unreachable!("more rows than a tile of this set has");
}

/// The highest tile of any set, and the widest: buffers of one row of a panel are as long.
pub const MOST_ROWS: usize = 12;
pub const MOST_COLUMNS: usize = 64;
/// Numbers of the largest tile: 12 x 32 or 6 x 64, in 24 of the 32 registers of AVX-512.
pub const MOST_NUMBERS: usize = 384;
/// How many numbers ahead a tile [fetches its panel](Set::FETCHES_PANEL).
const SOON: usize = 512;

/// What the loops of a set are compiled for.
trait Set {
    /// Rows and columns of a full tile: so many sums are in registers.
    const ROWS: usize;
    const COLUMNS: usize;
    /// Whether a tile fetches its panel into the first-level cache, which has no room for all of it.
    const FETCHES_PANEL: bool;
}

/// Steps after which a tile fetches the next row of those that it writes.
const APART: usize = 4;

/// `c[r][j] = d[r][j] + Σ a[r][k] · b[k][j]`: `a` with its distances from row to row and from step to step in depth, `b`, the
/// depth, `c` with the distance of its rows, what is brought into the cache meanwhile (from where on, and how many elements
/// further with each step in depth), and `d` (or null) with the distance of its rows. One by one, in registers: a tile that
/// finds them in memory begins some 50 cycles later.
///
/// # Safety
/// `a` must have an element for each row and step, `b` a row of columns for each step, `c` and `d` rows of columns, all at
/// those distances; nobody else may access `c`; the CPU must have the instructions.
type Tile = unsafe fn(*const f32, usize, usize, *const f32, usize, *mut f32, usize, *const f32, usize, *const f32, usize);

/// Full tiles of a panel, one below the other: what [`Tile`] has for the first of them, how many there are, and how far it is
/// from one to the next in `a` and in what is brought into the cache.
#[derive(Clone, Copy)]
struct Column {
    count: usize,
    a: *const f32,
    a_next: usize,
    row: usize,
    step: usize,
    b: *const f32,
    depth: usize,
    c: *mut f32,
    stride: usize,
    ahead: *const f32,
    ahead_next: usize,
    ahead_step: usize,
    plus: *const f32,
    plus_stride: usize,
}

/// What a tile is added to.
#[derive(Clone, Copy, Debug)]
pub enum Plus<'a> {
    Nothing,
    /// What the output holds.
    Itself,
    /// The same row for all rows.
    Row(&'a [f32]),
}

/// The microkernels of an instruction set that this CPU has.
#[derive(Debug)]
pub struct Microkernels {
    pub name: &'static str,
    pub isa: &'static Isa,
    /// Rows and columns of a full tile.
    pub rows: usize,
    pub columns: usize,
    /// Whether these are for cores whose second-level cache is a [large](Caches::LARGE) one.
    pub for_large_l2: bool,
    /// What tiles read.
    pub operands: Operands,
    /// Whether tiles are multiplied in matrix registers ([`crate::bf16::amx`]).
    pub matrices: bool,
    /// By number of rows; the one for 0 rows does nothing.
    tiles: [Tile; MOST_ROWS + 1],
    /// The same for the first half of a panel's columns.
    halves: [Tile; MOST_ROWS + 1],
    /// Full tiles below each other, of a panel and of its first half.
    below: [unsafe fn(&Column); 2],
    /// With tiles of fewer rows and more columns: they read less for each product, if panels and the rows that they pass over
    /// stay in the second-level cache.
    wide: Option<&'static Microkernels>,
}

/// See [`Microkernels::configured`].
#[must_use]
pub struct Configured(
    #[cfg(target_arch = "x86_64")]
    #[allow(dead_code, reason = "dropping it counts")]
    amx::x86::Configured,
);

/// What tiles multiply; they always add up float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    Float32,
    /// Pairs, one in the place of each float32 (see [`crate::bf16`]), with instructions for them or without.
    Bf16 {
        native: bool,
    },
}

impl Microkernels {
    /// Steps of a depth: one for each number, or for each pair of them.
    pub fn steps(&self, depth: usize) -> usize {
        match self.operands {
            Operands::Float32 => depth,
            // Whole matrices, with zeros.
            Operands::Bf16 { .. } if self.matrices => rounding::pairs(depth).next_multiple_of(amx::SIDE),
            Operands::Bf16 { .. } => rounding::pairs(depth),
        }
    }

    /// Whether operands are rounded to bfloat16.
    pub fn rounds(&self) -> bool {
        self.operands != Operands::Float32
    }

    /// Whether the CPU has instructions for the operands.
    pub fn is_native(&self) -> bool {
        self.operands != Operands::Bf16 { native: false }
    }

    /// Whether these are instructions for bfloat16.
    pub fn is_native_bf16(&self) -> bool {
        self.operands == Operands::Bf16 { native: true }
    }

    /// The set with lower and wider tiles.
    pub fn wide(&self) -> Option<&'static Microkernels> {
        self.wide
    }

    /// The matrix registers of this thread until it is dropped, if tiles are multiplied there: no tile is run without, and the
    /// rows of a left operand are filled up to whole matrices, with any numbers.
    pub fn configured(&self) -> Option<Configured> {
        #[cfg(target_arch = "x86_64")]
        if self.matrices {
            return Some(Configured(amx::x86::Configured::load()));
        }
        None
    }

    /// Rows of memory that a left operand of so many must have.
    pub fn rows_in_memory(&self, rows: usize) -> usize {
        if self.matrices { rows.next_multiple_of(amx::SIDE) } else { rows }
    }

    /// Packs some columns of a matrix with these strides of rows and columns into a panel, and fills it up with zeros.
    ///
    /// # Panics
    /// When the matrix or the panel is too short.
    pub fn pack_panel(&self, columns: Range<usize>, depth: usize, elements: &[f32], strides: [usize; 2], panel: &mut [f32]) {
        match self.operands {
            Operands::Float32 => pack_panel(self.columns, columns, depth, elements, strides, panel),
            Operands::Bf16 { .. } => {
                packing::pack_panel(self, self.columns, columns, depth, elements, strides, panel);
                panel[rounding::pairs(depth) * self.columns..self.steps(depth) * self.columns].fill(0.0);
            }
        }
    }

    /// Packs a panel of a matrix whose element (k, column) is `element(k, column)`; what is behind the last column stays as it is.
    pub fn pack_panel_with(&self, columns: Range<usize>, depth: usize, panel: &mut [f32], element: impl Fn(usize, usize) -> f32) {
        for (step, row) in panel.chunks_exact_mut(self.columns).enumerate() {
            for (number, column) in row.iter_mut().zip(columns.clone()) {
                *number = match self.operands {
                    Operands::Float32 => element(step, column),
                    Operands::Bf16 { .. } if 2 * step >= depth => 0.0,
                    Operands::Bf16 { .. } => {
                        let second = if 2 * step + 1 < depth { element(2 * step + 1, column) } else { 0.0 };
                        rounding::pair(element(2 * step, column), second)
                    }
                };
            }
        }
    }

    /// These, or the wide ones of their instruction set, for a product of so many rows and columns on a core with these caches.
    pub fn for_product(&'static self, rows: usize, columns: usize, caches: Caches) -> &'static Microkernels {
        let suits = |wide: &&Microkernels| {
            // Over fewer rows a tile passes but once; and no more columns of the last panel may be missing.
            let fills = columns.next_multiple_of(wide.columns) == columns.next_multiple_of(self.columns);
            caches.second >= Caches::LARGE.second && rows > self.rows && fills
        };
        self.wide.filter(suits).unwrap_or(self)
    }

    /// Multiplies a left operand, read at these distances from row to row and from step to step in depth, and a panel, all its
    /// [`Microkernels::columns`] or the first half of them, into a tile of `rows` × `columns` elements, and brings elements that will be
    /// needed next into the cache meanwhile, so many with each step in depth.
    ///
    /// # Safety
    /// `c` must have that many rows of that many elements, `stride` apart, which nobody else accesses.
    ///
    /// # Panics
    /// When an operand is too short, or there is no tile of so many columns.
    #[inline(always)]
    pub unsafe fn tile(
        &self,
        [rows, columns]: [usize; 2],
        depth: usize,
        (a, [row, step]): (&[f32], [usize; 2]),
        b: &[f32],
        c: *mut f32,
        stride: usize,
        plus: Plus<'_>,
        (ahead, ahead_step): (*const f32, usize),
    ) {
        let tiles = if self.is_whole(columns) { &self.tiles } else { &self.halves };
        assert!(rows <= self.rows && b.len() >= depth * self.columns);
        assert!(rows == 0 || depth == 0 || a.len() > (rows - 1) * row + (depth - 1) * step);
        let (plus, plus_stride) = plus.rows(columns, c, stride);
        let (a, b) = (a.as_ptr(), b.as_ptr());
        #[cfg(target_arch = "x86_64")]
        if self.matrices {
            assert!(step == 1 && depth.is_multiple_of(amx::SIDE));
            // SAFETY: as below; the rows that fill the last matrix up are memory, and the registers are configured, by the promises at
            // `configured`.
            return unsafe { amx::x86::tile([rows, columns], depth, (a, row), b, (c, stride), (plus, plus_stride)) };
        }
        // SAFETY: the lengths of the operands and the row were asserted, `c` is the caller's promise, and an `Isa` exists
        // only when the CPU has its instructions.
        unsafe { tiles[rows](a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
    }

    /// Multiplies so many full tiles, one below the other, as [`Microkernels::tile`] does one: `a_next` and `ahead_next` are the
    /// distances to what the next has. Nothing is decided between them: only as many products as take 100 cycles have been
    /// begun when a tile ends, and what a caller does for each is not done by then.
    ///
    /// # Safety
    /// As [`Microkernels::tile`], for the rows of all of them.
    ///
    /// # Panics
    /// As [`Microkernels::tile`].
    pub unsafe fn tiles_below(
        &self,
        count: usize,
        columns: usize,
        depth: usize,
        (a, [row, step], a_next): (&[f32], [usize; 2], usize),
        b: &[f32],
        c: *mut f32,
        stride: usize,
        plus: Plus<'_>,
        (ahead, ahead_step, ahead_next): (*const f32, usize, usize),
    ) {
        if self.matrices {
            for i in 0..count {
                let c = c.wrapping_add(i * self.rows * stride);
                let next = (ahead.wrapping_add(i * ahead_next), ahead_step);
                // SAFETY: the caller's promise.
                unsafe { self.tile([self.rows, columns], depth, (&a[i * a_next..], [row, step]), b, c, stride, plus, next) };
            }
            return;
        }
        let below = self.below[usize::from(!self.is_whole(columns))];
        assert!(b.len() >= depth * self.columns);
        let last = |count: usize, distance: usize| count.saturating_sub(1) * distance;
        assert!(count == 0 || depth == 0 || a.len() > last(count, a_next) + last(self.rows, row) + last(depth, step));
        let (plus, plus_stride) = plus.rows(columns, c, stride);
        let (a, b) = (a.as_ptr(), b.as_ptr());
        let column =
            Column { count, a, a_next, row, step, b, depth, c, stride, ahead, ahead_next, ahead_step, plus, plus_stride };
        // SAFETY: as in `tile`.
        unsafe { below(&column) }
    }

    /// Whether a tile has all columns of a panel, and not half of them.
    #[inline(always)]
    fn is_whole(&self, columns: usize) -> bool {
        assert!(columns == self.columns || 2 * columns == self.columns);
        columns == self.columns
    }
}

impl Plus<'_> {
    /// Where the rows of so many columns that are added to those of `c` are, or null, and how far it is from one to the next.
    #[inline(always)]
    fn rows(self, columns: usize, c: *mut f32, stride: usize) -> (*const f32, usize) {
        match self {
            Plus::Nothing => (std::ptr::null(), 0),
            Plus::Itself => (c.cast_const(), stride),
            Plus::Row(row) => {
                assert!(row.len() >= columns);
                (row.as_ptr(), 0)
            }
        }
    }
}

/// All sets that this CPU has.
pub fn available() -> impl Iterator<Item = &'static Microkernels> {
    Isa::available().iter().flat_map(|isa| std::iter::once(isa.gemm).chain(isa.gemm.wide))
}

microkernels! {
    PORTABLE, Portable: "portable", isa::PORTABLE, 4 x 8, Both<Array, Array>, Array, baseline, baseline_below,
    large_l2: false, wide: None, operands: Operands::Float32
}
microkernels! {
    #[cfg(target_arch = "aarch64")]
    NEON, OfNeon: "neon", isa::NEON, 8 x 8, Both<Neon, Neon>, Neon, baseline, baseline_below,
    large_l2: false, wide: None, operands: Operands::Float32
}

/// A tile of ROWS rows of a bundle, of panels of a set.
///
/// # Safety
/// See [`Tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
unsafe fn tile<Of: Set, S: VectorBundle, const ROWS: usize>(
    a: *const f32,
    row: usize,
    step: usize,
    b: *const f32,
    depth: usize,
    c: *mut f32,
    stride: usize,
    ahead: *const f32,
    ahead_step: usize,
    plus: *const f32,
    plus_stride: usize,
) {
    // What the tile is written to arrives while it is computed.
    let fetch_row = |row: *mut f32| {
        fetch_to_write(row);
        fetch_to_write(row.wrapping_add(S::LANES - 1));
    };
    // A few rows alone would wait for their own sums: they get several, for every second or fourth step in depth.
    let most = const { Of::ROWS * (Of::COLUMNS / S::LANES) };
    let ways = if 4 * ROWS <= most {
        4
    } else if 2 * ROWS <= most {
        2
    } else {
        1
    };
    let mut sums = [[S::splat(0.0); ROWS]; 4];
    let (mut a, mut b, mut ahead, mut depth) = (a, b, ahead, depth);
    if const { are_worth_it::<S>(ROWS) && Of::COLUMNS == S::LANES } && ways == 1 && step == 1 {
        (0..ROWS).for_each(|r| fetch_row(c.wrapping_add(r * stride)));
        let starts: [_; ROWS] = std::array::from_fn(|r| a.wrapping_add(opaque(r * row)));
        // SAFETY: `b` has `depth` rows, `a` ROWS elements for each, by the caller's promise.
        unsafe {
            let done = add_steps::<S, ROWS, 1>(&mut sums[0], &starts, b, depth, (ahead, ahead_step));
            (a, b, depth) = (a.add(done), b.add(done * S::LANES), depth - done);
            ahead = ahead.wrapping_add(done * ahead_step);
        }
    }
    let (mut whole, mut to, mut rows) = (depth / ways, c, ROWS);
    while whole > 0 {
        let mut some = whole;
        // All at once they would take the places of the panel's numbers on their way.
        if rows > 0 {
            fetch_row(to);
            (to, rows) = (to.wrapping_add(stride), rows - 1);
            some = some.min(APART);
        }
        whole -= some;
        for _ in 0..some {
            fetch::<1>(ahead);
            // The next line comes with the next steps where these fetch less.
            if Of::COLUMNS > LINE && ways * ahead_step > LINE {
                fetch::<1>(ahead.wrapping_add(LINE));
            }
            ahead = ahead.wrapping_add(ways * ahead_step);
            for way in 0..ways {
                // SAFETY: `b` has `depth` rows, `a` ROWS elements for each, by the caller's promise.
                unsafe {
                    let factors = S::load(b);
                    b = b.add(Of::COLUMNS);
                    if Of::FETCHES_PANEL {
                        (0..S::LANES / LINE).for_each(|line| fetch::<0>(b.wrapping_add(SOON + line * LINE)));
                    }
                    for r in 0..ROWS {
                        sums[way][r] = S::splat(*a.add(r * row)).mul_add(factors, sums[way][r]);
                    }
                    a = a.wrapping_add(step);
                }
            }
        }
    }
    for _ in 0..depth % ways {
        // SAFETY: as above.
        unsafe {
            let factors = S::load(b);
            b = b.add(Of::COLUMNS);
            for r in 0..ROWS {
                sums[0][r] = S::splat(*a.add(r * row)).mul_add(factors, sums[0][r]);
            }
            a = a.wrapping_add(step);
        }
    }
    for way in 1..ways {
        for r in 0..ROWS {
            sums[0][r] = sums[0][r].add(sums[way][r]);
        }
    }
    let sums = &sums[0];
    let (stride, plus_stride) = (opaque(stride), opaque(plus_stride));
    if plus.is_null() {
        for r in 0..ROWS {
            // SAFETY: `c` has ROWS rows of a bundle at its distance, by the caller's promise.
            unsafe { sums[r].store(c.add(r * stride)) }
        }
    } else {
        for r in 0..ROWS {
            // SAFETY: as above, and so has `plus`.
            unsafe { S::load(plus.add(r * plus_stride)).add(sums[r]).store(c.add(r * stride)) }
        }
    }
}

/// All tiles of a [`Column`].
///
/// # Safety
/// See [`Tile`], for all of them.
#[inline(always)]
unsafe fn tiles_below<Of: Set, S: VectorBundle, const ROWS: usize>(column: &Column) {
    let Column { count, mut a, a_next, row, step, b, depth, mut c, stride, mut ahead, .. } = *column;
    let Column { ahead_next, ahead_step, mut plus, plus_stride, .. } = *column;
    for _ in 0..count {
        // SAFETY: the caller's promise.
        unsafe { tile::<Of, S, ROWS>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
        (a, ahead) = (a.wrapping_add(a_next), ahead.wrapping_add(ahead_next));
        (c, plus) = (c.wrapping_add(ROWS * stride), plus.wrapping_add(ROWS * plus_stride));
    }
}

compile_tiles!(baseline, baseline_below,);

// Behind the macros.
pub(crate) mod bf16;

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::{
        Both, Column, MOST_COLUMNS, MOST_NUMBERS, MOST_ROWS, Microkernels, Operands, Set, VectorBundle, filled_up, tile,
        tiles_below,
    };
    use crate::isa;
    use crate::simd::vector::x86::{Avx2, Avx512};

    type Two = Both<Avx512, Avx512>;
    type Four = Both<Two, Two>;

    microkernels! {
        AVX512, OfAvx512: "avx512", isa::AVX512, 12 x 32, Two, Avx512, avx512, avx512_below,
        large_l2: false, wide: Some(&AVX512_WIDE), operands: Operands::Float32
    }
    microkernels! {
        AVX512_WIDE, OfAvx512Wide: "avx512, wide", isa::AVX512, 6 x 64, Four, Two, avx512, avx512_below,
        large_l2: true, wide: None, operands: Operands::Float32
    }
    microkernels! {
        AVX2, OfAvx2: "avx2", isa::AVX2, 6 x 16, Both<Avx2, Avx2>, Avx2, avx2, avx2_below,
        large_l2: false, wide: None, operands: Operands::Float32
    }

    compile_tiles!(avx2, avx2_below, #[target_feature(enable = "avx2,fma")]);
    compile_tiles!(avx512, avx512_below, #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    /// Tiles of every height and of whole and half panels, by the float32 sets of this CPU.
    #[test]
    fn tiles_of_every_height_are_products() {
        for gemm in available() {
            let [most, width] = [gemm.rows, gemm.columns];
            for (rows, columns, depth) in (0..=most)
                .flat_map(|rows| [width, width / 2].map(|columns| (rows, columns)))
                .flat_map(|(rows, columns)| [0, 1, 2, 3, 7, 64, 259].map(|depth| (rows, columns, depth)))
            {
                // Distances that are neither those of the operand's size nor alike.
                let (row, stride) = (depth + 3, width + 5);
                let (a, b) = (numbers(most * row, 1), numbers(depth * width, 2));
                let (bias, before) = (numbers(width, 3), numbers(most * stride, 4));
                for (plus, name) in [(Plus::Nothing, "nothing"), (Plus::Itself, "itself"), (Plus::Row(&bias), "a row")] {
                    let mut c = before.clone();
                    // SAFETY: the output has all rows at its distance; what is fetched ahead may be anywhere.
                    unsafe {
                        gemm.tile([rows, columns], depth, (&a, [row, 1]), &b, c.as_mut_ptr(), stride, plus, (a.as_ptr(), 1));
                    }
                    for (place, (&found, &before)) in c.iter().zip(&before).enumerate() {
                        let (r, j) = (place / stride, place % stride);
                        let case = || format!("{} {rows} x {columns}, depth {depth}, plus {name}, at {r}, {j}", gemm.name);
                        if r >= rows || j >= columns {
                            assert_eq!(found.to_bits(), before.to_bits(), "{} is not of the tile", case());
                            continue;
                        }
                        let added = match plus {
                            Plus::Nothing => 0.0,
                            Plus::Itself => f64::from(before),
                            Plus::Row(bias) => f64::from(bias[j]),
                        };
                        let terms = (0..depth).map(|k| f64::from(a[r * row + k]) * f64::from(b[k * width + j]));
                        let (exact, size) = terms.fold((added, added.abs()), |(sum, size), term| (sum + term, size + term.abs()));
                        // A product and a sum are rounded for each step, the sums of several ways once more.
                        let bound = (2 * depth + 4) as f64 * 2f64.powi(-24) * size;
                        assert!((f64::from(found) - exact).abs() <= bound, "{}: {found}, not {exact}", case());
                    }
                }
            }
        }
    }

    /// Several tiles below each other are computed as each of them is.
    #[test]
    fn tiles_below_each_other_are_those_of_each() {
        for gemm in available() {
            for (count, columns) in [1, 2, 3].into_iter().flat_map(|count| [(count, gemm.columns), (count, gemm.columns / 2)]) {
                let (depth, stride) = (67, gemm.columns + 1);
                let (a, b) = (numbers(count * gemm.rows * depth, 1), numbers(depth * gemm.columns, 2));
                let [mut together, mut each] = [(); 2].map(|()| vec![f32::NAN; count * gemm.rows * stride]);
                let a_next = gemm.rows * depth;
                let ahead = a.as_ptr();
                // SAFETY: the outputs have all rows at their distance.
                unsafe {
                    let c = together.as_mut_ptr();
                    let left = (&a[..], [depth, 1], a_next);
                    gemm.tiles_below(count, columns, depth, left, &b, c, stride, Plus::Nothing, (ahead, 1, 1));
                    for i in 0..count {
                        let c = each.as_mut_ptr().add(i * gemm.rows * stride);
                        let left = (&a[i * a_next..], [depth, 1]);
                        gemm.tile([gemm.rows, columns], depth, left, &b, c, stride, Plus::Nothing, (ahead, 1));
                    }
                }
                assert!(together.iter().zip(&each).all(|(a, b)| a.to_bits() == b.to_bits()), "{} {count}", gemm.name);
            }
        }
    }

    #[test]
    fn products_with_many_rows_and_whole_panels_have_wide_tiles() {
        for gemm in Isa::available().iter().map(|isa| isa.gemm) {
            let (rows, columns) = (gemm.rows + 1, 3 * gemm.columns);
            assert!(std::ptr::eq(gemm.for_product(rows, 4 * gemm.columns, Caches::USUAL), gemm));
            let Some(wide) = gemm.wide else { continue };
            assert!(columns % wide.columns > 0);
            let is_wide = |rows, columns| std::ptr::eq(gemm.for_product(rows, columns, Caches::LARGE), wide);
            assert!(is_wide(rows, columns + 1) && is_wide(rows, columns + gemm.columns));
            assert!(!is_wide(rows, columns) && !is_wide(gemm.rows, columns + gemm.columns));
        }
    }
}
