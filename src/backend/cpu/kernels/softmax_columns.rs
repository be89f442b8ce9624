//! Softmax of float32 along an axis behind which there are others: of columns, by vectors that lie across them. Lines that are
//! too short for a vector are made columns for it.
#![allow(unsafe_code)]

use super::formulas::exp_up_to_0;
use super::isa::Isa;
use super::packing::interleave;
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Target, require, with_scratch};
use crate::backend::cpu::threads::{for_each_job, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::{Op, OperandId};
use smallvec::smallvec;

/// Fewer columns leave the vectors empty.
const LEAST_COLUMNS: usize = 16;
/// Columns that are done together: whole vectors.
const TOGETHER: usize = 128;

#[derive(Debug)]
struct SoftmaxColumns {
    isa: &'static Isa,
    input: OperandId,
    matrices: usize,
    rows: usize,
    columns: usize,
}

/// Along another dimension than the last one.
pub static COLUMNS: Implementation = Implementation { name: "softmax.columns", accept };
/// Along the last dimension, where its rows are too short for vectors: they become columns for it.
pub static SHORT_ROWS: Implementation = Implementation { name: "softmax.short_rows", accept: accept_short_rows };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Softmax(op) = problem.op else { return Err(Reject("not a softmax")) };
    let (shape, axis) = (problem.output.shape, op.axis as usize);
    require(axis + 1 < shape.len(), "along the last dimension")?;
    let [matrices, columns] = [&shape[..axis], &shape[axis + 1..]].map(|sizes| sizes.iter().product());
    require(columns >= LEAST_COLUMNS, "too few columns for vectors")?;
    let kernel = SoftmaxColumns { isa: target.isa, input: op.input, matrices, rows: shape[axis], columns };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: false })))
}

fn accept_short_rows<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Softmax(op) = problem.op else { return Err(Reject("not a softmax")) };
    let shape = problem.output.shape;
    let length = shape.last().copied().unwrap_or(0);
    require(op.axis as usize + 1 == shape.len(), "not along the last dimension")?;
    let rows = problem.output.element_count().checked_div(length).unwrap_or(0);
    require(rows >= LEAST_COLUMNS, "too few rows for vectors")?;
    let kernel = SoftmaxShortRows { isa: target.isa, input: op.input, length };
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses: false })))
}

impl Kernel for SoftmaxColumns {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let output = arguments.output().elements::<f32>();
        let SoftmaxColumns { matrices, rows, columns, .. } = *self;
        assert_eq!((input.len(), output.len()), (matrices * rows * columns, matrices * rows * columns));
        let output = SharedOutput::new(output);
        let of_matrix = columns.div_ceil(TOGETHER);
        for_each_job(matrices * of_matrix, input.len() / 2, |job| {
            let (matrix, first) = (job / of_matrix, job % of_matrix * TOGETHER);
            let part = Part { input, output: &output, matrix, rows, columns, first, count: TOGETHER.min(columns - first) };
            with_vectors(self.isa, part);
        });
    }
}

/// Some columns of a matrix, which are one thread's.
struct Part<'a> {
    input: &'a [f32],
    output: &'a SharedOutput<'a>,
    matrix: usize,
    rows: usize,
    columns: usize,
    first: usize,
    count: usize,
}

impl OnVectors for Part<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Part { input, output, matrix, rows, columns, first, count } = self;
        for column in (first..first + count).step_by(V::LANES) {
            let lanes = V::LANES.min(first + count - column);
            let place = |row: usize| (matrix * rows + row) * columns + column;
            // SAFETY: so many numbers are in the rows of the input and of the output from `place` on (asserted here and by the
            // output), and these columns are this job's.
            let load = |row: usize| unsafe { V::load_first(input[place(row)..place(row) + lanes].as_ptr(), lanes) };
            softmax_of_columns(rows, load, |row| output.from(place(row), place(row) + lanes), lanes);
        }
    }
}

/// Softmax of the columns that a vector lies across, from where `load` finds their rows to the first `lanes` numbers at
/// `place`, which are the caller's.
#[inline(always)]
fn softmax_of_columns<V: Vector>(rows: usize, load: impl Fn(usize) -> V, place: impl Fn(usize) -> *mut f32, lanes: usize) {
    let mut greatest = V::set(f32::NEG_INFINITY);
    for row in 0..rows {
        greatest = greatest.raise(load(row));
    }
    let mut sum = V::set(0.0);
    for row in 0..rows {
        let power = exp_up_to_0(load(row).sub(greatest));
        sum = sum.add(power);
        // SAFETY: the caller's promise.
        unsafe { power.store_first(place(row), lanes) };
    }
    // What is not a number spoils the sum, and thereby the column.
    let factor = V::set(1.0).div(sum);
    for row in 0..rows {
        // SAFETY: the caller's promise; they have just been stored.
        unsafe { V::load_first(place(row), lanes).mul(factor).store_first(place(row), lanes) };
    }
}

/// Softmax of lines that are shorter than a vector.
#[derive(Debug)]
struct SoftmaxShortRows {
    isa: &'static Isa,
    input: OperandId,
    length: usize,
}

/// Lines that are turned together: whole vectors.
const LINES: usize = 64;

impl Kernel for SoftmaxShortRows {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let (input, length) = (arguments.input(self.input).elements::<f32>(), self.length);
        for_each_piece(arguments.output().elements::<f32>(), length, 2 * length, |first, piece| {
            let input = &input[first * length..][..piece.len()];
            with_scratch(LINES * length, |columns| {
                for (input, output) in input.chunks(LINES * length).zip(piece.chunks_mut(LINES * length)) {
                    with_vectors(self.isa, Lines { input, output, columns, length });
                }
            });
        });
    }
}

struct Lines<'a> {
    input: &'a [f32],
    output: &'a mut [f32],
    columns: &'a mut [f32],
    length: usize,
}

impl OnVectors for Lines<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Lines { input, output, columns, length } = self;
        let count = input.len() / length;
        interleave(input, length, count, length, columns, LINES);
        for first in (0..count).step_by(V::LANES) {
            let rows = &mut columns[first..];
            assert!(rows.len() >= (length - 1) * LINES + V::LANES);
            let start = rows.as_mut_ptr();
            // SAFETY: every row has LINES numbers, whole vectors of them (asserted for the last one).
            softmax_of_columns(
                length,
                |row| unsafe { V::load(start.add(row * LINES)) },
                |row| start.wrapping_add(row * LINES),
                V::LANES,
            );
        }
        interleave(columns, LINES, length, count, output, length);
    }
}
