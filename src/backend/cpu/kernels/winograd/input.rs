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
        for group in &self.order.groups {
            for (i, block) in self.order.of_group(group).enumerate() {
                // Whole blocks, which are the first ones at every frequency, have loops of their own, whose lengths are known.
                if group.inside == [T::WIDTH; 2] {
                    self.block::<V>(block, [T::WIDTH; 2], |_| i);
                } else {
                    self.block::<V>(block, group.inside, |frequency| group.first[frequency] + i);
                }
            }
        }
    }
}

impl<T: Transform> ToFrequencies<'_, T> {
    /// Transforms so much of a block, which is at some place among those that have a frequency.
    #[inline(always)]
    fn block<V: Vector>(&self, block: usize, [height, width]: [usize; 2], place_at: impl Fn(usize) -> usize) {
        let Sizes { channels, rows, columns, .. } = self.of.sizes;
        let distance = distance(self.of.together, channels);
        let size = rows.input * columns.input * channels;
        let (batch, y, x) = self.of.sizes.place(block, T::WIDTH);
        let image = &self.image[batch * size..][..size];
        // The first row and column under the windows; they may lie in the padding.
        let (top, left) = (y as isize - rows.padding as isize, x as isize - columns.padding as isize);
        let fits = |first: isize, axis: Axis| first >= 0 && first as usize + (T::REACH - 1) * axis.dilation < axis.input;
        let is_inside = fits(top, rows) && fits(left, columns);
        for channel in self.channels.clone().step_by(V::LANES) {
            let count = V::LANES.min(self.channels.end - channel);
            let mut half = Half::<V, 6>::default();
            for x in 0..T::REACH {
                let mut line = [V::set(0.0); 6];
                for y in 0..T::REACH {
                    if x >= width + 2 || y >= height + 2 {
                        continue;
                    }
                    let (row, column) = (top + (y * rows.dilation) as isize, left + (x * columns.dilation) as isize);
                    let is_there =
                        is_inside || row >= 0 && column >= 0 && (row as usize) < rows.input && (column as usize) < columns.input;
                    if is_there {
                        let place = (row as usize * columns.input + column as usize) * channels + channel;
                        debug_assert!(place + count <= image.len());
                        // SAFETY: the row and the column are inside the image, as are so many channels.
                        line[y] = unsafe {
                            let from = image.as_ptr().add(place);
                            if count == V::LANES { V::load(from) } else { V::load_first(from, count) }
                        };
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
                    let place = frequency * distance + place_at(frequency) * channels + channel;
                    let to = self.transformed.from(place, place + count);
                    // SAFETY: `to` has so many numbers, of these channels.
                    unsafe { if count == V::LANES { line[x].store(to) } else { line[x].store_first(to, count) } }
                }
            }
        }
    }
}
