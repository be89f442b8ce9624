//! Convolutions of float32 in groups of 2, 4 or 8 channels, as many of the input as of the output, with the channels last. A vector
//! has the channels of several groups: each number of a group is brought to all places of the group, one after the other, and
//! multiplied there, so that no part of a vector is empty.
#![allow(unsafe_code)]

use crate::epilogue::clamp::Clamps;
use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use crate::window::Axis;

/// Pixels that are computed together.
const PIXELS: usize = 4;
/// Columns of a window, at most.
pub const MOST_COLUMNS: usize = 8;

/// A convolution whose weights are packed. Its channels fill whole vectors.
#[derive(Clone, Copy, Debug)]
pub struct Convolution<'a> {
    /// Channels of a group.
    pub of_group: usize,
    /// For each element of the window, and each number of a group, one for each channel of the output.
    pub weights: &'a [f32],
    pub bias: &'a [f32],
    /// A pixel, which stands for those in the padding.
    pub zeros: &'a [f32],
    pub clamps: Clamps,
    pub rows: Axis,
    pub columns: Axis,
    pub channels: usize,
}

/// A row of the output.
pub struct Row<'a> {
    pub of: Convolution<'a>,
    pub image: &'a [f32],
    /// A row that is added to it.
    pub added: Option<&'a [f32]>,
    /// Of the row among those of all images.
    pub number: usize,
    pub output: &'a mut [f32],
    /// They count sixteen products as one element.
    pub pauses: Pauses,
}

impl Row<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Row<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        match self.of.of_group {
            2 => self.pixels::<V, 2>(),
            4 => self.pixels::<V, 4>(),
            8 => self.pixels::<V, 8>(),
            others => unreachable!("groups of {others} are not computed"),
        }
    }
}

impl Row<'_> {
    #[inline(always)]
    fn pixels<V: Vector, const GROUP: usize>(&mut self) {
        let Convolution { rows, columns, channels, .. } = self.of;
        let width = columns.output;
        // Closures might be left out of line, and would then be compiled without the instruction set.
        for part in self.pauses.whole_parts(width, PIXELS, channels * rows.window * columns.window * GROUP / 16) {
            let mut x = part.start;
            while x < part.end {
                if width < PIXELS {
                    self.group::<V, GROUP, 1>(x);
                    x += 1;
                } else {
                    // What is left over at the end is computed together with some pixels before, once more.
                    self.group::<V, GROUP, PIXELS>(x.min(width - PIXELS));
                    x += PIXELS;
                }
            }
        }
    }

    /// WIDTH pixels from position `x` on.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    fn group<V: Vector, const GROUP: usize, const WIDTH: usize>(&mut self, x: usize) {
        let Convolution { rows, columns, channels, .. } = self.of;
        let (image, y) = (self.number / rows.output, self.number % rows.output);
        let row = columns.input * channels;
        // Where in a row the numbers under the window are, if they are not padding.
        let mut places = [[None; WIDTH]; MOST_COLUMNS];
        for (tap, places) in places.iter_mut().enumerate().take(columns.window) {
            for (w, place) in places.iter_mut().enumerate() {
                *place = columns.element(x + w, tap).map(|column| column * channels);
            }
        }
        let (bias, zeros) = (self.of.bias, self.of.zeros);
        assert!(bias.len() == channels && zeros.len() == channels && channels % V::LANES == 0);
        let clamps = self.of.clamps;
        for channel in (0..channels).step_by(V::LANES) {
            // SAFETY: a whole vector is left, as was asserted.
            let mut sums = [unsafe { V::load(bias.as_ptr().add(channel)) }; WIDTH];
            for tap_y in rows.taps(y) {
                let from = image * rows.input + rows.element(y, tap_y).expect("a tap inside");
                let from = &self.image[from * row..][..row];
                for (tap_x, places) in places.iter().enumerate().take(columns.window) {
                    let mut numbers = sums;
                    for w in 0..WIDTH {
                        let from = match places[w] {
                            Some(place) => &from[place..][..channels],
                            None => zeros,
                        };
                        // SAFETY: as above.
                        numbers[w] = unsafe { V::load(from.as_ptr().add(channel)) };
                    }
                    let tap = (tap_y * columns.window + tap_x) * GROUP;
                    let weights = &self.of.weights[tap * channels..][..GROUP * channels];
                    for number in 0..GROUP {
                        // SAFETY: as above.
                        let factor = unsafe { V::load(weights.as_ptr().add(number * channels + channel)) };
                        for w in 0..WIDTH {
                            sums[w] =
                                numbers[w].permuted(&const { places_in_groups::<GROUP>() }[number]).mul_add(factor, sums[w]);
                        }
                    }
                }
            }
            for w in 0..WIDTH {
                let place = (x + w) * channels + channel;
                let mut sum = clamps.before.bound(sums[w]);
                if let Some(added) = self.added {
                    // SAFETY: the slice has a whole vector there.
                    sum = clamps.after.bound(sum.add(unsafe { V::load(added[place..][..V::LANES].as_ptr()) }));
                }
                // SAFETY: the slice has a whole vector there.
                unsafe { sum.store(self.output[place..][..V::LANES].as_mut_ptr()) }
            }
        }
    }
}

/// For each number of a group the place at which each lane finds that of its own group.
const fn places_in_groups<const GROUP: usize>() -> [[i32; MOST_LANES]; GROUP] {
    let mut places = [[0; MOST_LANES]; GROUP];
    let mut number = 0;
    while number < GROUP {
        let mut lane = 0;
        while lane < MOST_LANES {
            places[number][lane] = (lane / GROUP * GROUP + number) as i32;
            lane += 1;
        }
        number += 1;
    }
    places
}
