//! Where along an axis behind which there are others the greatest or smallest float32 number is: in columns, by vectors that
//! lie across them. See [`super`].
#![allow(unsafe_code)]

use super::super::isa::Isa;
use super::super::vector::{MOST_LANES, OnVectors, Vector, with_vectors};
use super::super::{Accepted, Built, Implementation, Kernel, Problem, Reject, SharedOutput, Target, require};
use crate::backend::cpu::threads::for_each_job;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::arg::ArgKind;
use crate::graph::{DataType, Op, OperandId};
use smallvec::smallvec;

/// Fewer columns leave the vectors empty.
const LEAST_COLUMNS: usize = 16;
/// Columns that one thread does together.
const TOGETHER: usize = 512;
/// Vectors that are done together.
const VECTORS: usize = 4;
/// AlignedBuffer of rows must be float32 numbers.
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
        let of_matrix = columns.div_ceil(TOGETHER);
        for_each_job(matrices * of_matrix, input.len() / 8, |job| {
            let (matrix, first) = (job / of_matrix, job % of_matrix * TOGETHER);
            let count = TOGETHER.min(columns - first);
            let mut found = [0.0; TOGETHER];
            let matrix_input = &input[matrix * rows * columns..][..rows * columns];
            with_vectors(self.isa, Part { matrix: matrix_input, rows, columns, first, found: &mut found[..count], smallest });
            let start = matrix * columns + first;
            let to = output.from(start, start + count);
            for (i, &found) in found[..count].iter().enumerate() {
                // SAFETY: these columns of the output are this job's, and so many are there (asserted by the output).
                unsafe { to.add(i).write(position(found)) };
            }
        });
    }
}

/// Some columns of a matrix.
struct Part<'a> {
    matrix: &'a [f32],
    rows: usize,
    columns: usize,
    first: usize,
    found: &'a mut [f32],
    smallest: bool,
}

impl OnVectors for Part<'_> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        let Part { matrix, rows, columns, first, found, smallest } = self;
        let mut done = 0;
        while done < found.len() {
            let left = found.len() - done;
            let block = Block { matrix, rows, columns, first: first + done, smallest };
            if left >= VECTORS * V::LANES {
                block.find::<V, VECTORS>(V::LANES, &mut found[done..done + VECTORS * V::LANES]);
                done += VECTORS * V::LANES;
            } else {
                let count = V::LANES.min(left);
                block.find::<V, 1>(count, &mut found[done..done + count]);
                done += count;
            }
        }
    }
}

struct Block<'a> {
    matrix: &'a [f32],
    rows: usize,
    columns: usize,
    first: usize,
    smallest: bool,
}

impl Block<'_> {
    /// Finds the positions in some vectors of columns, of which the only one, if it is that, has `lanes` columns.
    #[inline(always)]
    fn find<V: Vector, const COUNT: usize>(&self, lanes: usize, found: &mut [f32]) {
        let Block { matrix, rows, columns, first, smallest } = *self;
        let width = (COUNT - 1) * V::LANES + lanes;
        assert!(found.len() == width && (COUNT == 1 || lanes == V::LANES) && lanes <= V::LANES);
        let load = |row: usize| -> [V; COUNT] {
            let numbers = &matrix[row * columns + first..][..width];
            std::array::from_fn(|v| {
                // SAFETY: so many numbers are there; if the last vector is not whole it is the only one, as asserted.
                let x = unsafe {
                    let from = numbers.as_ptr().add(v * V::LANES);
                    if lanes == V::LANES { V::load(from) } else { V::load_first(from, lanes) }
                };
                if smallest { x.negated() } else { x }
            })
        };
        let mut best = load(0);
        let mut at = [V::set(0.0); COUNT];
        for row in 1..rows {
            let here = V::set(row as f32);
            let numbers = load(row);
            for v in 0..COUNT {
                at[v] = best[v].if_below(numbers[v], here, at[v]);
                // What is not a number stays, and nothing is better.
                best[v] = best[v].greatest(numbers[v]);
            }
        }
        for v in 0..COUNT {
            let (mut numbers, mut positions) = ([0.0; MOST_LANES], [0.0; MOST_LANES]);
            // SAFETY: no register is longer.
            unsafe {
                best[v].store(numbers.as_mut_ptr());
                at[v].store(positions.as_mut_ptr());
            }
            let found = &mut found[v * V::LANES..][..lanes];
            for (i, found) in found.iter_mut().enumerate() {
                let column = first + v * V::LANES + i;
                let is_spoilt = |row: &usize| matrix[row * columns + column].is_nan();
                *found = match numbers[i].is_nan() {
                    true => (0..rows).find(is_spoilt).unwrap_or(0) as f32,
                    false => positions[i],
                };
            }
        }
    }
}
