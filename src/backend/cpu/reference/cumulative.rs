//! Running sums and products.

use super::arithmetic::{Accumulate, Total};
use super::reduce::Product;
use crate::backend::cpu::element::{Element, Float, with_element, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::strided::Axis;
use crate::graph::ops::cumulative::{CumulativeProduct, CumulativeSum};
use crate::looks::Looking;

pub fn cumulative_sum(op: &CumulativeSum, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let axis = Axis::new(input.shape, op.axis.0);
    with_element!(input.data_type, T => {
        let [exclusive, reversed] = [op.exclusive, op.reversed];
        let sums = Scan { exclusive, reversed, none: <T as Accumulate>::Total::ZERO, lift: T::widen, combine: Total::plus, finish: T::narrow };
        sums.run(input.elements(), axis, output.elements());
    });
}

pub fn cumulative_product(op: &CumulativeProduct, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let axis = Axis::new(input.shape, op.axis.0);
    let [exclusive, reversed] = [op.exclusive, op.reversed];
    if input.data_type.is_float() {
        return with_float!(input.data_type, T => {
            let (lift, finish) = (|x: T| Product::of(x.to_f64()), |product: Product| T::from_f64(product.value()));
            let products = Scan { exclusive, reversed, none: Product::of(1.0), lift, combine: Product::times, finish };
            products.run(input.elements(), axis, output.elements());
        });
    }
    with_element!(input.data_type, T => {
        let products = Scan { exclusive, reversed, none: <T as Accumulate>::Total::ONE, lift: T::widen, combine: Total::times, finish: T::narrow };
        products.run(input.elements(), axis, output.elements());
    });
}

/// What is done to the elements of a line, one after the other.
struct Scan<A, L, C, F> {
    exclusive: bool,
    reversed: bool,
    /// What there is before the first element.
    none: A,
    lift: L,
    combine: C,
    finish: F,
}

impl<A: Copy + Send + Sync, L: Sync, C: Sync, F: Sync> Scan<A, L, C, F> {
    fn run<T: Element>(&self, input: &[T], axis: Axis, output: &mut [T])
    where
        L: Fn(T) -> A,
        C: Fn(A, A) -> A,
        F: Fn(A) -> T,
    {
        let block = axis.size * axis.run;
        if axis.run == 1 {
            return for_each_piece(output, block, block, |first, piece| {
                let input = &input[first * block..][..piece.len()];
                // An element waits for the one before it, but not for those of other lines.
                let together = piece.len() / (LINES * block) * LINES * block;
                let (output, rest) = piece.split_at_mut(together);
                self.lines::<T, LINES>(block, &input[..together], output);
                self.lines::<T, 1>(block, &input[together..], rest);
            });
        }
        for_each_piece(output, block, block, |first, piece| {
            let mut totals = scratch::filled(self.none, axis.run);
            for (output, input) in piece.chunks_exact_mut(block).zip(input[first * block..].chunks_exact(block)) {
                totals.fill(self.none);
                (0..axis.size).looking(axis.run).for_each(|i| {
                    let position = if self.reversed { axis.size - 1 - i } else { i };
                    let row = position * axis.run..(position + 1) * axis.run;
                    let elements = output[row.clone()].iter_mut().zip(&input[row]).zip(&mut totals);
                    elements.looking_if_long(1).for_each(|((output, &x), total)| {
                        *output = self.next(total, x);
                    });
                });
            }
        });
    }

    /// Combines contiguous lines of so many elements, so many lines at a time; their number is divisible by that.
    fn lines<T: Element, const COUNT: usize>(&self, length: usize, input: &[T], output: &mut [T])
    where
        L: Fn(T) -> A,
        C: Fn(A, A) -> A,
        F: Fn(A) -> T,
    {
        let groups = output.chunks_exact_mut(COUNT * length).zip(input.chunks_exact(COUNT * length));
        for (output, input) in groups {
            let mut totals = [self.none; COUNT];
            (0..length).looking_if_long(COUNT).for_each(|i| {
                let position = if self.reversed { length - 1 - i } else { i };
                for (line, total) in totals.iter_mut().enumerate() {
                    let place = line * length + position;
                    output[place] = self.next(total, input[place]);
                }
            });
        }
    }

    /// The result at the place of an element, with which the total goes on.
    fn next<T>(&self, total: &mut A, x: T) -> T
    where
        L: Fn(T) -> A,
        C: Fn(A, A) -> A,
        F: Fn(A) -> T,
    {
        let before = *total;
        *total = (self.combine)(before, (self.lift)(x));
        (self.finish)(if self.exclusive { before } else { *total })
    }
}

/// Lines that are combined side by side. More of them may displace each other from the first-level cache.
const LINES: usize = 4;

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    fn sums<T: Element>(input: Tensor, axis: u32, exclusive: bool, reversed: bool) -> Vec<T> {
        scan("cumulativeSum", input, axis, exclusive, reversed)
    }

    fn scan<T: Element>(name: &str, input: Tensor, axis: u32, exclusive: bool, reversed: bool) -> Vec<T> {
        let options = [Value::Unsigned(axis), Value::Boolean(exclusive), Value::Boolean(reversed)];
        let values = [Value::Operand(OperandId(0))].into_iter().chain(options).collect();
        run(name, &[input], values)[0].elements()
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
    fn products_are_finite_where_parts_are_not() {
        let products = |input, exclusive, reversed| scan::<f32>("cumulativeProduct", input, 0, exclusive, reversed);
        let input = || Tensor::of(&[4], [1e-30f32, 1e-30, 1e30, 1e30]);
        let near = |found: &[f32], expected: &[f32]| {
            found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| a == b || (a / b - 1.0).abs() < 1e-6)
        };
        assert!(near(&products(input(), false, false), &[1e-30, 0.0, 1e-30, 1.0]));
        assert!(near(&products(input(), false, true), &[1.0, 1e30, f32::INFINITY, 1e30]));
        assert!(near(&products(input(), true, false), &[1.0, 1e-30, 0.0, 1e-30]));
        // Beyond float64, too.
        let long: Vec<f32> = [1e30; 20].into_iter().chain([1e-30; 20]).collect();
        assert!(near(&products(Tensor::of(&[40], long), false, false)[39..], &[1.0]));
        assert_eq!(
            scan::<i32>("cumulativeProduct", Tensor::of(&[2, 3], [1, 2, 3, 4, 5, 6]), 1, false, false),
            [1, 2, 6, 4, 20, 120]
        );
        assert_eq!(
            scan::<i32>("cumulativeProduct", Tensor::of(&[2, 3], [1, 2, 3, 4, 5, 6]), 0, false, true),
            [4, 10, 18, 4, 5, 6]
        );
        assert_eq!(scan::<u32>("cumulativeProduct", Tensor::of(&[2], [1u32 << 31, 3]), 0, false, false), [1 << 31, 1 << 31]);
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
