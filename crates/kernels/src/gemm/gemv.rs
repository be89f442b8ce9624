//! Attention of a few queries, as in decoding, and products of a few rows: keys and values are read once, where they are.
#![allow(unsafe_code)]

use crate::isa::Isa;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// Queries that are better computed one by one than packed.
pub const MOST: usize = 3;

/// A row times some columns of a matrix whose elements follow each other along its rows or its columns.
///
/// # Panics
/// When they do neither.
pub fn multiply_row(isa: &Isa, left: &[f32], right: &[f32], strides: [usize; 2], result: &mut [f32]) {
    match strides {
        [1, stride] => with_vectors(isa, Scores { query: left, keys: right, stride, scores: result }),
        [stride, 1] => with_vectors(isa, Sum { weights: left, values: right, stride, result }),
        _ => unreachable!("the caller has looked at the strides"),
    }
}

/// The products of a query with each of its keys, which are `stride` elements apart.
///
/// # Panics
/// When there are fewer keys than scores.
pub fn dot_products(isa: &Isa, query: &[f32], keys: &[f32], stride: usize, scores: &mut [f32]) {
    with_vectors(isa, Scores { query, keys, stride, scores });
}

/// The sum of all values, rows that are `stride` elements apart, by their weights.
///
/// # Panics
/// When there are fewer values than weights.
pub fn weighted_sum(isa: &Isa, weights: &[f32], values: &[f32], stride: usize, result: &mut [f32]) {
    with_vectors(isa, Sum { weights, values, stride, result });
}

/// The products of a query with each of its keys.
struct Scores<'a> {
    query: &'a [f32],
    keys: &'a [f32],
    stride: usize,
    scores: &'a mut [f32],
}

/// Keys that are multiplied together.
const KEYS: usize = 4;

impl OnVectors for Scores<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Scores { query, keys, stride, scores } = self;
        let depth = query.len();
        assert!(scores.is_empty() || (scores.len() - 1) * stride + depth <= keys.len());
        for (number, scores) in scores.chunks_mut(KEYS).enumerate() {
            // Where there are fewer, the last one stands for the missing ones.
            let starts: [*const f32; KEYS] = std::array::from_fn(|i| {
                let key = number * KEYS + i.min(scores.len() - 1);
                keys[key * stride..].as_ptr()
            });
            let mut sums = [V::splat(0.0); KEYS];
            let mut i = 0;
            while i + V::LANES <= depth {
                // SAFETY: the query and each key have `depth` elements, as asserted.
                unsafe {
                    let query = V::load(query.as_ptr().add(i));
                    for j in 0..KEYS {
                        sums[j] = V::load(starts[j].add(i)).mul_add(query, sums[j]);
                    }
                }
                i += V::LANES;
            }
            if i < depth {
                let rest = depth - i;
                // SAFETY: as above.
                unsafe {
                    let query = V::load_first(query.as_ptr().add(i), rest);
                    for j in 0..KEYS {
                        sums[j] = V::load_first(starts[j].add(i), rest).mul_add(query, sums[j]);
                    }
                }
            }
            let mut lanes = [[0f32; MOST_LANES]; KEYS];
            for j in 0..KEYS {
                // SAFETY: there is room for the widest vector.
                unsafe { sums[j].store(lanes[j].as_mut_ptr()) };
            }
            let mut half = V::LANES / 2;
            while half > 0 {
                for lanes in &mut lanes {
                    for i in 0..half {
                        lanes[i] += lanes[half + i];
                    }
                }
                half /= 2;
            }
            for (score, lanes) in scores.iter_mut().zip(&lanes) {
                *score = lanes[0];
            }
        }
    }
}

/// The sum of all values by their weights.
struct Sum<'a> {
    weights: &'a [f32],
    values: &'a [f32],
    stride: usize,
    result: &'a mut [f32],
}

/// Vectors of a result that are computed together.
const VECTORS: usize = 4;

impl OnVectors for Sum<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Sum { weights, values, stride, result } = self;
        assert!(weights.is_empty() || (weights.len() - 1) * stride + result.len() <= values.len());
        for (number, result) in result.chunks_mut(VECTORS * V::LANES).enumerate() {
            let values = values.as_ptr().wrapping_add(number * VECTORS * V::LANES);
            let whole = result.len() / V::LANES;
            // Two sums of each, so that none waits for the one before it.
            let mut sums = [[V::splat(0.0); VECTORS]; 2];
            if whole == VECTORS {
                let (pairs, rest) = weights.as_chunks::<2>();
                for (i, pair) in pairs.iter().enumerate() {
                    for way in 0..2 {
                        let weight = V::splat(pair[way]);
                        for (j, sum) in sums[way].iter_mut().enumerate() {
                            // SAFETY: a row of values has as many elements as the result, as asserted.
                            let value = unsafe { V::load(values.add((2 * i + way) * stride + j * V::LANES)) };
                            *sum = value.mul_add(weight, *sum);
                        }
                    }
                }
                if let &[weight] = rest {
                    for (j, sum) in sums[0].iter_mut().enumerate() {
                        // SAFETY: as above.
                        let value = unsafe { V::load(values.add((weights.len() - 1) * stride + j * V::LANES)) };
                        *sum = value.mul_add(V::splat(weight), *sum);
                    }
                }
                let [first, second] = sums;
                for (j, (first, second)) in first.into_iter().zip(second).enumerate() {
                    // SAFETY: the result has so many vectors.
                    unsafe { first.add(second).store(result.as_mut_ptr().add(j * V::LANES)) };
                }
                continue;
            }
            for (j, result) in result.chunks_mut(V::LANES).enumerate() {
                let mut sum = V::splat(0.0);
                for (i, &weight) in weights.iter().enumerate() {
                    // SAFETY: as above.
                    let value = unsafe { V::load_first(values.add(i * stride + j * V::LANES), result.len()) };
                    sum = value.mul_add(V::splat(weight), sum);
                }
                // SAFETY: so many elements are left of the result.
                unsafe { sum.store_first(result.as_mut_ptr(), result.len()) };
            }
        }
    }
}
