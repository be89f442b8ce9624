//! Transposes of float32 that exchange dimensions which lie beside each other, such as the channels and the pixels of images, or
//! the groups of channels that are shuffled. Each is a transposition of matrices, done by squares of vectors.

pub mod interleave;

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::movement::Transpose;
use crate::graph::{DataType, Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::isa::Isa;
use webnn_kernels::simd::MOST_LANES;
use webnn_kernels::transpose::{Pixels, Rows};

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
            let pauses = looks::pauses(output.len());
            Rows { input, rows, columns, first, output, pauses }.compute(self.isa);
        });
    }
}

/// Rows and columns of the output's matrices, if the operator exchanges dimensions that lie beside each other, after those that
/// stay, and nothing else.
fn matrices(op: &Transpose, shape: &[usize]) -> Option<(usize, usize)> {
    let rank = shape.len();
    let order: Vec<usize> = (0..rank).map(|dimension| op.source(dimension, rank)).filter(|&axis| shape[axis] != 1).collect();
    let sizes = |axes: &[usize]| axes.iter().map(|&axis| shape[axis]).product();
    let split = order.windows(2).position(|pair| pair[0] > pair[1])? + 1;
    let (before, columns) = order.split_at(split);
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
            Pixels { input, rows: self.rows, columns: self.columns, first, output }.compute(self.isa);
        });
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
        use crate::backend::cpu::reference;
        use crate::backend::cpu::view::{View, ViewMut};
        use webnn_kernels::isa::Isa;
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
                    Problem { op: &op, fused: &[], inputs: &inputs, output, workspace: None, prologue: &[], dequantized: &[] };
                let kernel = first(&problem, &Target::with(isa, 2)).kernel;
                assert_eq!(run(&|arguments| kernel.compute(arguments)), expected, "{}: {shape:?}", isa.name);
            }
        }
    }
}
