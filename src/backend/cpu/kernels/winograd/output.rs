//! The transform of the products: of each block's frequencies to its pixels of the output, which are finished.
#![allow(unsafe_code)]
#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

use super::blocks::{Order, Sizes};
use super::{LONGEST, Winograd, Work, distance};
use crate::backend::cpu::kernels::SharedOutput;
use crate::backend::cpu::kernels::transform::{Half, Transform};
use crate::backend::cpu::kernels::vector::{OnVectors, Vector};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

/// Transforms the products of some blocks back, finishes them and writes them to the output.
pub struct FromFrequencies<'a, T> {
    pub of: &'a Winograd<T>,
    pub order: &'a Order,
    /// Which nobody writes any more.
    pub products: &'a SharedOutput<'a>,
    pub work: &'a Work<'a>,
    /// Those of which it does so; nobody else writes theirs.
    pub outputs: Range<usize>,
    pub is_finite: &'a AtomicBool,
}

impl<T: Transform> OnVectors for FromFrequencies<'_, T> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        // 0 times what is infinite or not a number is not a number.
        let mut suspicion = V::set(0.0);
        for group in &self.order.groups {
            for (i, block) in self.order.of_group(group).enumerate() {
                suspicion = if group.inside == [T::WIDTH; 2] {
                    self.block(block, [T::WIDTH; 2], |_| i, suspicion)
                } else {
                    self.block(block, group.inside, |frequency| group.first[frequency] + i, suspicion)
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
    /// Transforms so much of a block back, which is at some place among those that have a frequency, and adds to the suspicion.
    #[inline(always)]
    fn block<V: Vector>(
        &self,
        block: usize,
        [height, width]: [usize; 2],
        place_at: impl Fn(usize) -> usize,
        mut suspicion: V,
    ) -> V {
        let Sizes { outputs, padded, rows, columns, .. } = self.of.sizes;
        let (distance, limits) = (distance(self.of.together, padded), self.of.finish.limits);
        let (batch, top, left) = self.of.sizes.place(block, T::WIDTH);
        let first = (batch * rows.output + top) * columns.output + left;
        let last = first + (height - 1) * rows.dilation * columns.output + (width - 1) * columns.dilation;
        let Work { added, output, .. } = *self.work;
        let _ = output.from(first * outputs, (last + 1) * outputs);
        for channel in self.outputs.clone().step_by(V::LANES) {
            let count = V::LANES.min(self.outputs.end - channel);
            let mut half = Half::<V, 4>::default();
            for x in 0..T::REACH {
                let mut line = [V::set(0.0); 6];
                for y in 0..T::REACH {
                    if !T::needs(width, x) || !T::needs(height, y) {
                        continue;
                    }
                    let frequency = y * T::REACH + x;
                    let place = frequency * distance + place_at(frequency) * padded + channel;
                    // SAFETY: there are so many numbers (`from` asserts that), and nobody writes them.
                    line[y] = unsafe { V::load(self.products.from(place, place + V::LANES)) };
                }
                half.write_column(x, T::output(line, height));
            }
            let bias = match self.of.bias.as_slice() {
                [] => V::set(0.0),
                // SAFETY: the bias has whole vectors.
                bias => unsafe { V::load(bias[channel..channel + V::LANES].as_ptr()) },
            };
            for y in 0..T::WIDTH {
                // SAFETY: so many columns are written above.
                let mut line = T::output(unsafe { half.row(y, T::REACH) }, width);
                // One sum for the row, so that the chain of additions to the suspicion is short.
                let mut row = V::set(0.0);
                for x in 0..T::WIDTH {
                    if y < height && x < width {
                        line[x] = line[x].add(bias);
                        row = row.add(line[x]);
                    }
                }
                suspicion = row.mul_add(V::set(0.0), suspicion);
                for x in 0..T::WIDTH {
                    if y >= height || x >= width {
                        continue;
                    }
                    let sum = line[x];
                    let pixel = first + y * rows.dilation * columns.output + x * columns.dilation;
                    let place = pixel * outputs + channel;
                    // SAFETY: between the first and the last pixel of the block, which are inside the output and in what is
                    // added (asserted in `run`); the block and these outputs of it are this part's.
                    unsafe {
                        let to = output.from(0, 0).add(place);
                        if count == V::LANES {
                            let added = added.map(|added| V::load(added.as_ptr().add(place)));
                            limits.finish(sum, added).store(to);
                        } else {
                            let added = added.map(|added| V::load_first(added.as_ptr().add(place), count));
                            limits.finish(sum, added).store_first(to, count);
                        }
                    }
                }
            }
        }
        suspicion
    }
}
