//! The microkernels of GEMM: loops of tiles, and the sets of those for float32.
//!
//! What a tile is stands in [`crate::tiles`]; here its panels are those of the right operand.
//!
//! Between two tiles little may be written to the stack: stores wait for those of the tile's sums, and the next tile's first
//! instructions for them. So a tile has its arguments in registers as far as there are any.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use crate::bf16::amx;
use crate::bf16::{packing, rounding};
use crate::caches::{CacheClass, Caches};
use crate::gemm::packing::pack_panel;
use crate::gemm::row_times_panels;
use crate::gemm::unrolled_depth::{add_steps, are_worth_it};
use crate::isa::{self, Isa};
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::optimization_barrier::opaque;
use crate::simd::prefetch::{LINE, fetch, fetch_to_write};
use crate::simd::vector::Array;
use crate::simd::vector_bundle::VectorBundle;
pub use crate::tiles::{MOST_COLUMNS, Operands};
use crate::tiles::{MOST_ROWS, TileSet, bundle, by_rows, half_bundle};
use std::marker::PhantomData;
use std::ops::{Deref, Range};

/// Sets of microkernels for an instruction set and operands, declared once: the registers, what compiles tiles with the instructions
/// ([`compile_tiles`]), and for each set its name, the rows of a full tile, the vectors of a panel (2 or 4), and the cores that it is
/// for. The first set is the usual one; [`Microkernels::for_product`] finds the others, and all tests run them.
macro_rules! microkernels {
    (
        $(#[$attribute:meta])*
        $name:ident = $isa:path, vectors of $vector:ty, $operands:expr, compiled by $compiled:ident:
        $title:literal $rows:literal x $vectors:tt for $caches:ident
        $(, $other:literal $other_rows:literal x $other_vectors:tt for $other_caches:ident)*
    ) => {
        $(#[$attribute])*
        pub(crate) static $name: Microkernels = Microkernels {
            others: {
                static OTHERS: &[Microkernels] = &[$(
                    microkernels!(@set $other, $isa, $vector, $operands, $compiled, $other_rows, $other_vectors, $other_caches)
                ),*];
                OTHERS
            },
            ..microkernels!(@set $title, $isa, $vector, $operands, $compiled, $rows, $vectors, $caches)
        };
        $(#[$attribute])*
        const _: () = assert!($vectors == row_times_panels::VECTORS, "what is packed for the usual set is read by row_times_panels, too");
    };
    (@set $title:expr, $isa:path, $vector:ty, $operands:expr, $compiled:ident, $rows:literal, $vectors:tt, $caches:ident) => {{
        type Whole = bundle!($vectors x $vector);
        type Half = half_bundle!($vectors x $vector);
        type Full = FullTile<Whole, $rows, { matches!(CacheClass::$caches, CacheClass::LargeSecond) }>;
        Microkernels {
            set: fitting(TileSet::in_vectors(
                $title, &$isa, [$rows, $vectors, <$vector as VectorBundle>::LANES], CacheClass::$caches, $operands,
            )),
            kernels: Kernels::Vectors {
                tiles: by_rows!(ROWS up to $rows => $compiled::tile::<Full, Whole, ROWS>, else too_high),
                halves: by_rows!(ROWS up to $rows => $compiled::tile::<Full, Half, ROWS>, else too_high),
                below: [$compiled::tiles_below::<Full, Whole, $rows>, $compiled::tiles_below::<Full, Half, $rows>],
            },
            others: &[],
        }
    }};
}

/// A module of tiles, and of all those of a [`Column`], compiled with the instructions of that name.
macro_rules! compile_tiles {
    ($name:ident) => {
        pub(in crate::gemm::microkernels) mod $name {
            use crate::gemm::microkernels::{self, Column, Full, Strided};
            use crate::simd::vector_bundle::VectorBundle;

            $crate::tiles::with_instructions! { $name:
                /// # Safety
                /// See [`Tile`](microkernels::Tile).
                pub unsafe fn tile<F: Full, S: VectorBundle, const ROWS: usize>(
                    a: Strided<*const f32>,
                    step: usize,
                    b: *const f32,
                    depth: usize,
                    c: Strided<*mut f32>,
                    ahead: Strided<*const f32>,
                    plus: Strided<*const f32>,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { microkernels::tile::<F, S, ROWS>(a, step, b, depth, c, ahead, plus) }
                }
            }

            $crate::tiles::with_instructions! { $name:
                /// # Safety
                /// See [`tiles_below`](microkernels::tiles_below).
                pub unsafe fn tiles_below<F: Full, S: VectorBundle, const ROWS: usize>(column: &Column) {
                    // SAFETY: the caller's promise.
                    unsafe { microkernels::tiles_below::<F, S, ROWS>(column) }
                }
            }
        }
    };
}

/// # Safety
/// None.
unsafe fn too_high(
    _: Strided<*const f32>,
    _: usize,
    _: *const f32,
    _: usize,
    _: Strided<*mut f32>,
    _: Strided<*const f32>,
    _: Strided<*const f32>,
) {
    unreachable!("more rows than a tile of this set has");
}

/// Numbers of the largest tile in vector registers: 12 x 32 or 6 x 64, in 24 of the 32 registers of AVX-512. Those of matrix registers
/// are larger, and so few that somebody's scratch has them.
pub const MOST_NUMBERS: usize = 384;
/// # Panics
/// When a tile of the set has more numbers, as it is compiled.
const fn fitting(set: TileSet) -> TileSet {
    assert!(set.rows * set.columns <= MOST_NUMBERS, "a tile has more numbers than buffers have (MOST_NUMBERS)");
    set
}

/// How many numbers ahead a tile [fetches its panel](Full::FETCHES_PANEL).
const SOON: usize = 512;

/// The full tile of a set, which its loops are compiled for.
trait Full {
    /// Rows and columns: so many sums are in registers.
    const ROWS: usize;
    const COLUMNS: usize;
    /// Whether a tile fetches its panel into the first-level cache, which has no room for all of it.
    const FETCHES_PANEL: bool;
}

/// So many rows of a bundle, the whole row of a panel.
struct FullTile<Whole, const ROWS: usize, const FETCHES_PANEL: bool>(PhantomData<Whole>);

impl<Whole: VectorBundle, const ROWS: usize, const FETCHES_PANEL: bool> Full for FullTile<Whole, ROWS, FETCHES_PANEL> {
    const ROWS: usize = ROWS;
    const COLUMNS: usize = Whole::LANES;
    const FETCHES_PANEL: bool = FETCHES_PANEL;
}

/// Steps after which a tile fetches the next row of those that it writes.
const APART: usize = 4;

/// Where rows or steps begin, and how far it is from one to the next. It is passed in two registers.
#[derive(Clone, Copy)]
struct Strided<P> {
    start: P,
    stride: usize,
}

/// `c[r][j] = plus[r][j] + Σ a[r][k] · b[k][j]`: `a` by rows, with the distance of its steps in depth, `b`, the depth, `c` by rows, what
/// is brought into the cache meanwhile by steps in depth, and `plus` by rows, or null. In registers, as far as there are any: a tile that
/// finds them in memory begins some 50 cycles later.
///
/// # Safety
/// `a` must have an element for each row and step, `b` a row of columns for each step, `c` and `plus` rows of columns, all at
/// those distances; nobody else may access `c`; the CPU must have the instructions.
type Tile = unsafe fn(Strided<*const f32>, usize, *const f32, usize, Strided<*mut f32>, Strided<*const f32>, Strided<*const f32>);

/// Full tiles of a panel, one below the other: what [`Tile`] has for the first of them, how many there are, and how far it is
/// from one to the next in `a` and in what is brought into the cache.
#[derive(Clone, Copy)]
struct Column {
    next: Below,
    a: Strided<*const f32>,
    step: usize,
    b: *const f32,
    depth: usize,
    c: Strided<*mut f32>,
    ahead: Strided<*const f32>,
    plus: Strided<*const f32>,
}

/// What one tile computes, and where.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    pub rows: usize,
    /// Those of a panel, or half of them.
    pub columns: usize,
    /// In [steps](Microkernels::steps).
    pub depth: usize,
    pub left: LeftRows<'a>,
    pub panel: &'a [f32],
    /// The first element, and how far it is from a row to the next.
    pub output: *mut f32,
    pub stride: usize,
    pub plus: Plus<'a>,
    pub ahead: Ahead,
}

/// Rows of a left operand.
#[derive(Clone, Copy, Debug)]
pub struct LeftRows<'a> {
    pub elements: &'a [f32],
    /// From a row to the next, and from a step in depth to the next.
    pub row: usize,
    pub step: usize,
}

/// What will be needed next, which a tile brings into the cache: from where on, at any address, and how many elements further with each
/// step in depth.
#[derive(Clone, Copy, Debug)]
pub struct Ahead {
    pub start: *const f32,
    pub step: usize,
}

/// Tiles below the first one: how many there are with it, and how far it is from one to the next in the left operand and in what is
/// brought into the cache.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    pub count: usize,
    pub left: usize,
    pub ahead: usize,
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

/// A set of microkernels, whose instructions this CPU has.
#[derive(Debug)]
pub struct Microkernels {
    set: TileSet,
    kernels: Kernels,
    /// Of the same instruction set and operands, for other cores or products (see [`Microkernels::for_product`]).
    others: &'static [Microkernels],
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "sets are statics")]
enum Kernels {
    Vectors {
        /// By number of rows; the one for 0 rows does nothing.
        tiles: [Tile; MOST_ROWS + 1],
        /// The same for the first half of a panel's columns.
        halves: [Tile; MOST_ROWS + 1],
        /// Full tiles below each other, of a panel and of its first half.
        below: [unsafe fn(&Column); 2],
    },
    /// In matrix registers ([`crate::bf16::amx`]), which take any number of rows.
    #[cfg(target_arch = "x86_64")]
    Matrices,
}

impl Deref for Microkernels {
    type Target = TileSet;

    #[inline(always)]
    fn deref(&self) -> &TileSet {
        &self.set
    }
}

impl Microkernels {
    /// Steps of a depth: one for each number, or for each pair of them.
    pub fn steps(&self, depth: usize) -> usize {
        if self.rounds() { rounding::pairs(depth).next_multiple_of(self.depth_unit()) } else { depth }
    }

    /// Whether operands are rounded to bfloat16.
    pub fn rounds(&self) -> bool {
        self.operands != Operands::Float32
    }

    /// Whether the CPU has instructions for the operands.
    pub fn is_native(&self) -> bool {
        !self.rounds() || self.is_native_bf16()
    }

    /// Whether these are instructions for bfloat16.
    pub fn is_native_bf16(&self) -> bool {
        matches!(self.operands, Operands::Bf16 { gain: 2.. })
    }

    /// This set and the others of its instruction set and operands.
    pub fn all(&'static self) -> impl Iterator<Item = &'static Microkernels> {
        std::iter::once(self).chain(self.others)
    }

    /// Packs some columns of a matrix with these strides of rows and columns into a panel, and fills it up with zeros.
    ///
    /// # Panics
    /// When the matrix or the panel is too short.
    pub fn pack_panel(&self, columns: Range<usize>, depth: usize, elements: &[f32], strides: [usize; 2], panel: &mut [f32]) {
        if !self.rounds() {
            return pack_panel(self.columns, columns, depth, elements, strides, panel);
        }
        packing::pack_panel(self, self.columns, columns, depth, elements, strides, panel);
        panel[rounding::pairs(depth) * self.columns..self.steps(depth) * self.columns].fill(0.0);
    }

    /// Packs a panel of a matrix whose element (k, column) is `element(k, column)`; what is after the last column stays as it is.
    pub fn pack_panel_with(&self, columns: Range<usize>, depth: usize, panel: &mut [f32], element: impl Fn(usize, usize) -> f32) {
        for (step, row) in panel.chunks_exact_mut(self.columns).enumerate() {
            for (number, column) in row.iter_mut().zip(columns.clone()) {
                *number = match self.rounds() {
                    false => element(step, column),
                    true if 2 * step >= depth => 0.0,
                    true => {
                        let second = if 2 * step + 1 < depth { element(2 * step + 1, column) } else { 0.0 };
                        rounding::pair(element(2 * step, column), second)
                    }
                };
            }
        }
    }

    /// These, or others of their instruction set, for a product of so many rows and columns on a core with these caches.
    pub fn for_product(&'static self, rows: usize, columns: usize, caches: Caches) -> &'static Microkernels {
        let suits = |other: &&Microkernels| {
            // Over fewer rows a tile passes but once; and no more columns of the last panel may be missing.
            let fills = columns.next_multiple_of(other.columns) == columns.next_multiple_of(self.columns);
            other.caches.includes(caches) && rows > self.rows && fills
        };
        self.others.iter().find(suits).unwrap_or(self)
    }

    /// Multiplies some rows of a left operand with a panel, or with the first half of its columns, into a tile of the output, and brings
    /// into the cache meanwhile what will be needed next.
    ///
    /// # Safety
    /// The output must have all rows and columns of the tile, which nobody else accesses. The thread must have its registers
    /// [configured](TileSet::configured).
    ///
    /// # Panics
    /// When an operand is too short, or there is no tile of so many columns.
    #[inline(always)]
    pub unsafe fn tile(&self, task: Task<'_>) {
        let Task { rows, columns, depth, left, panel, output, stride, ahead, .. } = task;
        let is_whole = self.is_whole(columns);
        assert!(rows <= self.rows && panel.len() >= depth * self.columns);
        assert!(rows == 0 || depth == 0 || left.elements.len() > (rows - 1) * left.row + (depth - 1) * left.step);
        let plus = task.plus.rows(columns, output, stride);
        let (a, b) = (Strided { start: left.elements.as_ptr(), stride: left.row }, panel.as_ptr());
        let c = Strided { start: output, stride };
        match &self.kernels {
            Kernels::Vectors { tiles, halves, .. } => {
                let tiles = if is_whole { tiles } else { halves };
                let ahead = Strided { start: ahead.start, stride: ahead.step };
                // SAFETY: the lengths of the operands and the row were asserted, the output is the caller's promise, and an `Isa`
                // exists only when the CPU has its instructions.
                unsafe { tiles[rows](a, left.step, b, depth, c, ahead, plus) }
            }
            #[cfg(target_arch = "x86_64")]
            Kernels::Matrices => {
                assert!(left.step == 1 && depth.is_multiple_of(self.depth_unit()));
                let pair = |rows: Strided<*const f32>| (rows.start, rows.stride);
                // SAFETY: as above; the rows that fill the last matrix up are memory, and the registers are configured, by the
                // promises at `configured`.
                unsafe { amx::x86::tile([rows, columns], depth, pair(a), b, (output, stride), pair(plus)) }
            }
        }
    }

    /// Multiplies full tiles, one below the other, as [`Microkernels::tile`] does the first. Nothing is decided between them: only as many
    /// products as take 100 cycles have been begun when a tile ends, and what a caller does for each is not done by then.
    ///
    /// # Safety
    /// As [`Microkernels::tile`], for the rows of all of them.
    ///
    /// # Panics
    /// As [`Microkernels::tile`], and when the first is not a full tile.
    pub unsafe fn tiles_below(&self, task: Task<'_>, next: Below) {
        let Task { rows, columns, depth, left, panel, output, stride, ahead, .. } = task;
        assert_eq!(rows, self.rows);
        let below = match &self.kernels {
            Kernels::Vectors { below, .. } => below[usize::from(!self.is_whole(columns))],
            #[cfg(target_arch = "x86_64")]
            Kernels::Matrices => {
                for i in 0..next.count {
                    let left = LeftRows { elements: &left.elements[i * next.left..], ..left };
                    let ahead = Ahead { start: ahead.start.wrapping_add(i * next.ahead), ..ahead };
                    // SAFETY: the caller's promise.
                    unsafe { self.tile(Task { left, ahead, output: output.wrapping_add(i * rows * stride), ..task }) };
                }
                return;
            }
        };
        assert!(panel.len() >= depth * self.columns);
        let last = |count: usize, distance: usize| count.saturating_sub(1) * distance;
        let end = last(next.count, next.left) + last(rows, left.row) + last(depth, left.step);
        assert!(next.count == 0 || depth == 0 || left.elements.len() > end);
        let column = Column {
            next,
            a: Strided { start: left.elements.as_ptr(), stride: left.row },
            step: left.step,
            b: panel.as_ptr(),
            depth,
            c: Strided { start: output, stride },
            ahead: Strided { start: ahead.start, stride: ahead.step },
            plus: task.plus.rows(columns, output, stride),
        };
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
    fn rows(self, columns: usize, c: *mut f32, stride: usize) -> Strided<*const f32> {
        match self {
            Plus::Nothing => Strided { start: std::ptr::null(), stride: 0 },
            Plus::Itself => Strided { start: c.cast_const(), stride },
            Plus::Row(row) => {
                assert!(row.len() >= columns);
                Strided { start: row.as_ptr(), stride: 0 }
            }
        }
    }
}

/// All sets that this CPU has.
pub fn available() -> impl Iterator<Item = &'static Microkernels> {
    Isa::available().iter().flat_map(|isa| isa.gemm.all())
}

microkernels! {
    PORTABLE = isa::PORTABLE, vectors of Array, Operands::Float32, compiled by baseline:
    "portable" 4 x 2 for Usual
}
microkernels! {
    #[cfg(target_arch = "aarch64")]
    NEON = isa::NEON, vectors of Neon, Operands::Float32, compiled by baseline:
    "neon" 8 x 2 for Usual
}

/// A tile of ROWS rows of a bundle, of panels of a set.
///
/// # Safety
/// See [`Tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
unsafe fn tile<F: Full, S: VectorBundle, const ROWS: usize>(
    Strided { start: mut a, stride: row }: Strided<*const f32>,
    step: usize,
    mut b: *const f32,
    mut depth: usize,
    Strided { start: c, stride }: Strided<*mut f32>,
    Strided { start: mut ahead, stride: ahead_step }: Strided<*const f32>,
    plus: Strided<*const f32>,
) {
    // What the tile is written to arrives while it is computed.
    let fetch_row = |row: *mut f32| {
        fetch_to_write(row);
        fetch_to_write(row.wrapping_add(S::LANES - 1));
    };
    // A few rows alone would wait for their own sums: they get several, for every second or fourth step in depth.
    let most = const { F::ROWS * (F::COLUMNS / S::LANES) };
    let ways = if 4 * ROWS <= most {
        4
    } else if 2 * ROWS <= most {
        2
    } else {
        1
    };
    let mut sums = [[S::splat(0.0); ROWS]; 4];
    if const { are_worth_it::<S>(ROWS) && F::COLUMNS == S::LANES } && ways == 1 && step == 1 {
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
            if F::COLUMNS > LINE && ways * ahead_step > LINE {
                fetch::<1>(ahead.wrapping_add(LINE));
            }
            ahead = ahead.wrapping_add(ways * ahead_step);
            for way in 0..ways {
                // SAFETY: `b` has `depth` rows, `a` ROWS elements for each, by the caller's promise.
                unsafe {
                    let factors = S::load(b);
                    b = b.add(F::COLUMNS);
                    if F::FETCHES_PANEL {
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
            b = b.add(F::COLUMNS);
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
    let (stride, plus_stride) = (opaque(stride), opaque(plus.stride));
    if plus.start.is_null() {
        for r in 0..ROWS {
            // SAFETY: `c` has ROWS rows of a bundle at its distance, by the caller's promise.
            unsafe { sums[r].store(c.add(r * stride)) }
        }
    } else {
        for r in 0..ROWS {
            // SAFETY: as above, and so has `plus`.
            unsafe { S::load(plus.start.add(r * plus_stride)).add(sums[r]).store(c.add(r * stride)) }
        }
    }
}

/// All tiles of a [`Column`].
///
/// # Safety
/// See [`Tile`], for all of them.
#[inline(always)]
unsafe fn tiles_below<F: Full, S: VectorBundle, const ROWS: usize>(column: &Column) {
    let Column { next, mut a, step, b, depth, mut c, mut ahead, mut plus } = *column;
    for _ in 0..next.count {
        // SAFETY: the caller's promise.
        unsafe { tile::<F, S, ROWS>(a, step, b, depth, c, ahead, plus) }
        (a.start, ahead.start) = (a.start.wrapping_add(next.left), ahead.start.wrapping_add(next.ahead));
        c.start = c.start.wrapping_add(ROWS * c.stride);
        plus.start = plus.start.wrapping_add(ROWS * plus.stride);
    }
}

compile_tiles!(baseline);

// After the macros.
pub(crate) mod bf16;

#[cfg(target_arch = "x86_64")]
pub(crate) mod x86 {
    use super::*;
    use crate::simd::vector::x86::{Avx2, Avx512};

    microkernels! {
        AVX512 = isa::AVX512, vectors of Avx512, Operands::Float32, compiled by avx512:
        "avx512" 12 x 2 for Usual,
        "avx512, wide" 6 x 4 for LargeSecond
    }
    microkernels! {
        AVX2 = isa::AVX2, vectors of Avx2, Operands::Float32, compiled by avx2:
        "avx2" 6 x 2 for Usual
    }

    compile_tiles!(avx2);
    compile_tiles!(avx512);
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
                let left = LeftRows { elements: &a, row, step: 1 };
                let ahead = Ahead { start: a.as_ptr(), step: 1 };
                for (plus, name) in [(Plus::Nothing, "nothing"), (Plus::Itself, "itself"), (Plus::Row(&bias), "a row")] {
                    let mut c = before.clone();
                    // SAFETY: the output has all rows at its distance; what is fetched ahead may be anywhere.
                    unsafe {
                        gemm.tile(Task { rows, columns, depth, left, panel: &b, output: c.as_mut_ptr(), stride, plus, ahead })
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
                let below = Below { count, left: gemm.rows * depth, ahead: 1 };
                let task = Task {
                    rows: gemm.rows,
                    columns,
                    depth,
                    left: LeftRows { elements: &a, row: depth, step: 1 },
                    panel: &b,
                    output: together.as_mut_ptr(),
                    stride,
                    plus: Plus::Nothing,
                    ahead: Ahead { start: a.as_ptr(), step: 1 },
                };
                // SAFETY: the outputs have all rows at their distance.
                unsafe {
                    gemm.tiles_below(task, below);
                    for i in 0..count {
                        let left = LeftRows { elements: &a[i * below.left..], ..task.left };
                        gemm.tile(Task { left, output: each[i * gemm.rows * stride..].as_mut_ptr(), ..task });
                    }
                }
                assert!(together.iter().zip(&each).all(|(a, b)| a.to_bits() == b.to_bits()), "{} {count}", gemm.name);
            }
        }
    }

    #[test]
    fn products_with_many_rows_and_whole_panels_have_other_tiles() {
        for gemm in Isa::available().iter().map(|isa| isa.gemm) {
            for other in gemm.others {
                let columns = 4 * gemm.columns * other.columns;
                let is_other = |rows, columns, caches| std::ptr::eq(gemm.for_product(rows, columns, caches), other);
                assert!(is_other(gemm.rows + 1, columns, Caches::LARGE) && !is_other(gemm.rows, columns, Caches::LARGE));
                assert_eq!(is_other(gemm.rows + 1, columns, Caches::USUAL), other.caches.includes(Caches::USUAL));
                // Of the last panel more is missing if it is wider.
                for columns in columns..columns + other.columns {
                    let missing = |set: &Microkernels| columns.next_multiple_of(set.columns) - columns;
                    assert_eq!(is_other(gemm.rows + 1, columns, Caches::LARGE), missing(other) == missing(gemm), "{columns}");
                }
            }
        }
    }
}
