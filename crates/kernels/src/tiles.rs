//! What is known of a set of tiles, for products of float32, of pairs of bfloat16 and of bytes, and for convolutions.
//!
//! A *tile* is the innermost loop of every product: some rows of a left operand times a packed panel of columns, with all sums in
//! registers. A set has tiles of every number of rows up to that of a full one. Each kind of loop declares its own sets
//! ([`gemm`](crate::gemm::microkernels), [`conv`](crate::conv::microkernels), [`int8`](crate::int8::microkernels)); what they have in
//! common is data, and [`TileSet::in_vectors`] checks it when it is compiled.

use crate::caches::CacheClass;
#[cfg(target_arch = "x86_64")]
use crate::int8::amx;
use crate::isa::Isa;

/// Rows of the highest tile in vector registers: tables are as long.
pub const MOST_ROWS: usize = 14;
/// Columns of the widest panel of float32, or of pairs: buffers of one row of a panel are as long.
pub const MOST_COLUMNS: usize = 64;

/// A set of tiles for one instruction set and one size of tile.
#[derive(Debug)]
pub struct TileSet {
    pub name: &'static str,
    pub isa: &'static Isa,
    /// Rows of a full tile.
    pub rows: usize,
    /// Vectors of a panel, and sums of each.
    pub vectors: usize,
    pub lanes: usize,
    /// Columns of a panel: the sums of all its vectors.
    pub columns: usize,
    /// The cores that these tiles are for.
    pub caches: CacheClass,
    pub operands: Operands,
    pub kind: Kind,
}

/// What tiles multiply, and what sums they keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    Float32,
    /// Pairs, one in the place of each float32 (see [`crate::bf16`]), added up in float32. An instruction multiplies so many times as
    /// many numbers as one for float32 does: as many if there are no instructions for pairs.
    Bf16 {
        gain: usize,
    },
    /// Groups of bytes, added up as 32-bit integers (see [`crate::int8`]).
    Int8,
}

/// Which registers tiles multiply in.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Vectors,
    /// Matrix registers (AMX). Operands are whole matrices of so many rows and so many steps in depth, the last ones filled up; a
    /// thread has the registers [configured](TileSet::configured) while it runs tiles.
    Matrices {
        rows: usize,
        depth: usize,
    },
}

/// See [`TileSet::configured`].
#[must_use]
pub struct Configured(
    #[cfg(target_arch = "x86_64")]
    #[allow(dead_code, reason = "dropping it counts")]
    amx::Configured,
);

impl TileSet {
    /// A set of tiles of so many rows and vectors, in vector registers.
    ///
    /// # Panics
    /// When the sums do not fit into the registers, or a tile is larger than tables and buffers are: when it is compiled, as sets are
    /// statics.
    pub const fn in_vectors(
        name: &'static str,
        isa: &'static Isa,
        [rows, vectors, lanes]: [usize; 3],
        caches: CacheClass,
        operands: Operands,
    ) -> TileSet {
        let columns = vectors * lanes;
        assert!(rows >= 1 && rows <= MOST_ROWS, "more rows than tables have (MOST_ROWS)");
        assert!(columns >= 1 && columns <= MOST_COLUMNS, "more columns than buffers have (MOST_COLUMNS)");
        // Of a product's factors one is read from memory, those of the shorter side stay in registers.
        let factors = if rows < vectors { rows } else { vectors };
        assert!(rows * vectors + factors < isa.level.registers(), "more sums and factors than registers");
        TileSet { name, isa, rows, vectors, lanes, columns, caches, operands, kind: Kind::Vectors }
    }

    /// Rows of memory that a left operand of so many must have.
    pub fn rows_in_memory(&self, rows: usize) -> usize {
        match self.kind {
            Kind::Vectors => rows,
            Kind::Matrices { rows: of_matrix, .. } => rows.next_multiple_of(of_matrix),
        }
    }

    /// What depths are multiples of, in steps.
    pub fn depth_unit(&self) -> usize {
        match self.kind {
            Kind::Vectors => 1,
            Kind::Matrices { depth, .. } => depth,
        }
    }

    /// The matrix registers of this thread until it is dropped, if tiles are multiplied there: no tile is run without, and the
    /// rows of a left operand are filled up to whole matrices, with any numbers.
    pub fn configured(&self) -> Option<Configured> {
        match self.kind {
            Kind::Vectors => None,
            #[cfg(target_arch = "x86_64")]
            Kind::Matrices { .. } => Some(Configured(amx::Configured::load())),
            #[cfg(not(target_arch = "x86_64"))]
            Kind::Matrices { .. } => unreachable!("no set of this architecture is in matrix registers"),
        }
    }

    /// Divides rows into tiles of nearly the same height; their number and greatest height.
    pub fn divide(&self, rows: usize) -> (usize, usize) {
        let count = rows.div_ceil(self.rows).max(1);
        (count, rows.div_ceil(count))
    }
}

/// A table by number of rows, from 0 on: a tile for each up to those of a full one, and after them what stands for those that are not
/// there. Only tiles in the table are instantiated.
macro_rules! by_rows {
    ($rows:ident up to $most:expr => $tile:expr, else $missing:expr) => {
        $crate::tiles::by_rows!(@each $rows, $most, $tile, $missing; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14)
    };
    (@each $rows:ident, $most:expr, $tile:expr, $missing:expr; $($number:literal)*) => {
        [ $( { const $rows: usize = $number; if $rows <= $most { $tile } else { $missing } } ),* ]
    };
}

/// The bundle of so many vectors.
macro_rules! bundle {
    (1 x $vector:ty) => { $vector };
    (2 x $vector:ty) => { $crate::simd::vector_bundle::Both<$vector, $vector> };
    (4 x $vector:ty) => { $crate::simd::vector_bundle::Both<$crate::tiles::bundle!(2 x $vector), $crate::tiles::bundle!(2 x $vector)> };
    ($vectors:tt x $vector:ty) => { compile_error!("bundles have 1, 2 or 4 vectors") };
}

/// The bundle of half as many.
macro_rules! half_bundle {
    (2 x $vector:ty) => { $vector };
    (4 x $vector:ty) => { $crate::tiles::bundle!(2 x $vector) };
    ($vectors:tt x $vector:ty) => { compile_error!("panels have 2 or 4 vectors") };
}

/// Compiles functions with the instructions of a set.
macro_rules! with_instructions {
    (baseline: $($function:tt)*) => { $($function)* };
    (avx2: $($function:tt)*) => { #[target_feature(enable = "avx2,fma")] $($function)* };
    (avx512: $($function:tt)*) => { #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx2,fma")] $($function)* };
    (avx512_bf16: $($function:tt)*) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512bf16,avx2,fma")] $($function)*
    };
    (avx512_vnni: $($function:tt)*) => {
        #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw,avx512vnni,avx2,fma")] $($function)*
    };
    (dotprod: $($function:tt)*) => { #[target_feature(enable = "neon,dotprod")] $($function)* };
}

pub(crate) use {bundle, by_rows, half_bundle, with_instructions};
