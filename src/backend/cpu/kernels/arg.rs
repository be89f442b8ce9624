//! Where in each line of float32 numbers that lie side by side the greatest or smallest is: the first of several, or the first
//! that is not a number.

pub mod columns;

use super::{Accepted, Built, Implementation, Kernel, Problem, Reject, Target, require};
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::arg::ArgKind;
use crate::graph::{DataType, Op, OperandId};
use crate::looks;
use smallvec::smallvec;
use webnn_kernels::arg::Row;
use webnn_kernels::isa::Isa;

/// A line shorter than this leaves the vectors empty.
const SHORTEST: usize = 16;

#[derive(Debug)]
struct ArgRows {
    isa: &'static Isa,
    input: OperandId,
    length: usize,
    smallest: bool,
}

/// Along the last dimension.
pub static ROWS: Implementation = Implementation { name: "arg.rows", accept };

fn accept<'a>(problem: &Problem<'a>, target: &Target) -> Accepted<'a> {
    let Op::Arg(op) = problem.op else { return Err(Reject("not an argMin or argMax")) };
    let input = problem.input(op.input);
    let Some((&length, after)) = input.shape[op.axis as usize..].split_first() else { return Err(Reject("a scalar")) };
    require(input.data_type == DataType::Float32, "not float32")?;
    require(after.iter().all(|&size| size == 1), "not along the last dimension")?;
    require(length >= SHORTEST, "rows too short for vectors")?;
    let kernel = ArgRows { isa: target.isa, input: op.input, length, smallest: op.kind == ArgKind::Min };
    let fuses = problem.fused.is_empty();
    Ok(Box::new(move || Ok(Built { kernel: Box::new(kernel), consumed: smallvec![], fuses })))
}

impl Kernel for ArgRows {
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

impl ArgRows {
    fn find<P: Send>(&self, input: &[f32], output: &mut [P], position: impl Fn(usize) -> P + Sync) {
        for_each_piece(output, 1, self.length / 8, |first, outputs| {
            let lines = input[first * self.length..].chunks_exact(self.length);
            let pauses = looks::pauses(self.length);
            for (output, line) in outputs.iter_mut().zip(lines) {
                let mut found = 0;
                Row { row: line, found: &mut found, smallest: self.smallest, pauses }.compute(self.isa);
                *output = position(found);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::super::first;
    use super::*;
    use crate::backend::cpu::kernels::{TensorDesc, tests::numbers};
    use crate::backend::cpu::reference;
    use crate::backend::cpu::view::{View, ViewMut};
    use crate::graph::Op;
    use crate::graph::ops::arg::Arg;
    use webnn_kernels::isa::Isa;

    /// Compares with the reference kernel.
    fn check(kind: ArgKind, data: &[f32], shape: &[usize; 3]) {
        let output = [shape[0], shape[2]];
        for data_type in [DataType::Int32, DataType::Int64] {
            let op = Arg { kind, input: OperandId(0), axis: 1, keep_dimensions: false, output_data_type: data_type };
            let input = View::new(DataType::Float32, shape, bytemuck::cast_slice(data));
            let run = |body: &dyn Fn(&mut Arguments<'_, '_>)| {
                let mut words = vec![u64::MAX; shape[0] * shape[2]];
                let length = shape[0] * shape[2] * data_type.bits() / 8;
                let bytes = &mut bytemuck::cast_slice_mut(&mut words)[..length];
                body(&mut Arguments::new(&[input], &mut [ViewMut { data_type, shape: &output, bytes }]));
                words
            };
            let known = TensorDesc { data_type: DataType::Float32, shape, constant: None, order: None };
            let op: Op = op.into();
            let expected = run(&|arguments| reference::execute(&op, arguments));
            for isa in Isa::available() {
                let problem = Problem {
                    prologue: &[],
                    dequantized: &[],
                    op: &op,
                    fused: &[],
                    inputs: &[known],
                    output: TensorDesc { data_type, shape: &output, constant: None, order: None },
                    workspace: None,
                };
                let selection = first(&problem, &Target::with(isa, 1));
                let found = run(&|arguments| selection.kernel.compute(arguments));
                assert_eq!(found, expected, "{} {kind:?} of {shape:?}", isa.name);
            }
        }
    }

    #[test]
    fn positions_are_those_of_the_reference() {
        for (kind, length) in [ArgKind::Max, ArgKind::Min].into_iter().flat_map(|kind| [16, 63, 64, 65, 300].map(|n| (kind, n))) {
            let mut data = numbers(8 * length, 1);
            data[length..2 * length].fill(f32::NEG_INFINITY);
            data[2 * length..3 * length].fill(f32::INFINITY);
            (data[3 * length + 5], data[3 * length + 9], data[4 * length - 1]) = (f32::NEG_INFINITY, f32::NAN, f32::NAN);
            // Equal ones; the zeros are equal too.
            data[4 * length..5 * length].iter_mut().enumerate().for_each(|(i, x)| *x = if i % 2 == 0 { 0.0 } else { -0.0 });
            data[5 * length..6 * length].iter_mut().for_each(|x| *x = (*x * 3.0).round());
            check(kind, &data, &[8, length, 1]);
            // The lines as columns.
            let transposed: Vec<f32> = (0..32 * length).map(|i| data[i % 32 % 8 * length + i / 32]).collect();
            check(kind, &transposed, &[1, length, 32]);
        }
    }

    #[test]
    fn columns_of_all_counts() {
        for kind in [ArgKind::Max, ArgKind::Min] {
            for (rows, columns) in (16..100).map(|columns| (5, columns)).chain([(1, 16), (3, 511), (3, 1100)]) {
                // Few different numbers, of which many are equal.
                let data: Vec<f32> = numbers(3 * rows * columns, 7).iter().map(|x| (x * 3.0).round()).collect();
                check(kind, &data, &[3, rows, columns]);
            }
        }
    }
}
