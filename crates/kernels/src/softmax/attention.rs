//! The scores of an attention's queries, made weights of their keys.
#![allow(unsafe_code)]

use super::row_softmax::{Rows, Scores, load_first};
use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use std::ops::Range;

/// What is done to scores before the softmax.
#[derive(Clone, Copy, Debug)]
pub enum ScoreOp {
    Mul(f32),
    Div(f32),
    Add(f32),
    /// Adds a tensor: elements from one query and from one key to the next.
    Mask([usize; 2]),
}

/// The tensor of a [`ScoreOp::Mask`], for one stack; nothing for other ops.
pub type Mask<'a> = &'a [f32];

impl ScoreOp {
    /// Does it to the scores of some keys of a query, of which all are given.
    #[inline(always)]
    pub fn apply(&self, scores: &mut [f32], keys: Range<usize>, query: usize, mask: Mask<'_>) {
        let scores = &mut scores[keys.clone()];
        match *self {
            ScoreOp::Mul(factor) => {
                for score in scores {
                    *score *= factor;
                }
            }
            ScoreOp::Div(divisor) => {
                for score in scores {
                    *score /= divisor;
                }
            }
            ScoreOp::Add(number) => {
                for score in scores {
                    *score += number;
                }
            }
            ScoreOp::Mask([row, 0]) => {
                let number = mask[query * row];
                for score in scores {
                    *score += number;
                }
            }
            ScoreOp::Mask([row, _]) => {
                for (score, number) in scores.iter_mut().zip(&mask[query * row + keys.start..]) {
                    *score += number;
                }
            }
        }
    }
}

/// Makes scores of some queries the weights of their keys.
pub struct Weigh<'a> {
    pub ops: &'a [ScoreOp],
    pub masks: &'a [Mask<'a>],
    pub first_query: usize,
    pub keys: usize,
    /// Scores from one query to the next.
    pub stride: usize,
    /// The weights of a query whose weights are not defined: of one without a key, and of one that meets NaN or the infinite.
    pub instead_of_nan: f32,
    pub scores: &'a mut [f32],
    pub pauses: Pauses,
}

impl Weigh<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Weigh<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Weigh { ops, masks, first_query, keys, stride, instead_of_nan, scores, pauses } = self;
        assert!(keys <= stride && masks.len() == ops.len());
        // A factor, and a mask with a number for each key, are read on the way; anything else is done before.
        let quick = match *ops {
            [] => Some((1.0, None)),
            [ScoreOp::Mul(factor)] => Some((factor, None)),
            [ScoreOp::Mask([row, 1])] => Some((1.0, Some((masks[0], row)))),
            [ScoreOp::Mul(factor), ScoreOp::Mask([row, 1])] => Some((factor, Some((masks[1], row)))),
            _ => None,
        };
        let (factor, mask) = quick.unwrap_or_else(|| {
            for (row, scores) in scores.chunks_exact_mut(stride).enumerate() {
                for part in pauses.whole_parts(keys, 1, ops.len()) {
                    for (op, mask) in ops.iter().zip(masks) {
                        op.apply(scores, part.clone(), first_query + row, mask);
                    }
                }
            }
            (1.0, None)
        });
        let factor = V::splat(factor);
        let (start, count) = (scores.as_mut_ptr(), scores.len() / stride);
        let rows = Rows { start, count, length: keys, stride, instead_of_nan, pauses };
        let start = rows.start.cast_const();
        // SAFETY: there are so many rows, which are at least as long as there are keys, and so many rows of a mask, or one
        // for all.
        unsafe {
            match mask {
                Some((mask, row)) => {
                    let mask = &mask[first_query * row..];
                    assert!(rows.count == 0 || (rows.count - 1) * row + keys <= mask.len());
                    rows.softmax(Scaled::<V, true> { start, stride, factor, mask: mask.as_ptr(), row });
                }
                None => rows.softmax(Scaled::<V, false> { start, stride, factor, mask: std::ptr::null(), row: 0 }),
            }
        }
    }
}

/// Scores times a factor, and rows of a mask, if it is MASKED, added to them.
struct Scaled<V, const MASKED: bool> {
    start: *const f32,
    stride: usize,
    factor: V,
    mask: *const f32,
    row: usize,
}

impl<V: Vector, const MASKED: bool> Scores<V> for Scaled<V, MASKED> {
    #[inline(always)]
    unsafe fn at(&self, row: usize, at: usize, count: usize) -> V {
        // SAFETY: the caller's promise, which is about the mask as well.
        unsafe {
            let scores = load_first::<V>(self.start.add(row * self.stride + at), count).mul(self.factor);
            if MASKED { scores.add(load_first(self.mask.add(row * self.row + at), count)) } else { scores }
        }
    }
}
