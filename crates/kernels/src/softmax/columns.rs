//! Softmax of columns, by vectors that lie across them. Rows that are too short for a vector are made columns for it.
#![allow(unsafe_code)]

use crate::functions::formulas::exp_up_to_0;
use crate::gemm::packing::interleave;
use crate::isa::Isa;
use crate::output::SharedOutput;
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// Rows that are transposed together: whole vectors.
pub const LINES: usize = 64;

/// Some columns of one of several matrices.
pub struct Columns<'a> {
    pub input: &'a [f32],
    pub output: &'a SharedOutput<'a>,
    pub matrix: usize,
    pub rows: usize,
    pub columns: usize,
    pub first: usize,
    pub count: usize,
    pub pauses: Pauses,
}

impl Columns<'_> {
    /// Runs it with an instruction set.
    ///
    /// # Safety
    /// Nobody else may access these columns of the output meanwhile.
    pub unsafe fn compute(self, isa: &Isa) {
        with_vectors(isa, self);
    }
}

impl OnVectors for Columns<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Columns { input, output, matrix, rows, columns, first, count, pauses } = self;
        for column in (first..first + count).step_by(V::LANES) {
            let lanes = V::LANES.min(first + count - column);
            let place = |row: usize| (matrix * rows + row) * columns + column;
            // SAFETY: so many numbers are in the rows of the input and of the output from `place` on (asserted here and by the
            // output), and these columns are this job's.
            let load = |row: usize| unsafe { V::load_first(input[place(row)..place(row) + lanes].as_ptr(), lanes) };
            softmax_of_columns(rows, pauses, load, |row| output.from(place(row), place(row) + lanes), lanes);
        }
    }
}

/// Softmax of the columns that a vector lies across, from where `load` finds their rows to the first `lanes` numbers at
/// `place`, which are the caller's.
#[inline(always)]
fn softmax_of_columns<V: Vector>(
    rows: usize,
    pauses: Pauses,
    load: impl Fn(usize) -> V,
    place: impl Fn(usize) -> *mut f32,
    lanes: usize,
) {
    let parts = || pauses.whole_parts(rows, 1, V::LANES);
    let mut greatest = V::splat(f32::NEG_INFINITY);
    for rows in parts() {
        for row in rows {
            greatest = greatest.max(load(row));
        }
    }
    let mut sum = V::splat(0.0);
    for rows in parts() {
        for row in rows {
            let power = exp_up_to_0(load(row).sub(greatest));
            sum = sum.add(power);
            // SAFETY: the caller's promise.
            unsafe { power.store_first(place(row), lanes) };
        }
    }
    // What is not a number spoils the sum, and thereby the column.
    let factor = V::splat(1.0).div(sum);
    for rows in parts() {
        for row in rows {
            // SAFETY: the caller's promise; they have just been stored.
            unsafe { V::load_first(place(row), lanes).mul(factor).store_first(place(row), lanes) };
        }
    }
}

/// Up to [`LINES`] rows that lie one after the other.
pub struct ShortRows<'a> {
    pub input: &'a [f32],
    pub output: &'a mut [f32],
    /// Room for [`LINES`] rows.
    pub columns: &'a mut [f32],
    pub length: usize,
}

impl ShortRows<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for ShortRows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let ShortRows { input, output, columns, length } = self;
        let count = input.len() / length;
        interleave(input, length, count, length, columns, LINES);
        for first in (0..count).step_by(V::LANES) {
            let rows = &mut columns[first..];
            assert!(rows.len() >= (length - 1) * LINES + V::LANES);
            let start = rows.as_mut_ptr();
            // SAFETY: every row has LINES numbers, whole vectors of them (asserted for the last one).
            softmax_of_columns(
                length,
                Pauses::NONE,
                |row| unsafe { V::load(start.add(row * LINES)) },
                |row| start.wrapping_add(row * LINES),
                V::LANES,
            );
        }
        interleave(columns, LINES, length, count, output, length);
    }
}
