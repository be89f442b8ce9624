//! Operators that read elements at places which other operands name.

use super::index::{Indices, valid};
use crate::backend::cpu::copy::{cost, with_unit};
use crate::backend::cpu::threads;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::Axis;
use crate::graph::ops::gather::{Gather, GatherElements, GatherNd};
use bytemuck::Pod;

pub fn gather(op: &Gather, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let count = indices.element_count();
    let indices = Indices::new(indices);
    let axis = Axis::new(input.shape, op.axis);
    if axis.run == 1 {
        return gather_in_lines(input, arguments.output(), [axis.size, count], indices, 0);
    }
    gather_runs(input, arguments.output(), axis.run, |run| {
        let (outer, position) = (run / count, run % count);
        outer * axis.size + indices.at(position, axis.size)
    });
}

pub fn gather_elements(op: &GatherElements, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let (from, to) = (Axis::new(input.shape, op.axis), Axis::new(indices.shape, op.axis));
    let indices = Indices::new(indices);
    if from.run == 1 {
        return gather_in_lines(input, arguments.output(), [from.size, to.size], indices, to.size);
    }
    gather_runs(input, arguments.output(), 1, |element| from.place(element, to, indices.at(element, from.size)));
}

pub fn gather_nd(op: &GatherNd, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let &[.., coordinate_size] = indices.shape else { unreachable!("the indices' rank is at least 1") };
    let (dimensions, slice) = input.shape.split_at(coordinate_size);
    let indices = Indices::new(indices);
    gather_runs(input, arguments.output(), slice.iter().product(), |coordinate| indices.place(coordinate, dimensions));
}

/// Makes lines of the output of elements of the same lines of the input; the indices of a line lie so far behind those of the one
/// before.
fn gather_in_lines(input: View<'_>, output: &mut ViewMut<'_>, lengths: [usize; 2], indices: Indices<'_>, distance: usize) {
    fn gather<T: Pod + Send + Sync, I: Copy + Sync>(
        (input, output): (&[T], &mut [T]),
        [from, to]: [usize; 2],
        (indices, distance): (&[I], usize),
        place: impl Fn(I) -> usize + Sync,
    ) {
        threads::for_each_piece(output, to, cost::<T>(to) + to, |first, piece| {
            for (number, line) in (first..).zip(piece.chunks_exact_mut(to)) {
                let (input, indices) = (&input[number * from..][..from], &indices[number * distance..][..to]);
                line.iter_mut().zip(indices).for_each(|(to, &index)| *to = input[place(index)]);
            }
        });
    }
    let size = lengths[0];
    with_unit!(input.data_type, T => {
        let units = (input.units::<T>(), output.units::<T>());
        match indices {
            Indices::Int32(list) => gather(units, lengths, (list, distance), |index| valid(index.into(), size)),
            Indices::Uint32(list) => gather(units, lengths, (list, distance), |index| valid(index.into(), size)),
            Indices::Int64(list) => gather(units, lengths, (list, distance), |index| valid(index, size)),
        }
    })
}

/// Makes the output of runs of the input: run number `i` is the input's run number `from(i)`.
fn gather_runs(input: View<'_>, output: &mut ViewMut<'_>, run: usize, from: impl Fn(usize) -> usize + Sync) {
    fn gather<T: Pod + Send + Sync>(input: &[T], output: &mut [T], run: usize, from: impl Fn(usize) -> usize + Sync) {
        threads::for_each_piece(output, run, cost::<T>(run) + 4, |first, piece| {
            if run == 1 {
                for (i, element) in piece.iter_mut().enumerate() {
                    *element = input[from(first + i)];
                }
            } else {
                for (i, output) in piece.chunks_exact_mut(run).enumerate() {
                    output.copy_from_slice(&input[from(first + i) * run..][..run]);
                }
            }
        });
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
