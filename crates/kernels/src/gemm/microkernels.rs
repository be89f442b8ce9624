//! Instruction sets: which this CPU has is found out once, and the innermost loops exist for each.
//!
//! A *tile* is the innermost loop of every product: some rows of a left operand times a packed right panel of
//! [`Isa::columns`] columns, with all sums in registers.
//!
//! Between two tiles little may be written to the stack: stores wait for those of the tile's sums, and the next tile's first
//! instructions for them. So a tile has its arguments in registers as far as there are any.
#![allow(unsafe_code)]

use crate::caches::Caches;
use crate::gemm::unrolled_depth::{add_steps, are_worth_it};
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::optimization_barrier::opaque;
use crate::simd::prefetch::{LINE, fetch, fetch_to_write};
use crate::simd::vector::Array;
use crate::simd::vector_bundle::{Both, VectorBundle};
use std::sync::OnceLock;

/// The tiles of an instruction set, from 0 rows to so many; behind them nothing is instantiated.
macro_rules! tiles {
    (4: $tile:ident, $bundle:ty, $width:expr) => { tiles!(0 1 2 3 4; $tile, $bundle, $width) };
    (6: $tile:ident, $bundle:ty, $width:expr) => { tiles!(0 1 2 3 4 5 6; $tile, $bundle, $width) };
    (8: $tile:ident, $bundle:ty, $width:expr) => { tiles!(0 1 2 3 4 5 6 7 8; $tile, $bundle, $width) };
    (12: $tile:ident, $bundle:ty, $width:expr) => { tiles!(0 1 2 3 4 5 6 7 8 9 10 11 12; $tile, $bundle, $width) };
    ($($rows:literal)*; $tile:ident, $bundle:ty, $width:expr) => { filled_up([ $( $tile::<$bundle, $rows, { $width }> ),* ]) };
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
    unreachable!("more rows than a tile of this instruction set has");
}

/// The highest tile of any instruction set.
pub const MOST_ROWS: usize = 12;
/// The widest tile of any instruction set, but for [wide](Isa::for_product) ones.
pub const MOST_COLUMNS: usize = 32;
/// Numbers of the largest tile.
pub const MOST_NUMBERS: usize = MOST_ROWS * MOST_COLUMNS;
/// From so many columns on a tile fetches the weights themselves, so far ahead into the first-level cache: it has no room for a
/// panel.
const WIDE: usize = 64;
const SOON: usize = 512;

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

/// Work that [`Isa::run_loop`] compiles with the instruction set. `run` must be `#[inline(always)]`: a closure may be left
/// out of line, and is then compiled without.
pub(crate) trait Loop {
    fn run(self);
}

/// An instruction set that this CPU has.
#[derive(Debug)]
pub struct Isa {
    pub name: &'static str,
    /// Rows and columns of a full tile.
    pub rows: usize,
    pub columns: usize,
    /// Whether NEON, or AVX2, FMA and F16C, or AVX-512, may be used beside the tiles.
    pub level: Level,
    /// By number of rows; the one for 0 rows does nothing.
    tiles: [Tile; MOST_ROWS + 1],
    /// The same for the first half of a panel's columns.
    halves: [Tile; MOST_ROWS + 1],
    /// Full tiles below each other, of a panel and of its first half.
    below: [unsafe fn(&Column); 2],
    /// With tiles of fewer rows and more columns: they read less for each product, if panels and the rows that they pass over
    /// stay in the second-level cache.
    wide: Option<&'static Isa>,
}

/// Which instructions there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Level {
    Portable,
    #[cfg(target_arch = "aarch64")]
    Neon,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Isa {
    /// The instruction set to use: the best one, or the one that `WEBNN_CPU` names (`portable`, `neon`, `avx2`, `avx512`).
    pub fn of_this_machine() -> &'static Isa {
        static ISA: OnceLock<&'static Isa> = OnceLock::new();
        ISA.get_or_init(|| {
            let wanted = std::env::var("WEBNN_CPU").ok();
            let fits = |isa: &&&'static Isa| wanted.as_deref().is_none_or(|name| name == isa.name);
            Isa::available().iter().find(fits).copied().unwrap_or(&PORTABLE)
        })
    }

    /// All that CPUs of this architecture may have. Whether this one has them is not asked: none of their instructions may run.
    pub fn of_architecture() -> Vec<&'static Isa> {
        #[cfg(target_arch = "x86_64")]
        return vec![&x86::AVX512, &x86::AVX2, &PORTABLE];
        #[cfg(target_arch = "aarch64")]
        return vec![&NEON, &PORTABLE];
    }

    /// All that this CPU has, the best first.
    pub fn available() -> &'static [&'static Isa] {
        static AVAILABLE: OnceLock<Vec<&'static Isa>> = OnceLock::new();
        AVAILABLE.get_or_init(|| {
            #[allow(unused_mut, reason = "only some architectures add to it")]
            let mut available: Vec<&'static Isa> = vec![&PORTABLE];
            #[cfg(target_arch = "aarch64")]
            available.insert(0, &NEON);
            #[cfg(target_arch = "x86_64")]
            {
                if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c") {
                    available.insert(0, &x86::AVX2);
                }
                let has_avx512 = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("avx512bw");
                if has_avx512 {
                    available.insert(0, &x86::AVX512);
                }
            }
            available
        })
    }

    /// The tiles for a product of so many rows and columns, on a core with these caches.
    pub fn for_product(&'static self, rows: usize, columns: usize, caches: Caches) -> &'static Isa {
        let suits = |wide: &&Isa| {
            // Over fewer rows a tile passes but once; and no more columns of the last panel may be missing.
            let fills = columns.next_multiple_of(wide.columns) == columns.next_multiple_of(self.columns);
            caches.second >= Caches::LARGE.second && rows > self.rows && fills
        };
        self.wide.filter(suits).unwrap_or(self)
    }

    /// Whether these are lower tiles of more columns.
    pub fn is_wide(&self) -> bool {
        self.columns >= WIDE
    }

    /// Runs a loop, compiled with this instruction set.
    #[inline(always)]
    pub(crate) fn run_loop(&self, work: impl Loop) {
        match self.level {
            Level::Portable => work.run(),
            // What every CPU of the architecture has needs no function of its own.
            #[cfg(target_arch = "aarch64")]
            Level::Neon => work.run(),
            // SAFETY: an `Isa` exists only when the CPU has its instructions.
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => unsafe { x86::loop_avx2(work) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => unsafe { x86::loop_avx512(work) },
        }
    }

    /// Multiplies a left operand, read at these distances from row to row and from step to step in depth, and a panel, all its
    /// [`Isa::columns`] or the first half of them, into a tile of `rows` × `columns` elements, and brings elements that will be
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
        // SAFETY: the lengths of the operands and the row were asserted, `c` is the caller's promise, and an `Isa` exists
        // only when the CPU has its instructions.
        unsafe { tiles[rows](a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
    }

    /// Multiplies so many full tiles, one below the other, as [`Isa::tile`] does one: `a_next` and `ahead_next` are the
    /// distances to what the next has. Nothing is decided between them: only as many products as take 100 cycles have been
    /// begun when a tile ends, and what a caller does for each is not done by then.
    ///
    /// # Safety
    /// As [`Isa::tile`], for the rows of all of them.
    ///
    /// # Panics
    /// As [`Isa::tile`].
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

/// The sets of tiles of products that this CPU has.
pub fn with_wide() -> impl Iterator<Item = &'static Isa> {
    Isa::available().iter().flat_map(|isa| std::iter::once(*isa).chain(isa.wide))
}

static PORTABLE: Isa = Isa {
    name: "portable",
    rows: 4,
    columns: 8,
    level: Level::Portable,
    tiles: tiles!(4: baseline, Both<Array, Array>, 8),
    halves: tiles!(4: baseline, Array, 8),
    below: [baseline_below::<Both<Array, Array>, 4, 8>, baseline_below::<Array, 4, 8>],
    wide: None,
};

#[cfg(target_arch = "aarch64")]
static NEON: Isa = Isa {
    name: "neon",
    rows: 8,
    columns: 8,
    level: Level::Neon,
    tiles: tiles!(8: baseline, Both<Neon, Neon>, 8),
    halves: tiles!(8: baseline, Neon, 8),
    below: [baseline_below::<Both<Neon, Neon>, 8, 8>, baseline_below::<Neon, 8, 8>],
    wide: None,
};

/// A tile of ROWS rows of a bundle, of panels whose rows have WIDTH elements.
///
/// # Safety
/// See [`Tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
unsafe fn tile<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(
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
    let most = const { (if WIDTH > 16 { MOST_NUMBERS / WIDTH } else { 6 }) * (WIDTH / S::LANES) };
    let ways = if 4 * ROWS <= most {
        4
    } else if 2 * ROWS <= most {
        2
    } else {
        1
    };
    let mut sums = [[S::splat(0.0); ROWS]; 4];
    let (mut a, mut b, mut ahead, mut depth) = (a, b, ahead, depth);
    if const { are_worth_it::<S>(ROWS) && WIDTH == S::LANES } && ways == 1 && step == 1 {
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
            if WIDTH > LINE && ways * ahead_step > LINE {
                fetch::<1>(ahead.wrapping_add(LINE));
            }
            ahead = ahead.wrapping_add(ways * ahead_step);
            for way in 0..ways {
                // SAFETY: `b` has `depth` rows, `a` ROWS elements for each, by the caller's promise.
                unsafe {
                    let factors = S::load(b);
                    b = b.add(WIDTH);
                    if WIDTH >= WIDE {
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
            b = b.add(WIDTH);
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
unsafe fn tiles_below<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(column: &Column) {
    let Column { count, mut a, a_next, row, step, b, depth, mut c, stride, mut ahead, .. } = *column;
    let Column { ahead_next, ahead_step, mut plus, plus_stride, .. } = *column;
    for _ in 0..count {
        // SAFETY: the caller's promise.
        unsafe { tile::<S, ROWS, WIDTH>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
        (a, ahead) = (a.wrapping_add(a_next), ahead.wrapping_add(ahead_next));
        (c, plus) = (c.wrapping_add(ROWS * stride), plus.wrapping_add(ROWS * plus_stride));
    }
}

/// # Safety
/// See [`tiles_below`].
unsafe fn baseline_below<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(column: &Column) {
    // SAFETY: the caller's promise.
    unsafe { tiles_below::<S, ROWS, WIDTH>(column) }
}

/// With the instructions that every CPU of the architecture has.
///
/// # Safety
/// See [`Tile`].
unsafe fn baseline<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(
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
    unsafe { tile::<S, ROWS, WIDTH>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Both, Column, Isa, Level, VectorBundle, filled_up, tile, tiles_below};
    use crate::simd::vector::x86::{Avx2, Avx512};

    pub static AVX512: Isa = Isa {
        name: "avx512",
        rows: 12,
        columns: 32,
        level: Level::Avx512,
        tiles: tiles!(12: avx512, Both<Avx512, Avx512>, 32),
        halves: tiles!(12: avx512, Avx512, 32),
        below: [avx512_below::<Both<Avx512, Avx512>, 12, 32>, avx512_below::<Avx512, 12, 32>],
        wide: Some(&AVX512_WIDE),
    };
    type Four = Both<Both<Avx512, Avx512>, Both<Avx512, Avx512>>;
    static AVX512_WIDE: Isa = Isa {
        name: "avx512, wide",
        rows: 6,
        columns: 64,
        level: Level::Avx512,
        tiles: tiles!(6: avx512, Four, 64),
        halves: tiles!(6: avx512, Both<Avx512, Avx512>, 64),
        below: [avx512_below::<Four, 6, 64>, avx512_below::<Both<Avx512, Avx512>, 6, 64>],
        wide: None,
    };
    pub static AVX2: Isa = Isa {
        name: "avx2",
        rows: 6,
        columns: 16,
        level: Level::Avx2,
        tiles: tiles!(6: avx2, Both<Avx2, Avx2>, 16),
        halves: tiles!(6: avx2, Avx2, 16),
        below: [avx2_below::<Both<Avx2, Avx2>, 6, 16>, avx2_below::<Avx2, 6, 16>],
        wide: None,
    };

    /// # Safety
    /// The CPU must have AVX2 and FMA.
    #[target_feature(enable = "avx2,fma")]
    pub unsafe fn loop_avx2(work: impl super::Loop) {
        work.run();
    }

    /// # Safety
    /// The CPU must have AVX-512 with the extensions F, VL, DQ and BW.
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    pub unsafe fn loop_avx512(work: impl super::Loop) {
        work.run();
    }

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(
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
        unsafe { tile::<S, ROWS, WIDTH>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
    }

    /// # Safety
    /// See [`super::Tile`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    unsafe fn avx512<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(
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
        unsafe { tile::<S, ROWS, WIDTH>(a, row, step, b, depth, c, stride, ahead, ahead_step, plus, plus_stride) }
    }

    /// # Safety
    /// See [`super::tiles_below`].
    #[target_feature(enable = "avx2,fma")]
    unsafe fn avx2_below<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(column: &Column) {
        // SAFETY: the caller's promise.
        unsafe { tiles_below::<S, ROWS, WIDTH>(column) }
    }

    /// # Safety
    /// See [`super::tiles_below`].
    #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")]
    unsafe fn avx512_below<S: VectorBundle, const ROWS: usize, const WIDTH: usize>(column: &Column) {
        // SAFETY: the caller's promise.
        unsafe { tiles_below::<S, ROWS, WIDTH>(column) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_with_many_rows_and_whole_panels_have_wide_tiles() {
        for isa in Isa::available() {
            let (rows, columns) = (isa.rows + 1, 3 * isa.columns);
            assert!(std::ptr::eq(isa.for_product(rows, 4 * isa.columns, Caches::USUAL), *isa));
            let Some(wide) = isa.wide else { continue };
            assert!(wide.rows * wide.columns <= MOST_NUMBERS && columns % wide.columns > 0);
            let is_wide = |rows, columns| std::ptr::eq(isa.for_product(rows, columns, Caches::LARGE), wide);
            assert!(is_wide(rows, columns + 1) && is_wide(rows, columns + isa.columns));
            assert!(!is_wide(rows, columns) && !is_wide(isa.rows, columns + isa.columns));
        }
    }
}
