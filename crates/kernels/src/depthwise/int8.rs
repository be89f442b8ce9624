//! Depthwise convolutions of bytes whose results are bytes, with the channels last. The products of differences of bytes, and their
//! sums over a window, are integers that float32 holds, so that vectors of float32 add them up without an error; bytes become
//! numbers, and numbers bytes, in registers.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
pub mod vnni;

use crate::epilogue::clamp::Bounds;
use crate::functions::exact_division::DivisorOf;
use crate::isa::Isa;
use crate::quantize::Steps;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use crate::window::Axis;

/// Numbers after the last channel that a vector may reach.
pub const MARGIN: usize = 16;
/// Pixels that are computed together, in a row and in as many rows as there are.
const PIXELS: usize = 4;
/// The most rows of the input that pixels together are made from.
const MOST_ROWS: usize = 6;

/// A convolution with a window of 3 x 3 or 5 x 5 without dilation, and strides of 1 or 2.
#[derive(Clone, Copy, Debug)]
pub struct Convolution<'a> {
    pub is_signed: bool,
    /// The integers of the weights: for each element of the window one for each channel, and [`MARGIN`].
    pub weights: &'a [f32],
    /// For each channel, and [`MARGIN`]: what the sum begins with, so that the zero point counts as nothing; what it is multiplied
    /// with; what is added then.
    pub of_channels: [&'a [f32]; 3],
    pub bounds: Bounds,
    pub rows: Axis,
    pub columns: Axis,
    pub channels: usize,
    /// Zero points, which stand for pixels in the padding.
    pub zeros: &'a [u8],
}

impl Convolution<'_> {
    /// Computes some rows of the output, from row number `first` of all images on.
    ///
    /// # Panics
    /// When the window is another one, or anything is too short.
    pub fn compute(self, isa: &Isa, image: &[u8], steps: Steps, first: usize, output: &mut [u8]) {
        let Convolution { weights, of_channels, rows, columns, channels, zeros, .. } = self;
        let is_square = rows.window == columns.window && rows.stride == columns.stride;
        let is_dense = rows.dilation == 1 && columns.dilation == 1;
        assert!(is_square && is_dense && matches!((rows.window, rows.stride), (3 | 5, 1 | 2)));
        let distance = channels + MARGIN;
        assert!(weights.len() >= rows.window * columns.window * distance && zeros.len() >= channels);
        assert!(of_channels.iter().all(|numbers| numbers.len() >= distance));
        with_vectors(isa, Piece { of: self, image, steps, first, output });
    }
}

/// Some rows of the output, from row number `first` of all images on.
struct Piece<'a> {
    of: Convolution<'a>,
    image: &'a [u8],
    steps: Steps,
    first: usize,
    output: &'a mut [u8],
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        if self.of.is_signed { self.with_signs::<V, true>() } else { self.with_signs::<V, false>() }
    }
}

impl Piece<'_> {
    #[inline(always)]
    fn with_signs<V: Vector, const SIGNED: bool>(self) {
        if self.steps.divisor.divides::<V>() { self.rows::<V, SIGNED, true>() } else { self.rows::<V, SIGNED, false>() }
    }

    #[inline(always)]
    fn rows<V: Vector, const SIGNED: bool, const DIVIDES: bool>(self) {
        let Convolution { rows, columns, channels, zeros, .. } = self.of;
        let (from_row, to_row) = (columns.input * channels, columns.output * channels);
        let mut done = 0;
        let all = self.output.len() / to_row;
        while done < all {
            let (image, y) = ((self.first + done) / rows.output, (self.first + done) % rows.output);
            let two = rows.stride == 1 && done + 1 < all && y + 1 < rows.output;
            let height = if two { 2 } else { 1 };
            let mut strip = Strip::<V> {
                from: [None; MOST_ROWS],
                zeros: zeros.as_ptr(),
                to: self.output[done * to_row..][..height * to_row].as_mut_ptr(),
                weights: self.of.weights.as_ptr(),
                of_channels: [0, 1, 2].map(|i| self.of.of_channels[i].as_ptr()),
                bounds: self.of.bounds,
                divisor: self.steps.divisor.on(),
                zero: self.steps.zero,
                columns,
                channels,
            };
            for (tap, from) in strip.from.iter_mut().enumerate().take(rows.window + height - 1) {
                // Below the window of the first row stands the last row of the second.
                let (y, tap) = if tap < rows.window { (y, tap) } else { (y + 1, rows.window - 1) };
                *from = rows.element(y, tap).map(|y| self.image[(image * rows.input + y) * from_row..][..from_row].as_ptr());
            }
            // SAFETY: whole rows of the input lie at `from`, and `height` rows of the output are the piece's.
            unsafe {
                match (rows.window, rows.stride, two) {
                    (3, 1, true) => strip.run::<3, 1, 2, SIGNED, DIVIDES>(),
                    (3, 1, false) => strip.run::<3, 1, 1, SIGNED, DIVIDES>(),
                    (3, ..) => strip.run::<3, 2, 1, SIGNED, DIVIDES>(),
                    (_, 1, true) => strip.run::<5, 1, 2, SIGNED, DIVIDES>(),
                    (_, 1, false) => strip.run::<5, 1, 1, SIGNED, DIVIDES>(),
                    _ => strip.run::<5, 2, 1, SIGNED, DIVIDES>(),
                }
            }
            done += height;
        }
    }
}

/// Rows of the output that lie below each other, and those of the input that their windows cover; none is one in the padding. It
/// is passed by value, so that the innermost loops need not look at memory for what is in it.
#[derive(Clone, Copy)]
struct Strip<V> {
    from: [Option<*const u8>; MOST_ROWS],
    zeros: *const u8,
    to: *mut u8,
    weights: *const f32,
    of_channels: [*const f32; 3],
    bounds: Bounds,
    divisor: DivisorOf<V>,
    zero: i32,
    columns: Axis,
    channels: usize,
}

impl<V: Vector> Strip<V> {
    /// All pixels, for a window of SIZE x SIZE.
    ///
    /// # Safety
    /// Whole rows of the input must lie at the first SIZE + HEIGHT - 1 of `from`, and room for HEIGHT rows at `to`.
    #[inline(always)]
    unsafe fn run<const SIZE: usize, const STRIDE: usize, const HEIGHT: usize, const SIGNED: bool, const DIVIDES: bool>(self) {
        let width = self.columns.output;
        let mut x = 0;
        while x < width {
            // SAFETY: the caller's promise.
            unsafe {
                if x + PIXELS <= width {
                    self.group::<SIZE, STRIDE, HEIGHT, PIXELS, SIGNED, DIVIDES>(x);
                    x += PIXELS;
                } else {
                    self.group::<SIZE, STRIDE, HEIGHT, 1, SIGNED, DIVIDES>(x);
                    x += 1;
                }
            }
        }
    }

    /// WIDTH pixels of HEIGHT rows from position `x` on.
    ///
    /// # Safety
    /// See [`Strip::run`].
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn group<
        const SIZE: usize,
        const STRIDE: usize,
        const HEIGHT: usize,
        const WIDTH: usize,
        const SIGNED: bool,
        const DIVIDES: bool,
    >(
        self,
        x: usize,
    ) {
        let (channels, distance) = (self.channels, self.channels + MARGIN);
        let first = (x * STRIDE).wrapping_sub(self.columns.padding);
        let mut channel = 0;
        while channel < channels {
            let count = V::LANES.min(channels - channel);
            // SAFETY: weights and what belongs to channels have a margin after the last one; of bytes so many are read and written
            // as there are channels left, of pixels inside the rows, and of zeros, which are a pixel.
            unsafe {
                let [start, factor, bias] = [0, 1, 2].map(|i| V::load(self.of_channels[i].add(channel)));
                let mut sums = [[start; WIDTH]; HEIGHT];
                for row in 0..SIZE + HEIGHT - 1 {
                    // The columns of the input, each of which is under several pixels.
                    let mut numbers = [start; MOST_COLUMNS];
                    for column in 0..(WIDTH - 1) * STRIDE + SIZE {
                        let place = first.wrapping_add(column);
                        let from = match self.from[row] {
                            Some(from) if place < self.columns.input => from.add(place * channels),
                            _ => self.zeros,
                        };
                        numbers[column] = V::load_bytes::<SIGNED>(from.add(channel), count);
                    }
                    for h in 0..HEIGHT {
                        if row >= h && row - h < SIZE {
                            for tap in 0..SIZE {
                                let weight = V::load(self.weights.add(((row - h) * SIZE + tap) * distance + channel));
                                for w in 0..WIDTH {
                                    sums[h][w] = numbers[w * STRIDE + tap].mul_add(weight, sums[h][w]);
                                }
                            }
                        }
                    }
                }
                for h in 0..HEIGHT {
                    for w in 0..WIDTH {
                        let number = self.bounds.bound(sums[h][w].mul_add(factor, bias));
                        let place = (h * self.columns.output + x + w) * channels + channel;
                        self.divisor.quotient(number, DIVIDES).store_bytes(self.zero, self.to.add(place), count);
                    }
                }
            }
            channel += V::LANES;
        }
    }
}

/// Columns of the input under pixels together: with a window of 5 and a stride of 2.
const MOST_COLUMNS: usize = (PIXELS - 1) * 2 + 5;
