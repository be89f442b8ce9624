//! Operators that read elements at places which other operands name.

use super::index::{Indices, index_of, place_of};
use crate::backend::cpu::copy::{cost, with_unit};
use crate::backend::cpu::threads;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::Axis;
use crate::graph::ops::check::CheckIndices;
use crate::graph::ops::gather::{Gather, GatherElements, GatherNd};
use crate::graph::{DataType, Op};
use crate::looks::{self, Looking};
use bytemuck::Pod;
use std::sync::atomic::{AtomicBool, Ordering};

/// Evaluates an expression with the list that indices are.
macro_rules! with_list {
    ($indices:expr, |$list:ident| $value:expr) => {
        match $indices {
            Indices::Int32($list) => $value,
            Indices::Uint32($list) => $value,
            Indices::Int64($list) => $value,
        }
    };
}

pub fn gather(op: &Gather, arguments: &mut Arguments<'_, '_>) {
    gather_as::<false>(op, arguments);
}

pub fn gather_elements(op: &GatherElements, arguments: &mut Arguments<'_, '_>) {
    gather_elements_as::<false>(op, arguments);
}

pub fn gather_nd(op: &GatherNd, arguments: &mut Arguments<'_, '_>) {
    gather_nd_as::<false>(op, arguments);
}

/// Whether an operator finds itself what a check of this input of it would find: it reads all indices, and may count them from the end.
pub fn checks(op: &Op, check: &CheckIndices, input: usize, shape: &[usize]) -> bool {
    let (indices, sizes) = match op {
        Op::Gather(op) => (op.indices, &shape[op.axis as usize..][..1]),
        Op::GatherElements(op) => (op.indices, &shape[op.axis as usize..][..1]),
        Op::GatherNd(op) => (op.indices, &shape[..check.sizes.len().min(shape.len())]),
        _ => return false,
    };
    let is_same = sizes.len() == check.sizes.len() && sizes.iter().zip(&check.sizes).all(|(&size, &own)| size == own as usize);
    check.from_end && indices.0 as usize == input && is_same
}

/// Runs of at least so many bytes are copied as bytes: as fast as elements, and from any address.
const LONG: usize = 64;

fn is_long(run: usize, data_type: DataType) -> bool {
    data_type.bits() >= 8 && run.saturating_mul(data_type.bits() / 8) >= LONG
}

/// Whether an operator reads this input, of this shape, at any address: a table in a file need not be copied for its alignment.
pub fn reads_any_address(op: &Op, input: usize, shape: &[usize], data_type: DataType) -> bool {
    matches!(op, Op::Gather(op) if op.input.0 as usize == input && is_long(Axis::new(shape, op.axis).run, data_type))
}

/// The same operators where an index that is out of range is no number of a place: whether there was none. The elements of others are not
/// written.
pub fn gather_checked(op: &Op, arguments: &mut Arguments<'_, '_>) -> bool {
    match op {
        Op::Gather(op) => gather_as::<true>(op, arguments),
        Op::GatherElements(op) => gather_elements_as::<true>(op, arguments),
        Op::GatherNd(op) => gather_nd_as::<true>(op, arguments),
        _ => unreachable!("others do not check"),
    }
}

fn gather_as<const CHECKED: bool>(op: &Gather, arguments: &mut Arguments<'_, '_>) -> bool {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let count = indices.element_count();
    let indices = Indices::new(indices);
    let axis = Axis::new(input.shape, op.axis);
    if axis.run == 1 {
        return gather_in_lines::<CHECKED>(input, arguments.output(), [axis.size, count], indices, 0);
    }
    gather_runs(input, arguments.output(), axis.run, |run| {
        let (outer, position) = (run / count, run % count);
        Some(outer * axis.size + indices.index::<CHECKED>(position, axis.size)?)
    })
}

fn gather_elements_as<const CHECKED: bool>(op: &GatherElements, arguments: &mut Arguments<'_, '_>) -> bool {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let (from, to) = (Axis::new(input.shape, op.axis), Axis::new(indices.shape, op.axis));
    let indices = Indices::new(indices);
    if from.run == 1 {
        return gather_in_lines::<CHECKED>(input, arguments.output(), [from.size, to.size], indices, to.size);
    }
    gather_in_rows::<CHECKED>(input, arguments.output(), from, to.size, indices)
}

fn gather_nd_as<const CHECKED: bool>(op: &GatherNd, arguments: &mut Arguments<'_, '_>) -> bool {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let &[.., coordinate_size] = indices.shape else { unreachable!("the indices' rank is at least 1") };
    let (dimensions, slice) = input.shape.split_at(coordinate_size);
    let indices = Indices::new(indices);
    let run = slice.iter().product();
    with_list!(indices, |list| {
        gather_runs(input, arguments.output(), run, |coordinate| place_of::<CHECKED, _>(list, coordinate, dimensions))
    })
}

/// Makes lines of the output of elements of the same lines of the input; the indices of a line lie so far behind those of the one
/// before. Whether no index was out of range.
fn gather_in_lines<const CHECKED: bool>(
    input: View<'_>,
    output: &mut ViewMut<'_>,
    lengths: [usize; 2],
    indices: Indices<'_>,
    distance: usize,
) -> bool {
    fn gather<const CHECKED: bool, T: Pod + Send + Sync, I: Copy + Sync + Into<i64>>(
        (input, output): (&[T], &mut [T]),
        [from, to]: [usize; 2],
        (indices, distance): (&[I], usize),
    ) -> bool {
        let within = AtomicBool::new(true);
        threads::for_each_piece(output, to, cost::<T>(to) + to, |first, piece| {
            let mut are_within = true;
            for (number, line) in (first..).zip(piece.chunks_exact_mut(to)) {
                let (input, indices) = (&input[number * from..][..from], &indices[number * distance..][..to]);
                line.iter_mut().zip(indices).looking_if_long(2).for_each(|(to, &index)| {
                    match index_of::<CHECKED>(index.into(), from) {
                        Some(place) => *to = input[place],
                        None => are_within = false,
                    }
                });
            }
            if !are_within {
                within.store(false, Ordering::Relaxed);
            }
        });
        within.into_inner()
    }
    with_unit!(input.data_type, T => {
        let units = (input.units::<T>(), output.units::<T>());
        with_list!(indices, |list| gather::<CHECKED, _, _>(units, lengths, (list, distance)))
    })
}

/// Makes rows along the dimensions after an axis, of which the output has so many for each place in those before it: each element is the one
/// above or below it in the input that its index says. Whether no index was out of range.
fn gather_in_rows<const CHECKED: bool>(
    input: View<'_>,
    output: &mut ViewMut<'_>,
    axis: Axis,
    rows: usize,
    indices: Indices<'_>,
) -> bool {
    fn gather<const CHECKED: bool, T: Pod + Send + Sync, I: Copy + Sync + Into<i64>>(
        (input, output): (&[T], &mut [T]),
        Axis { size, run, .. }: Axis,
        rows: usize,
        indices: &[I],
    ) -> bool {
        let within = AtomicBool::new(true);
        threads::for_each_piece(output, run, cost::<T>(run) + run, |first, piece| {
            let mut are_within = true;
            for (number, row) in (first..).zip(piece.chunks_exact_mut(run)) {
                let input = &input[number / rows * size * run..][..size * run];
                let elements = row.iter_mut().zip(&indices[number * run..][..run]).enumerate();
                elements.looking_if_long(2).for_each(|(column, (to, &index))| match index_of::<CHECKED>(index.into(), size) {
                    Some(place) => *to = input[place * run + column],
                    None => are_within = false,
                });
            }
            if !are_within {
                within.store(false, Ordering::Relaxed);
            }
        });
        within.into_inner()
    }
    with_unit!(input.data_type, T => {
        let units = (input.units::<T>(), output.units::<T>());
        with_list!(indices, |list| gather::<CHECKED, _, _>(units, axis, rows, list))
    })
}

/// Makes the output of runs of the input: run number `i` is the input's run number `from(i)`, if there is one. Whether there always was.
fn gather_runs(input: View<'_>, output: &mut ViewMut<'_>, run: usize, from: impl Fn(usize) -> Option<usize> + Sync) -> bool {
    fn gather<T: Pod + Send + Sync>(
        input: &[T],
        output: &mut [T],
        run: usize,
        from: impl Fn(usize) -> Option<usize> + Sync,
    ) -> bool {
        let within = AtomicBool::new(true);
        threads::for_each_piece(output, run, cost::<T>(run) + 4, |first, piece| {
            let mut are_within = true;
            if run == 1 {
                for (i, element) in piece.iter_mut().enumerate() {
                    match from(first + i) {
                        Some(place) => *element = input[place],
                        None => are_within = false,
                    }
                }
            } else {
                for (i, output) in piece.chunks_exact_mut(run).enumerate() {
                    match from(first + i) {
                        Some(place) => looks::copy(&input[place * run..][..run], output),
                        None => are_within = false,
                    }
                }
            }
            if !are_within {
                within.store(false, Ordering::Relaxed);
            }
        });
        within.into_inner()
    }
    if is_long(run, input.data_type) {
        return gather::<u8>(input.bytes(), output.bytes, run * (input.data_type.bits() / 8), from);
    }
    with_unit!(input.data_type, T => gather::<T>(input.units(), output.units(), run, from))
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::*;

    fn check(operator: &str, shape: &[u32], indices: (&[u32], &[i32]), axis: Option<u32>, expected: &[u8]) {
        let count = shape.iter().product::<u32>() as u8;
        let mut values = vec![Operand(OperandId(0)), Operand(OperandId(1))];
        values.extend(axis.map(Unsigned));
        let indices = Tensor::of(indices.0, indices.1.iter().copied());
        let bytes = run(operator, &[Tensor::of(shape, 0..count), indices.clone()], values.clone());
        assert_eq!(bytes[0].elements::<u8>(), expected, "{operator}");
        let wide = run(operator, &[Tensor::of(shape, (0..count).map(u64::from)), indices], values);
        assert_eq!(wide[0].elements::<u64>(), expected.iter().copied().map(u64::from).collect::<Vec<_>>(), "{operator}");
    }

    #[test]
    fn gather() {
        check("gather", &[3, 2], (&[2], &[2, 0]), None, &[4, 5, 0, 1]);
        check("gather", &[2, 3], (&[2, 2], &[0, 2, 1, 1]), Some(1), &[0, 2, 1, 1, 3, 5, 4, 4]);
        check("gather", &[4], (&[], &[-1]), None, &[3]);
        check("gather", &[2, 2], (&[4], &[-3, -2, 2, i32::MAX]), None, &[0, 1, 0, 1, 2, 3, 2, 3]);
    }

    #[test]
    fn gather_elements() {
        check("gatherElements", &[3, 2], (&[2, 2], &[2, 0, 1, -1]), None, &[4, 1, 2, 5]);
        check("gatherElements", &[2, 2], (&[2, 3], &[0, 1, 9, 1, 1, -9]), Some(1), &[0, 1, 1, 3, 3, 2]);
        check("gatherElements", &[2, 2, 2], (&[2, 1, 2], &[0, 1, 1, 0]), Some(1), &[0, 3, 6, 5]);
    }

    #[test]
    fn gather_nd() {
        check("gatherND", &[2, 2], (&[3, 2], &[0, 0, 1, 1, 1, 0]), None, &[0, 3, 2]);
        check("gatherND", &[2, 2, 2], (&[2, 1], &[1, -2]), None, &[4, 5, 6, 7, 0, 1, 2, 3]);
        check("gatherND", &[2, 2, 2], (&[2, 2], &[0, 9, -9, 0]), None, &[2, 3, 0, 1]);
        check("gatherND", &[2, 3], (&[2], &[1, -1]), None, &[5]);
    }
}
