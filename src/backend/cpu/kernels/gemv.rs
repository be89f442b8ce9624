//! Attention of a few queries, as in decoding, and products of a few rows: keys and values are read once, where they are.
#![allow(unsafe_code)]

use super::attention::Sizes;
use super::isa::Isa;
use super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// Queries that are better computed one by one than packed.
pub const MOST: usize = 3;

/// One query.
pub struct DecodeAttention<'a> {
    /// With keys whose elements follow each other, and values whose columns do.
    pub sizes: &'a Sizes,
    /// Its elements.
    pub query: &'a [f32],
    pub k: &'a [f32],
    pub v: &'a [f32],
    /// Room for the scores of all keys.
    pub scores: &'a mut [f32],
    pub result: &'a mut [f32],
}

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

/// Computes scores, has them made weights, and adds up the values.
pub fn run(isa: &Isa, work: DecodeAttention<'_>, weigh: impl FnOnce(&mut [f32])) {
    let DecodeAttention { sizes, query, k, v, scores, result } = work;
    let &Sizes { key_strides, value_strides, .. } = sizes;
    assert!(key_strides[0] == 1 && value_strides[1] == 1);
    with_vectors(isa, Scores { query, keys: k, stride: key_strides[1], scores });
    weigh(scores);
    with_vectors(isa, Sum { weights: scores, values: v, stride: value_strides[0], result });
}

/// The products of a query with each of its keys.
struct Scores<'a> {
    query: &'a [f32],
    keys: &'a [f32],
    stride: usize,
    scores: &'a mut [f32],
}

/// Keys that are multiplied together.
const TOGETHER: usize = 4;

impl OnVectors for Scores<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Scores { query, keys, stride, scores } = self;
        let depth = query.len();
        assert!(scores.is_empty() || (scores.len() - 1) * stride + depth <= keys.len());
        for (number, scores) in scores.chunks_mut(TOGETHER).enumerate() {
            // Where there are fewer, the last one stands for the missing ones.
            let starts: [*const f32; TOGETHER] = std::array::from_fn(|i| {
                let key = number * TOGETHER + i.min(scores.len() - 1);
                keys[key * stride..].as_ptr()
            });
            let mut sums = [V::set(0.0); TOGETHER];
            let mut i = 0;
            while i + V::LANES <= depth {
                // SAFETY: the query and each key have `depth` elements, as asserted.
                unsafe {
                    let query = V::load(query.as_ptr().add(i));
                    for j in 0..TOGETHER {
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
                    for j in 0..TOGETHER {
                        sums[j] = V::load_first(starts[j].add(i), rest).mul_add(query, sums[j]);
                    }
                }
            }
            let mut lanes = [[0f32; MOST_LANES]; TOGETHER];
            for j in 0..TOGETHER {
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
const WIDE: usize = 4;

impl OnVectors for Sum<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Sum { weights, values, stride, result } = self;
        assert!(weights.is_empty() || (weights.len() - 1) * stride + result.len() <= values.len());
        for (number, result) in result.chunks_mut(WIDE * V::LANES).enumerate() {
            let values = values.as_ptr().wrapping_add(number * WIDE * V::LANES);
            let whole = result.len() / V::LANES;
            // Two sums of each, so that none waits for the one before it.
            let mut sums = [[V::set(0.0); WIDE]; 2];
            if whole == WIDE {
                let (pairs, rest) = weights.as_chunks::<2>();
                for (i, pair) in pairs.iter().enumerate() {
                    for way in 0..2 {
                        let weight = V::set(pair[way]);
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
                        *sum = value.mul_add(V::set(weight), *sum);
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
                let mut sum = V::set(0.0);
                for (i, &weight) in weights.iter().enumerate() {
                    // SAFETY: as above.
                    let value = unsafe { V::load_first(values.add(i * stride + j * V::LANES), result.len()) };
                    sum = value.mul_add(V::set(weight), sum);
                }
                // SAFETY: so many elements are left of the result.
                unsafe { sum.store_first(result.as_mut_ptr(), result.len()) };
            }
        }
    }
}
