//! Transposes of matrices, by squares of vectors, and of a few lines, which are interleaved.
#![allow(unsafe_code)]

use crate::isa::{Isa, Loop};
use crate::pauses::Pauses;
use crate::simd::prefetch::fetch;
use crate::simd::vector::{MOST_LANES, OnVectors, Vector, with_vectors};

/// How far behind the numbers that are written those are whose lines are fetched.
const SOON: usize = 32;

/// Some rows of matrices that are the transposes of others.
pub struct Rows<'a> {
    /// The others, of `columns` rows of `rows` elements.
    pub input: &'a [f32],
    pub rows: usize,
    pub columns: usize,
    pub first: usize,
    pub output: &'a mut [f32],
    /// Within rows of more than four elements.
    pub pauses: Pauses,
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
        let Rows { input, rows, columns, mut first, mut output, pauses } = self;
        while !output.is_empty() {
            // The rows of one matrix.
            let (matrix, row) = (first / rows, first % rows);
            let count = (rows - row).min(output.len() / columns);
            let (part, rest) = output.split_at_mut(count * columns);
            let input = &input[matrix * rows * columns..][..rows * columns];
            // Where there are few columns, squares would be mostly empty.
            match columns {
                2 => interleave::<_, 2>(input, rows, row, part),
                3 => interleave::<_, 3>(input, rows, row, part),
                4 => interleave::<_, 4>(input, rows, row, part),
                _ => squares::<V>(input, [rows, columns], row, pauses, part),
            }
            first += count;
            output = rest;
        }
    }
}

/// Rows of so many numbers, each from a row of the input.
#[inline(always)]
fn interleave<T: Copy, const COLUMNS: usize>(input: &[T], rows: usize, row: usize, output: &mut [T]) {
    weave::<T, COLUMNS>(&input[row..], rows, Pauses::NONE, output);
}

/// The first number of each of so many lines, then the second of each, and so on. From one line to the next it is `stride`.
#[inline(always)]
fn weave<T: Copy, const COLUMNS: usize>(input: &[T], stride: usize, pauses: Pauses, output: &mut [T]) {
    let (output, _) = output.as_chunks_mut::<COLUMNS>();
    for part in pauses.whole_parts(output.len(), 1, COLUMNS) {
        let output = &mut output[part.clone()];
        let lines: [&[T]; COLUMNS] = std::array::from_fn(|column| &input[column * stride + part.start..][..output.len()]);
        for (i, to) in output.iter_mut().enumerate() {
            *to = std::array::from_fn(|column| lines[column][i]);
        }
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the lines out of registers")]
fn squares<V: Vector>(input: &[f32], [rows, columns]: [usize; 2], first: usize, pauses: Pauses, output: &mut [f32]) {
    for (block, output) in output.chunks_mut(V::LANES * columns).enumerate() {
        let row = first + block * V::LANES;
        let height = output.len() / columns;
        assert!(row + height <= rows && input.len() == rows * columns);
        for part in pauses.whole_parts(columns, V::LANES, height) {
            for column in part.step_by(V::LANES) {
                let width = V::LANES.min(columns - column);
                // SAFETY: lines below `width` are inside the input's columns, numbers below `height` inside its rows; the same the
                // other way round in the output.
                unsafe {
                    let from = input.as_ptr().add(column * rows + row);
                    let to = output.as_mut_ptr().add(column);
                    if width == V::LANES && height == V::LANES {
                        // Lines that will be written to arrive meanwhile.
                        (0..V::LANES).for_each(|i| fetch::<0>(to.wrapping_add(i * columns + SOON)));
                        let mut lines = [V::splat(0.0); MOST_LANES];
                        for j in 0..V::LANES {
                            lines[j] = V::load(from.add(j * rows));
                        }
                        let lines = V::transpose(lines);
                        for i in 0..V::LANES {
                            lines[i].store(to.add(i * columns));
                        }
                    } else {
                        let mut lines = [V::splat(0.0); MOST_LANES];
                        for j in 0..width {
                            lines[j] = V::load_first(from.add(j * rows), height);
                        }
                        let lines = V::transpose(lines);
                        for i in 0..height {
                            lines[i].store_first(to.add(i * columns), width);
                        }
                    }
                }
            }
        }
    }
}

/// The same of bytes, where each row of the output has two to four of them.
pub struct Pixels<'a> {
    pub input: &'a [u8],
    pub rows: usize,
    pub columns: usize,
    pub first: usize,
    pub output: &'a mut [u8],
}

impl Pixels<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for Pixels<'_> {
    #[inline(always)]
    fn run(self) {
        let Pixels { input, rows, columns, mut first, mut output } = self;
        while !output.is_empty() {
            let (matrix, row) = (first / rows, first % rows);
            let count = (rows - row).min(output.len() / columns);
            let (part, rest) = output.split_at_mut(count * columns);
            let input = &input[matrix * rows * columns..][..rows * columns];
            match columns {
                2 => interleave::<_, 2>(input, rows, row, part),
                3 => interleave::<_, 3>(input, rows, row, part),
                _ => interleave::<_, 4>(input, rows, row, part),
            }
            first += count;
            output = rest;
        }
    }
}

/// Groups of two to four lines, interleaved: an element of each, then the next one of each.
pub struct Interleaved<'a> {
    pub input: &'a [f32],
    pub lines: usize,
    pub length: usize,
    /// Elements from the beginning of one line to that of the next.
    pub stride: usize,
    /// Where the first line of the next group begins.
    pub next: &'a mut dyn FnMut() -> usize,
    pub output: &'a mut [f32],
    /// Within a group.
    pub pauses: Pauses,
}

impl Interleaved<'_> {
    /// Runs it with an instruction set.
    pub fn compute(self, isa: &Isa) {
        isa.run_loop(self);
    }
}

impl Loop for Interleaved<'_> {
    #[inline(always)]
    fn run(self) {
        let Interleaved { input, lines, length, stride, next, output, pauses } = self;
        for output in output.chunks_exact_mut(lines * length) {
            let input = &input[next()..];
            match lines {
                2 => weave::<_, 2>(input, stride, pauses, output),
                3 => weave::<_, 3>(input, stride, pauses, output),
                _ => weave::<_, 4>(input, stride, pauses, output),
            }
        }
    }
}
