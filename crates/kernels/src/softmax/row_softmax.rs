//! Softmax of rows that lie one after the other, several of them at a time: what is done across the numbers of a vector in the end
//! is done for all of these rows at once.
#![allow(unsafe_code)]

use crate::functions::formulas::exp_up_to_0;
use crate::pauses::Pauses;
use crate::simd::vector::{MOST_LANES, Vector};

/// Where there is room for rows of so many numbers, `stride` from one to the next.
#[derive(Clone, Copy)]
pub struct Rows {
    pub start: *mut f32,
    pub count: usize,
    pub length: usize,
    pub stride: usize,
    /// What is put in the place of NaN, of which a row has either nothing or nothing else.
    pub instead_of_nan: f32,
    /// Within a row.
    pub pauses: Pauses,
}

/// What the softmax of rows is taken of.
pub trait Scores<V> {
    /// So many of a row's, from a place on: a vector, or its first numbers with any others after them. They are asked for
    /// twice, and may be in the row itself.
    ///
    /// # Safety
    /// There must be such a row with so many numbers from there on.
    unsafe fn at(&self, row: usize, at: usize, count: usize) -> V;
}

/// Numbers of the rows that are computed together: they stay in the first-level cache.
const NUMBERS_AT_ONCE: usize = 4096;

/// Does something with all vectors of a row, by turns with `half` 0 and 1. (A closure could stay out of row.)
macro_rules! for_each_vector {
    ($length:expr, $pauses:expr, |$half:ident, $at:ident, $count:ident| $body:expr) => {
        for part in $pauses.whole_parts($length, 2 * V::LANES, 1) {
            let mut place = part.start;
            while place + 2 * V::LANES <= part.end {
                let ($half, $at, $count) = (0, place, V::LANES);
                $body;
                let ($half, $at) = (1, place + V::LANES);
                $body;
                place += 2 * V::LANES;
            }
            while place < part.end {
                let ($half, $at, $count) = (0, place, V::LANES.min(part.end - place));
                $body;
                place += V::LANES;
            }
        }
    };
}

impl Rows {
    /// Makes the rows the softmax of scores.
    ///
    /// # Safety
    /// There must be such rows, and such scores.
    #[inline(always)]
    pub unsafe fn softmax<V: Vector>(self, scores: impl Scores<V>) {
        let Rows { start, count, length, stride, instead_of_nan, pauses } = self;
        let together = (NUMBERS_AT_ONCE / length.max(1)).clamp(1, V::LANES);
        for first in (0..count).step_by(together) {
            let rows = together.min(count - first);
            let mut tops = [V::splat(f32::NEG_INFINITY); MOST_LANES];
            for (row, top) in tops.iter_mut().enumerate().take(rows) {
                let mut halves = [*top; 2];
                for_each_vector!(length, pauses, |half, at, count| {
                    // SAFETY: the caller's promise.
                    let scores = unsafe { scores.at(first + row, at, count) };
                    halves[half] = halves[half].max(or_nothing(scores, count));
                });
                *top = halves[0].max(halves[1]);
            }
            // As far as the scores are numbers.
            let tops = across(tops, rows, |a, b| a.max(b), |a, b| if b > a { b } else { a });
            let mut sums = [V::splat(0.0); MOST_LANES];
            for (row, (sum, top)) in sums.iter_mut().zip(tops).enumerate().take(rows) {
                let (mut halves, top) = ([*sum; 2], V::splat(top));
                for_each_vector!(length, pauses, |half, at, count| {
                    // After the end there is nothing: the power of minus infinity is zero.
                    // SAFETY: the caller's promise.
                    unsafe {
                        let scores = or_nothing(scores.at(first + row, at, count), count);
                        let powers = exp_up_to_0(scores.sub(top));
                        halves[half] = halves[half].add(powers);
                        store_first(powers, start.add((first + row) * stride + at), count);
                    }
                });
                *sum = halves[0].add(halves[1]);
            }
            // What is not a number spoils the sum, and thereby the row.
            let sums = across(sums, rows, |a, b| a.add(b), |a, b| a + b);
            for (row, sum) in sums.iter().enumerate().take(rows) {
                if sum.is_nan() {
                    for_each_vector!(length, pauses, |_half, at, count| {
                        // SAFETY: the caller's promise.
                        unsafe { store_first(V::splat(instead_of_nan), start.add((first + row) * stride + at), count) };
                    });
                    continue;
                }
                let factor = V::splat(1.0 / sum);
                for_each_vector!(length, pauses, |_half, at, count| {
                    // SAFETY: the caller's promise.
                    unsafe {
                        let at = start.add((first + row) * stride + at);
                        store_first(load_first::<V>(at, count).mul(factor), at, count);
                    }
                });
            }
        }
    }
}

/// Folds the numbers of each of the first vectors, whose number it is that the result has at its place.
#[inline(always)]
fn across<V: Vector>(
    vectors: [V; MOST_LANES],
    count: usize,
    of_vectors: impl Fn(V, V) -> V,
    of_numbers: impl Fn(f32, f32) -> f32,
) -> [f32; MOST_LANES] {
    let mut result = [0.0; MOST_LANES];
    if count > 2 {
        let mut transposed = V::transpose(vectors);
        let mut half = V::LANES / 2;
        while half > 0 {
            for i in 0..half {
                transposed[i] = of_vectors(transposed[i], transposed[half + i]);
            }
            half /= 2;
        }
        // SAFETY: there is room for the widest vector.
        unsafe { transposed[0].store(result.as_mut_ptr()) };
        return result;
    }
    for (vector, result) in vectors.iter().zip(&mut result).take(count) {
        let mut lanes = [0.0; MOST_LANES];
        // SAFETY: as above.
        unsafe { vector.store(lanes.as_mut_ptr()) };
        let mut half = V::LANES / 2;
        while half > 0 {
            for i in 0..half {
                lanes[i] = of_numbers(lanes[i], lanes[half + i]);
            }
            half /= 2;
        }
        *result = lanes[0];
    }
    result
}

/// The first numbers, and minus infinity after them.
#[inline(always)]
fn or_nothing<V: Vector>(numbers: V, count: usize) -> V {
    static AFTER: [f32; 2 * MOST_LANES] = {
        let mut numbers = [0.0; 2 * MOST_LANES];
        let mut i = MOST_LANES;
        while i < numbers.len() {
            numbers[i] = f32::NEG_INFINITY;
            i += 1;
        }
        numbers
    };
    if count == V::LANES {
        return numbers;
    }
    let after = &AFTER[MOST_LANES - count..][..V::LANES];
    // SAFETY: as many numbers as a vector has.
    numbers.add(unsafe { V::load(after.as_ptr()) })
}

/// # Safety
/// There must be so many numbers at `from`.
#[inline(always)]
pub unsafe fn load_first<V: Vector>(from: *const f32, count: usize) -> V {
    // SAFETY: the caller's promise.
    unsafe { if count == V::LANES { V::load(from) } else { V::load_first(from, count) } }
}

/// # Safety
/// There must be room for so many numbers at `to`.
#[inline(always)]
unsafe fn store_first<V: Vector>(numbers: V, to: *mut f32, count: usize) {
    // SAFETY: the caller's promise.
    unsafe { if count == V::LANES { numbers.store(to) } else { numbers.store_first(to, count) } }
}
