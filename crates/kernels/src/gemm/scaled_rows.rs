//! Panels whose rows are multiplied by factors, as squeeze and excitation multiplies the channels of an image.
#![allow(unsafe_code)]

use crate::isa::Isa;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// The rows of a panel, each times its factor.
pub struct Rows<'a> {
    pub weights: &'a [f32],
    pub factors: &'a [f32],
    pub width: usize,
    /// The least magnitude of all weights but zeros.
    pub least: f32,
    pub scaled: &'a mut [f32],
}

impl Rows<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Rows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Rows { weights, factors, width, least, scaled } = self;
        assert_eq!((weights.len(), scaled.len()), (factors.len() * width, factors.len() * width));
        for (k, &factor) in factors.iter().enumerate() {
            let (weights, scaled) = (&weights[k * width..][..width], &mut scaled[k * width..][..width]);
            if factor * least == 0.0 && factor != 0.0 {
                scale_by_little(weights, factor, scaled);
                continue;
            }
            let mut first = 0;
            while first < width {
                let count = V::LANES.min(width - first);
                // SAFETY: both rows have so many numbers from there on.
                unsafe {
                    let (from, to) = (weights.as_ptr().add(first), scaled.as_mut_ptr().add(first));
                    if count == V::LANES {
                        V::load(from).mul(V::splat(factor)).store(to);
                    } else {
                        V::load_first(from, count).mul(V::splat(factor)).store_first(to, count);
                    }
                }
                first += count;
            }
        }
    }
}

/// The same where products underflow: one with a weight that is not 0 is not, or else it would make NaN of an infinite pixel. It is the
/// least normal number, since what multiplies by it takes smaller ones for zeros.
#[cold]
#[inline(never)]
fn scale_by_little(weights: &[f32], factor: f32, scaled: &mut [f32]) {
    for (scaled, &weight) in scaled.iter_mut().zip(weights) {
        let product = weight * factor;
        let underflows = product == 0.0 && weight != 0.0;
        *scaled = if underflows { f32::MIN_POSITIVE.copysign(weight) } else { product };
    }
}
