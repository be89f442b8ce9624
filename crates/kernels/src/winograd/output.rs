//! The transform of the products: of each block's frequencies to its pixels of the output, which are finished.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

use super::blocks::{BlockGrid, Member, Order};
use super::{LONGEST, distance};
use crate::bf16::narrow::Sink;
use crate::epilogue::clamp::Clamps;
use crate::output::{SharedOutput, StoredOutput};
use crate::simd::vector::{OnVectors, Vector};
use crate::winograd::transform::{Half, Transform};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Transforms the products of some blocks back, finishes them and writes them to the output.
pub struct FromFrequencies<'a, T> {
    pub transform: PhantomData<T>,
    pub grid: BlockGrid,
    /// Blocks of the largest job: each frequency has room for so many.
    pub together: usize,
    /// A number for each output, as whole vectors, or none.
    pub bias: &'a [f32],
    pub clamps: Clamps,
    pub order: &'a Order,
    /// Which nobody writes any more.
    pub products: &'a SharedOutput<'a>,
    /// As large as the output.
    pub added: Option<&'a [f32]>,
    pub output: &'a StoredOutput<'a>,
    /// Those of which it does so; nobody else writes theirs.
    pub outputs: Range<usize>,
    pub is_finite: &'a AtomicBool,
}

impl<T: Transform> OnVectors for FromFrequencies<'_, T> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let BlockGrid { outputs, padded, .. } = self.grid;
        assert!(self.outputs.end <= outputs);
        // Each frequency has so many blocks.
        let from = self.products.from(0, T::FREQUENCIES * distance(self.together, padded)).cast_const();
        // 0 times what is infinite or not a number is not a number.
        let mut suspicion = V::splat(0.0);
        for group in &self.order.groups {
            for (i, block) in self.order.of_group(group).enumerate() {
                let is_whole = group.inside == [T::WIDTH; 2];
                suspicion = match self.output {
                    StoredOutput::Float32(output) if is_whole => {
                        self.block::<V, _, true>(block, Member::new(group, i, self.together), from, output, suspicion)
                    }
                    StoredOutput::Float32(output) => {
                        self.block::<V, _, false>(block, Member::new(group, i, self.together), from, output, suspicion)
                    }
                    StoredOutput::Bf16(output) if is_whole => {
                        self.block::<V, _, true>(block, Member::new(group, i, self.together), from, output, suspicion)
                    }
                    StoredOutput::Bf16(output) => {
                        self.block::<V, _, false>(block, Member::new(group, i, self.together), from, output, suspicion)
                    }
                };
            }
        }
        let mut numbers = [0f32; LONGEST];
        // SAFETY: no vector is longer.
        unsafe { suspicion.store(numbers.as_mut_ptr()) }
        if numbers.iter().any(|x| x.is_nan()) {
            self.is_finite.store(false, Ordering::Relaxed);
        }
    }
}

impl<T: Transform> FromFrequencies<'_, T> {
    /// Transforms what is inside of a block back, whole ones with loops of their own, and adds to the suspicion.
    #[inline(always)]
    fn block<V: Vector, E, const WHOLE: bool>(
        &self,
        block: usize,
        member: Member<'_, WHOLE>,
        from: *const f32,
        output: &SharedOutput<'_, E>,
        mut suspicion: V,
    ) -> V
    where
        *mut E: Sink,
    {
        let BlockGrid { outputs, rows, columns, .. } = self.grid;
        let (batch, top, left) = self.grid.place(block, T::WIDTH);
        let first = (batch * rows.output + top) * columns.output + left;
        let [height, width] = member.inside::<T>();
        let last = first + (height - 1) * rows.dilation * columns.output + (width - 1) * columns.dilation;
        let to = output.from(first * outputs, (last + 1) * outputs);
        let added = self.added.map(|added| added[first * outputs..(last + 1) * outputs].as_ptr());
        let bias = |channel: usize| match self.bias {
            [] => V::splat(0.0),
            // SAFETY: the bias has whole vectors.
            bias => unsafe { V::load(bias[channel..channel + V::LANES].as_ptr()) },
        };
        let whole = self.outputs.start..self.outputs.end - self.outputs.len() % V::LANES;
        for channel in whole.clone().step_by(V::LANES) {
            let (from, to) = (from.wrapping_add(channel), to.after(channel));
            let added = added.map(|added| added.wrapping_add(channel));
            // SAFETY: so many outputs are there, of the pixels from the first to the last, as is the block's place at each
            // frequency (which `Member` asserts); all vectors of products are whole.
            let sum = unsafe { self.vector::<V, _, WHOLE, true>(V::LANES, member, from, bias(channel), added, to) };
            suspicion = sum.mul_add(V::splat(0.0), suspicion);
        }
        if whole.end < self.outputs.end {
            let (from, to) = (from.wrapping_add(whole.end), to.after(whole.end));
            let added = added.map(|added| added.wrapping_add(whole.end));
            let count = self.outputs.end - whole.end;
            // SAFETY: as above.
            let sum = unsafe { self.vector::<V, _, WHOLE, false>(count, member, from, bias(whole.end), added, to) };
            suspicion = sum.mul_add(V::splat(0.0), suspicion);
        }
        suspicion
    }

    /// The same for some outputs, a vector of them if it is FULL, whose products are read and which are written from these
    /// places on. Returns a sum of all of them, before they are finished.
    ///
    /// # Safety
    /// There must be a vector of products for each frequency that is needed. The output, and what is added, must have so many
    /// numbers from the place on, for each pixel of the block; nobody else accesses them.
    #[inline(always)]
    unsafe fn vector<V: Vector, To: Sink, const WHOLE: bool, const FULL: bool>(
        &self,
        count: usize,
        member: Member<'_, WHOLE>,
        from: *const f32,
        bias: V,
        added: Option<*const f32>,
        to: To,
    ) -> V {
        let [height, width] = member.inside::<T>();
        let BlockGrid { outputs, padded, rows, columns, .. } = self.grid;
        let (distance, clamps) = (distance(self.together, padded), self.clamps);
        let (down, across) = (rows.dilation * columns.output * outputs, columns.dilation * outputs);
        let mut half = Half::<V, 4>::default();
        for x in 0..T::REACH {
            let mut line = [V::splat(0.0); 6];
            for y in 0..T::REACH {
                if T::needs(width, x) && T::needs(height, y) {
                    let frequency = y * T::REACH + x;
                    let from = from.wrapping_add(frequency * distance + member.at(frequency) * padded);
                    // SAFETY: the caller's promise.
                    line[y] = unsafe { V::load(from) };
                }
            }
            half.write_column(x, T::output(line, height));
        }
        let mut sums = V::splat(0.0);
        for y in 0..T::WIDTH {
            if y >= height {
                continue;
            }
            // SAFETY: so many columns are written above.
            let mut line = T::output(unsafe { half.row(y, T::REACH) }, width);
            // One sum for the row, so that the chain of additions is short.
            let mut row = V::splat(0.0);
            for x in 0..T::WIDTH {
                if x < width {
                    line[x] = line[x].add(bias);
                    row = row.add(line[x]);
                }
            }
            sums = sums.add(row);
            let place_of = |x: usize| y * down + x * across;
            let added = added.map(|added| {
                let mut numbers = [V::splat(0.0); 4];
                for x in 0..T::WIDTH {
                    if x < width {
                        let from = added.wrapping_add(place_of(x));
                        // SAFETY: the caller's promise.
                        numbers[x] = unsafe { if FULL { V::load(from) } else { V::load_first(from, count) } };
                    }
                }
                numbers
            });
            let line = clamps.finish_all(line, added);
            for x in 0..T::WIDTH {
                if x < width {
                    let to = to.after(place_of(x));
                    // SAFETY: the caller's promise.
                    unsafe { if FULL { to.store(line[x]) } else { to.store_first(line[x], count) } }
                }
            }
        }
        sums
    }
}
