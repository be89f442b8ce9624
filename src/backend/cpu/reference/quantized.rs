//! Products of bytes, in integers, and quantization by the range of the input.

use super::matmul::broadcast_positions;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::{Arguments, View};
use crate::graph::DataType;
use crate::graph::OperandId;
use crate::graph::ops::quantized::{
    DynamicQuantizeLinear, QuantizeAlong, QuantizedMatmul, extremes, magnitude, of_magnitude, of_range,
};
use crate::looks::{Looking, parts};

/// The integers of a tensor of bytes.
fn integers<'a>(view: &View<'a>) -> impl Fn(usize) -> i32 + Sync + use<'a> {
    let (bytes, is_signed) = (view.bytes(), view.data_type == DataType::Int8);
    move |i| if is_signed { i32::from(bytes[i] as i8) } else { i32::from(bytes[i]) }
}

/// Row by row: each is a sum of rows of the right matrix, each times a number.
pub fn quantized_matmul(op: &QuantizedMatmul, arguments: &mut Arguments<'_, '_>) {
    let (a, b) = (arguments.input(op.a), arguments.input(op.b));
    let (batches_a, &[rows, depth]) = a.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    // For each row of all of a, and each column of all of b.
    let zeros = |zero_point: Option<OperandId>, shape: Vec<usize>| -> Vec<i32> {
        match zero_point.map(|id| arguments.input(id)) {
            Some(view) => broadcast_positions(view.shape, &shape).into_iter().map(integers(&view)).collect(),
            None => broadcast_positions(&[], &shape).into_iter().map(|_| 0).collect(),
        }
    };
    let zeros_a = zeros(op.a_zero_point, [batches_a, &[rows, 1]].concat());
    let zeros_b = zeros(op.b_zero_point, [batches_b, &[1, columns]].concat());
    let (left, right) = (integers(&a), integers(&b));
    let output = arguments.output();
    let batches = &output.shape[..output.shape.len() - 2];
    let (from_a, from_b) = (broadcast_positions(batches_a, batches), broadcast_positions(batches_b, batches));
    for_each_piece(output.elements::<i32>(), columns, depth * columns / 2, |first, piece| {
        for (i, output) in piece.chunks_exact_mut(columns).enumerate() {
            let (batch, row) = ((first + i) / rows, (first + i) % rows);
            let (row, matrix) = (from_a[batch] * rows + row, from_b[batch]);
            let zeros = &zeros_b[matrix * columns..][..columns];
            output.fill(0);
            for k in (0..depth).looking_if_long(columns) {
                let factor = left(row * depth + k) - zeros_a[row];
                let line = (matrix * depth + k) * columns;
                output.iter_mut().zip(zeros).enumerate().looking_if_long(1).for_each(|(j, (sum, zero))| {
                    *sum = sum.wrapping_add(factor * (right(line + j) - zero));
                });
            }
        }
    });
}

pub fn dynamic_quantize_linear(op: &DynamicQuantizeLinear, arguments: &mut Arguments<'_, '_>) {
    let numbers = arguments.input(op.input).elements::<f32>();
    // NaN stays.
    let of_parts: Vec<f32> = parts(numbers.len()).flat_map(|part| extremes(&numbers[part])).collect();
    let [least, most] = extremes(&of_parts);
    let (scale, zero_point) = of_range(least, most);
    let [output, scales, zero_points] = arguments.outputs() else { unreachable!("there are three outputs") };
    scales.elements::<f32>()[0] = scale;
    zero_points.bytes[0] = zero_point;
    output.bytes.iter_mut().zip(numbers).looking(1).for_each(|(byte, x)| {
        *byte = ((x / scale).round_ties_even() + f32::from(zero_point)).clamp(0.0, 255.0) as u8;
    });
}

pub fn quantize_along(op: &QuantizeAlong, arguments: &mut Arguments<'_, '_>) {
    let input = arguments.input(op.input);
    let numbers = input.elements::<f32>();
    let (axis, inner) = (op.axis as usize, input.shape[op.axis as usize + 1..].iter().product::<usize>());
    let size = input.shape[axis];
    let [output, scales] = arguments.outputs() else { unreachable!("there are two outputs") };
    for (i, scale) in scales.elements::<f32>().iter_mut().enumerate() {
        let place = |k: usize| (i / inner * size + k) * inner + i % inner;
        *scale = of_magnitude(magnitude((0..size).looking(1).map(|k| numbers[place(k)])));
        (0..size).looking(1).for_each(|k| {
            let steps = (numbers[place(k)] / *scale).round_ties_even();
            output.bytes[place(k)] = (steps.clamp(-127.0, 127.0) as i8).cast_unsigned();
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::*;

    #[test]
    fn zero_points_are_of_rows_and_columns() {
        let (a, b) = (Tensor::of(&[2, 2], [1u8, 2, 255, 0]), Tensor::of(&[2, 2], [-128i8, 3, 4, 127]));
        let product = |zeros: [Option<Tensor>; 2]| {
            let mut values = vec![Operand(OperandId(0)), Operand(OperandId(1))];
            let mut inputs = vec![a.clone(), b.clone()];
            for zero in zeros {
                values.push(zero.map_or(Absent, |zero| {
                    inputs.push(zero);
                    Operand(OperandId(inputs.len() as u32 - 1))
                }));
            }
            run("quantizedMatmul", &inputs, values)[0].elements::<i32>()
        };
        assert_eq!(product([None, None]), [-120, 257, -32640, 765]);
        assert_eq!(product([Some(Tensor::of(&[], [1u8])), None]), [4, 127, -32516, 635]);
        let of_rows = Some(Tensor::of(&[2, 1], [1u8, 255]));
        assert_eq!(product([of_rows, Some(Tensor::of(&[2], [4i8, -1]))]), [0, 128, 0, -32640]);
    }

    #[test]
    fn the_range_has_0_in_it() {
        let quantized = |numbers: &[f32]| {
            let outputs = run(
                "dynamicQuantizeLinear",
                &[Tensor::of(&[numbers.len() as u32], numbers.to_vec())],
                vec![Operand(OperandId(0))],
            );
            (outputs[0].elements::<u8>(), outputs[1].elements::<f32>()[0], outputs[2].elements::<u8>()[0])
        };
        // The cases of ONNX's definition.
        assert_eq!(quantized(&[0.0, 2.0, -3.0, -2.5, 1.34, 0.5]), (vec![153, 255, 0, 26, 221, 179], 5.0 / 255.0, 153));
        assert_eq!(quantized(&[-1.0, -2.1, -1.3, -2.5, -3.34, -4.0]), (vec![191, 121, 172, 96, 42, 0], 4.0 / 255.0, 255));
        assert_eq!(quantized(&[1.0, 2.0, 51.0]), (vec![5, 10, 255], 51.0 / 255.0, 0));
        assert_eq!(quantized(&[0.0, -0.0]), (vec![0, 0], 1.0, 0));
    }

    #[test]
    fn each_line_has_the_scale_of_its_greatest_number() {
        let quantized = |shape: &[u32], axis, numbers: &[f32]| {
            let outputs =
                run("quantizeAlong", &[Tensor::of(shape, numbers.to_vec())], vec![Operand(OperandId(0)), Unsigned(axis)]);
            (outputs[0].elements::<i8>(), outputs[1].elements::<f32>())
        };
        assert_eq!(quantized(&[2, 2], 1, &[1.0, -2.0, 0.0, -0.0]), (vec![64, -127, 0, 0], vec![2.0 / 127.0, f32::MIN_POSITIVE]));
        assert_eq!(quantized(&[2, 2], 0, &[127.0, -2.5, 1.5, -1.0]).1, [1.0, 2.5 / 127.0]);
        assert_eq!(quantized(&[2, 2], 0, &[127.0, -2.5, 1.5, -1.0]).0, [127, -127, 2, -51]);
        // What is not a number stays that, for the whole line.
        let (bytes, scales) = quantized(&[3], 0, &[f32::NAN, 1.0, 2.0]);
        assert!(scales[0].is_nan() && bytes == [0, 0, 0]);
        assert_eq!(quantized(&[2], 0, &[f32::INFINITY, 1.0]), (vec![0, 0], vec![f32::INFINITY]));
    }
}
