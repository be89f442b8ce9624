//! Operators that replace elements at places which other operands name. Where two name the same place the later one holds.

use super::index::Indices;
use crate::backend::cpu::copy::with_unit;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::{Axis, Strided};
use crate::graph::ops::scatter::{ScatterElements, ScatterNd};
use crate::looks::{self, Looking};

pub fn scatter_elements(op: &ScatterElements, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let updates = arguments.input(op.updates);
    let (to, from) = (Axis::new(input.shape, op.axis), Axis::new(indices.shape, op.axis));
    let indices = Indices::new(indices);
    let to = |element| to.place(element, from, indices.at(element, to.size));
    scatter_runs(input, updates, arguments.output(), 1, to);
}

pub fn scatter_nd(op: &ScatterNd, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let updates = arguments.input(op.updates);
    let &[.., coordinate_size] = indices.shape else { unreachable!("the indices' rank is at least 1") };
    let (dimensions, slice) = input.shape.split_at(coordinate_size);
    let indices = Indices::new(indices);
    let to = |coordinate| indices.place(coordinate, dimensions);
    scatter_runs(input, updates, arguments.output(), slice.iter().product(), to);
}

/// Nanoseconds that an update takes beside its elements.
const COST: usize = 4;

/// Copies the input to the output, and then each run of the updates: number `i` to the output's run number `to(i)`.
fn scatter_runs(input: View<'_>, updates: View<'_>, output: &mut ViewMut<'_>, run: usize, to: impl Fn(usize) -> usize) {
    with_unit!(input.data_type, T => {
        let output = output.units::<T>();
        Strided::dense(input.shape).copy(input.units::<T>(), output);
        updates.units::<T>().chunks_exact(run).enumerate().looking(COST + run).for_each(|(i, update)| {
            looks::copy(update, &mut output[to(i) * run..][..run]);
        });
    })
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::*;

    /// Scatters 10, 11, 12, … over 0, 1, 2, ….
    fn check(operator: &str, shape: &[u32], indices: (&[u32], &[i64]), updates: &[u32], axis: Option<u32>, expected: &[u8]) {
        let count = |shape: &[u32]| shape.iter().product::<u32>() as u8;
        let mut values: Vec<_> = (0..3).map(|i| Operand(OperandId(i))).collect();
        values.extend(axis.map(Unsigned));
        let operands = [
            Tensor::of(shape, 0..count(shape)),
            Tensor::of(indices.0, indices.1.iter().copied()),
            Tensor::of(updates, (0..count(updates)).map(|x| x + 10)),
        ];
        assert_eq!(run(operator, &operands, values)[0].elements::<u8>(), expected, "{operator}");
    }

    #[test]
    fn scatter_elements() {
        check("scatterElements", &[3, 2], (&[2, 2], &[2, 0, 1, -1]), &[2, 2], None, &[0, 11, 12, 3, 10, 13]);
        check("scatterElements", &[2, 3], (&[2, 1], &[i64::MAX, i64::MIN]), &[2, 1], Some(1), &[0, 1, 10, 11, 4, 5]);
        check("scatterElements", &[2, 2, 2], (&[2, 1, 2], &[0, 1, 1, 0]), &[2, 1, 2], Some(1), &[10, 1, 2, 11, 4, 13, 12, 7]);
    }

    #[test]
    fn scatter_nd() {
        check("scatterND", &[8], (&[3, 1], &[4, -8, 9]), &[3], None, &[11, 1, 2, 3, 10, 5, 6, 12]);
        check("scatterND", &[3, 2], (&[2, 1], &[2, 0]), &[2, 2], None, &[12, 13, 2, 3, 10, 11]);
        check("scatterND", &[2, 2], (&[2], &[1, 0]), &[], None, &[0, 1, 10, 3]);
    }
}
