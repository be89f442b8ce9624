//! With the channels last: those of a pixel are some vectors.
#![allow(unsafe_code)]

use super::Place;
use crate::isa::Isa;
use crate::simd::vector::{OnVectors, Vector, with_vectors};

/// A row of the output that is made of two of the input.
pub struct Row<'a> {
    pub columns: &'a [Place],
    pub channels: usize,
    pub from: [&'a [f32]; 2],
    pub shares: [f32; 2],
    pub output: &'a mut [f32],
}

impl Row<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Row<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let channels = self.channels;
        let down = [V::splat(self.shares[0]), V::splat(self.shares[1])];
        let [above, below] = self.from;
        for (pixel, place) in self.output.chunks_exact_mut(channels).zip(self.columns) {
            let across = [V::splat(place.shares[0]), V::splat(place.shares[1])];
            let [left, right] = [place.numbers[0] * channels, place.numbers[1] * channels];
            let corners = [
                &above[left..][..channels],
                &above[right..][..channels],
                &below[left..][..channels],
                &below[right..][..channels],
            ];
            let mut channel = 0;
            while channel < channels {
                let count = V::LANES.min(channels - channel);
                let mut numbers = [across[0]; 4];
                for corner in 0..4 {
                    let from = corners[corner][channel..].as_ptr();
                    // SAFETY: so many channels are left.
                    numbers[corner] = unsafe { if count == V::LANES { V::load(from) } else { V::load_first(from, count) } };
                }
                let (mut upper, mut lower) = (numbers[0], numbers[2]);
                if place.shares[1] > 0.0 {
                    upper = upper.mul(across[0]).add(numbers[1].mul(across[1]));
                    lower = lower.mul(across[0]).add(numbers[3].mul(across[1]));
                }
                let value = if self.shares[1] > 0.0 { upper.mul(down[0]).add(lower.mul(down[1])) } else { upper };
                let to = pixel[channel..].as_mut_ptr();
                // SAFETY: as above.
                unsafe { if count == V::LANES { value.store(to) } else { value.store_first(to, count) } }
                channel += count;
            }
        }
    }
}
