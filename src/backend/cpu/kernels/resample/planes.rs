//! Resampling of float32 images with the channels first: vectors lie along the rows. A row of the input is spread to the
//! output's columns once and then mixed with its neighbour for each row of the output that is between them. What the numbers
//! of a vector are made of stands so near in the input that one vector of it has them all, unless the image shrinks.
#![allow(unsafe_code)]

use super::super::isa::Isa;
use super::super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require, with_scratch};
use super::{Place, places};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::resample::InterpolationMode;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;

/// Narrower images leave the vectors empty.
const LEAST_COLUMNS: usize = 8;

#[derive(Debug)]
struct ResamplePlanes {
    isa: &'static Isa,
    input: OperandId,
    mode: InterpolationMode,
    /// For each row of the output, those of the input that it is made of.
    rows: Vec<Place>,
    blocks: Vec<Block>,
    /// Columns of the output.
    columns: usize,
    /// Rows and columns of the input.
    from: [usize; 2],
}

/// A vector of columns of the output, or as many as are left.
#[derive(Debug)]
struct Block {
    /// The first column of the input that is loaded, if a vector, or the whole row where that is shorter, has all that there
    /// is to be found.
    first: Option<usize>,
    /// For each column, the two of the input that it is made of, from the first one on; and how much of each there is.
    numbers: [[i32; MOST_LANES]; 2],
    shares: [[f32; MOST_LANES]; 2],
}

/// Columns by vectors of so many, for an input of so many columns.
fn blocks(columns: &[Place], lanes: usize, from: usize) -> Vec<Block> {
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

/// Images of which rows and columns are the last dimensions.
pub static NCHW: Implementation = Implementation { name: "resample.nchw", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Resample2d(op) = problem.op else { return Err(Reject("not a resample2d")) };
    let input = problem.input(op.input);
    let (&[.., height, width], &[_, _, to_height, to_width]) = (input.shape, problem.output.shape) else {
        return Err(Reject("not an image"));
    };
    require(matches!(op.axes, [2, 3] | [3, 2]), "rows and columns are not the last dimensions")?;
    require(to_width >= LEAST_COLUMNS, "too few columns for vectors")?;
    require(width <= i32::MAX as usize, "too many columns")?;
    require(input.order.is_none() && problem.output.order.is_none(), "dimensions in another order")?;
    let (isa, fuses) = (target.isa, problem.fused.is_empty());
    Ok(Box::new(move || {
        let kernel = ResamplePlanes {
            isa,
            input: op.input,
            mode: op.mode,
            rows: places(op.mode, height, to_height),
            blocks: blocks(&places(op.mode, width, to_width), isa.lanes(), width),
            columns: to_width,
            from: [height, width],
        };
        Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })
    }))
}

impl Kernel for ResamplePlanes {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let image = arguments.input(self.input).elements::<f32>();
        for_each_piece(arguments.output().elements::<f32>(), self.columns, self.columns.div_ceil(4), |first, output| {
            let length = match self.mode {
                InterpolationMode::NearestNeighbor => 0,
                InterpolationMode::Linear => self.blocks.len() * MOST_LANES,
            };
            // Not inside of the work on vectors, where it might be left out of line, compiled without the instruction set.
            with_scratch(2 * length, |scratch| {
                let spread = scratch.split_at_mut(length).into();
                with_vectors(self.isa, Rows { of: self, image, first, output, spread });
            });
        });
    }

    fn bytes(&self) -> usize {
        self.rows.len() * size_of::<Place>() + self.blocks.len() * size_of::<Block>()
    }
}

/// Some rows of the output, from number `first` on.
struct Rows<'a> {
    of: &'a ResamplePlanes,
    image: &'a [f32],
    first: usize,
    output: &'a mut [f32],
    /// Room for two rows of the input, spread to the output's columns, in whole vectors.
    spread: [&'a mut [f32]; 2],
}

impl OnVectors for Rows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        match self.of.mode {
            InterpolationMode::NearestNeighbor => self.nearest::<V>(),
            InterpolationMode::Linear => self.linear::<V>(),
        }
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
        let Rows { of, image, first, output, spread } = self;
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
            let (share, other) = (V::set(share), V::set(other));
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

impl ResamplePlanes {
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
                let right = V::set(0.0).if_below(other, right, V::set(-0.0));
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
        // SAFETY: a vector long, or as many as the row has behind the first one.
        let loaded = unsafe {
            match row[first..].get(..V::LANES) {
                Some(numbers) => V::load(numbers.as_ptr()),
                None => V::load_first(row[first..].as_ptr(), row.len() - first),
            }
        };
        loaded.permuted(&self.numbers[side])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::kernels::tests::check_with;
    use crate::graph::ops::resample::Resample2d;

    #[test]
    fn planes() {
        for mode in [InterpolationMode::NearestNeighbor, InterpolationMode::Linear] {
            for ([height, width], [to_height, to_width]) in [
                ([5, 7], [10, 14]),
                ([3, 20], [6, 40]),
                ([4, 33], [9, 40]),
                ([6, 35], [6, 35]),
                ([1, 1], [3, 9]),
                ([2, 3], [5, 50]),
                ([9, 80], [4, 30]),
                ([3, 64], [7, 8]),
                ([9, 18], [31, 19]),
            ] {
                for axes in [[2, 3], [3, 2]] {
                    let op = Resample2d { input: OperandId(0), mode, scales: vec![1.0; 2], sizes: Some([1, 1]), axes };
                    let inputs = [(vec![2, 3, height, width], false)];
                    let output = [2, 3, to_height, to_width];
                    check_with(op.clone(), &[], &inputs, &output, |_| ());
                    check_with(op, &[], &inputs, &output, |data| {
                        let last = data.len() - 1;
                        (data[last / 3], data[last / 2], data[last]) = (f32::INFINITY, f32::NEG_INFINITY, f32::NAN);
                    });
                }
            }
        }
    }
}
