//! Where along an axis after which there are others the greatest or smallest float32 number is: in columns, by vectors that
//! lie across them. See [`super`].
#![allow(unsafe_code)]

use super::super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Target, require};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::arg::ArgKind;
use crate::graph::{DataType, Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::arg::Columns;
use webnn_kernels::isa::Isa;

/// Fewer columns leave the vectors empty.
const LEAST_COLUMNS: usize = 16;
/// Columns that one thread does together.
const COLUMNS_OF_BLOCK: usize = 512;
/// Numbers of rows must be float32 numbers.
const MOST_ROWS: usize = 1 << 24;

#[derive(Debug)]
struct ArgColumns {
    isa: &'static Isa,
    input: OperandId,
    matrices: usize,
    rows: usize,
    columns: usize,
    smallest: bool,
}

/// Along another dimension than the last one.
pub static COLUMNS: Implementation = Implementation { name: "arg.columns", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Arg(op) = problem.op else { return Err(Reject("not an argMin or argMax")) };
    let input = problem.input(op.input);
    let axis = op.axis as usize;
    let rows = input.shape[axis];
    let [matrices, columns] = [&input.shape[..axis], &input.shape[axis + 1..]].map(|sizes| sizes.iter().product());
    require(input.data_type == DataType::Float32, "not float32")?;
    require(columns >= LEAST_COLUMNS, "too few columns for vectors")?;
    require(rows <= MOST_ROWS, "positions that float32 does not hold")?;
    let smallest = op.kind == ArgKind::Min;
    let kernel = ArgColumns { isa: target.isa, input: op.input, matrices, rows, columns, smallest };
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

impl Kernel for ArgColumns {
    fn run(&self, arguments: &mut Arguments<'_, '_>) {
        let input = arguments.input(self.input).elements::<f32>();
        let output = arguments.output();
        // The rule allows two.
        match output.data_type {
            DataType::Int32 => self.find(input, output.elements(), |position| position as i32),
            _ => self.find(input, output.elements(), |position| position as i64),
        }
    }
}

impl ArgColumns {
    fn find<P: Send>(&self, input: &[f32], output: &mut [P], position: impl Fn(f32) -> P + Sync) {
        let ArgColumns { matrices, rows, columns, smallest, .. } = *self;
        assert_eq!((input.len(), output.len()), (matrices * rows * columns, matrices * columns));
        let output = SharedOutput::new(output);
        let of_matrix = columns.div_ceil(COLUMNS_OF_BLOCK);
        for_each_job(matrices * of_matrix, input.len() / 8, |job| {
            let (matrix, first) = (job / of_matrix, job % of_matrix * COLUMNS_OF_BLOCK);
            let count = COLUMNS_OF_BLOCK.min(columns - first);
            let mut found = [0.0; COLUMNS_OF_BLOCK];
            let matrix_input = &input[matrix * rows * columns..][..rows * columns];
            let pauses = looks::pauses(rows * count);
            Columns { matrix: matrix_input, rows, columns, first, found: &mut found[..count], smallest, pauses }
                .compute(self.isa);
            let start = matrix * columns + first;
            let to = output.from(start, start + count);
            for (i, &found) in found[..count].iter().enumerate() {
                // SAFETY: these columns of the output are this job's, and so many are there (asserted by the output).
                unsafe { to.add(i).write(position(found)) };
            }
        });
    }
}
