//! Depthwise convolutions with windows for which there are no loops of their own: long or flat ones, with large strides, with
//! columns that lie apart.
#![allow(unsafe_code)]

use super::{Channels, Image, PIXELS, Strip};
use crate::simd::vector::Vector;
use crate::simd::vector_bundle::{Both, VectorBundle};
use std::ops::Range;

/// What the windows of a row of the output cover: the rows that are multiplied, and those of them that are not over padding.
struct Covered<'a> {
    image: Image<'a>,
    rows: Range<usize>,
    taps: Range<usize>,
    /// Where the first of them lies, and how far it is to the next, in rows that are there.
    first: usize,
    step: usize,
}

impl Strip {
    /// All pixels of row `y` of an image whose first row is number `top` of all.
    ///
    /// # Safety
    /// The image must have such rows as the windows cover; a row must lie at `to` and `added`.
    #[inline(always)]
    pub(super) unsafe fn any_row<V: Vector>(self, image: Image<'_>, top: usize, y: usize) {
        let taps = self.rows.taps(y);
        let first = self.rows.element(y, taps.start).map_or(0, |row| (top + row) % image.rows);
        let rows = if self.is_finite { taps.clone() } else { 0..self.rows.window };
        let covered = Covered { image, rows, taps, first, step: self.rows.dilation % image.rows };
        let (inside, width) = (self.inside(), self.columns.output);
        if width < PIXELS {
            for x in 0..width {
                // SAFETY: the caller's promise.
                unsafe { self.any_group::<V, 1, true>(&covered, x) }
            }
            return;
        }
        for part in self.pauses.whole_parts(width, PIXELS, self.cost_of_pixel(1)) {
            for x in part.step_by(PIXELS) {
                // What is left over at the end is computed together with some pixels before, once more.
                let x = x.min(width - PIXELS);
                // SAFETY: the caller's promise; windows of positions inside are not over padding.
                unsafe {
                    if self.is_finite && inside.start <= x && x + PIXELS <= inside.end {
                        self.any_group::<V, PIXELS, false>(&covered, x)
                    } else {
                        self.any_group::<V, PIXELS, true>(&covered, x)
                    }
                }
            }
        }
    }

    /// WIDTH pixels from position `x` on, at an EDGE or where no window is over padding to the left and right.
    ///
    /// # Safety
    /// See [`Strip::any_row`].
    #[inline(always)]
    unsafe fn any_group<V: Vector, const WIDTH: usize, const EDGE: bool>(self, covered: &Covered<'_>, x: usize) {
        let lanes = V::LANES;
        let Channels { start: mut channel, end } = self.some;
        // SAFETY: so many channels are there, each time.
        unsafe {
            while channel + 2 * lanes <= end {
                self.any_span::<Both<V, V>, WIDTH, EDGE, true>(covered, x, channel, 2 * lanes);
                channel += 2 * lanes;
            }
            if channel + lanes <= end {
                self.any_span::<V, WIDTH, EDGE, true>(covered, x, channel, lanes);
                channel += lanes;
            }
            if channel < end {
                self.any_span::<V, WIDTH, EDGE, false>(covered, x, channel, end - channel);
            }
        }
    }

    /// A bundle of channels of a group, or its first `count`.
    ///
    /// # Safety
    /// See [`Strip::any_group`]; so many channels must be there.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    unsafe fn any_span<S: VectorBundle, const WIDTH: usize, const EDGE: bool, const WHOLE: bool>(
        self,
        covered: &Covered<'_>,
        x: usize,
        channel: usize,
        count: usize,
    ) {
        let (columns, channels) = (self.columns, self.channels);
        // The elements of the window that are not over padding for all pixels.
        let (first, last) = (columns.taps(x), columns.taps(x + WIDTH - 1));
        let taps = match self.is_finite {
            true => last.start.min(first.start)..first.end.max(last.end),
            false => 0..columns.window,
        };
        // SAFETY: bias and weights have a margin after the last channel; the rows are there, and away from edges all columns
        // are inside them, by the caller's promise; zeros are a row too.
        unsafe {
            let mut sums = [S::load(self.bias.add(channel)); WIDTH];
            let zeros = self.zeros.add(channel);
            let mut row = covered.first;
            for tap_y in covered.rows.clone() {
                // Columns that are there: none of a row that is not.
                let is_there = covered.taps.contains(&tap_y);
                let there = if is_there { columns.input } else { 0 };
                let from = covered.image.numbers.as_ptr().add(row * columns.input * channels + channel);
                let mut weights = self.weights.add((tap_y * columns.window + taps.start) * self.distance() + channel);
                let mut column = (x * columns.stride + taps.start * columns.dilation).wrapping_sub(columns.padding);
                for _ in taps.clone() {
                    let factor = S::load(weights);
                    for w in 0..WIDTH {
                        let column = column.wrapping_add(w * columns.stride);
                        let from = if !EDGE || column < there { from.add(column * channels) } else { zeros };
                        let number = if WHOLE { S::load(from) } else { S::load_first(from, count) };
                        sums[w] = number.mul_add(factor, sums[w]);
                    }
                    weights = weights.add(self.distance());
                    column = column.wrapping_add(columns.dilation);
                }
                row += if is_there { covered.step } else { 0 };
                if row >= covered.image.rows {
                    row -= covered.image.rows;
                }
            }
            for w in 0..WIDTH {
                let place = (x + w) * channels + channel;
                let finished = match self.added {
                    added if added.is_null() => self.clamps.before.bound(sums[w]),
                    _ => self.sum::<S, WHOLE>(sums[w], place, count),
                };
                self.store::<S, WHOLE>(finished, place, count);
            }
        }
    }
}
