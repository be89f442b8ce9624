//! Depthwise convolutions of float32 with the channels last: every channel has a filter of its own, so that a vector of
//! channels is computed at a time.
#![allow(unsafe_code)]

mod any_window;
mod large_window;

use crate::epilogue::clamp::Clamps;
use crate::isa::Isa;
use crate::pauses::Pauses;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use crate::simd::vector_bundle::VectorBundle;
use crate::window::Axis;
use std::ops::Range;

/// Numbers after the last channel that a vector may reach.
pub const MARGIN: usize = 16;
/// The most rows of the input that a strip of the output is made from.
const MOST_ROWS: usize = 8;
/// Pixels that are computed together.
const PIXELS: usize = 4;
/// The same with windows of 5 or 7 columns, where there are so many: their sums, the weights of a row of the window and a number of
/// the input fit into 16 registers, and images are often a multiple of 7 pixels wide.
const WIDE: usize = 7;

/// A convolution whose weights are packed.
#[derive(Clone, Copy, Debug)]
pub struct Convolution<'a> {
    /// For each element of the window a number for each channel, and [`MARGIN`].
    pub weights: &'a [f32],
    /// A number for each channel, and [`MARGIN`].
    pub bias: &'a [f32],
    /// A row of the input, which stands for rows in the padding.
    pub zeros: &'a [f32],
    pub rows: Axis,
    pub columns: Axis,
    pub channels: usize,
    /// Whether all weights are finite: elements of the window over padding change nothing then, and are left out.
    pub is_finite: bool,
    pub clamps: Clamps,
    /// They count sixteen products as one element.
    pub pauses: Pauses,
}

/// Rows of all images one after the other, as far as they are there: row number i of all lies at i modulo `rows`.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    pub numbers: &'a [f32],
    pub rows: usize,
}

impl<'a> Image<'a> {
    /// A row of so many numbers.
    fn row(self, number: usize, length: usize) -> &'a [f32] {
        &self.numbers[number % self.rows * length..][..length]
    }
}

impl Convolution<'_> {
    /// Computes some rows of the output, from row number `first` of all images on. The rows of the input under their windows
    /// must be there; what is added is as large as the whole output.
    ///
    /// # Panics
    /// When anything is too short.
    pub fn compute(self, isa: &Isa, image: Image<'_>, added: Option<&[f32]>, first: usize, output: &mut [f32]) {
        let Convolution { weights, bias, zeros, rows, columns, channels, .. } = self;
        let distance = channels + MARGIN;
        assert!(weights.len() >= rows.window * columns.window * distance && bias.len() >= distance);
        let row = columns.input * channels;
        assert!(zeros.len() >= row && image.numbers.len() >= image.rows * row);
        with_vectors(isa, Piece { of: self, image, added, first, output });
    }
}

/// Some rows of the output, from row number `first` of all images on.
struct Piece<'a> {
    of: Convolution<'a>,
    image: Image<'a>,
    added: Option<&'a [f32]>,
    first: usize,
    output: &'a mut [f32],
}

/// Rows of the output that lie below each other, and those of the input that their windows cover: pointers to whole rows.
/// It is passed by value, so that the innermost loops need not look at memory for what is in it.
#[derive(Clone, Copy)]
struct Strip {
    from: [*const f32; MOST_ROWS],
    to: *mut f32,
    added: *const f32,
    weights: *const f32,
    bias: *const f32,
    zeros: *const f32,
    rows: Axis,
    columns: Axis,
    channels: usize,
    /// The channels that are computed.
    some: Channels,
    is_finite: bool,
    clamps: Clamps,
    pauses: Pauses,
}

/// From a channel on, up to another one.
#[derive(Clone, Copy)]
struct Channels {
    start: usize,
    end: usize,
}

impl OnVectors for Piece<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Convolution { rows, columns, channels, .. } = self.of;
        let (from_row, to_row) = (columns.input * channels, columns.output * channels);
        let is_dense = rows.dilation == 1 && columns.dilation == 1;
        let square = |size| rows.window == size && columns.window == size && is_dense;
        // The rows of the input are given one by one, so only the columns matter here.
        let dilated =
            |size| rows.window == size && columns.window == size && rows.stride == 1 && columns.stride == 1 && !is_dense;
        let stride = if rows.stride == columns.stride { rows.stride } else { 0 };
        let mut done = 0;
        let all = self.output.len() / to_row;
        while done < all {
            let (image, y) = ((self.first + done) / rows.output, (self.first + done) % rows.output);
            let top = image * rows.input;
            let two = square(3) && stride == 1 && done + 1 < all && y + 1 < rows.output;
            let height = if two { 2 } else { 1 };
            let place = done * to_row;
            let added = self.added.map(|added| &added[self.first * to_row + place..][..height * to_row]);
            let zeros = self.of.zeros.as_ptr();
            let mut strip = Strip {
                from: [zeros; MOST_ROWS],
                to: self.output[place..][..height * to_row].as_mut_ptr(),
                added: added.map_or(std::ptr::null(), <[f32]>::as_ptr),
                weights: self.of.weights.as_ptr(),
                bias: self.of.bias.as_ptr(),
                zeros,
                rows,
                columns,
                channels,
                some: Channels { start: 0, end: channels },
                is_finite: self.of.is_finite,
                clamps: self.of.clamps,
                pauses: self.of.pauses,
            };
            let taps = if self.of.is_finite { rows.taps(y) } else { 0..rows.window };
            if rows.window < MOST_ROWS {
                for (tap, from) in strip.from.iter_mut().enumerate().take(rows.window + height - 1) {
                    // Below the window of the first row stands the last row of the second.
                    let (y, tap) = if tap < rows.window { (y, tap) } else { (y + 1, rows.window - 1) };
                    if let Some(y) = rows.element(y, tap) {
                        *from = self.image.row(top + y, from_row).as_ptr();
                    }
                }
            }
            // Channels that take long even for some pixels are computed part by part.
            for some in strip.pauses.whole_parts(channels, 2 * MOST_LANES, strip.cost(1, WIDE * height)) {
                strip.some = Channels { start: some.start, end: some.end };
                // SAFETY: as many rows of the input as the window has, and one more for two rows of the output, lie at `from`,
                // each whole or zeros; the output's rows are the piece's; what is added is as large.
                unsafe {
                    match (stride, two) {
                        (1, true) => strip.run::<V, 3, 1, 2, false>(),
                        (1, false) if square(3) => strip.run::<V, 3, 1, 1, false>(),
                        (2, false) if square(3) => strip.run::<V, 3, 2, 1, false>(),
                        (1, false) if square(5) => strip.row_by_row::<V, 5, 1, false>(taps.clone()),
                        (2, false) if square(5) => strip.row_by_row::<V, 5, 2, false>(taps.clone()),
                        (1, false) if square(7) => strip.row_by_row::<V, 7, 1, false>(taps.clone()),
                        (2, false) if square(7) => strip.row_by_row::<V, 7, 2, false>(taps.clone()),
                        _ if dilated(3) => strip.run::<V, 3, 1, 1, true>(),
                        _ if dilated(5) => strip.row_by_row::<V, 5, 1, true>(taps.clone()),
                        _ => strip.any_row::<V>(self.image, top, y),
                    }
                }
            }
            done += height;
        }
    }
}

impl Strip {
    /// Between the weights of an element of the window and those of the next.
    #[inline(always)]
    fn distance(self) -> usize {
        self.channels + MARGIN
    }

    /// What so many channels of some pixels are to [`Convolution::pauses`].
    #[inline(always)]
    fn cost(self, channels: usize, pixels: usize) -> usize {
        (channels * pixels * self.rows.window * self.columns.window / 16).max(1)
    }

    /// The same of a pixel of each of so many rows.
    #[inline(always)]
    fn cost_of_pixel(self, rows: usize) -> usize {
        self.cost(self.some.end - self.some.start, rows)
    }

    /// The positions at which no column of the window is over padding.
    fn inside(self) -> Range<usize> {
        let (first, last) = (self.columns.positions(0), self.columns.positions(self.columns.window - 1));
        first.start.max(last.start)..first.end.min(last.end).max(first.start.max(last.start))
    }

    /// All pixels, for a window of SIZE x SIZE, which may be DILATED. Pixels are taken together whose windows share columns:
    /// they are as far from each other as the columns of a window.
    ///
    /// # Safety
    /// As many rows as the windows cover must lie at `from`, and HEIGHT rows at `to` and `added`. DILATED needs a STRIDE of 1.
    #[inline(always)]
    unsafe fn run<V: Vector, const SIZE: usize, const STRIDE: usize, const HEIGHT: usize, const DILATED: bool>(self) {
        let inside = self.inside();
        let step = if DILATED { self.columns.dilation } else { 1 };
        for phase in 0..step.min(self.columns.output) {
            let width = (self.columns.output - phase).div_ceil(step);
            if width < PIXELS {
                for x in 0..width {
                    // SAFETY: the caller's promise.
                    unsafe { self.group::<V, SIZE, STRIDE, HEIGHT, 1, true, DILATED>(phase + x * step) }
                }
                continue;
            }
            for part in self.pauses.whole_parts(width, PIXELS, self.cost_of_pixel(HEIGHT)) {
                for x in part.step_by(PIXELS) {
                    // What is left over at the end is computed together with some pixels before, once more.
                    let x = phase + x.min(width - PIXELS) * step;
                    // SAFETY: the caller's promise; windows of positions inside are not over padding.
                    unsafe {
                        if inside.start <= x && x + (PIXELS - 1) * step < inside.end {
                            self.group::<V, SIZE, STRIDE, HEIGHT, PIXELS, false, DILATED>(x)
                        } else {
                            self.group::<V, SIZE, STRIDE, HEIGHT, PIXELS, true, DILATED>(x)
                        }
                    }
                }
            }
        }
    }

    /// WIDTH pixels of HEIGHT rows from position `x` on, at an EDGE or where no window is over padding to the left and right.
    ///
    /// # Safety
    /// See [`Strip::run`].
    #[inline(always)]
    unsafe fn group<
        V: Vector,
        const SIZE: usize,
        const STRIDE: usize,
        const HEIGHT: usize,
        const WIDTH: usize,
        const EDGE: bool,
        const DILATED: bool,
    >(
        self,
        x: usize,
    ) {
        let Channels { start, end } = self.some;
        let whole = start + (end - start) / V::LANES * V::LANES;
        for channel in (start..whole).step_by(V::LANES) {
            // SAFETY: whole vectors below the number of channels.
            unsafe { self.vector::<V, SIZE, STRIDE, HEIGHT, WIDTH, EDGE, DILATED, true>(x, channel, V::LANES) }
        }
        if whole < end {
            // SAFETY: what is left of the channels.
            unsafe { self.vector::<V, SIZE, STRIDE, HEIGHT, WIDTH, EDGE, DILATED, false>(x, whole, end - whole) }
        }
    }

    /// A vector of channels of a group, or its first `count`.
    ///
    /// # Safety
    /// See [`Strip::group`]; so many channels must be there.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn vector<
        V: Vector,
        const SIZE: usize,
        const STRIDE: usize,
        const HEIGHT: usize,
        const WIDTH: usize,
        const EDGE: bool,
        const DILATED: bool,
        const WHOLE: bool,
    >(
        self,
        x: usize,
        channel: usize,
        count: usize,
    ) {
        let (columns, channels) = (self.columns, self.channels);
        let step = if DILATED { columns.dilation } else { 1 };
        let first = (x * STRIDE).wrapping_sub(columns.padding);
        // SAFETY: weights and bias have a margin after the last channel.
        let (bias, weights) = unsafe { (V::load(self.bias.add(channel)), self.weights.add(channel)) };
        let mut factors = [[bias; SIZE]; SIZE];
        for y in 0..SIZE {
            for x in 0..SIZE {
                // SAFETY: as above.
                factors[y][x] = unsafe { V::load(weights.add((y * SIZE + x) * self.distance())) };
            }
        }
        let mut sums = [[bias; WIDTH]; HEIGHT];
        // The rows of the input: with a stride of 1 each is under several rows of the output.
        for row in 0..SIZE + HEIGHT - 1 {
            for tap in 0..(WIDTH - 1) * STRIDE + SIZE {
                let column = first.wrapping_add(tap * step);
                // SAFETY: away from edges all columns are inside the row, by the caller's promise; zeros are a row too.
                let number = unsafe {
                    let from = match column {
                        column if !EDGE || column < columns.input => self.from[row].add(column * channels),
                        _ => self.zeros,
                    };
                    let from = from.add(channel);
                    if WHOLE { V::load(from) } else { V::load_first(from, count) }
                };
                for h in 0..HEIGHT {
                    for w in 0..WIDTH {
                        if row >= h && row - h < SIZE && tap >= w * STRIDE && tap - w * STRIDE < SIZE {
                            sums[h][w] = number.mul_add(factors[row - h][tap - w * STRIDE], sums[h][w]);
                        }
                    }
                }
            }
        }
        // One question for all pixels: asked for each of them, it would drive the sums out of the registers.
        let place = |h: usize, w: usize| (h * columns.output + x + w * step) * channels + channel;
        if self.added.is_null() {
            for h in 0..HEIGHT {
                for w in 0..WIDTH {
                    // SAFETY: inside HEIGHT rows.
                    unsafe { self.store::<V, WHOLE>(self.clamps.before.bound(sums[h][w]), place(h, w), count) }
                }
            }
        } else {
            for h in 0..HEIGHT {
                for w in 0..WIDTH {
                    // SAFETY: inside HEIGHT rows; what is added is as large as the output.
                    unsafe { self.store::<V, WHOLE>(self.sum::<V, WHOLE>(sums[h][w], place(h, w), count), place(h, w), count) }
                }
            }
        }
    }

    /// A sum with what is added to it.
    ///
    /// # Safety
    /// There must be so many numbers at that place of what is added.
    #[inline(always)]
    unsafe fn sum<S: VectorBundle, const WHOLE: bool>(self, sum: S, place: usize, count: usize) -> S {
        // SAFETY: the caller's promise.
        let added = unsafe { if WHOLE { S::load(self.added.add(place)) } else { S::load_first(self.added.add(place), count) } };
        self.clamps.after.bound(self.clamps.before.bound(sum).add(added))
    }

    /// # Safety
    /// There must be so many numbers at that place of the output.
    #[inline(always)]
    unsafe fn store<S: VectorBundle, const WHOLE: bool>(self, numbers: S, place: usize, count: usize) {
        // SAFETY: the caller's promise.
        unsafe { if WHOLE { numbers.store(self.to.add(place)) } else { numbers.store_first(self.to.add(place), count) } }
    }
}
