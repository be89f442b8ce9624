//! Depthwise convolutions with square windows of 5 or 7 columns: row after row of the window, whose weights are in registers
//! meanwhile.
#![allow(unsafe_code)]

use super::{Channels, PIXELS, Strip, WIDE};
use crate::simd::vector::Vector;
use std::ops::Range;

impl Strip {
    /// All pixels of a row, for a window of SIZE x SIZE, which may be DILATED, of which those rows are not over padding. Pixels are
    /// taken together as in [`Strip::run`].
    ///
    /// # Safety
    /// These rows must lie at `from`, and a row at `to` and `added`. DILATED needs a STRIDE of 1.
    #[inline(always)]
    pub(super) unsafe fn row_by_row<V: Vector, const SIZE: usize, const STRIDE: usize, const DILATED: bool>(
        self,
        rows: Range<usize>,
    ) {
        let inside = self.inside();
        let step = if DILATED { self.columns.dilation } else { 1 };
        for phase in 0..step.min(self.columns.output) {
            let width = (self.columns.output - phase).div_ceil(step);
            for part in self.pauses.whole_parts(width, WIDE, self.cost_of_pixel(1)) {
                let mut x = part.start;
                while x < part.end {
                    // SAFETY: the caller's promise; windows of positions inside are not over padding.
                    unsafe {
                        if width - x >= WIDE {
                            let first = phase + x * step;
                            if inside.start <= first && first + (WIDE - 1) * step < inside.end {
                                self.wide_group::<V, SIZE, STRIDE, WIDE, false, DILATED>(rows.clone(), first);
                            } else {
                                self.wide_group::<V, SIZE, STRIDE, WIDE, true, DILATED>(rows.clone(), first);
                            }
                            x += WIDE;
                        } else if width >= PIXELS {
                            // What is left over at the end is computed together with some pixels before, once more.
                            x = x.min(width - PIXELS);
                            self.wide_group::<V, SIZE, STRIDE, PIXELS, true, DILATED>(rows.clone(), phase + x * step);
                            x += PIXELS;
                        } else {
                            self.wide_group::<V, SIZE, STRIDE, 1, true, DILATED>(rows.clone(), phase + x * step);
                            x += 1;
                        }
                    }
                }
            }
        }
    }

    /// WIDTH pixels from position `x` on, at an EDGE or where no window is over padding to the left and right.
    ///
    /// # Safety
    /// See [`Strip::row_by_row`].
    #[inline(always)]
    unsafe fn wide_group<
        V: Vector,
        const SIZE: usize,
        const STRIDE: usize,
        const WIDTH: usize,
        const EDGE: bool,
        const DILATED: bool,
    >(
        self,
        rows: Range<usize>,
        x: usize,
    ) {
        let Channels { start, end } = self.some;
        let whole = start + (end - start) / V::LANES * V::LANES;
        for channel in (start..whole).step_by(V::LANES) {
            // SAFETY: whole vectors below the number of channels.
            unsafe { self.wide_vector::<V, SIZE, STRIDE, WIDTH, EDGE, DILATED, true>(rows.clone(), x, channel, V::LANES) }
        }
        if whole < end {
            let count = end - whole;
            // SAFETY: what is left of the channels.
            unsafe { self.wide_vector::<V, SIZE, STRIDE, WIDTH, EDGE, DILATED, false>(rows, x, whole, count) }
        }
    }

    /// A vector of channels of a group, or its first `count`.
    ///
    /// # Safety
    /// See [`Strip::wide_group`]; so many channels must be there.
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the sums out of registers")]
    #[expect(clippy::cognitive_complexity, reason = "a macro repeats the same lines for each row of a window")]
    unsafe fn wide_vector<
        V: Vector,
        const SIZE: usize,
        const STRIDE: usize,
        const WIDTH: usize,
        const EDGE: bool,
        const DILATED: bool,
        const WHOLE: bool,
    >(
        self,
        rows: Range<usize>,
        x: usize,
        channel: usize,
        count: usize,
    ) {
        let (columns, channels) = (self.columns, self.channels);
        let step = if DILATED { columns.dilation } else { 1 };
        let first = (x * STRIDE).wrapping_sub(columns.padding);
        let zeros = self.zeros.wrapping_add(channel);
        // SAFETY: weights and bias have a margin after the last channel.
        let bias = unsafe { V::load(self.bias.add(channel)) };
        let mut sums = [bias; WIDTH];
        for row in rows {
            let from = self.from[row].wrapping_add(channel);
            let mut factors = [bias; SIZE];
            for tap in 0..SIZE {
                // SAFETY: as above.
                factors[tap] = unsafe { V::load(self.weights.add((row * SIZE + tap) * self.distance() + channel)) };
            }
            // Written out: of a loop that stays one the sums would lie in memory.
            macro_rules! taps {
                ($($tap:literal)*) => { $(
                    if $tap < (WIDTH - 1) * STRIDE + SIZE {
                        let column = first.wrapping_add($tap * step);
                        let is_there = !EDGE || column < columns.input;
                        let from = if is_there { from.wrapping_add(column.wrapping_mul(channels)) } else { zeros };
                        // SAFETY: away from edges all columns are inside the row, by the caller's promise; zeros are a row too.
                        let number = unsafe { if WHOLE { V::load(from) } else { V::load_first(from, count) } };
                        for w in 0..WIDTH {
                            if $tap >= w * STRIDE && $tap - w * STRIDE < SIZE {
                                sums[w] = number.mul_add(factors[$tap - w * STRIDE], sums[w]);
                            }
                        }
                    }
                )* };
            }
            const { assert!((WIDTH - 1) * STRIDE + SIZE <= 19) }
            taps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18);
        }
        let place = |w: usize| (x + w * step) * channels + channel;
        if self.added.is_null() {
            for w in 0..WIDTH {
                // SAFETY: inside the row.
                unsafe { self.store::<V, WHOLE>(self.clamps.before.bound(sums[w]), place(w), count) }
            }
        } else {
            for w in 0..WIDTH {
                // SAFETY: inside the row; what is added is as large as the output.
                unsafe { self.store::<V, WHOLE>(self.sum::<V, WHOLE>(sums[w], place(w), count), place(w), count) }
            }
        }
    }
}
