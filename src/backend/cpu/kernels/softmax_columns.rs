//! Softmax of float32 along an axis behind which there are others: of columns, by vectors that lie across them.
#![allow(unsafe_code)]

use super::formulas::exp;
use super::isa::Isa;
use super::vector::{OnVectors, Vector, with_vectors};
use super::{Kernel, SharedOutput};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::OperandId;
use crate::graph::ops::softmax::Softmax;

/// Fewer columns leave the vectors empty.
const LEAST_COLUMNS: usize = 16;
/// Columns that are done together: whole vectors.
const TOGETHER: usize = 128;

#[derive(Debug)]
pub struct SoftmaxColumns {
    isa: &'static Isa,
    input: OperandId,
    matrices: usize,
    rows: usize,
    columns: usize,
}

impl SoftmaxColumns {
    pub fn new(op: &Softmax, shape: &[usize], isa: &'static Isa) -> Option<SoftmaxColumns> {
        let axis = op.axis as usize;
        let [matrices, columns] = [&shape[..axis], &shape[axis + 1..]].map(|sizes| sizes.iter().product());
        (columns >= LEAST_COLUMNS).then(|| SoftmaxColumns { isa, input: op.input, matrices, rows: shape[axis], columns })
    }
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
            // SAFETY: as above.
            let store = |row: usize, numbers: V| unsafe {
                numbers.store_first(output.from(place(row), place(row) + lanes), lanes);
            };
            let mut greatest = V::set(f32::NEG_INFINITY);
            for row in 0..rows {
                greatest = greatest.raise(load(row));
            }
            let mut sum = V::set(0.0);
            for row in 0..rows {
                let power = exp(load(row).sub(greatest));
                sum = sum.add(power);
                store(row, power);
            }
            // What is not a number spoils the sum, and thereby the column.
            let factor = V::set(1.0).div(sum);
            for row in 0..rows {
                // SAFETY: as above; they have just been stored.
                let power = unsafe { V::load_first(output.from(place(row), place(row) + lanes), lanes) };
                store(row, power.mul(factor));
            }
        }
    }
}
