//! The innermost loop of products of bytes: a tile of some rows and one or two vectors of columns, with all sums in
//! registers.
//!
//! A row is made of *runs* of consecutive bytes without a sign, wherever they are: one for a row of a matrix, one for each
//! element of a filter's window for a pixel of an image. Four bytes, a *group*, are read at a time. Weights have signs; those of
//! a group are packed in *parts*, so many of the depth beside each other for each column, as the instructions want them: four
//! bytes for those that multiply bytes; two 16-bit integers for those that multiply these, the first and the third byte in one
//! part, the others in the next, since so they are taken out of the group with one instruction each. Sums are 32-bit integers
//! and exact, or rather wrap around: nothing saturates in between.
#![allow(unsafe_code)]

use crate::caches::CacheClass;
use crate::isa::{self, Isa, Level};
use crate::tiles::{Kind, Operands, TileSet, by_rows, with_instructions};
use smallvec::{SmallVec, smallvec};
use std::ops::Deref;

/// The highest tile of any instruction set.
pub const MOST_ROWS: usize = 32;
/// The vectors of the widest tile.
pub const WIDEST: usize = 2;
/// The numbers of the largest tile of any instruction set.
pub const MOST_NUMBERS: usize = MOST_ROWS * WIDEST * 16;
/// The lengths of runs are multiples of this.
pub const GROUP: usize = 4;

/// What one tile computes, and where.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub runs: usize,
    /// Bytes of a run, a multiple of [`GROUP`].
    pub length: usize,
    /// No more than the tile has.
    pub rows: usize,
    /// Where the runs begin: for each run, for each row. Of [gathered](Tiles::gathered) rows only the first one.
    pub starts: *const *const u8,
    /// A panel: for each run, for each part of each group of its bytes, the weights of each column.
    pub weights: *const u8,
    pub epilogue: Epilogue,
    /// The tile's numbers: the sums themselves, or float32 where there are factors.
    pub output: *mut u32,
    /// Numbers from one row of the output to the next.
    pub stride: usize,
}

/// What becomes of the sums while they are in registers. A row or column of the tile has an element in each.
#[derive(Clone, Copy, Debug)]
pub struct Epilogue {
    /// By column, what is added.
    pub start: *const i32,
    /// By column and by row, two numbers whose product is taken off; or null.
    pub zeros: *const i32,
    pub row_sums: *const i32,
    /// By column, what the sum is multiplied with as a float32 number; or null.
    pub factors: *const f32,
}

/// # Safety
/// All pointers of the task must be valid for what they say, nobody else may access the output, and the CPU must have the
/// instructions.
pub type Tile = unsafe fn(&Task);

/// A set of tiles, by number of rows and of vectors (from 1).
#[derive(Debug)]
pub struct Tiles {
    pub(super) set: TileSet,
    /// Parts of a group, and bytes of a weight.
    pub parts: usize,
    pub weight: usize,
    /// By number of rows, or of matrices of them (from 0, which does nothing), and of vectors (from 1).
    pub(super) tiles: &'static [[Tile; WIDEST]],
}

impl Deref for Tiles {
    type Target = TileSet;

    #[inline(always)]
    fn deref(&self) -> &TileSet {
        &self.set
    }
}

impl Tiles {
    /// Which byte of all comes at place `i` of so many in a part; parts are numbered through all groups.
    pub fn byte(&self, part: usize, i: usize) -> usize {
        part / self.parts * GROUP + part % self.parts + i * self.parts
    }

    /// Panels are filled up to a multiple of so many bytes.
    pub fn depth(&self) -> usize {
        self.depth_unit().max(GROUP)
    }

    /// The best ones of an instruction set for so many rows.
    pub fn of(isa: &Isa, rows: usize) -> &'static Tiles {
        let all = Tiles::all_of(isa);
        let suits = |tiles: &&&'static Tiles| match tiles.kind {
            Kind::Vectors => true,
            // Of lower ones most rows would be empty.
            Kind::Matrices { rows: of_matrix, .. } => rows >= of_matrix / 2,
        };
        all.iter().find(suits).unwrap_or(&all[0])
    }

    /// Bytes of the rows of a tile when they are gathered, as matrix registers want them; 0 if they are read where they are.
    pub fn gathered(&self, depth: usize) -> usize {
        match self.kind {
            Kind::Vectors => 0,
            Kind::Matrices { .. } => self.rows * depth.next_multiple_of(self.depth()),
        }
    }

    /// How far it is from a byte of the depth of gathered rows to the next, counted by whole [depths](Tiles::depth); none if they are read
    /// where they are.
    pub fn gathered_step(&self, rows: usize) -> Option<usize> {
        match self.kind {
            Kind::Vectors => None,
            Kind::Matrices { rows: of_matrix, .. } => Some(rows.next_multiple_of(of_matrix)),
        }
    }

    /// Gathers the rows of a tile, if it wants them so: `starts` has the start of a run of `length` bytes for each run, for each
    /// row, and begins with that of all of them then.
    pub fn gather(&self, isa: &Isa, starts: &mut [*const u8], rows: usize, length: usize, to: &mut [u8]) {
        match self.kind {
            Kind::Vectors => (),
            #[cfg(target_arch = "x86_64")]
            Kind::Matrices { .. } => {
                isa.run_loop(super::amx::Gather { starts: &*starts, rows, length, to: &mut *to });
                starts[0] = to.as_ptr();
            }
            #[cfg(not(target_arch = "x86_64"))]
            Kind::Matrices { .. } => unreachable!("no set of this architecture is in matrix registers"),
        }
        let _ = (isa, starts, rows, length, to);
    }

    /// All that this CPU has within an instruction set, the best first.
    pub fn all_of(isa: &Isa) -> SmallVec<[&'static Tiles; 3]> {
        match isa.level {
            #[cfg(target_arch = "x86_64")]
            Level::Portable => smallvec![&x86::SSE2, &PORTABLE],
            #[cfg(not(target_arch = "x86_64"))]
            Level::Portable => smallvec![&PORTABLE],
            // The compiler makes NEON's instructions of the arrays.
            #[cfg(target_arch = "aarch64")]
            Level::Neon if std::arch::is_aarch64_feature_detected!("dotprod") => smallvec![&arm::DOT, &PORTABLE],
            #[cfg(target_arch = "aarch64")]
            Level::Neon => smallvec![&PORTABLE],
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => smallvec![&x86::AVX2],
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if super::amx::is_there() => smallvec![&super::amx::AMX, &x86::VNNI, &x86::AVX512],
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 if is_x86_feature_detected!("avx512vnni") => smallvec![&x86::VNNI, &x86::AVX512],
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => smallvec![&x86::AVX512],
        }
    }

    /// # Safety
    /// The pointers of the task must be valid: for each run and row, `length` bytes from its start; for each group of these,
    /// the weights of `vectors` whole vectors; numbers for as many columns in what finishes them, and for each row; room for
    /// the columns in each row of the output, which nobody else accesses meanwhile. The thread must have its registers
    /// [configured](TileSet::configured).
    #[inline]
    pub unsafe fn run(&self, vectors: usize, task: &Task) {
        debug_assert!(task.rows <= self.rows && task.length.is_multiple_of(GROUP));
        let steps = match self.kind {
            Kind::Vectors => task.rows,
            Kind::Matrices { rows, .. } => task.rows.div_ceil(rows),
        };
        // SAFETY: the caller's promise; the table is that of an instruction set that the CPU has (`Tiles::all_of`).
        unsafe { self.tiles[steps][vectors - 1](task) }
    }
}

/// A vector of sums, and how it grows.
trait Sums: Copy {
    const LANES: usize;
    /// Parts of a group.
    const PARTS: usize;
    /// Bytes of a weight.
    const WEIGHT: usize;
    type Weights: Copy;
    type Group: Copy;
    type Bytes: Copy;

    fn zero() -> Self;

    /// # Safety
    /// There must be the weights of a part for all lanes at `from`.
    unsafe fn weights(from: *const u8) -> Self::Weights;

    /// # Safety
    /// There must be a group of bytes at `from`.
    unsafe fn group(from: *const u8) -> Self::Group;

    /// What is multiplied with the weights of a part.
    fn bytes(group: Self::Group, part: usize) -> Self::Bytes;

    /// What is taken off all bytes before they are multiplied, if that is not 0, in the form of these.
    #[inline(always)]
    fn moved() -> Option<Self::Bytes> {
        None
    }

    fn plus(self, bytes: Self::Bytes, weights: Self::Weights) -> Self;

    fn add(self, other: Self) -> Self;

    /// # Safety
    /// There must be a vector at `from`.
    unsafe fn load(from: *const i32) -> Self;

    /// Less a vector times a number.
    fn less(self, other: Self, times: i32) -> Self;

    /// # Safety
    /// There must be room for a vector at `to`.
    unsafe fn store(self, to: *mut u32);

    /// Stores the products with float32 numbers.
    ///
    /// # Safety
    /// There must be a vector at `factors`, and room for one at `to`.
    unsafe fn scale(self, factors: *const f32, to: *mut u32);
}

/// # Safety
/// See [`Tile`].
#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
#[expect(clippy::too_many_lines, clippy::cognitive_complexity, reason = "one microkernel, whose sums have to stay in registers")]
unsafe fn tile<S: Sums, const ROWS: usize, const VECTORS: usize>(task: &Task) {
    // Few sums would wait for themselves: they get several, for every second or fourth group.
    let ways = if ROWS * VECTORS <= 2 {
        4
    } else if ROWS * VECTORS <= 6 {
        2
    } else {
        1
    };
    let mut sums = [[[S::zero(); VECTORS]; ROWS]; 4];
    // What the tile has too much for bytes that were moved, which is the same for all rows.
    let mut moved = [S::zero(); VECTORS];
    let mut weights = task.weights;
    let part = VECTORS * S::LANES * GROUP / S::PARTS * S::WEIGHT;
    for run in 0..task.runs {
        // SAFETY: there are ROWS starts for each run.
        let starts = unsafe { &*task.starts.add(run * ROWS).cast::<[*const u8; ROWS]>() };
        let mut k = 0;
        while k < task.length {
            let together = if task.length - k >= ways * GROUP { ways } else { 1 };
            for way in 0..4 {
                if way >= together {
                    break;
                }
                // SAFETY: the panel has VECTORS vectors of weights for each part of each group of each run, and a run `length`
                // bytes.
                unsafe {
                    let first = weights;
                    let factors = |number: usize, v: usize| S::weights(first.add(number * part + v * (part / VECTORS)));
                    if let Some(bytes) = S::moved() {
                        for number in 0..S::PARTS {
                            for v in 0..VECTORS {
                                moved[v] = moved[v].plus(bytes, factors(number, v));
                            }
                        }
                    }
                    for r in 0..ROWS {
                        let group = S::group(starts[r].add(k + way * GROUP));
                        for number in 0..S::PARTS {
                            let bytes = S::bytes(group, number);
                            for v in 0..VECTORS {
                                sums[way][r][v] = sums[way][r][v].plus(bytes, factors(number, v));
                            }
                        }
                    }
                    weights = weights.add(S::PARTS * part);
                }
            }
            k += together * GROUP;
        }
    }
    for way in 1..ways {
        for r in 0..ROWS {
            for v in 0..VECTORS {
                sums[0][r][v] = sums[0][r][v].add(sums[way][r][v]);
            }
        }
    }
    if S::moved().is_some() {
        for v in 0..VECTORS {
            for r in 0..ROWS {
                sums[0][r][v] = sums[0][r][v].less(moved[v], 1);
            }
        }
    }
    // Operator by operator, with indices that are known when this is compiled: so the sums need not lie in memory.
    let mut sums = sums[0];
    let Epilogue { start, zeros, row_sums, factors } = task.epilogue;
    for v in 0..VECTORS {
        // SAFETY: there are VECTORS vectors of what is added.
        let start = unsafe { S::load(start.add(v * S::LANES)) };
        for r in 0..ROWS {
            sums[r][v] = sums[r][v].add(start);
        }
    }
    if !zeros.is_null() {
        for v in 0..VECTORS {
            // SAFETY: there are VECTORS vectors of zero points, and a number for each row.
            unsafe {
                let zeros = S::load(zeros.add(v * S::LANES));
                for r in 0..ROWS {
                    sums[r][v] = sums[r][v].less(zeros, *row_sums.add(r));
                }
            }
        }
    }
    if factors.is_null() {
        for r in 0..ROWS {
            for v in 0..VECTORS {
                // SAFETY: there is room for VECTORS vectors in each row.
                unsafe { sums[r][v].store(task.output.add(r * task.stride + v * S::LANES)) }
            }
        }
        return;
    }
    for v in 0..VECTORS {
        for r in 0..ROWS {
            // SAFETY: there are VECTORS vectors of factors, and there is room for them in each row.
            unsafe { sums[r][v].scale(factors.add(v * S::LANES), task.output.add(r * task.stride + v * S::LANES)) }
        }
    }
}

/// A set of tiles in vector registers, declared once: what its sums are, what compiles tiles with the instructions, its name, the rows of a
/// full tile, and its vectors.
macro_rules! tiles {
    ($name:ident = $isa:path, vectors of $sums:ty, compiled by $features:ident: $title:literal $rows:literal x $vectors:literal) => {
        pub static $name: Tiles = {
            with_instructions! { $features:
                unsafe fn compiled<const ROWS: usize, const VECTORS: usize>(task: &Task) {
                    // SAFETY: the caller's promise; see [`Tile`].
                    unsafe { tile::<$sums, ROWS, VECTORS>(task) }
                }
            }
            const { assert!($vectors == WIDEST && $rows <= MOST_ROWS) };
            Tiles {
                set: TileSet::in_vectors(
                    $title,
                    &$isa,
                    [$rows, $vectors, <$sums as Sums>::LANES],
                    CacheClass::Usual,
                    Operands::Int8,
                ),
                parts: <$sums as Sums>::PARTS,
                weight: <$sums as Sums>::WEIGHT,
        tiles: &by_rows!(ROWS up to $rows => [compiled::<ROWS, 1>, compiled::<ROWS, 2>], else [too_high; WIDEST]),
            }
        };
    };
}

/// # Safety
/// None.
unsafe fn too_high(_: &Task) {
    unreachable!("more rows than a tile of this set has");
}

/// What the compiler makes of a short array.
#[derive(Clone, Copy)]
struct Array([i32; 4]);

impl Sums for Array {
    const LANES: usize = 4;
    const PARTS: usize = GROUP;
    const WEIGHT: usize = 2;
    type Weights = [i16; 4];
    type Group = [u8; GROUP];
    type Bytes = i16;

    #[inline(always)]
    fn zero() -> Self {
        Array([0; 4])
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> [i16; 4] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[i16; 4]>().read_unaligned() }
    }

    #[inline(always)]
    unsafe fn group(from: *const u8) -> [u8; GROUP] {
        // SAFETY: the caller's promise.
        unsafe { from.cast::<[u8; GROUP]>().read() }
    }

    #[inline(always)]
    fn bytes(group: [u8; GROUP], part: usize) -> i16 {
        i16::from(group[part])
    }

    #[inline(always)]
    fn plus(self, byte: i16, weights: [i16; 4]) -> Self {
        Array(std::array::from_fn(|i| self.0[i].wrapping_add(i32::from(byte) * i32::from(weights[i]))))
    }

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Array(std::array::from_fn(|i| self.0[i].wrapping_add(other.0[i])))
    }

    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: the caller's promise.
        Array(unsafe { from.cast::<[i32; 4]>().read_unaligned() })
    }

    #[inline(always)]
    fn less(self, other: Self, times: i32) -> Self {
        Array(std::array::from_fn(|i| self.0[i].wrapping_sub(other.0[i].wrapping_mul(times))))
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe { to.cast::<[i32; 4]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn scale(self, factors: *const f32, to: *mut u32) {
        // SAFETY: the caller's promise.
        unsafe {
            let factors = factors.cast::<[f32; 4]>().read_unaligned();
            to.cast::<[f32; 4]>().write_unaligned(std::array::from_fn(|i| self.0[i] as f32 * factors[i]));
        }
    }
}

tiles! { PORTABLE = isa::PORTABLE, vectors of Array, compiled by baseline: "portable" 4 x 2 }

// After the macro that they use.
#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;
