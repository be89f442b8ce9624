//! The transform of the filter.
#![allow(clippy::needless_range_loop, reason = "numbers of rows and columns stand on both sides")]

use super::transform::{AT_ONCE, Transform};
use crate::gemm::microkernels::MOST_COLUMNS;
use crate::gemm::packing::copy_row;
use crate::isa::Loop;
use std::marker::PhantomData;
use std::ops::Range;

/// Transforms the filters of a channel and some outputs.
pub struct FilterRows<'a, T> {
    pub transform: PhantomData<T>,
    /// The filter, and the distances from an output, channel, row and column to the next.
    pub filter: &'a [f32],
    pub strides: [usize; 4],
    pub channel: usize,
    pub outputs: Range<usize>,
    /// Of each frequency.
    pub rows: &'a mut [[f32; MOST_COLUMNS]],
}

impl<T: Transform> Loop for FilterRows<'_, T> {
    #[inline(always)]
    fn run(self) {
        let FilterRows { filter, strides: [output, of_channel, down, across], channel, outputs, rows, .. } = self;
        rows.iter_mut().for_each(|row| row[outputs.len()..].fill(0.0));
        for (number, first) in outputs.clone().step_by(AT_ONCE).enumerate() {
            let count = AT_ONCE.min(outputs.end - first);
            let mut taps = [[[0.0; AT_ONCE]; 3]; 3];
            for i in 0..count {
                let start = (first + i) * output + channel * of_channel;
                for y in 0..3 {
                    for x in 0..3 {
                        taps[y][x][i] = f64::from(filter[start + y * down + x * across]);
                    }
                }
            }
            T::filters(&taps, |frequency, numbers| {
                copy_row(&numbers[..count], &mut rows[frequency][number * AT_ONCE..][..count]);
            });
        }
    }
}
