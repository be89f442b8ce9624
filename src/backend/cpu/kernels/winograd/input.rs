//! The transform of the input: of each block's channels to those of its frequencies.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

use super::blocks::{Order, Sizes};
use super::{Winograd, distance};
use crate::backend::cpu::kernels::SharedOutput;
use crate::backend::cpu::kernels::transform::{Half, Transform};
use crate::backend::cpu::kernels::vector::{OnVectors, Vector};
use crate::backend::window::Axis;
use std::ops::Range;

/// Transforms the input of some blocks.
pub struct ToFrequencies<'a, T> {
    pub of: &'a Winograd<T>,
    pub image: &'a [f32],
    pub order: &'a Order,
    pub transformed: &'a SharedOutput<'a>,
    /// Those of which it does so; nobody else writes theirs.
    pub channels: Range<usize>,
}

impl<T: Transform> OnVectors for ToFrequencies<'_, T> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Sizes { batches, channels, rows, columns, .. } = self.of.sizes;
        assert_eq!(self.image.len(), batches * rows.input * columns.input * channels);
        assert!(self.channels.end <= channels);
        // Each frequency has room for so many blocks.
        let to = self.transformed.from(0, T::FREQUENCIES * distance(self.of.together, channels));
        for group in &self.order.groups {
            for (i, block) in self.order.of_group(group).enumerate() {
                assert!(group.first.iter().all(|first| first + i < self.of.together));
                // Whole blocks, which are the first ones at every frequency, have loops of their own, whose lengths are known.
                if group.inside == [T::WIDTH; 2] {
                    self.block::<V>(block, [T::WIDTH; 2], to, |_| i);
                } else {
                    self.block::<V>(block, group.inside, to, |frequency| group.first[frequency] + i);
                }
            }
        }
    }
}

impl<T: Transform> ToFrequencies<'_, T> {
    /// Transforms so much of a block, which is at some place among those that have a frequency.
    #[inline(always)]
    fn block<V: Vector>(&self, block: usize, inside: [usize; 2], to: *mut f32, place_at: impl Fn(usize) -> usize) {
        let Sizes { channels, rows, columns, .. } = self.of.sizes;
        let (batch, y, x) = self.of.sizes.place(block, T::WIDTH);
        // The first row and column under the windows; they may lie in the padding.
        let (top, left) = (y as isize - rows.padding as isize, x as isize - columns.padding as isize);
        let fits = |first: isize, axis: Axis| first >= 0 && first as usize + (T::REACH - 1) * axis.dilation < axis.input;
        let is_there = |y: usize, x: usize| {
            let (row, column) = (top + (y * rows.dilation) as isize, left + (x * columns.dilation) as isize);
            row >= 0 && column >= 0 && (row as usize) < rows.input && (column as usize) < columns.input
        };
        let first = ((batch * rows.input) as isize + top) * columns.input as isize + left;
        let from = self.image.as_ptr().wrapping_offset(first * channels as isize);
        let whole = self.channels.start..self.channels.end - self.channels.len() % V::LANES;
        for channel in whole.clone().step_by(V::LANES) {
            let (from, to) = (from.wrapping_add(channel), to.wrapping_add(channel));
            // SAFETY: so many channels are there, as is the block's place at each frequency (asserted in `run`).
            unsafe {
                if fits(top, rows) && fits(left, columns) {
                    self.vector::<V>(V::LANES, inside, from, |_, _| true, to, &place_at);
                } else {
                    self.vector::<V>(V::LANES, inside, from, is_there, to, &place_at);
                }
            }
        }
        if whole.end < self.channels.end {
            let (from, to) = (from.wrapping_add(whole.end), to.wrapping_add(whole.end));
            // SAFETY: as above.
            unsafe { self.vector::<V>(self.channels.end - whole.end, inside, from, is_there, to, &place_at) }
        }
    }

    /// The same for some channels, which are read and written from these places of the image and the first frequency on.
    ///
    /// # Safety
    /// The image must have so many of the channels, from the place on, for each row and column under the windows that is there.
    /// The frequencies must have room for them, which nobody else accesses.
    #[inline(always)]
    unsafe fn vector<V: Vector>(
        &self,
        count: usize,
        [height, width]: [usize; 2],
        from: *const f32,
        is_there: impl Fn(usize, usize) -> bool,
        to: *mut f32,
        place_at: impl Fn(usize) -> usize,
    ) {
        let Sizes { channels, rows, columns, .. } = self.of.sizes;
        let distance = distance(self.of.together, channels);
        let (down, across) = (rows.dilation * columns.input * channels, columns.dilation * channels);
        let mut half = Half::<V, 6>::default();
        for x in 0..T::REACH {
            let mut line = [V::set(0.0); 6];
            for y in 0..T::REACH {
                if x < width + 2 && y < height + 2 && is_there(y, x) {
                    let from = from.wrapping_add(y * down + x * across);
                    // SAFETY: the caller's promise.
                    line[y] = unsafe { if count == V::LANES { V::load(from) } else { V::load_first(from, count) } };
                }
            }
            half.write_column(x, T::input(line, height));
        }
        for y in 0..T::REACH {
            if !T::needs(height, y) {
                continue;
            }
            // SAFETY: so many columns are written above.
            let line = T::input(unsafe { half.row(y, T::REACH) }, width);
            for x in 0..T::REACH {
                if !T::needs(width, x) {
                    continue;
                }
                let frequency = y * T::REACH + x;
                let to = to.wrapping_add(frequency * distance + place_at(frequency) * channels);
                // SAFETY: the caller's promise.
                unsafe { if count == V::LANES { line[x].store(to) } else { line[x].store_first(to, count) } }
            }
        }
    }
}
