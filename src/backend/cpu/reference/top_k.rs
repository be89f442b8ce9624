//! The extreme elements of lines, in order.

use crate::backend::cpu::element::{Element, with_element};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::backend::strided::Axis;
use crate::graph::ops::top_k::TopK;
use crate::looks::{self, Looking};
use half::f16;

/// Nanoseconds that an element takes.
const COST: usize = 4;

pub fn top_k(op: &TopK, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let [values, indices] = arguments.outputs() else { unreachable!("there are two outputs") };
    let axis = Axis::new(input.shape, op.axis);
    let count = op.count as usize;
    with_element!(input.data_type, T => {
        let input = input.elements::<T>();
        find(input, axis, count, op.largest, indices.elements());
        take(input, axis, count, indices.elements(), values.elements());
    });
}

/// An element's rank among those of its type: greater elements have greater ranks, equal ones the same, and NaN the greatest.
trait Ranked: Element {
    /// A rank and a position after it, as one number.
    type Place: Copy + Ord;

    fn place(self, position: u32, largest: bool) -> Self::Place;
    fn position(place: Self::Place) -> u32;
}

fn rank_of_f32(x: f32) -> u32 {
    if x.is_nan() {
        return u32::MAX;
    }
    // -0 becomes 0.
    let bits = (x + 0.0).to_bits();
    if bits >> 31 == 1 { !bits } else { bits | 1 << 31 }
}

macro_rules! ranked {
    ($( $T:ty, $Rank:ty, $Place:ty, $rank:expr; )*) => { $(
        impl Ranked for $T {
            type Place = $Place;

            fn place(self, position: u32, largest: bool) -> $Place {
                let rank: $Rank = $rank(self);
                let rank = if largest { !rank } else { rank };
                <$Place>::from(rank) << 32 | <$Place>::from(position)
            }

            fn position(place: $Place) -> u32 {
                place as u32
            }
        }
    )* };
}

ranked! {
    f32, u32, u64, rank_of_f32;
    f16, u32, u64, |x: f16| rank_of_f32(x.to_f32());
    i8, u32, u64, |x: i8| (x as i32 as u32) ^ 1 << 31;
    u8, u32, u64, u32::from;
    i32, u32, u64, |x: i32| (x as u32) ^ 1 << 31;
    u32, u32, u64, |x: u32| x;
    i64, u64, u128, |x: i64| (x as u64) ^ 1 << 63;
    u64, u64, u128, |x: u64| x;
}

/// The positions of the best elements of each line.
fn find<T: Ranked>(input: &[T], axis: Axis, count: usize, largest: bool, output: &mut [i64]) {
    let (block, block_of_output) = (axis.size * axis.run, count * axis.run);
    for_each_piece(output, block_of_output, block * COST, |first, piece| {
        let room = (2 * count).min(axis.size);
        let mut best = scratch::collected(room, []);
        let blocks = input[first * block..].chunks_exact(block);
        for (positions, block) in piece.chunks_exact_mut(block_of_output).zip(blocks) {
            for column in 0..axis.run {
                choose(block[column..].iter().step_by(axis.run).copied(), count, largest, &mut best, room);
                best.iter().enumerate().looking_if_long(1).for_each(|(row, &place)| {
                    positions[row * axis.run + column] = T::position(place).into();
                });
            }
        }
    });
}

/// The best elements of a line. So many candidates are collected that half of them or so are left out at a time, which takes
/// time linear in the line; then the best ones are put in order.
fn choose<T: Ranked>(line: impl Iterator<Item = T>, count: usize, largest: bool, best: &mut Vec<T::Place>, room: usize) {
    best.clear();
    let mut last = None;
    for (position, x) in (0..).zip(line).looking(COST) {
        let place = x.place(position, largest);
        if last.is_some_and(|last| place > last) {
            continue;
        }
        best.push(place);
        if best.len() == room && count < room {
            last = Some(*looks::select_nth_unstable(best, count - 1));
            best.truncate(count);
        }
    }
    looks::sort_unstable(best);
    best.truncate(count);
}

/// The elements at positions along the axis.
fn take<T: Element>(input: &[T], axis: Axis, count: usize, positions: &[i64], output: &mut [T]) {
    let (block, block_of_output) = (axis.size * axis.run, count * axis.run);
    for_each_piece(output, block_of_output, block_of_output, |first, piece| {
        let blocks =
            input[first * block..].chunks_exact(block).zip(positions[first * block_of_output..].chunks_exact(block_of_output));
        for (values, (block, positions)) in piece.chunks_exact_mut(block_of_output).zip(blocks) {
            values.iter_mut().zip(positions).enumerate().looking_if_long(1).for_each(|(i, (value, &position))| {
                *value = block[position as usize * axis.run + i % axis.run];
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value;

    fn top<T: Element>(input: Tensor, axis: u32, count: u32, largest: bool) -> (Vec<T>, Vec<i64>) {
        let values = vec![Value::Operand(OperandId(0)), Value::Unsigned(axis), Value::Unsigned(count), Value::Boolean(largest)];
        let outputs = run("topK", &[input], values);
        (outputs[0].elements(), outputs[1].elements())
    }

    #[test]
    fn not_a_number_is_the_greatest_and_no_place_comes_twice() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let input = || Tensor::of(&[8], [1.0, nan, -inf, -0.0, inf, 0.0, nan, -1.0]);
        assert_eq!(top::<f32>(input(), 0, 8, true).1, [1, 6, 4, 0, 3, 5, 7, 2]);
        assert_eq!(top::<f32>(input(), 0, 8, false).1, [2, 7, 3, 5, 0, 4, 1, 6]);
        for count in 1..8 {
            assert_eq!(top::<f32>(input(), 0, count, true).1, [1, 6, 4, 0, 3, 5, 7][..count as usize]);
        }
        assert!(top::<f32>(input(), 0, 4, false).0[2].is_sign_negative());
    }

    #[test]
    fn every_axis_and_the_ends_of_integers() {
        let input = || Tensor::of(&[2, 3], [i64::MIN, 5, i64::MAX, 7, 5, -1]);
        assert_eq!(top::<i64>(input(), 1, 2, true), (vec![i64::MAX, 5, 7, 5], vec![2, 1, 0, 1]));
        assert_eq!(top::<i64>(input(), 0, 1, false), (vec![i64::MIN, 5, -1], vec![0, 0, 1]));
        assert_eq!(top::<u8>(Tensor::of(&[3], [0u8, 255, 255]), 0, 2, true), (vec![255, 255], vec![1, 2]));
        assert_eq!(top::<i8>(Tensor::of(&[3], [0i8, -128, 127]), 0, 2, false), (vec![-128, 0], vec![1, 0]));
    }

    #[test]
    fn long_lines() {
        // Numbers that come up several times, in an order without a pattern.
        let numbers: Vec<i32> = (0..5000i64).map(|i| (i * i * 7919 % 2003) as i32).collect();
        for count in [1u32, 2, 100, 2499, 2500, 2501, 5000] {
            let mut order: Vec<i64> = (0..5000).collect();
            order.sort_by_key(|&i| std::cmp::Reverse(numbers[i as usize]));
            let (values, indices) = top::<i32>(Tensor::of(&[5000], numbers.iter().copied()), 0, count, true);
            assert_eq!(indices, order[..count as usize]);
            assert!(values.iter().zip(&indices).all(|(&value, &i)| value == numbers[i as usize]));
        }
    }
}
