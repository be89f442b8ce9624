//! Transposes of float32 that exchange dimensions which lie beside each other, such as the channels and the pixels of images, or
//! the groups of channels that are shuffled. Each is a transposition of matrices, done by squares of vectors.
#![allow(unsafe_code)]

pub mod interleave;

use super::isa::{Isa, Loop};
use super::prefetch::fetch;
use super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::movement::Transpose;
use crate::graph::{DataType, Op, OperandId};
use smallvec::smallvec;

/// How far behind the numbers that are written those are whose lines are fetched.
const SOON: usize = 32;

#[derive(Debug)]
struct Reorder {
    isa: &'static Isa,
    input: OperandId,
    /// Of the output's matrices.
    rows: usize,
    columns: usize,
    /// Rows that one thread computes together.
    together: usize,
}

impl Kernel for Reorder {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let output = arguments.output().elements::<f32>();
        let (rows, columns) = (self.rows, self.columns);
        let unit = self.together * columns;
        // A quarter of a nanosecond for each number.
        for_each_piece(output, unit, unit.div_ceil(4), |first, output| {
            let first = first * self.together;
            with_vectors(self.isa, Rows { input, rows, columns, first, output });
        });
    }
}

/// Some rows of matrices that are the transposes of others.
struct Rows<'a> {
    /// The others, of `columns` rows of `rows` elements.
    input: &'a [f32],
    rows: usize,
    columns: usize,
    first: usize,
    output: &'a mut [f32],
}

impl OnVectors for Rows<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Rows { input, rows, columns, mut first, mut output } = self;
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
                _ => squares::<V>(input, rows, columns, row, part),
            }
            first += count;
            output = rest;
        }
    }
}

/// Rows of so many numbers, each from a row of the input.
#[inline(always)]
fn interleave<T: Copy, const COLUMNS: usize>(input: &[T], rows: usize, row: usize, output: &mut [T]) {
    weave::<T, COLUMNS>(&input[row..], rows, output);
}

/// The first number of each of so many lines, then the second of each, and so on. From one line to the next it is `stride`.
#[inline(always)]
pub fn weave<T: Copy, const COLUMNS: usize>(input: &[T], stride: usize, output: &mut [T]) {
    let (output, _) = output.as_chunks_mut::<COLUMNS>();
    let lines: [&[T]; COLUMNS] = std::array::from_fn(|column| &input[column * stride..][..output.len()]);
    for (i, to) in output.iter_mut().enumerate() {
        *to = std::array::from_fn(|column| lines[column][i]);
    }
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "iterators keep the lines out of registers")]
fn squares<V: Vector>(input: &[f32], rows: usize, columns: usize, first: usize, output: &mut [f32]) {
    for (block, output) in output.chunks_mut(V::LANES * columns).enumerate() {
        let row = first + block * V::LANES;
        let height = output.len() / columns;
        assert!(row + height <= rows && input.len() == rows * columns);
        for column in (0..columns).step_by(V::LANES) {
            let width = V::LANES.min(columns - column);
            // SAFETY: lines below `width` are inside the input's columns, numbers below `height` inside its rows; the same the
            // other way round in the output.
            unsafe {
                let from = input.as_ptr().add(column * rows + row);
                let to = output.as_mut_ptr().add(column);
                if width == V::LANES && height == V::LANES {
                    // Lines that will be written to arrive meanwhile.
                    (0..V::LANES).for_each(|i| fetch::<0>(to.wrapping_add(i * columns + SOON)));
                    let mut lines = [V::set(0.0); MOST_LANES];
                    for j in 0..V::LANES {
                        lines[j] = V::load(from.add(j * rows));
                    }
                    let lines = V::transpose(lines);
                    for i in 0..V::LANES {
                        lines[i].store(to.add(i * columns));
                    }
                } else {
                    let mut lines = [V::set(0.0); MOST_LANES];
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

/// Rows and columns of the output's matrices, if the operator exchanges dimensions that lie beside each other, behind those that
/// stay, and nothing else.
fn matrices(op: &Transpose, shape: &[usize]) -> Option<(usize, usize)> {
    let rank = shape.len();
    let order: Vec<usize> = (0..rank).map(|dimension| op.source(dimension, rank)).filter(|&axis| shape[axis] != 1).collect();
    let sizes = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product();
    let turn = order.windows(2).position(|pair| pair[0] > pair[1])? + 1;
    let (before, columns) = order.split_at(turn);
    let (same, rows) = before.split_at(before.partition_point(|axis| axis < &columns[0]));
    let is_sorted = same.iter().chain(columns).chain(rows).is_sorted();
    is_sorted.then(|| (sizes(rows), sizes(columns)))
}

/// Matrices whose rows become columns, in square blocks.
pub static MATRIX: Implementation = Implementation { name: "transpose.matrix", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Transpose(op) = problem.op else { return Err(Reject("not a transpose")) };
    let (rows, columns) = matrices(op, problem.input(op.input).shape).ok_or(NOT_MATRICES)?;
    // Whole squares, where there are some for each thread.
    let has_squares = rows >= 2 * MOST_LANES * target.threads;
    let together = if has_squares { MOST_LANES } else { 1 };
    let kernel = Reorder { isa: target.isa, input: op.input, rows, columns, together };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: false })))
}

const NOT_MATRICES: Reject = Reject("not matrices whose rows become columns");

/// The same of bytes, where each row of the output has two to four of them, as the pixels of pictures.
#[derive(Debug)]
struct ReorderBytes {
    isa: &'static Isa,
    input: OperandId,
    rows: usize,
    columns: usize,
}

impl Kernel for ReorderBytes {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).bytes();
        let output = &mut *arguments.output().bytes;
        for_each_piece(output, self.columns, 1, |first, output| {
            self.isa.run_loop(Pixels { input, rows: self.rows, columns: self.columns, first, output });
        });
    }
}

struct Pixels<'a> {
    input: &'a [u8],
    rows: usize,
    columns: usize,
    first: usize,
    output: &'a mut [u8],
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

/// Matrices of bytes with two to four columns, as pictures are.
pub static BYTES: Implementation = Implementation { name: "transpose.bytes", accept: accept_bytes };

fn accept_bytes<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Transpose(op) = problem.op else { return Err(Reject("not a transpose")) };
    let (rows, columns) = matrices(op, problem.input(op.input).shape).ok_or(NOT_MATRICES)?;
    require(matches!(problem.output.data_type, DataType::Int8 | DataType::Uint8), "not bytes")?;
    require((2..=4).contains(&columns), "not two to four columns")?;
    require(problem.fused.is_empty(), "something is done to the bytes afterwards")?;
    let kernel = ReorderBytes { isa: target.isa, input: op.input, rows, columns };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: false })))
}

#[cfg(test)]
mod tests {
    use super::super::TensorDesc;
    use super::*;

    #[test]
    fn exchanges_are_told_from_other_orders() {
        for (shape, permutation, expected) in [
            (&[1, 3, 20, 31][..], Some(&[0, 2, 3, 1][..]), Some((620, 3))),
            (&[1, 20, 31, 3], Some(&[0, 3, 1, 2]), Some((3, 620))),
            (&[2, 5, 6, 4, 7], Some(&[0, 1, 2, 4, 3]), Some((7, 4))),
            (&[1, 8, 1, 64], Some(&[3, 0, 2, 1]), Some((64, 8))),
            (&[7, 9], None, Some((9, 7))),
            (&[1, 9], None, None),
            (&[5, 6, 7], None, None),
            (&[5, 6, 7], Some(&[1, 0, 2]), None),
            (&[5, 6, 7, 8], Some(&[1, 0, 3, 2]), None),
            (&[5, 6, 7, 8], Some(&[0, 1, 2, 3]), None),
        ] {
            let op = Transpose { input: OperandId(0), permutation: permutation.map(<[u32]>::to_vec) };
            assert_eq!(matrices(&op, shape), expected, "{shape:?} {permutation:?}");
        }
    }

    #[test]
    fn bytes_go_where_the_reference_kernel_puts_them() {
        use crate::backend::cpu::kernels::first;
        use crate::backend::cpu::kernels::isa::Isa;
        use crate::backend::cpu::reference;
        use crate::backend::cpu::view::{View, ViewMut};
        let to_last = [0, 2, 3, 1];
        for (shape, data_type) in [
            ([1, 3, 20, 31], DataType::Uint8),
            ([2, 3, 5, 7], DataType::Int8),
            ([3, 2, 1, 65], DataType::Uint8),
            ([1, 4, 33, 2], DataType::Int8),
        ] {
            let bytes: Vec<u8> = (0..shape.iter().product()).map(|i: usize| (i * 37 % 251) as u8).collect();
            let op: crate::graph::Op = Transpose { input: OperandId(0), permutation: Some(to_last.to_vec()) }.into();
            let made = to_last.map(|axis| shape[axis as usize]);
            let known = |shape| TensorDesc { data_type, shape, constant: None, order: None };
            let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
                let mut result = vec![0u8; bytes.len()];
                let output = ViewMut { data_type, shape: &made, bytes: &mut result };
                body(&mut Arguments::new(&[View::new(data_type, &shape, &bytes)], &mut [output]));
                result
            };
            let expected = run(&|arguments| reference::execute(&op, arguments));
            for isa in Isa::available() {
                let inputs = [known(&shape[..])];
                let output = known(&made[..]);
                let problem =
                    Problem { op: &op, fused: &[], inputs: &inputs, output, workspace: None, before: &[], dequantized: &[] };
                let kernel = first(&problem, &Target::with(isa, 2)).kernel;
                assert_eq!(run(&|arguments| kernel.run(arguments)), expected, "{}: {shape:?}", isa.name);
            }
        }
    }
}
