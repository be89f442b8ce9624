//! Operators that move elements without looking at them: most of them are a copy with strides.

use crate::backend::cpu::copy::{cost, with_unit};
use crate::backend::cpu::threads;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::Strided;
use crate::graph::ops::check::CheckIndices;
use crate::graph::ops::movement::{
    Concat, Expand, Pad, PaddingMode, Reshape, Reverse, Slice, Split, Tile, Transpose, Triangular,
};
use crate::looks::{self, Looking};
use bytemuck::Pod;

fn strided(places: &Strided, input: View<'_>, output: &mut ViewMut<'_>) {
    with_unit!(input.data_type, T => places.copy::<T>(input.units(), output.units()))
}

pub fn concat(op: &Concat, arguments: &mut Arguments<'_, '_>) {
    let axis = op.axis as usize;
    with_unit!(arguments.output().data_type, T => {
        // Of each input the elements that stand together in the output.
        let inputs: Vec<(&[T], usize)> = op
            .inputs
            .iter()
            .map(|&id| {
                let input = arguments.input(id);
                (input.units(), input.shape[axis..].iter().product())
            })
            .collect();
        let row = inputs.iter().map(|(_, run)| run).sum();
        threads::for_each_piece(arguments.output().units(), row, cost::<T>(row), |first, piece| {
            for (i, mut row) in piece.chunks_exact_mut(row).enumerate() {
                for &(input, run) in &inputs {
                    let (part, rest) = row.split_at_mut(run);
                    looks::copy(&input[(first + i) * run..][..run], part);
                    row = rest;
                }
            }
        });
    })
}

pub fn expand(op: &Expand, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    strided(&Strided::broadcast(input.shape, output.shape), input, output);
}

pub fn reshape(op: &Reshape, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    strided(&Strided::dense(input.shape), input, arguments.output());
}

/// Whoever runs it has checked them.
pub fn check_indices(op: &CheckIndices, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.indices);
    strided(&Strided::dense(input.shape), input, arguments.output());
}

pub fn reverse(op: &Reverse, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    strided(&Strided::reversed(op, input.shape), input, arguments.output());
}

pub fn slice(op: &Slice, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    strided(&Strided::sliced(op, input.shape, output.shape), input, output);
}

pub fn split(op: &Split, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let axis = op.axis as usize;
    let mut first = 0;
    for output in arguments.outputs() {
        let size = output.shape[axis];
        strided(&Strided::part(input.shape, axis, first, size), input, output);
        first += size;
    }
}

pub fn tile(op: &Tile, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    strided(&Strided::tiled(op, input.shape), input, arguments.output());
}

pub fn transpose(op: &Transpose, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    strided(&Strided::transposed(op, input.shape), input, arguments.output());
}

pub fn triangular(op: &Triangular, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let &[.., rows, columns] = input.shape else { unreachable!("the rank is at least 2") };
    // The column of the diagonal that bounds the triangle, within the row's columns.
    let bound = |row: usize| (row as i64 + op.diagonal as i64).clamp(-1, columns as i64);
    with_unit!(input.data_type, T => {
        let input = input.units::<T>();
        threads::for_each_piece(output.units::<T>(), columns, cost::<T>(columns), |first, piece| {
            for (i, output) in piece.chunks_exact_mut(columns).enumerate() {
                let row = first + i;
                let bound = bound(row % rows);
                let kept = if op.upper {
                    bound.max(0) as usize..columns
                } else {
                    0..(bound + 1).min(columns as i64) as usize
                };
                looks::fill(&mut output[..kept.start], 0);
                looks::fill(&mut output[kept.end..], 0);
                looks::copy(&input[row * columns..][kept.clone()], &mut output[kept]);
            }
        });
    })
}

pub fn pad(op: &Pad, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let value = op.value.to_bytes(input.data_type);
    with_unit!(input.data_type, T => {
        pad_units::<T>(op, input.shape, input.units(), bytemuck::pod_read_unaligned(&value), output.units())
    })
}

/// The position in an input's dimension from which pad takes this one, or nothing where the constant stands.
fn padded_from(mode: PaddingMode, position: usize, beginning: usize, size: usize) -> Option<usize> {
    if (beginning..beginning + size).contains(&position) {
        return Some(position - beginning);
    }
    match mode {
        PaddingMode::Constant => None,
        PaddingMode::Edge if position < beginning => Some(0),
        PaddingMode::Edge => Some(size - 1),
        PaddingMode::Reflection if position < beginning => Some(beginning - position),
        PaddingMode::Reflection => Some(2 * (size - 1) - (position - beginning)),
    }
}

fn pad_units<T: Pod + Send + Sync>(op: &Pad, shape: &[usize], input: &[T], value: T, output: &mut [T]) {
    let beginning = |i: usize| op.beginning_padding[i] as usize;
    let padding = |i: usize| beginning(i) + op.ending_padding[i] as usize;
    // The dimensions after the last one that is padded stay together.
    let Some(last) = (0..shape.len()).rev().find(|&i| padding(i) != 0) else { return looks::copy(input, output) };
    let run: usize = shape[last + 1..].iter().product();
    let (before, size) = (beginning(last), shape[last]);
    let row = (size + padding(last)) * run;
    let outer = Strided::dense(&shape[..=last]).dimensions;
    // Where the row of the input begins that a row of the output repeats; nothing where the constant stands.
    let from = |row: usize| -> Option<usize> {
        let mut rest = row;
        let mut from = 0;
        for i in (0..last).rev() {
            let padded = shape[i] + padding(i);
            let position = padded_from(op.mode, rest % padded, beginning(i), shape[i])?;
            from += position * outer[i].stride as usize;
            rest /= padded;
        }
        Some(from * run)
    };
    threads::for_each_piece(output, row, cost::<T>(row), |first, piece| {
        for (i, output) in piece.chunks_exact_mut(row).enumerate() {
            let Some(from) = from(first + i) else {
                looks::fill(output, value);
                continue;
            };
            let input = &input[from..][..size * run];
            looks::copy(input, &mut output[before * run..][..size * run]);
            for sides in [0..before, before + size..row / run] {
                if op.mode == PaddingMode::Constant {
                    looks::fill(&mut output[sides.start * run..sides.end * run], value);
                    continue;
                }
                sides.looking_if_long(run).for_each(|position| {
                    let output = &mut output[position * run..][..run];
                    match padded_from(op.mode, position, before, size) {
                        Some(position) => looks::copy(&input[position * run..][..run], output),
                        None => looks::fill(output, value),
                    }
                });
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};
    use half::f16;

    /// What an operator makes of the elements 0, 1, 2, … of an input, for all sizes of elements.
    fn check(operator: &str, shape: &[u32], values: &[Value], expected: &[&[u8]]) {
        let count = shape.iter().product::<u32>() as u8;
        let mut all = vec![Operand(OperandId(0))];
        all.extend_from_slice(values);
        macro_rules! of {
            ($T:ty, $make:expr) => {
                let outputs = run(operator, &[Tensor::of(shape, (0..count).map($make))], all.clone());
                assert_eq!(outputs.len(), expected.len());
                for (output, &expected) in outputs.iter().zip(expected) {
                    let expected: Vec<$T> = expected.iter().copied().map($make).collect();
                    assert_eq!(output.elements::<$T>(), expected, "{operator}");
                }
            };
        }
        of!(u8, |x| x);
        of!(f16, |x| f16::from_f32(x as f32));
        of!(f32, |x| x as f32);
        of!(i64, |x| x as i64);
    }

    #[test]
    fn copies_with_strides() {
        let list = |list: &[u32]| UnsignedList(list.to_vec());
        check("expand", &[2, 1], &[list(&[2, 2, 3])], &[&[0, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1]]);
        check("expand", &[], &[list(&[3])], &[&[0, 0, 0]]);
        check("expand", &[1, 2], &[list(&[2, 2])], &[&[0, 1, 0, 1]]);
        check("reshape", &[2, 3], &[list(&[3, 1, 2])], &[&[0, 1, 2, 3, 4, 5]]);
        check("reverse", &[2, 3], &[], &[&[5, 4, 3, 2, 1, 0]]);
        check("reverse", &[2, 3], &[list(&[1])], &[&[2, 1, 0, 5, 4, 3]]);
        check("reverse", &[2, 3], &[list(&[])], &[&[0, 1, 2, 3, 4, 5]]);
        check("slice", &[3, 4], &[list(&[1, 0]), list(&[2, 4]), list(&[1, 3])], &[&[4, 7, 8, 11]]);
        check("slice", &[3, 4], &[list(&[1, 3]), list(&[1, 1]), list(&[u32::MAX, 9])], &[&[7]]);
        check("slice", &[], &[list(&[]), list(&[])], &[&[0]]);
        check("split", &[2, 4], &[Unsigned(2), Unsigned(1)], &[&[0, 1, 4, 5], &[2, 3, 6, 7]]);
        check("split", &[2, 3], &[list(&[1, 2]), Unsigned(1)], &[&[0, 3], &[1, 2, 4, 5]]);
        check("tile", &[2, 2], &[list(&[1, 2])], &[&[0, 1, 0, 1, 2, 3, 2, 3]]);
        check("tile", &[2, 1], &[list(&[2, 2])], &[&[0, 0, 1, 1, 0, 0, 1, 1]]);
        check("transpose", &[2, 3], &[], &[&[0, 3, 1, 4, 2, 5]]);
        check("transpose", &[2, 2, 3], &[list(&[1, 0, 2])], &[&[0, 1, 2, 6, 7, 8, 3, 4, 5, 9, 10, 11]]);
        check("transpose", &[2, 2, 3], &[list(&[0, 2, 1])], &[&[0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11]]);
        check("transpose", &[1; 8], &[], &[&[0]]);
    }

    #[test]
    fn large_copies_are_divided() {
        let shape = [3, 70, 130];
        let input: Vec<u32> = (0..3 * 70 * 130).collect();
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let values = vec![Operand(OperandId(0)), UnsignedList(vec![0, 2, 1])];
        let outputs = pool.install(|| run("transpose", &[Tensor::of(&shape, input.clone())], values));
        let output = outputs[0].elements::<u32>();
        for plane in 0..3 {
            for row in 0..130 {
                for column in 0..70 {
                    assert_eq!(output[(plane * 130 + row) * 70 + column], input[(plane * 70 + column) * 130 + row]);
                }
            }
        }
    }

    #[test]
    fn concat() {
        let inputs = [Tensor::of(&[2, 1], [1u8, 2]), Tensor::of(&[2, 2], [3u8, 4, 5, 6]), Tensor::of(&[2, 1], [7u8, 8])];
        let operands = || Operands((0..3).map(OperandId).collect());
        let outputs = run("concat", &inputs, vec![operands(), Unsigned(1)]);
        assert_eq!(outputs[0].elements::<u8>(), [1, 3, 4, 7, 2, 5, 6, 8]);
        let inputs = [Tensor::of(&[1, 2], [1u8, 2]), Tensor::of(&[2, 2], [3u8, 4, 5, 6]), Tensor::of(&[1, 2], [7u8, 8])];
        let outputs = run("concat", &inputs, vec![operands(), Unsigned(0)]);
        assert_eq!(outputs[0].elements::<u8>(), [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn pad() {
        let pad = |shape: &[u32], beginning: &[u32], ending: &[u32], options: &[Value], expected: &[u8]| {
            let mut values = vec![UnsignedList(beginning.to_vec()), UnsignedList(ending.to_vec())];
            values.extend_from_slice(options);
            check("pad", shape, &values, &[expected]);
        };
        let nine = Number(crate::graph::Number::Integer(9));
        pad(&[2, 2], &[1, 0], &[0, 2], &[Absent, nine.clone()], &[9, 9, 9, 9, 0, 1, 9, 9, 2, 3, 9, 9]);
        pad(&[2, 2], &[0, 0], &[0, 0], &[], &[0, 1, 2, 3]);
        pad(&[], &[], &[], &[], &[0]);
        // The last dimension is not padded.
        pad(&[1, 2], &[1, 0], &[1, 0], &[Absent, nine], &[9, 9, 0, 1, 9, 9]);
        pad(&[2, 2], &[0, 1], &[1, 2], &[Enumeration(1)], &[0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 2, 2, 3, 3, 3]);
        pad(&[2, 3], &[1, 2], &[0, 1], &[Enumeration(2)], &[5, 4, 3, 4, 5, 4, 2, 1, 0, 1, 2, 1, 5, 4, 3, 4, 5, 4]);
        pad(&[3, 1], &[2, 0], &[2, 0], &[Enumeration(2)], &[2, 1, 0, 1, 2, 1, 0]);
    }

    #[test]
    fn triangular() {
        let nine = |upper: bool, diagonal: i32, expected: &[u8]| {
            check("triangular", &[3, 3], &[Boolean(upper), Signed(diagonal)], &[expected]);
        };
        nine(true, 0, &[0, 1, 2, 0, 4, 5, 0, 0, 8]);
        nine(true, 1, &[0, 1, 2, 0, 0, 5, 0, 0, 0]);
        nine(true, -1, &[0, 1, 2, 3, 4, 5, 0, 7, 8]);
        nine(true, i32::MAX, &[0; 9]);
        nine(false, 0, &[0, 0, 0, 3, 4, 0, 6, 7, 8]);
        nine(false, 1, &[0, 1, 0, 3, 4, 5, 6, 7, 8]);
        nine(false, -1, &[0, 0, 0, 3, 0, 0, 6, 7, 0]);
        nine(false, i32::MIN, &[0; 9]);
        check("triangular", &[2, 1, 2], &[], &[&[0, 1, 2, 3]]);
        check("triangular", &[2, 2, 1], &[], &[&[0, 0, 2, 0]]);
    }
}
