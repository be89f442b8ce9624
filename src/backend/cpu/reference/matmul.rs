//! Matrix products. The arithmetic is in `f32` for both floating-point types.

use super::arithmetic::Arithmetic;
use super::product::{Size, Strided, add_product};
use crate::backend::cpu::element::{Float, with_element, with_float};
use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::matmul::{Gemm, IntegerMatmul, Matmul};
use crate::looks::Looking;

pub fn matmul(op: &Matmul, arguments: &mut Arguments<'_, '_>) {
    let (a, b) = (arguments.input(op.a), arguments.input(op.b));
    let output = arguments.output();
    let (batches_a, &[rows, depth]) = a.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let batches = &output.shape[..output.shape.len() - 2];
    // Where every batch of the output finds its matrices.
    let (mut from_a, mut from_b) = (broadcast_positions(batches_a, batches), broadcast_positions(batches_b, batches));
    let mut size = Size { rows, depth, columns };
    let one_matrix = |positions: &[usize]| positions.iter().all(|&position| position == 0);
    if one_matrix(&from_b) && from_a.iter().enumerate().all(|(i, &position)| i == position) {
        // A stack times one matrix is a taller matrix times it.
        size.rows *= from_a.len();
        (from_a, from_b) = (vec![0], vec![0]);
    }
    let (a, b) = (a.to_f32(), b.to_f32());
    output.fill_f32(|output| {
        let unit = size.rows * size.columns;
        for_each_piece(output, unit, unit * depth / 16, |first, piece| {
            piece.fill(0.0);
            for (i, output) in piece.chunks_exact_mut(unit).enumerate() {
                let left = Strided::dense(&a[from_a[first + i] * size.rows * depth..], depth);
                let right = Strided::dense(&b[from_b[first + i] * depth * columns..], columns);
                add_product(size, &left, &right, output, columns);
            }
        });
    });
}

pub fn integer_matmul(op: &IntegerMatmul, arguments: &mut Arguments<'_, '_>) {
    let (a, b) = (arguments.input(op.a), arguments.input(op.b));
    let output = arguments.output();
    let (batches_a, &[rows, depth]) = a.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let (batches_b, &[_, columns]) = b.shape.split_last_chunk::<2>().expect("matrices have rank 2");
    let batches = &output.shape[..output.shape.len() - 2];
    let from = [broadcast_positions(batches_a, batches), broadcast_positions(batches_b, batches)];
    let size = Size { rows, depth, columns };
    with_element!(output.data_type, T => integer_products::<T>(size, &from, [a.elements(), b.elements()], output.elements()));
}

/// Row by row: each is a sum of rows of the right matrix, each times a number.
fn integer_products<T: Arithmetic>(size: Size, from: &[Vec<usize>; 2], [a, b]: [&[T]; 2], output: &mut [T]) {
    let Size { rows, depth, columns } = size;
    for_each_piece(output, columns, depth * columns / 4, |first, piece| {
        for (i, output) in piece.chunks_exact_mut(columns).enumerate() {
            let (batch, row) = ((first + i) / rows, (first + i) % rows);
            let left = &a[(from[0][batch] * rows + row) * depth..][..depth];
            let right = &b[from[1][batch] * depth * columns..][..depth * columns];
            output.fill(T::ZERO);
            for (&factor, right) in left.iter().zip(right.chunks_exact(columns)).looking_if_long(columns) {
                output.iter_mut().zip(right).looking_if_long(1).for_each(|(sum, &x)| *sum = sum.add(factor.mul(x)));
            }
        }
    });
}

/// For every position in a shape, in row-major order, the position in a shape that is broadcast to it.
pub fn broadcast_positions(from: &[usize], to: &[usize]) -> Vec<usize> {
    let mut positions = vec![0];
    let missing = to.len() - from.len();
    for (axis, &size) in to.iter().enumerate() {
        let own_size = if axis < missing { 1 } else { from[axis - missing] };
        let step = |i: usize| if own_size == 1 { 0 } else { i };
        let inner = |&outer: &usize| (0..size).map(move |i| outer * own_size + step(i));
        positions = scratch::collected(positions.len() * size, positions.iter().flat_map(inner));
    }
    positions
}

pub fn gemm(op: &Gemm, arguments: &mut Arguments<'_, '_>) {
    let (a, b) = (arguments.input(op.a), arguments.input(op.b));
    let c = op.c.map(|c| arguments.input(c));
    let output = arguments.output();
    let &[rows, columns] = output.shape else { unreachable!("a matrix has rank 2") };
    let depth = a.shape[if op.a_transpose { 0 } else { 1 }];
    // alpha and beta are cast to the data type of the operands.
    let cast = |x: f64| with_float!(a.data_type, T => T::from_f64(x).to_f64());
    let (alpha, beta) = (cast(op.alpha), cast(op.beta));
    let oriented = |matrix, transpose| if transpose { Strided::transposed(matrix) } else { matrix };
    let (a_elements, b_elements) = (a.to_f32(), b.to_f32());
    let left = oriented(Strided::dense(&a_elements, a.shape[1]), op.a_transpose);
    let right = oriented(Strided::dense(&b_elements, b.shape[1]), op.b_transpose);
    let c_elements = c.map(|c| c.to_f32());
    let c = c.zip(c_elements.as_deref()).map(|(c, elements)| {
        // A dimension that is missing or 1 is repeated.
        let stride = |axis_from_end: usize, stride| match c.shape.iter().rev().nth(axis_from_end) {
            None | Some(1) => 0,
            Some(_) => stride,
        };
        Strided { elements, strides: [stride(1, *c.shape.last().unwrap_or(&1)), stride(0, 1)] }
    });
    output.fill_f32(|output| {
        output.fill(0.0);
        add_product(Size { rows, depth, columns }, &left, &right, output, columns);
        if c.is_none() && alpha == 1.0 {
            return;
        }
        for_each_piece(output, columns, columns, |first, piece| {
            for (i, output) in piece.chunks_exact_mut(columns).enumerate() {
                output.iter_mut().enumerate().looking_if_long(1).for_each(|(j, output)| {
                    let c = c.map_or(0.0, |c| beta * c.elements[(first + i) * c.strides[0] + j * c.strides[1]] as f64);
                    *output = (alpha * *output as f64 + c) as f32;
                });
            }
        });
    });
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::reference::testing::{Tensor, run};
    use crate::graph::OperandId;
    use crate::graph::attribute::Value::*;
    use half::f16;

    #[test]
    fn matmul_broadcasts_stacks() {
        let count = |shape: &[u32]| (0..shape.iter().product()).map(|i: u32| i as f32).collect::<Vec<_>>();
        let product = |a: &[u32], b: &[u32]| {
            let inputs = [Tensor::of(a, count(a)), Tensor::of(b, count(b))];
            run("matmul", &inputs, vec![Operand(OperandId(0)), Operand(OperandId(1))])[0].elements::<f32>()
        };
        assert_eq!(product(&[2, 2], &[2, 2]), [2.0, 3.0, 6.0, 11.0]);
        // One matrix on the right, on the left, and both dimensions broadcast.
        assert_eq!(product(&[2, 1, 2], &[2, 2]), [2.0, 3.0, 6.0, 11.0]);
        assert_eq!(product(&[1, 2], &[2, 2, 2]), [2.0, 3.0, 6.0, 7.0]);
        assert_eq!(product(&[2, 1, 1, 2], &[1, 2, 2, 1]), [1.0, 3.0, 3.0, 13.0]);
        assert_eq!(product(&[2, 1, 2], &[2, 2, 1]), [1.0, 2.0 * 2.0 + 3.0 * 3.0]);
    }

    #[test]
    fn float16_is_rounded_once() {
        // In float16, 2048 + 1 is 2048.
        let half = |x: &[f32]| x.iter().map(|&x| f16::from_f32(x)).collect::<Vec<_>>();
        let inputs = [Tensor::of(&[1, 3], half(&[2048.0, 1.0, 1.0])), Tensor::of(&[3, 1], half(&[1.0; 3]))];
        let values = vec![Operand(OperandId(0)), Operand(OperandId(1))];
        assert_eq!(run("matmul", &inputs, values)[0].elements::<f16>(), half(&[2050.0]));
    }

    #[test]
    fn gemm_scales_and_transposes() {
        let a = [1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0];
        let transposed = [1.0f32, 4.0, 2.0, 5.0, 3.0, 6.0];
        let identity = [1.0f32, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0];
        for (c_shape, c, expected) in [
            (&[][..], &[1.0f32][..], [1.0, 3.0, 5.0, 7.0, 9.0, 11.0]),
            (&[3], &[1.0, 2.0, 3.0], [1.0, 2.0, 3.0, 7.0, 8.0, 9.0]),
            (&[2, 1], &[1.0, 2.0], [1.0, 3.0, 5.0, 6.0, 8.0, 10.0]),
            (&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        ] {
            for transpose in [false, true] {
                let a = if transpose { Tensor::of(&[3, 2], transposed) } else { Tensor::of(&[2, 3], a) };
                let inputs = [a, Tensor::of(&[3, 3], identity), Tensor::of(c_shape, c.iter().copied())];
                let values = [0, 1, 2].map(|id| Operand(OperandId(id))).into_iter();
                let options = [Double(2.0), Double(-1.0), Boolean(transpose), Boolean(transpose)];
                let output = run("gemm", &inputs, values.chain(options).collect());
                assert_eq!(output[0].elements::<f32>(), expected, "c {c_shape:?}");
            }
        }
    }
}
