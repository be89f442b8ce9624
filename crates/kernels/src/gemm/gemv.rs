//! Attention of a few queries, as in decoding, and products of a few rows: keys and values are read once, where they are.
#![allow(unsafe_code)]

use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::simd::prefetch::{LINE, fetch};
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use std::ops::Range;

/// Queries that are better computed one by one than packed.
pub const MOST: usize = 3;

/// A row times some columns of a matrix whose elements follow each other along its rows or its columns.
///
/// # Panics
/// When they do neither.
pub fn multiply_row(isa: &Isa, left: &[f32], right: &[f32], strides: [usize; 2], result: &mut [f32], pauses: Pauses) {
    match strides {
        [1, stride] => dot_products(isa, left, left.len(), (right, stride), result, pauses),
        [stride, 1] => weighted_sums(isa, left, left.len(), (right, stride), result, pauses),
        _ => unreachable!("the caller has looked at the strides"),
    }
}

/// The products of queries of `depth` elements, one after the other, with each of the keys, which are `stride` elements apart: as many
/// scores of the first query, then those of the second one, and so on. Pauses count elements of keys.
///
/// # Panics
/// When there are fewer keys than scores of a query.
pub fn dot_products(
    isa: &Isa,
    queries: &[f32],
    depth: usize,
    (keys, stride): (&[f32], usize),
    scores: &mut [f32],
    pauses: Pauses,
) {
    // Without elements there is nothing to count queries by.
    let count = queries.len().checked_div(depth).unwrap_or(1);
    assert!(queries.len() == count * depth && (scores.is_empty() || count > 0 && scores.len().is_multiple_of(count)));
    if scores.is_empty() || depth == 0 {
        return scores.fill(0.0);
    }
    let is_long = scores.len().saturating_mul(depth) > pauses.every;
    let scores = Scores { queries, depth, keys, stride, scores, pauses };
    if is_long { with_vectors(isa, Keys::<true>(scores)) } else { with_vectors(isa, Keys::<false>(scores)) }
}

/// Sums of values, rows that are `stride` elements apart, by weights: a sum for each so many of these. Pauses count elements of values.
///
/// # Panics
/// When there are fewer values than weights of a sum.
pub fn weighted_sums(
    isa: &Isa,
    weights: &[f32],
    of_sum: usize,
    (values, stride): (&[f32], usize),
    result: &mut [f32],
    pauses: Pauses,
) {
    if of_sum == 0 || result.is_empty() {
        return result.fill(0.0);
    }
    let count = weights.len() / of_sum;
    assert!(count > 0 && weights.len() == count * of_sum && result.len().is_multiple_of(count));
    let columns = result.len() / count;
    // As many as there are registers for.
    let together = if isa.lanes() == MOST_LANES { 4 } else { 2 };
    for (weights, result) in weights.chunks(together * of_sum).zip(result.chunks_mut(together * columns)) {
        let sums = Sums { weights, of_sum, values, stride, result, columns, pauses };
        match weights.len() / of_sum {
            1 => sums.compute::<1>(isa),
            2 => sums.compute::<2>(isa),
            3 => sums.compute::<3>(isa),
            _ => sums.compute::<4>(isa),
        }
    }
}

/// Rows ahead of those that are read that are fetched: where several heads lie in a row of a cache, those of one are apart.
const AHEAD: usize = 16;

/// The products of queries with each of the keys.
struct Scores<'a> {
    queries: &'a [f32],
    depth: usize,
    keys: &'a [f32],
    stride: usize,
    scores: &'a mut [f32],
    pauses: Pauses,
}

/// Scores of keys, with pauses if they are `LONG`.
struct Keys<'a, const LONG: bool>(Scores<'a>);

impl<const LONG: bool> OnVectors for Keys<'_, LONG> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn run<V: Vector>(self) {
        let Scores { queries, depth, keys, stride, scores, pauses } = self.0;
        let count = scores.len() / (queries.len() / depth);
        assert!((count - 1) * stride + depth <= keys.len());
        let mut counted = pauses.counted();
        // As many keys as a vector has lanes, so that their sums over lanes are one vector.
        for first in (0..count).step_by(V::LANES) {
            let here = V::LANES.min(count - first);
            // Where there are fewer, the last one stands for the missing ones.
            let start = |j: usize| keys.as_ptr().wrapping_add((first + j.min(here - 1)) * stride);
            for j in 0..V::LANES {
                for line in (0..depth).step_by(LINE) {
                    fetch::<0>(start(j).wrapping_add(AHEAD * stride + line));
                }
            }
            for (query, scores) in queries.chunks_exact(depth).zip(scores.chunks_exact_mut(count)) {
                let mut sums = [V::splat(0.0); MOST_LANES];
                if LONG {
                    for part in pauses.whole_parts(depth, V::LANES, here) {
                        for j in 0..here {
                            // SAFETY: the query and each key have `depth` elements, as asserted.
                            sums[j] = unsafe { add_products(sums[j], start(j), query.as_ptr(), part.clone()) };
                        }
                    }
                } else {
                    for j in 0..V::LANES {
                        let key = start(j);
                        let (mut sum, mut i) = (V::splat(0.0), 0);
                        while i + V::LANES <= depth {
                            // SAFETY: as above.
                            sum = unsafe { V::load(key.add(i)).mul_add(V::load(query.as_ptr().add(i)), sum) };
                            i += V::LANES;
                        }
                        if i < depth {
                            // SAFETY: as above.
                            let (key, query) = unsafe {
                                (V::load_first(key.add(i), depth - i), V::load_first(query.as_ptr().add(i), depth - i))
                            };
                            sum = key.mul_add(query, sum);
                        }
                        sums[j] = sum;
                    }
                }
                let mut transposed = V::transpose(sums);
                let mut half = V::LANES / 2;
                while half > 0 {
                    for i in 0..half {
                        transposed[i] = transposed[i].add(transposed[half + i]);
                    }
                    half /= 2;
                }
                let scores = &mut scores[first..][..here];
                // SAFETY: there is room for so many scores.
                unsafe { transposed[0].store_first(scores.as_mut_ptr(), here) };
            }
            if LONG {
                counted.done(V::LANES * queries.len());
            }
        }
    }
}

/// Adds the products of some elements of two rows to sums. The elements begin at a multiple of a vector's lanes.
///
/// # Safety
/// Both rows must have so many elements.
#[inline(always)]
unsafe fn add_products<V: Vector>(mut sum: V, a: *const f32, b: *const f32, some: Range<usize>) -> V {
    let mut i = some.start;
    // SAFETY: the caller's promise.
    unsafe {
        while i + V::LANES <= some.end {
            sum = V::load(a.add(i)).mul_add(V::load(b.add(i)), sum);
            i += V::LANES;
        }
        if i < some.end {
            let left = some.end - i;
            sum = V::load_first(a.add(i), left).mul_add(V::load_first(b.add(i), left), sum);
        }
    }
    sum
}

/// Sums of all values by their weights.
struct Sums<'a> {
    weights: &'a [f32],
    of_sum: usize,
    values: &'a [f32],
    stride: usize,
    result: &'a mut [f32],
    columns: usize,
    pauses: Pauses,
}

/// So many sums, with pauses if they are `LONG`.
struct Of<'a, const SUMS: usize, const LONG: bool>(Sums<'a>);

impl Sums<'_> {
    fn compute<const SUMS: usize>(self, isa: &Isa) {
        if self.of_sum.saturating_mul(self.columns) > self.pauses.every {
            with_vectors(isa, Of::<SUMS, true>(self))
        } else {
            with_vectors(isa, Of::<SUMS, false>(self))
        }
    }
}

/// Vectors of a result that are computed together.
const VECTORS: usize = 4;

/// Adds a row of values by weight `k` of each sum.
///
/// # Safety
/// There must be so many weights of each, and vectors at `row`.
#[inline(always)]
unsafe fn add_row<V: Vector, const SUMS: usize>(
    row: *const f32,
    stride: usize,
    weights: &[*const f32; SUMS],
    k: usize,
    sums: &mut [[V; VECTORS]; SUMS],
) {
    for j in 0..VECTORS {
        fetch::<0>(row.wrapping_add(AHEAD * stride + j * V::LANES));
        // SAFETY: the caller's promise.
        let value = unsafe { V::load(row.add(j * V::LANES)) };
        for (weights, sums) in weights.iter().zip(sums.iter_mut()) {
            // SAFETY: the caller's promise.
            sums[j] = value.mul_add(V::splat(unsafe { *weights.add(k) }), sums[j]);
        }
    }
}

impl<const SUMS: usize, const LONG: bool> OnVectors for Of<'_, SUMS, LONG> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn run<V: Vector>(self) {
        let Sums { weights, of_sum, values, stride, result, columns, pauses } = self.0;
        assert!((of_sum - 1) * stride + columns <= values.len());
        assert!(weights.len() == SUMS * of_sum && result.len() == SUMS * columns);
        let of: [*const f32; SUMS] = std::array::from_fn(|s| weights[s * of_sum..].as_ptr());
        let (mut first, mut counted) = (0, pauses.counted());
        while first < columns {
            if LONG {
                counted.done(of_sum * VECTORS * V::LANES);
            }
            let from = values.as_ptr().wrapping_add(first);
            if first + VECTORS * V::LANES <= columns {
                // Of few sums two each, so that none waits for the one before it.
                let ways = if SUMS < 3 { 2 } else { 1 };
                let mut sums = [[[V::splat(0.0); VECTORS]; SUMS]; 2];
                let paired = of_sum / ways * ways;
                if LONG {
                    for part in pauses.whole_parts(paired, 2, VECTORS * V::LANES) {
                        for k in part.step_by(ways) {
                            for way in 0..ways {
                                // SAFETY: there are so many weights, and rows of values with so many columns, as asserted.
                                unsafe { add_row(from.wrapping_add((k + way) * stride), stride, &of, k + way, &mut sums[way]) };
                            }
                        }
                    }
                } else {
                    for k in (0..paired).step_by(ways) {
                        for way in 0..ways {
                            // SAFETY: as above.
                            unsafe { add_row(from.wrapping_add((k + way) * stride), stride, &of, k + way, &mut sums[way]) };
                        }
                    }
                }
                if paired < of_sum {
                    // SAFETY: as above.
                    unsafe { add_row(from.wrapping_add(paired * stride), stride, &of, paired, &mut sums[0]) };
                }
                for s in 0..SUMS {
                    for j in 0..VECTORS {
                        let place = s * columns + first + j * V::LANES;
                        // SAFETY: the result has so many vectors.
                        unsafe { sums[0][s][j].add(sums[1][s][j]).store(result[place..][..V::LANES].as_mut_ptr()) };
                    }
                }
                first += VECTORS * V::LANES;
                continue;
            }
            let width = V::LANES.min(columns - first);
            let mut sums = [V::splat(0.0); SUMS];
            let parts = if LONG { pauses } else { Pauses::NONE }.parts(of_sum);
            for part in parts {
                for k in part {
                    // SAFETY: as above.
                    let value = unsafe { V::load_first(from.add(k * stride), width) };
                    for s in 0..SUMS {
                        // SAFETY: as above.
                        sums[s] = value.mul_add(V::splat(unsafe { *of[s].add(k) }), sums[s]);
                    }
                }
            }
            for s in 0..SUMS {
                // SAFETY: so many elements are left of the result.
                unsafe { sums[s].store_first(result[s * columns + first..][..width].as_mut_ptr(), width) };
            }
            first += width;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::numbers;

    #[test]
    fn queries_and_keys_of_every_size() {
        for isa in Isa::available() {
            for (count, depth, keys, apart) in
                [(1, 64, 33, 0), (3, 64, 16, 128), (2, 1, 1, 3), (5, 40, 7, 1), (4, 17, 50, 0), (9, 130, 19, 5)]
            {
                let stride = depth + apart;
                let (left, right) = (numbers(count * depth, 1), numbers(keys * stride, 2));
                let mut scores = vec![f32::NAN; count * keys];
                dot_products(isa, &left, depth, (&right, stride), &mut scores, Pauses::NONE);
                for (i, &found) in scores.iter().enumerate() {
                    let (query, key) = (&left[i / keys * depth..][..depth], &right[i % keys * stride..][..depth]);
                    let terms = query.iter().zip(key).map(|(a, b)| f64::from(*a) * f64::from(*b));
                    assert!((terms.sum::<f64>() - f64::from(found)).abs() <= 1e-6 * depth as f64, "{} {i}", isa.name);
                }
                let weights = numbers(count * keys, 3);
                let mut sums = vec![f32::NAN; count * depth];
                weighted_sums(isa, &weights, keys, (&right, stride), &mut sums, Pauses::NONE);
                for (i, &found) in sums.iter().enumerate() {
                    let terms =
                        (0..keys).map(|k| f64::from(weights[i / depth * keys + k]) * f64::from(right[k * stride + i % depth]));
                    assert!((terms.sum::<f64>() - f64::from(found)).abs() <= 1e-6 * keys as f64, "{} {i}", isa.name);
                }
            }
            let (mut none, mut empty) = ([f32::NAN; 3], [f32::NAN; 0]);
            dot_products(isa, &[], 0, (&[], 0), &mut none, Pauses::NONE);
            assert_eq!(none, [0.0; 3]);
            weighted_sums(isa, &[], 0, (&[], 3), &mut none, Pauses::NONE);
            assert_eq!(none, [0.0; 3]);
            dot_products(isa, &[1.0], 1, (&[], 1), &mut empty, Pauses::NONE);
        }
    }
}
