//! Transposes of float32 that only move the channels of images: from before the pixels to behind them, and back. Each is a
//! transposition of matrices, done by squares of vectors.
#![allow(unsafe_code)]

use super::isa::Isa;
use super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::{Kernel, Selection, Site};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::movement::Transpose;
use smallvec::smallvec;

#[derive(Debug)]
struct Reorder {
    isa: &'static Isa,
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
                let input = &input[matrix * rows * columns..][..rows * columns];
                with_vectors(self.isa, Rows { input, rows, columns, first: row, output: part });
                first += count;
                output = rest;
            }
        });
    }
}

/// Some rows of a matrix that is the transpose of another.
struct Rows<'a> {
    /// The other matrix, of `columns` rows of `rows` elements.
    input: &'a [f32],
    rows: usize,
    columns: usize,
    first: usize,
    output: &'a mut [f32],
}

/// Up to so many columns numbers are moved one by one.
const FEW: usize = 4;

impl OnVectors for Rows<'_> {
    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "iterators keep the lines out of registers")]
    fn run<V: Vector>(self) {
        let Rows { input, rows, columns, first, output } = self;
        if columns <= FEW {
            // Such as the colours of a picture: squares would be mostly empty.
            let from = &input[..columns * rows];
            for (i, line) in output.chunks_exact_mut(columns).enumerate() {
                line.iter_mut().enumerate().for_each(|(j, to)| *to = from[j * rows + first + i]);
            }
            return;
        }
        for (block, output) in output.chunks_mut(V::LANES * columns).enumerate() {
            let row = first + block * V::LANES;
            let height = output.len() / columns;
            assert!(row + height <= rows && input.len() == rows * columns);
            for column in (0..columns).step_by(V::LANES) {
                let width = V::LANES.min(columns - column);
                // SAFETY: lines below `width` are inside the input's columns, numbers below `height` inside its rows; the
                // same the other way round in the output.
                unsafe {
                    let from = input.as_ptr().add(column * rows + row);
                    let to = output.as_mut_ptr().add(column);
                    if width == V::LANES && height == V::LANES {
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
}

pub fn select(op: &Transpose, site: &Site<'_>, isa: &'static Isa) -> Option<Selection> {
    let shape = site.inputs[op.input.0 as usize].shape;
    let &[_, a, b, c] = shape else { return None };
    let (rows, columns) = match op.permutation.as_deref()? {
        [0, 2, 3, 1] => (b * c, a),
        [0, 3, 1, 2] => (c, a * b),
        _ => return None,
    };
    let kernel = Reorder { isa, input: op.input, rows, columns };
    Some(Selection { kernel: Box::new(kernel), taken: smallvec![], fuses: true })
}
