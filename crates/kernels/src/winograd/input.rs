//! The transform of the input: of each block's channels to those of its frequencies.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

use super::blocks::{BlockGrid, Member, Order};
use super::distance;
use crate::output::SharedOutput;
use crate::simd::vector::{OnVectors, Vector};
use crate::window::Axis;
use crate::winograd::transform::{Half, Transform};
use std::marker::PhantomData;
use std::ops::Range;

/// Transforms the input of some blocks.
pub struct ToFrequencies<'a, T> {
    pub transform: PhantomData<T>,
    pub grid: BlockGrid,
    /// Blocks of the largest job: each frequency has room for so many.
    pub together: usize,
    pub image: &'a [f32],
    pub order: &'a Order,
    pub transformed: &'a SharedOutput<'a>,
    /// Those of which it does so; nobody else writes theirs.
    pub channels: Range<usize>,
}

impl<T: Transform> OnVectors for ToFrequencies<'_, T> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let BlockGrid { batches, channels, rows, columns, .. } = self.grid;
        assert_eq!(self.image.len(), batches * rows.input * columns.input * channels);
        assert!(self.channels.end <= channels);
        // Each frequency has room for so many blocks.
        let to = self.transformed.from(0, T::FREQUENCIES * distance(self.together, channels));
        for group in &self.order.groups {
            for (i, block) in self.order.of_group(group).enumerate() {
                if group.inside == [T::WIDTH; 2] {
                    self.block::<V, true>(block, Member::new(group, i, self.together), to);
                } else {
                    self.block::<V, false>(block, Member::new(group, i, self.together), to);
                }
            }
        }
    }
}

impl<T: Transform> ToFrequencies<'_, T> {
    /// Transforms what is inside of a block; whole ones have loops of their own.
    #[inline(always)]
    fn block<V: Vector, const WHOLE: bool>(&self, block: usize, member: Member<'_, WHOLE>, to: *mut f32) {
        let BlockGrid { channels, rows, columns, .. } = self.grid;
        let (batch, y, x) = self.grid.place(block, T::WIDTH);
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
            // SAFETY: so many channels are there, as is the block's place at each frequency (which `Member` asserts).
            unsafe {
                if fits(top, rows) && fits(left, columns) {
                    self.vector::<V, WHOLE, true>(V::LANES, member, from, |_, _| true, to);
                } else {
                    self.vector::<V, WHOLE, true>(V::LANES, member, from, is_there, to);
                }
            }
        }
        if whole.end < self.channels.end {
            let (from, to) = (from.wrapping_add(whole.end), to.wrapping_add(whole.end));
            let count = self.channels.end - whole.end;
            // SAFETY: as above.
            unsafe { self.vector::<V, WHOLE, false>(count, member, from, is_there, to) }
        }
    }

    /// The same for some channels, a vector of them if it is FULL, which are read and written from these places of the image
    /// and the first frequency on.
    ///
    /// # Safety
    /// The image must have so many of the channels, from the place on, for each row and column under the windows that is there.
    /// The frequencies must have room for them, which nobody else accesses.
    #[inline(always)]
    unsafe fn vector<V: Vector, const WHOLE: bool, const FULL: bool>(
        &self,
        count: usize,
        member: Member<'_, WHOLE>,
        from: *const f32,
        is_there: impl Fn(usize, usize) -> bool,
        to: *mut f32,
    ) {
        let [height, width] = member.inside::<T>();
        let BlockGrid { channels, rows, columns, .. } = self.grid;
        let distance = distance(self.together, channels);
        let (down, across) = (rows.dilation * columns.input * channels, columns.dilation * channels);
        let mut half = Half::<V, 6>::default();
        for x in 0..T::REACH {
            let mut line = [V::splat(0.0); 6];
            for y in 0..T::REACH {
                if x < width + 2 && y < height + 2 && is_there(y, x) {
                    let from = from.wrapping_add(y * down + x * across);
                    // SAFETY: the caller's promise.
                    line[y] = unsafe { if FULL { V::load(from) } else { V::load_first(from, count) } };
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
                let to = to.wrapping_add(frequency * distance + member.at(frequency) * channels);
                // SAFETY: the caller's promise.
                unsafe { if FULL { line[x].store(to) } else { line[x].store_first(to, count) } }
            }
        }
    }
}
