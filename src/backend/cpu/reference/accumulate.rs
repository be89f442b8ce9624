//! Operators that combine updates with the elements at places which other operands name, one after the other.

use super::arithmetic::Arithmetic;
use super::index::Indices;
use crate::backend::cpu::copy::with_unit;
use crate::backend::cpu::element::with_element;
use crate::backend::cpu::scratch;
use crate::backend::cpu::view::{Arguments, View, ViewMut};
use crate::backend::strided::Strided;
use crate::graph::DataType;
use crate::graph::ops::accumulate::{AccumulateElements, AccumulateNd, Accumulation};
use crate::graph::shape::strides;
use half::f16;

pub fn accumulate_elements(op: &AccumulateElements, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let updates = arguments.input(op.updates);
    let (axis, shape) = (op.axis as usize, indices.shape);
    let (size, strides) = (input.shape[axis], strides(input.shape));
    let indices = Indices::new(indices);
    // The position of an update, and where that is in the input but for the axis.
    let mut position = vec![0; shape.len()];
    let mut beside = 0;
    let to = move |number| {
        let place = beside + indices.at(number, size) * strides[axis];
        for d in (0..shape.len()).rev() {
            let step = if d == axis { 0 } else { strides[d] };
            position[d] += 1;
            beside += step;
            if position[d] < shape[d] {
                break;
            }
            beside -= step * shape[d];
            position[d] = 0;
        }
        place
    };
    accumulate(op.reduction, input, updates, arguments.output(), 1, to);
}

pub fn accumulate_nd(op: &AccumulateNd, arguments: &mut Arguments<'_, '_>) {
    let (input, indices) = (arguments.input(op.input), arguments.input(op.indices));
    let updates = arguments.input(op.updates);
    let &[.., coordinate_size] = indices.shape else { unreachable!("the indices' rank is at least 1") };
    let (dimensions, slice) = input.shape.split_at(coordinate_size);
    let indices = Indices::new(indices);
    let to = |coordinate| indices.place(coordinate, dimensions);
    accumulate(op.reduction, input, updates, arguments.output(), slice.iter().product(), to);
}

/// Combines the input with each run of the updates: number `i` with run number `to(i)`, which is asked for in order.
fn accumulate(
    reduction: Accumulation,
    input: View<'_>,
    updates: View<'_>,
    output: &mut ViewMut<'_>,
    run: usize,
    to: impl FnMut(usize) -> usize,
) {
    if input.data_type == DataType::Float16 {
        // In float32, and rounded once.
        let elements = input.elements::<f16>();
        let mut totals = scratch::collected(elements.len(), elements.iter().map(|x| x.to_f32()));
        combine_all(reduction, &mut totals, updates.elements(), f16::to_f32, run, to);
        output.elements().iter_mut().zip(totals).for_each(|(output, total)| *output = f16::from_f32(total));
        return;
    }
    with_unit!(input.data_type, T => Strided::dense(input.shape).copy(input.units::<T>(), output.units::<T>()));
    with_element!(input.data_type, T => combine_all(reduction, output.elements::<T>(), updates.elements(), |x: T| x, run, to));
}

fn combine_all<T: Arithmetic, U: Copy>(
    reduction: Accumulation,
    totals: &mut [T],
    updates: &[U],
    widen: impl Fn(U) -> T,
    run: usize,
    to: impl FnMut(usize) -> usize,
) {
    match reduction {
        Accumulation::Add => combine(totals, updates, |total, x| total.add(widen(x)), run, to),
        Accumulation::Mul => combine(totals, updates, |total, x| total.mul(widen(x)), run, to),
        Accumulation::Max => combine(totals, updates, |total, x| Arithmetic::max(total, widen(x)), run, to),
        Accumulation::Min => combine(totals, updates, |total, x| Arithmetic::min(total, widen(x)), run, to),
    }
}

fn combine<T: Copy, U: Copy>(
    totals: &mut [T],
    updates: &[U],
    combine: impl Fn(T, U) -> T,
    run: usize,
    mut to: impl FnMut(usize) -> usize,
) {
    for (i, update) in updates.chunks_exact(run).enumerate() {
        let totals = &mut totals[to(i) * run..][..run];
        totals.iter_mut().zip(update).for_each(|(total, &x)| *total = combine(*total, x));
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::{Enumerated, Value};
    use crate::graph::ops::accumulate::Accumulation;
    use half::f16;

    fn found<T: Element>(operator: &str, operands: [Tensor; 3], axis: Option<u32>, reduction: Accumulation) -> Vec<T> {
        let mut values: Vec<_> = (0..3).map(|i| Value::Operand(OperandId(i))).collect();
        values.extend(axis.map(Value::Unsigned));
        values.push(Value::Enumeration(reduction.index()));
        run(operator, &operands, values)[0].elements()
    }

    #[test]
    fn updates_of_one_place_are_combined_in_their_order() {
        let (inf, nan) = (f32::INFINITY, f32::NAN);
        // 1e8 takes the 1 away where it comes before -1e8.
        let operands =
            |updates: [f32; 3]| [Tensor::of(&[3], [0.0f32, inf, nan]), Tensor::of(&[3], [0i32, 0, 0]), Tensor::of(&[3], updates)];
        let sum = |updates| found::<f32>("accumulateElements", operands(updates), Some(0), Accumulation::Add);
        assert_eq!(sum([1e8, 1.0, -1e8])[..2], [0.0, inf]);
        assert_eq!(sum([1e8, -1e8, 1.0])[..2], [1.0, inf]);
        assert!(sum([0.0; 3])[2].is_nan());
        let extreme = |reduction| found::<f32>("accumulateElements", operands([2.0, nan, 1.0]), Some(0), reduction);
        assert!(extreme(Accumulation::Max)[0].is_nan() && extreme(Accumulation::Min)[0].is_nan());
    }

    #[test]
    fn elements() {
        let operands =
            || [Tensor::of(&[2, 3], 0..6i64), Tensor::of(&[1, 4], [2i64, -1, 9, 0]), Tensor::of(&[1, 4], [10i64, -20, 30, 40])];
        let of = |reduction| found::<i64>("accumulateElements", operands(), Some(1), reduction);
        assert_eq!(of(Accumulation::Add), [40, 1, 22, 3, 4, 5]);
        assert_eq!(of(Accumulation::Mul), [0, 1, -12000, 3, 4, 5]);
        assert_eq!(of(Accumulation::Max), [40, 1, 30, 3, 4, 5]);
        assert_eq!(of(Accumulation::Min), [0, 1, -20, 3, 4, 5]);
        // A corner of the input, along the first axis.
        let corner =
            [Tensor::of(&[3, 3], [0u8; 9]), Tensor::of(&[2, 2], [2i32, 0, 2, 1]), Tensor::of(&[2, 2], [200u8, 1, 100, 2])];
        assert_eq!(found::<u8>("accumulateElements", corner, Some(0), Accumulation::Add), [0, 1, 0, 0, 2, 0, 44, 0, 0]);
    }

    #[test]
    fn slices() {
        let operands = [Tensor::of(&[2, 2], 1..5i32), Tensor::of(&[3, 1], [1i32, 1, -2]), Tensor::of(&[3, 2], 1..7i32)];
        assert_eq!(found::<i32>("accumulateND", operands, None, Accumulation::Add), [6, 8, 7, 10]);
    }

    #[test]
    fn float16_is_rounded_once() {
        let halves = |shape: &[u32], x: &[f32]| Tensor::of(shape, x.iter().map(|&x| f16::from_f32(x)));
        let operands = [halves(&[1], &[65504.0]), Tensor::of(&[3, 1], [0i32; 3]), halves(&[3], &[65504.0, -65504.0, -1.0])];
        assert_eq!(found::<f16>("accumulateND", operands, None, Accumulation::Add), [f16::from_f32(65504.0)]);
    }
}
