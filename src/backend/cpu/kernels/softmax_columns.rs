//! Softmax of float32 along an axis after which there are others: of columns, by vectors that lie across them. Lines that are
//! too short for a vector are made columns for it.
#![allow(unsafe_code)]

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Subnormals, Target, require, with_scratch};
use crate::backend::cpu::threads::{for_each_job, for_each_piece};
use crate::backend::cpu::view::Arguments;
use crate::graph::{Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::softmax::columns::{Columns, LINES, ShortRows};

/// Fewer columns leave the vectors empty.
const LEAST_COLUMNS: usize = 16;
/// Columns that are done together: whole vectors.
const COLUMNS_OF_BLOCK: usize = 128;

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
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let output = arguments.output().elements::<f32>();
        let SoftmaxColumns { matrices, rows, columns, .. } = *self;
        assert_eq!((input.len(), output.len()), (matrices * rows * columns, matrices * rows * columns));
        let output = SharedOutput::new(output);
        let of_matrix = columns.div_ceil(COLUMNS_OF_BLOCK);
        for_each_job(matrices * of_matrix, input.len() / 2, |job| {
            let (matrix, first) = (job / of_matrix, job % of_matrix * COLUMNS_OF_BLOCK);
            let count = COLUMNS_OF_BLOCK.min(columns - first);
            let (output, pauses) = (&output, looks::pauses(rows * count));
            // SAFETY: jobs have different columns or matrices.
            unsafe { Columns { input, output, matrix, rows, columns, first, count, pauses }.compute(self.isa) }
        });
    }
}

/// Softmax of lines that are shorter than a vector.
#[derive(Debug)]
struct SoftmaxShortRows {
    isa: &'static Isa,
    input: OperandId,
    length: usize,
}

impl Kernel for SoftmaxShortRows {
    fn subnormals(&self) -> Subnormals {
        Subnormals::Flushed
    }

    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let (input, length) = (arguments.input(self.input).elements::<f32>(), self.length);
        for_each_piece(arguments.output().elements::<f32>(), length, 2 * length, |first, piece| {
            let input = &input[first * length..][..piece.len()];
            with_scratch(LINES * length, |columns| {
                for (input, output) in input.chunks(LINES * length).zip(piece.chunks_mut(LINES * length)) {
                    ShortRows { input, output, columns: &mut *columns, length }.compute(self.isa);
                }
            });
        });
    }
}
