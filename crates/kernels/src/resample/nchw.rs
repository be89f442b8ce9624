//! With the channels first: vectors lie along the rows. A row of the input is spread to the
//! output's columns once and then mixed with its neighbour for each row of the output that is between them. What the numbers
//! of a vector are made of stands so near in the input that one vector of it has them all, unless the image shrinks.
#![allow(unsafe_code)]

use super::Place;
use crate::isa::Isa;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// How the planes of an image are resampled.
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    /// For each row of the output, those of the input that it is made of.
    pub rows: &'a [Place],
    pub blocks: &'a [Block],
    /// Columns of the output.
    pub columns: usize,
    /// Rows and columns of the input.
    pub from: [usize; 2],
}

/// A vector of columns of the output, or as many as are left.
#[derive(Debug)]
pub struct Block {
    /// The first column of the input that is loaded, if a vector, or the whole row where that is shorter, has all that there
    /// is to be found.
    first: Option<usize>,
    /// For each column, the two of the input that it is made of, from the first one on; and how much of each there is.
    numbers: [[i32; MOST_LANES]; 2],
    shares: [[f32; MOST_LANES]; 2],
}

/// Columns by vectors of so many, for an input of so many columns.
pub fn blocks(columns: &[Place], lanes: usize, from: usize) -> Vec<Block> {
    let block = |columns: &[Place]| {
        let loaded = lanes.min(from);
        let first = columns[0].numbers[0].min(from - loaded);
        let fits = columns.iter().all(|place| place.numbers[1] < first + loaded);
        let start = if fits { first } else { 0 };
        let mut block = Block { first: fits.then_some(first), numbers: [[0; MOST_LANES]; 2], shares: [[0.0; MOST_LANES]; 2] };
        for (lane, place) in columns.iter().enumerate() {
            for side in 0..2 {
                block.numbers[side][lane] = (place.numbers[side] - start) as i32;
                block.shares[side][lane] = place.shares[side];
            }
        }
        block
    };
    columns.chunks(lanes).map(block).collect()
}

/// Some rows of the output, from number `first` on.
pub struct Rows<'a> {
    pub of: Planes<'a>,
    pub is_linear: bool,
    pub image: &'a [f32],
    pub first: usize,
    pub output: &'a mut [f32],
    /// Room for two rows of the input, spread to the output's columns, in whole vectors.
    pub spread: [&'a mut [f32]; 2],
}

impl Rows<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        with_vectors(isa, self)
    }
}

impl OnVectors for Rows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        if self.is_linear { self.linear::<V>() } else { self.nearest::<V>() }
    }
}

impl Rows<'_> {
    #[inline(always)]
    fn nearest<V: Vector>(self) {
        let columns = self.of.columns;
        let mut before = None;
        for i in 0..self.output.len() / columns {
            let ([number, _], _) = self.of.place(self.first + i);
            if before == Some(number) {
                self.output.copy_within((i - 1) * columns..i * columns, i * columns);
                continue;
            }
            before = Some(number);
            let row = &self.image[number * self.of.from[1]..][..self.of.from[1]];
            let output = &mut self.output[i * columns..][..columns];
            for (block, output) in self.of.blocks.iter().zip(output.chunks_mut(V::LANES)) {
                let numbers: V = block.pick(row, 0);
                // SAFETY: so many numbers are in this part of the output.
                unsafe {
                    if output.len() == V::LANES {
                        numbers.store(output.as_mut_ptr());
                    } else {
                        numbers.store_first(output.as_mut_ptr(), output.len());
                    }
                }
            }
        }
    }

    #[inline(always)]
    fn linear<V: Vector>(self) {
        let Rows { of, image, first, output, spread, .. } = self;
        let columns = of.columns;
        let row = |number: usize| &image[number * of.from[1]..][..of.from[1]];
        let [mut above, mut below] = spread;
        // The numbers of these rows.
        let (mut is_above, mut is_below) = (None, None);
        for i in 0..output.len() / columns {
            let ([upper, lower], [share, other]) = of.place(first + i);
            if is_below == Some(upper) {
                std::mem::swap(&mut above, &mut below);
                std::mem::swap(&mut is_above, &mut is_below);
            }
            if is_above != Some(upper) {
                of.spread::<V>(row(upper), above);
                is_above = Some(upper);
            }
            if lower != upper && is_below != Some(lower) {
                of.spread::<V>(row(lower), below);
                is_below = Some(lower);
            }
            let other_row: &[f32] = if lower == upper { above } else { below };
            let output = &mut output[i * columns..][..columns];
            let (share, other) = (V::splat(share), V::splat(other));
            for (v, output) in output.chunks_mut(V::LANES).enumerate() {
                let (from, second) = (&above[v * V::LANES..][..V::LANES], &other_row[v * V::LANES..][..V::LANES]);
                // SAFETY: a vector long; so many numbers are in this part of the output.
                unsafe {
                    let from = V::load(from.as_ptr());
                    let value = if lower == upper { from } else { from.mul(share).add(V::load(second.as_ptr()).mul(other)) };
                    if output.len() == V::LANES {
                        value.store(output.as_mut_ptr());
                    } else {
                        value.store_first(output.as_mut_ptr(), output.len());
                    }
                }
            }
        }
    }
}

impl Planes<'_> {
    /// The two rows of the input that a row of the output is made of, by their numbers among those of all planes, and how
    /// much of each there is.
    #[inline(always)]
    fn place(&self, number: usize) -> ([usize; 2], [f32; 2]) {
        let (plane, place) = (number / self.rows.len(), self.rows[number % self.rows.len()]);
        let first = plane * self.from[0];
        ([first + place.numbers[0], first + place.numbers[1]], place.shares)
    }

    /// Spreads a row of the input to the output's columns.
    #[inline(always)]
    fn spread<V: Vector>(&self, row: &[f32], output: &mut [f32]) {
        for (block, output) in self.blocks.iter().zip(output.chunks_exact_mut(V::LANES)) {
            let [left, right]: [V; 2] = [block.pick(row, 0), block.pick(row, 1)];
            // SAFETY: a vector long; the shares are as many as the longest vector has numbers.
            unsafe {
                let [share, other] = [V::load(block.shares[0].as_ptr()), V::load(block.shares[1].as_ptr())];
                // Nothing where there is no share of it: -0 leaves every number as it is.
                let right = V::splat(0.0).if_below(other, right, V::splat(-0.0));
                left.mul(share).add(right.mul(other)).store(output.as_mut_ptr());
            }
        }
    }
}

impl Block {
    /// The numbers of a row on one side of the columns.
    #[inline(always)]
    fn pick<V: Vector>(&self, row: &[f32], side: usize) -> V {
        let Some(first) = self.first else {
            let numbers: [f32; MOST_LANES] = std::array::from_fn(|lane| row[self.numbers[side][lane] as usize]);
            // SAFETY: as many as the longest vector has.
            return unsafe { V::load(numbers.as_ptr()) };
        };
        // SAFETY: a vector long, or as many as the row has after the first one.
        let loaded = unsafe {
            match row[first..].get(..V::LANES) {
                Some(numbers) => V::load(numbers.as_ptr()),
                None => V::load_first(row[first..].as_ptr(), row.len() - first),
            }
        };
        loaded.permuted(&self.numbers[side])
    }
}
