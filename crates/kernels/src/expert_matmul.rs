//! Rows times the columns of one matrix whose weights have a few bits: each column is expanded to numbers once, for all rows.
#![allow(unsafe_code)]

use crate::isa::Isa;
use crate::output::SharedOutput;
use crate::pauses::Pauses;
use crate::simd::vector::{OnVectors, Vector, with_vectors};
use std::ops::Range;

/// Some columns of a matrix, and the rows that they are multiplied with.
pub struct Columns<'a> {
    pub columns: Range<usize>,
    pub depth: usize,
    pub bits: u32,
    /// Weights of a block.
    pub block: usize,
    /// Of all columns: `bytes` of each, and a number for each block.
    pub weights: &'a [u8],
    pub bytes: usize,
    pub scales: &'a [f32],
    pub zero_points: Option<&'a [f32]>,
    /// Rows of `depth` numbers, of which these are meant.
    pub a: &'a [f32],
    pub rows: &'a [usize],
    /// With room for a column.
    pub scratch: &'a mut [f32],
    /// Rows of `distance` numbers.
    pub output: &'a SharedOutput<'a>,
    pub distance: usize,
    /// They count products.
    pub pauses: Pauses,
}

impl Columns<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Columns<'_> {
    #[inline(always)]
    fn run<V: Vector>(mut self) {
        let of_column = (1 + self.rows.len()).saturating_mul(self.depth);
        for some in self.pauses.whole_parts(self.columns.len(), 1, of_column) {
            for column in some {
                self.column::<V>(self.columns.start + column);
            }
        }
    }
}

impl Columns<'_> {
    #[inline(always)]
    fn column<V: Vector>(&mut self, column: usize) {
        let numbers = &mut self.scratch[..self.depth];
        let (blocks, pauses) = (self.depth / self.block, self.pauses);
        let middle = (1u32 << (self.bits - 1)) as f32;
        let packed = &self.weights[column * self.bytes..][..self.bytes];
        // Eight weights are whole bytes.
        for part in pauses.whole_parts(self.depth, 8, 1) {
            let (packed, numbers) = (&packed[part.start / 8 * self.bits as usize..], &mut numbers[part]);
            match self.bits {
                2 => unpack::<2>(packed, numbers),
                4 => unpack::<4>(packed, numbers),
                8 => unpack::<8>(packed, numbers),
                bits => unpack_any(packed, bits, numbers),
            }
        }
        for some in pauses.whole_parts(blocks, 1, self.block) {
            let (first, numbers) = (some.start, &mut numbers[some.start * self.block..some.end * self.block]);
            for (i, part) in numbers.chunks_exact_mut(self.block).enumerate() {
                let place = column * blocks + first + i;
                let (scale, zero) = (self.scales[place], self.zero_points.map_or(middle, |points| points[place]));
                part.iter_mut().for_each(|x| *x = (*x - zero) * scale);
            }
        }
        for some in pauses.whole_parts(self.rows.len(), 1, self.depth) {
            for &row in &self.rows[some] {
                let result = dot::<V>(&self.a[row * self.depth..][..self.depth], numbers, pauses);
                let to = self.output.from(row * self.distance + column, row * self.distance + column + 1);
                // SAFETY: inside, as `from` asserts; nobody else writes this element of the row.
                unsafe { *to = result };
            }
        }
    }
}

/// Integers of any number of bits up to 8 as numbers.
#[inline(always)]
fn unpack_any(packed: &[u8], bits: u32, numbers: &mut [f32]) {
    for (k, number) in numbers.iter_mut().enumerate() {
        let place = k * bits as usize;
        let next = packed.get(place / 8 + 1).copied().unwrap_or(0);
        let both = u32::from(packed[place / 8]) | u32::from(next) << 8;
        *number = (both >> (place % 8) & ((1 << bits) - 1)) as f32;
    }
}

/// Integers of so many bits, a power of two, as numbers.
#[inline(always)]
fn unpack<const BITS: usize>(packed: &[u8], numbers: &mut [f32]) {
    let (parts, mask) = (8 / BITS, (((1u32 << BITS) - 1) & 255) as u8);
    let whole = numbers.len() / parts;
    for (numbers, &byte) in numbers.chunks_exact_mut(parts).zip(packed) {
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = f32::from(byte >> (i * BITS) & mask);
        }
    }
    for (i, number) in numbers[whole * parts..].iter_mut().enumerate() {
        *number = f32::from(packed[whole] >> (i * BITS) & mask);
    }
}

#[inline(always)]
fn dot<V: Vector>(a: &[f32], b: &[f32], pauses: Pauses) -> f32 {
    let length = a.len().min(b.len());
    let mut sums = [V::splat(0.0); 4];
    for part in pauses.whole_parts(length, 4 * V::LANES, 1) {
        let mut at = part.start;
        while at + V::LANES <= part.end {
            let sum = &mut sums[at / V::LANES % 4];
            // SAFETY: a whole vector lies there in both.
            *sum = unsafe { V::load(a.as_ptr().add(at)).mul_add(V::load(b.as_ptr().add(at)), *sum) };
            at += V::LANES;
        }
        if at < part.end {
            let left = part.end - at;
            // SAFETY: so many numbers are left.
            let (x, y) = unsafe { (V::load_first(a.as_ptr().add(at), left), V::load_first(b.as_ptr().add(at), left)) };
            sums[0] = x.mul_add(y, sums[0]);
        }
    }
    let [first, second, third, fourth] = sums;
    let sum = first.add(second).add(third.add(fourth));
    let mut lanes = [0.0; crate::simd::vector::MOST_LANES];
    // SAFETY: there is room for the longest vector.
    unsafe { sum.store(lanes.as_mut_ptr()) };
    lanes[..V::LANES].iter().sum()
}
