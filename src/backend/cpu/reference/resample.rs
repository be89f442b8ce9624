//! Resampling. Values are computed in `f64`.

use crate::backend::cpu::element::{Element, Float, with_element, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType;
use crate::graph::ops::resample::{InterpolationMode, Resample2d};
use crate::looks::{self, Looking};

/// For one position along an axis of the output, where its value lies in the input: between two elements (by their offsets),
/// so far from the first as `fraction` says.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Place {
    below: usize,
    above: usize,
    fraction: f64,
}

/// The places of all positions along an axis whose size changes from `input` to `output`, for elements `stride` apart.
fn places(mode: InterpolationMode, input: usize, output: usize, stride: usize) -> Vec<Place> {
    let place = |(below, fraction)| {
        let above = below + usize::from(fraction > 0.0);
        Place { below: below * stride, above: above * stride, fraction }
    };
    scratch::collected(output, mode.places(input, output).map(place))
}

/// An output with the places of the positions along each of its axes.
struct Grid {
    shape: [usize; 4],
    axes: [Vec<Place>; 4],
}

impl Grid {
    /// Calls `fill` for every row of the output, with the place of the row along the other axes.
    fn for_each_row<T: Element>(&self, output: &mut [T], cost: usize, fill: impl Fn([Place; 3], &mut [T]) + Sync) {
        let [_, channels, height, width] = self.shape;
        for_each_piece(output, width, width * cost, |first, piece| {
            for (i, row) in piece.chunks_exact_mut(width).enumerate() {
                let row_number = first + i;
                let position = [row_number / height / channels, row_number / height % channels, row_number % height];
                fill([0, 1, 2].map(|axis| self.axes[axis][position[axis]]), row);
            }
        });
    }

    /// Whether the elements of a row are consecutive ones of the input.
    fn keeps_rows(&self) -> bool {
        self.axes[3].iter().enumerate().all(|(i, place)| place.below == i && place.fraction == 0.0)
    }

    fn nearest<T: Element>(&self, input: &[T], output: &mut [T]) {
        let keeps_rows = self.keeps_rows();
        self.for_each_row(output, 1, |places, row| {
            let from = places.iter().map(|place| place.below).sum::<usize>();
            if keeps_rows {
                return looks::copy(&input[from..from + row.len()], row);
            }
            row.iter_mut().zip(&self.axes[3]).looking_if_long(1).for_each(|(output, place)| *output = input[from + place.below]);
        });
    }

    fn linear<T: Element>(
        &self,
        [y_axis, x_axis]: [usize; 2],
        input: &[T],
        output: &mut [T],
        to_f64: impl Fn(T) -> f64 + Sync,
        from_f64: impl Fn(f64) -> T + Sync,
    ) {
        self.for_each_row(output, 4, |[a, b, c], row| {
            row.iter_mut().zip(&self.axes[3]).looking_if_long(4).for_each(|(output, &d)| {
                let places = [a, b, c, d];
                let (y, x) = (places[y_axis], places[x_axis]);
                // Along the other two axes, positions are the input's own.
                let other = places.iter().map(|place| place.below).sum::<usize>() - y.below - x.below;
                let value = |y: usize, x: usize| to_f64(input[other + y + x]);
                // What has no share is not looked at: infinity times 0 is no number.
                let between = |fraction: f64, below: f64, above: &dyn Fn() -> f64| {
                    if fraction == 0.0 { below } else { below * (1.0 - fraction) + above() * fraction }
                };
                let along_x = |y| between(x.fraction, value(y, x.below), &|| value(y, x.above));
                *output = from_f64(between(y.fraction, along_x(y.below), &|| along_x(y.above)));
            });
        });
    }
}

pub fn resample2d(op: &Resample2d, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let mut interpolated = op.axes.map(|axis| axis as usize);
    interpolated.sort_unstable();
    let shape: [usize; 4] = output.shape.try_into().expect("the row demands rank 4");
    let axes = [0, 1, 2, 3].map(|axis| {
        let stride = input.shape[axis + 1..].iter().product();
        places(op.mode, input.shape[axis], shape[axis], stride)
    });
    let grid = Grid { shape, axes };
    match (op.mode, input.data_type) {
        (InterpolationMode::NearestNeighbor, data_type) => with_element!(data_type, T => {
            grid.nearest(input.elements::<T>(), output.elements::<T>());
        }),
        // How integers are rounded the specification does not say. To the nearest, ties to even, is how it casts numbers;
        // a mean of values of a type is never outside of it.
        (InterpolationMode::Linear, DataType::Uint8) => {
            grid.linear(interpolated, input.elements(), output.elements(), f64::from, |x| x.round_ties_even() as u8);
        }
        (InterpolationMode::Linear, DataType::Int8) => {
            grid.linear(interpolated, input.elements(), output.elements(), f64::from, |x| x.round_ties_even() as i8);
        }
        (InterpolationMode::Linear, data_type) => with_float!(data_type, T => {
            grid.linear(interpolated, input.elements::<T>(), output.elements::<T>(), T::to_f64, T::from_f64);
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};
    use half::f16;

    fn resample<T: Element>(shape: [u32; 4], input: impl IntoIterator<Item = T>, linear: bool, options: [Value; 3]) -> Vec<T> {
        let mut values = vec![Operand(OperandId(0)), Enumeration(linear as u32)];
        values.extend(options);
        run("resample2d", &[Tensor::of(&shape, input)], values)[0].elements()
    }

    fn sizes(height: u32, width: u32) -> [Value; 3] {
        [Absent, UnsignedList(vec![height, width]), Absent]
    }

    #[test]
    fn the_example_of_the_specification() {
        let rows = [[0.0f32, 1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 3.0], [12.0, 13.0, 14.0, 15.0], [12.0, 13.0, 14.0, 15.0]];
        let row = [0.0f32, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3.0];
        let expected: Vec<f32> = [0.0f32, 0.0, 0.0, 3.0, 9.0, 12.0, 12.0, 12.0].iter().flat_map(|y| row.map(|x| x + y)).collect();
        assert_eq!(resample([1, 1, 4, 4], rows.concat(), true, sizes(8, 8)), expected);
        let halves = rows.concat().into_iter().map(f16::from_f32);
        let expected: Vec<f16> = expected.into_iter().map(f16::from_f32).collect();
        assert_eq!(resample([1, 1, 4, 4], halves, true, sizes(8, 8)), expected);
    }

    #[test]
    fn nearest_elements() {
        let input = [1u8, 2, 3, 4];
        assert_eq!(resample([1, 1, 1, 4], input, false, sizes(1, 8)), [1, 1, 2, 2, 3, 3, 4, 4]);
        // In the middle between two elements, the lower one.
        assert_eq!(resample([1, 1, 1, 4], input, false, sizes(1, 2)), [1, 3]);
        assert_eq!(resample([1, 1, 1, 4], input, false, sizes(1, 1)), [2]);
        assert_eq!(resample([1, 1, 2, 2], input, false, sizes(4, 1)), [1, 1, 3, 3]);
        let scaled = [FloatList(vec![1.0, 1.9]), Absent, Absent];
        assert_eq!(resample([1, 1, 1, 4], input, false, scaled), [1, 1, 2, 2, 3, 4, 4]);
    }

    #[test]
    fn integers_are_rounded() {
        assert_eq!(resample([1, 1, 1, 2], [0u8, 255], true, sizes(1, 4)), [0, 64, 191, 255]);
        assert_eq!(resample([1, 1, 1, 2], [-128i8, 127], true, sizes(1, 4)), [-128, -64, 63, 127]);
        // 0.5 and 2.5 to the even neighbour.
        assert_eq!(resample([1, 1, 2, 2], [0u8, 1, 2, 3], true, sizes(2, 1)), [0, 2]);
    }

    #[test]
    fn any_two_axes_in_any_order() {
        let input: [f32; 6] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let mut shapes = vec![];
        for first in 0..4 {
            for second in (0..4).filter(|&axis| axis != first) {
                let mut shape = [1; 4];
                (shape[first], shape[second]) = (2, 3);
                let options = [Absent, UnsignedList(vec![1, 6]), UnsignedList(vec![first as u32, second as u32])];
                let found = resample(shape, input, true, options);
                let expected = if first < second {
                    [2.5, 2.75, 3.25, 3.75, 4.25, 4.5]
                } else {
                    // The same elements, as a matrix of three rows.
                    [1.5, 2.0, 3.0, 4.0, 5.0, 5.5]
                };
                assert_eq!(found, expected, "{shape:?}");
                shapes.push(shape);
            }
        }
        assert_eq!(shapes.len(), 12);
    }

    #[test]
    fn what_has_no_share_is_not_looked_at() {
        let infinity = f32::INFINITY;
        // The ends, and the middle of an odd number of elements, lie on elements.
        let found = resample([1, 1, 1, 3], [1.0f32, infinity, 3.0], true, sizes(1, 9));
        assert_eq!(found, [1.0, 1.0, infinity, infinity, infinity, infinity, infinity, 3.0, 3.0]);
        let found = resample([1, 1, 3, 1], [1.0f32, infinity, -infinity], true, sizes(3, 2));
        assert_eq!(found, [1.0, 1.0, infinity, infinity, -infinity, -infinity]);
    }

    #[test]
    fn places_are_exact() {
        let largest = i32::MAX as usize;
        assert_eq!(places(InterpolationMode::NearestNeighbor, largest, 1, 1)[0].below, largest / 2);
        let place = places(InterpolationMode::Linear, 3, 7, 5)[1];
        // (1.5 * 3 / 7) - 0.5 = 1 / 7.
        assert_eq!(place, Place { below: 0, above: 5, fraction: 2.0 / 14.0 });
    }
}
