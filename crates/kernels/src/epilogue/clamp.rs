//! Bounds of an output, before and after the addition of a tensor.

use crate::simd::vector_bundle::VectorBundle;

/// What every number of an output is kept within, and what is done between.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Clamps {
    pub before: Bounds,
    pub after: Bounds,
}

/// The lowest and the greatest number; infinities, which keep out nothing, by default. What is not a number stays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds(pub [f32; 2]);

impl Default for Bounds {
    fn default() -> Self {
        Bounds([f32::NEG_INFINITY, f32::INFINITY])
    }
}

impl Bounds {
    #[inline(always)]
    pub fn bound<S: VectorBundle>(self, numbers: S) -> S {
        self.min(self.max(numbers))
    }

    /// The same for several, without bounds that keep out nothing: each costs as much as a product.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the numbers out of registers")]
    pub fn bound_all<S: VectorBundle, const COUNT: usize>(self, mut numbers: [S; COUNT]) -> [S; COUNT] {
        if self.is_low() {
            for i in 0..COUNT {
                numbers[i] = self.max(numbers[i]);
            }
        }
        if self.is_high() {
            for i in 0..COUNT {
                numbers[i] = self.min(numbers[i]);
            }
        }
        numbers
    }

    /// Whether there is a lowest number.
    pub fn is_low(self) -> bool {
        self.0[0] > f32::NEG_INFINITY
    }

    /// Whether there is a greatest number.
    pub fn is_high(self) -> bool {
        self.0[1] < f32::INFINITY
    }

    #[inline(always)]
    pub fn max<S: VectorBundle>(self, numbers: S) -> S {
        numbers.max(S::splat(self.0[0]))
    }

    #[inline(always)]
    pub fn min<S: VectorBundle>(self, numbers: S) -> S {
        numbers.min(S::splat(self.0[1]))
    }

    fn bound_number(self, number: f32) -> f32 {
        // What is not a number is neither below nor above a bound.
        let [low, high] = self.0;
        if number < low {
            low
        } else if number > high {
            high
        } else {
            number
        }
    }
}

impl Clamps {
    #[inline(always)]
    pub fn finish<S: VectorBundle>(&self, sum: S, added: Option<S>) -> S {
        let sum = self.before.bound(sum);
        added.map_or(sum, |added| self.after.bound(sum.add(added)))
    }

    /// The same for several.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the numbers out of registers")]
    pub fn finish_all<S: VectorBundle, const COUNT: usize>(&self, sums: [S; COUNT], added: Option<[S; COUNT]>) -> [S; COUNT] {
        let mut sums = self.before.bound_all(sums);
        let Some(added) = added else { return sums };
        for i in 0..COUNT {
            sums[i] = sums[i].add(added[i]);
        }
        self.after.bound_all(sums)
    }

    /// The same for one number.
    pub fn finish_number(&self, sum: f32, added: Option<f32>) -> f32 {
        let sum = self.before.bound_number(sum);
        added.map_or(sum, |added| self.after.bound_number(sum + added))
    }
}
