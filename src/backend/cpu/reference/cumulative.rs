//! Running sums.

use super::arithmetic::{Accumulate, Total};
use crate::backend::cpu::element::with_element;
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::strided::Axis;
use crate::graph::ops::cumulative::CumulativeSum;

pub fn cumulative_sum(op: &CumulativeSum, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let axis = Axis::new(input.shape, op.axis.0);
    with_element!(input.data_type, T => typed::<T>(op, input.elements(), axis, output.elements()));
}

fn typed<T: Accumulate>(op: &CumulativeSum, input: &[T], axis: Axis, output: &mut [T]) {
    let block = axis.size * axis.run;
    if axis.run == 1 {
        return for_each_piece(output, block, block, |first, piece| {
            let input = &input[first * block..][..piece.len()];
            // A sum waits for the one before it, but not for those of other lines.
            let together = piece.len() / (LINES * block) * LINES * block;
            let (output, rest) = piece.split_at_mut(together);
            lines::<T, LINES>(op, block, &input[..together], output);
            lines::<T, 1>(op, block, &input[together..], rest);
        });
    }
    for_each_piece(output, block, block, |first, piece| {
        let mut totals = scratch::filled(T::Total::ZERO, axis.run);
        for (output, input) in piece.chunks_exact_mut(block).zip(input[first * block..].chunks_exact(block)) {
            totals.fill(T::Total::ZERO);
            for i in 0..axis.size {
                let position = if op.reversed { axis.size - 1 - i } else { i };
                let row = position * axis.run..(position + 1) * axis.run;
                for ((output, &x), total) in output[row.clone()].iter_mut().zip(&input[row]).zip(&mut totals) {
                    let before = *total;
                    *total = before.plus(x.widen());
                    *output = T::narrow(if op.exclusive { before } else { *total });
                }
            }
        }
    });
}

/// Lines that are summed side by side. More of them may displace each other from the first-level cache.
const LINES: usize = 4;

/// The sums of contiguous lines of so many elements, so many lines at a time; their number is divisible by that.
fn lines<T: Accumulate, const COUNT: usize>(op: &CumulativeSum, length: usize, input: &[T], output: &mut [T]) {
    let groups = output.chunks_exact_mut(COUNT * length).zip(input.chunks_exact(COUNT * length));
    for (output, input) in groups {
        let mut totals = [T::Total::ZERO; COUNT];
        for i in 0..length {
            let position = if op.reversed { length - 1 - i } else { i };
            for (line, total) in totals.iter_mut().enumerate() {
                let (place, before) = (line * length + position, *total);
                *total = before.plus(input[place].widen());
                output[place] = T::narrow(if op.exclusive { before } else { *total });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    fn sums<T: Element>(input: Tensor, axis: u32, exclusive: bool, reversed: bool) -> Vec<T> {
        let options = [Value::Unsigned(axis), Value::Boolean(exclusive), Value::Boolean(reversed)];
        let values = [Value::Operand(OperandId(0))].into_iter().chain(options).collect();
        run("cumulativeSum", &[input], values)[0].elements()
    }

    #[test]
    fn every_direction() {
        let input = || Tensor::of(&[4], [1, 2, 3, 4]);
        assert_eq!(sums::<i32>(input(), 0, false, false), [1, 3, 6, 10]);
        assert_eq!(sums::<i32>(input(), 0, true, false), [0, 1, 3, 6]);
        assert_eq!(sums::<i32>(input(), 0, false, true), [10, 9, 7, 4]);
        assert_eq!(sums::<i32>(input(), 0, true, true), [9, 7, 4, 0]);
        let input = || Tensor::of(&[2, 2, 2], [1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        assert_eq!(sums::<f32>(input(), 0, false, false), [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0]);
        assert_eq!(sums::<f32>(input(), 1, false, false), [1.0, 2.0, 4.0, 6.0, 5.0, 6.0, 12.0, 14.0]);
        assert_eq!(sums::<f32>(input(), 2, true, true), [2.0, 0.0, 4.0, 0.0, 6.0, 0.0, 8.0, 0.0]);
        assert_eq!(sums::<u64>(Tensor::of(&[2], [u64::MAX, 2]), 0, false, false), [u64::MAX, 1]);
    }

    #[test]
    fn lines_side_by_side_are_those_of_one() {
        let length = 5;
        for lines in [1, 3, 4, 11] {
            let numbers: Vec<f32> = (0..lines * length).map(|i| (i * 37 % 23) as f32 / 8.0 - 1.0).collect();
            for (exclusive, reversed) in [(false, false), (false, true), (true, false), (true, true)] {
                let found: Vec<f32> = sums(Tensor::of(&[lines as u32, length as u32], numbers.clone()), 1, exclusive, reversed);
                for (found, numbers) in found.chunks(length).zip(numbers.chunks(length)) {
                    let expected = (0..length).map(|i| {
                        let range = match (exclusive, reversed) {
                            (false, false) => 0..i + 1,
                            (true, false) => 0..i,
                            (false, true) => i..length,
                            (true, true) => i + 1..length,
                        };
                        numbers[range].iter().sum::<f32>()
                    });
                    assert!(found.iter().copied().eq(expected), "{lines} lines: {found:?} of {numbers:?}");
                }
            }
        }
    }
}
