//! Transposes of float32 that only move the channels of images: from before the pixels to behind them, and back. Each is a
//! transposition of matrices.

use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::movement::Transpose;
use smallvec::smallvec;

/// Rows and columns of a block that is moved together.
const BLOCK: usize = 16;

#[derive(Debug)]
struct Reorder {
    input: OperandId,
    /// Of the output's matrices.
    rows: usize,
    columns: usize,
}

impl Kernel for Reorder {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let output = arguments.output().elements::<f32>();
        let (rows, columns) = (self.rows, self.columns);
        for_each_piece(output, columns, columns, |first, mut output| {
            let mut first = first;
            while !output.is_empty() {
                // The rows of one matrix.
                let (matrix, row) = (first / rows, first % rows);
                let count = (rows - row).min(output.len() / columns);
                let (part, rest) = output.split_at_mut(count * columns);
                transpose(&input[matrix * rows * columns..][..rows * columns], rows, columns, row, part);
                first += count;
                output = rest;
            }
        });
    }
}

/// Fills rows of the output from `first_row` on.
fn transpose(input: &[f32], rows: usize, columns: usize, first_row: usize, output: &mut [f32]) {
    for (block, output) in output.chunks_mut(BLOCK * columns).enumerate() {
        let row = first_row + block * BLOCK;
        let height = output.len() / columns;
        for column in (0..columns).step_by(BLOCK) {
            let width = BLOCK.min(columns - column);
            if width == BLOCK && height == BLOCK {
                let mut numbers = [[0f32; BLOCK]; BLOCK];
                for (j, line) in numbers.iter_mut().enumerate() {
                    line.copy_from_slice(&input[(column + j) * rows + row..][..BLOCK]);
                }
                for (i, line) in output.chunks_exact_mut(columns).enumerate() {
                    let line: &mut [f32; BLOCK] = (&mut line[column..column + BLOCK]).try_into().expect("a block");
                    for (to, from) in line.iter_mut().zip(&numbers) {
                        *to = from[i];
                    }
                }
            } else {
                for (i, line) in output.chunks_exact_mut(columns).enumerate() {
                    for (j, to) in line[column..column + width].iter_mut().enumerate() {
                        *to = input[(column + j) * rows + row + i];
                    }
                }
            }
        }
    }
}

pub fn select(op: &Transpose, site: &Site<'_>) -> Option<Selection> {
    let shape = site.inputs[op.input.0 as usize].shape;
    let &[_, a, b, c] = shape else { return None };
    let (rows, columns) = match op.permutation.as_deref()? {
        [0, 2, 3, 1] => (b * c, a),
        [0, 3, 1, 2] => (c, a * b),
        _ => return None,
    };
    let kernel = Reorder { input: op.input, rows, columns };
    Some(Selection { kernel: Box::new(kernel), taken: smallvec![], fuses: true })
}
