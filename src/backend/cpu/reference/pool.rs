//! Pooling. Means and norms are computed in `f64`.

use super::arithmetic::Arithmetic;
use crate::backend::cpu::element::{Element, Float, with_element, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::{for_each_piece, is_wanted};
use crate::backend::cpu::view::Arguments;
use crate::backend::window::Axis;
use crate::graph::ops::layout::InputOperandLayout::{Nchw, Nhwc};
use crate::graph::ops::pool::{NormPool2d, Pool2d, Pool2dKind};
use crate::looks::Looking;
use std::cmp::Ordering;

pub fn pool2d(op: &Pool2d, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let windows = Windows::new(op, input.shape, output.shape);
    match op.kind {
        // Padding is not counted; the mean of nothing else than padding is 0.
        Pool2dKind::Average => with_float!(input.data_type, T => windows.reduce(
            input.elements::<T>(),
            output.elements::<T>(),
            0.0,
            |sum, x| sum + x.to_f64(),
            |sum, count| T::from_f64(sum / count.max(1) as f64),
        )),
        Pool2dKind::L2 => with_float!(input.data_type, T => windows.reduce(
            input.elements::<T>(),
            output.elements::<T>(),
            0.0,
            |sum, x| sum + x.to_f64() * x.to_f64(),
            |sum, _| T::from_f64(sum.sqrt()),
        )),
        Pool2dKind::Max => with_element!(input.data_type, T => windows.reduce(
            input.elements::<T>(),
            output.elements::<T>(),
            T::LOWEST,
            |greatest: T, x| Arithmetic::max(greatest, x),
            |greatest, _| greatest,
        )),
    }
}

/// Powers of magnitudes leave even `f64`, so they are those of quotients by the greatest so far.
pub fn norm_pool2d(op: &NormPool2d, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let output = arguments.output();
    let windows = Windows::new(&op.windows(), input.shape, output.shape);
    let order = op.order as i32;
    with_float!(input.data_type, T => windows.reduce(
        input.elements::<T>(),
        output.elements::<T>(),
        (0.0, 0.0),
        |(greatest, sum): (f64, f64), x| {
            let x = x.to_f64().abs();
            match greatest.partial_cmp(&x) {
                Some(Ordering::Less) => (x, sum * (greatest / x).powi(order) + 1.0),
                Some(Ordering::Equal) => (greatest, sum + 1.0),
                Some(Ordering::Greater) => (greatest, sum + (x / greatest).powi(order)),
                None => (f64::NAN, f64::NAN),
            }
        },
        |(greatest, sum), _| T::from_f64(if greatest == 0.0 { 0.0 } else { greatest * sum.powf(1.0 / f64::from(order)) }),
    ));
}

/// Windows of more elements take longer than to ask whether they are wanted.
const LONG: usize = 1000;

/// The windows of an image, or of a number of planes: of height x width x `channels`, one after the other.
struct Windows {
    rows: Axis,
    columns: Axis,
    /// Channels that lie beside each other and are reduced beside each other.
    channels: usize,
}

impl Windows {
    fn new(op: &Pool2d, input: &[usize], output: &[usize]) -> Self {
        let [_, channels, height, width] = op.layout.to_nchw(input);
        let [_, _, output_height, output_width] = op.layout.to_nchw(output);
        let window = op.window([height as u32, width as u32]);
        let options = (&op.strides, &op.dilations, &op.padding);
        let axis = |number, input, output| Axis::new(number, (input, output, window[number] as usize), options);
        Windows {
            rows: axis(0, height, output_height),
            columns: axis(1, width, output_width),
            channels: match op.layout {
                Nchw => 1,
                Nhwc => channels,
            },
        }
    }

    /// Reduces every window, starting from `start` by `add`; `finish` is told how many elements there were.
    fn reduce<T: Element, A: Copy + Send + Sync>(
        &self,
        input: &[T],
        output: &mut [T],
        start: A,
        add: impl Fn(A, T) -> A + Sync,
        finish: impl Fn(A, usize) -> T + Sync,
    ) {
        let Windows { rows, columns, channels } = *self;
        let image = rows.input * columns.input * channels;
        let row = columns.output * channels;
        let elements_of_window = rows.window.min(rows.input) * columns.window.min(columns.input);
        // For every position along the width, the first element under the window and the number of them.
        let span = |x| {
            let taps = columns.taps(x);
            (columns.element(x, taps.start).unwrap_or(0), taps.len())
        };
        let spans: Vec<(usize, usize)> = scratch::collected(columns.output, (0..columns.output).map(span));
        for_each_piece(output, row, row.saturating_mul(elements_of_window), |first, piece| {
            let mut reduced = scratch::filled(start, channels);
            for (i, output) in piece.chunks_exact_mut(row).enumerate() {
                let (image_number, y) = ((first + i) / rows.output, (first + i) % rows.output);
                let input = &input[image_number * image..][..image];
                let taps_y = rows.taps(y);
                let windows = output.chunks_exact_mut(channels).zip(&spans);
                for (output, &(first_x, width)) in windows.looking_if_long(channels) {
                    reduced.fill(start);
                    // Windows may be as large as the image, and there may be as many.
                    if elements_of_window > LONG && !is_wanted() {
                        return;
                    }
                    for tap_y in taps_y.clone() {
                        let from_y = rows.element(y, tap_y).expect("the tap is inside");
                        let input = &input[(from_y * columns.input + first_x) * channels..];
                        if let [reduced] = &mut reduced[..] {
                            let elements = input.iter().step_by(columns.dilation).take(width);
                            *reduced = elements.fold(*reduced, |sum, &x| add(sum, x));
                        } else {
                            for pixel in input.chunks_exact(channels).step_by(columns.dilation).take(width) {
                                reduced.iter_mut().zip(pixel).for_each(|(sum, &x)| *sum = add(*sum, x));
                            }
                        }
                    }
                    let count = taps_y.len() * width;
                    output.iter_mut().zip(&reduced).for_each(|(output, &sum)| *output = finish(sum, count));
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::element::Element;
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::{self, *};
    use half::f16;

    /// A pooling of one plane of three rows and columns.
    fn pool<T: Element>(name: &str, input: [T; 9], window: [u32; 2], options: &[(usize, &[u32])]) -> Vec<T> {
        let mut values = vec![Operand(OperandId(0)), UnsignedList(window.to_vec()), Absent, Absent, Absent];
        for &(position, list) in options {
            values[position] = UnsignedList(list.to_vec());
        }
        let mut channels_last = values.clone();
        channels_last.push(Enumeration(1));
        let output = run(name, &[Tensor::of(&[1, 1, 3, 3], input)], values)[0].elements();
        // The same with the channels last, for one channel and for three.
        let last = run(name, &[Tensor::of(&[1, 3, 3, 1], input)], channels_last.clone())[0].elements::<T>();
        assert_eq!(format!("{last:?}"), format!("{output:?}"));
        let three = input.into_iter().flat_map(|x| [x; 3]);
        let last = run(name, &[Tensor::of(&[1, 3, 3, 3], three)], channels_last)[0].elements::<T>();
        let expected: Vec<T> = output.iter().flat_map(|&x| [x; 3]).collect();
        assert_eq!(format!("{last:?}"), format!("{expected:?}"));
        output
    }

    const PADDING: usize = 2;
    const STRIDES: usize = 3;
    const DILATIONS: usize = 4;
    const NUMBERS: [f32; 9] = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0];

    #[test]
    fn windows_slide() {
        assert_eq!(pool("maxPool2d", NUMBERS, [2, 2], &[]), [5.0, 6.0, 8.0, 9.0]);
        assert_eq!(pool("averagePool2d", NUMBERS, [2, 2], &[]), [3.0, 4.0, 6.0, 7.0]);
        assert_eq!(pool("maxPool2d", NUMBERS, [1, 1], &[(STRIDES, &[2, 2])]), [1.0, 3.0, 7.0, 9.0]);
        assert_eq!(pool("averagePool2d", NUMBERS, [2, 2], &[(DILATIONS, &[2, 1])]), [4.5, 5.5]);
        assert_eq!(pool("l2Pool2d", [3.0, 4.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -2.0f32], [1, 3], &[]), [5.0, 0.0, 2.0]);
    }

    #[test]
    fn padding_does_not_count() {
        let padding: (usize, &[u32]) = (PADDING, &[1, 0, 0, 1]);
        assert_eq!(pool("averagePool2d", NUMBERS, [2, 2], &[padding]), [1.5, 2.5, 3.0, 3.0, 4.0, 4.5, 6.0, 7.0, 7.5]);
        assert_eq!(pool("maxPool2d", NUMBERS.map(|x| -x), [2, 2], &[padding])[..3], [-1.0, -2.0, -3.0]);
        // Windows over nothing but padding.
        let far: (usize, &[u32]) = (PADDING, &[3, 0, 0, 0]);
        assert_eq!(pool("averagePool2d", NUMBERS, [3, 3], &[far]), [0.0, 2.0, 3.5, 5.0]);
        assert_eq!(pool("l2Pool2d", NUMBERS, [3, 3], &[far])[0], 0.0);
        assert_eq!(pool("maxPool2d", NUMBERS, [3, 3], &[far])[0], f32::NEG_INFINITY);
        assert_eq!(pool("maxPool2d", NUMBERS.map(|x| x as i64), [3, 3], &[far]), [i64::MIN, 3, 6, 9]);
    }

    #[test]
    fn maximum_of_every_type() {
        assert_eq!(pool("maxPool2d", [250u8, 251, 2, 3, 4, 5, 6, 7, 8], [3, 3], &[]), [251]);
        assert_eq!(pool("maxPool2d", [i8::MIN; 9], [3, 3], &[]), [i8::MIN]);
        assert_eq!(pool("maxPool2d", [u64::MAX; 9], [3, 3], &[]), [u64::MAX]);
        let mut numbers = NUMBERS;
        numbers[4] = f32::NAN;
        let found = pool("maxPool2d", numbers, [1, 3], &[]);
        assert!(found[0] == 3.0 && found[1].is_nan() && found[2] == 9.0);
    }

    #[test]
    fn float16_is_rounded_once() {
        let large = [f16::MAX; 9];
        assert_eq!(pool("averagePool2d", large, [3, 3], &[]), [f16::MAX]);
        assert_eq!(pool("l2Pool2d", large, [3, 3], &[]), [f16::INFINITY]);
    }

    #[test]
    fn the_window_is_the_input_unless_it_is_given() {
        let input = Tensor::of(&[2, 1, 1, 2], [1.0f32, 2.0, 3.0, 5.0]);
        let mean: Vec<Value> = vec![Operand(OperandId(0))];
        assert_eq!(run("averagePool2d", &[input], mean)[0], Tensor::of(&[2, 1, 1, 1], [1.5f32, 4.0]));
    }
}
