//! Products with weights of a few bits: a column's weights are expanded, and multiplied with all rows. The sums are in float64.

use crate::backend::cpu::scratch;
use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::DataType;
use crate::graph::ops::block_quantized::{BlockQuantizedMatmul, Sizes};
use crate::looks::Looking;

/// What is taken off the integers of blocks.
enum ZeroPoints<'a> {
    None,
    Packed(&'a [u8]),
    Numbers(std::borrow::Cow<'a, [f32]>),
}

pub fn block_quantized_matmul(op: &BlockQuantizedMatmul, arguments: &mut Arguments<'_, '_>) {
    let (a, scales) = (arguments.input(op.a), arguments.input(op.scales));
    let depth = a.shape[a.shape.len() - 1];
    let sizes = op.sizes(depth, scales.shape);
    let weights = arguments.input(op.weights).bytes();
    let zero_points = match op.zero_points.map(|id| arguments.input(id)) {
        None => ZeroPoints::None,
        Some(view) if view.data_type == DataType::Uint8 => ZeroPoints::Packed(view.bytes()),
        Some(view) => ZeroPoints::Numbers(view.to_f32()),
    };
    let code_book = op.code_book.map(|id| arguments.input(id).elements::<f32>());
    let bias = op.bias.map(|id| arguments.input(id).to_f32());
    let (left, scales) = (a.to_f32(), scales.to_f32());
    let of_block = |block: usize, column: usize| {
        if op.by_depth { block * sizes.columns + column } else { column * sizes.blocks + block }
    };
    let number = |code: u32| code_book.map_or_else(|| op.number(code), |book| f64::from(book[code as usize]));
    let expand = |column: usize, to: &mut [f64]| {
        for (block, to) in to.chunks_mut(op.block_size as usize).enumerate().looking(op.block_size as usize) {
            let place = of_block(block, column);
            let zero = match &zero_points {
                ZeroPoints::None => 0.0,
                ZeroPoints::Packed(bytes) => number(op.code(bytes, op.place_of_zero(&sizes, block, column))),
                ZeroPoints::Numbers(numbers) => f64::from(numbers[place]),
            };
            for (i, to) in to.iter_mut().enumerate() {
                let code = op.code(weights, op.place(&sizes, block * op.block_size as usize + i, column));
                *to = (number(code) - zero) * f64::from(scales[place]);
            }
        }
    };
    let Sizes { columns, .. } = sizes;
    let rows = left.len() / depth;
    // Column by column, so that the weights are expanded once.
    let mut transposed = scratch::zeroed::<f32>(rows * columns);
    for_each_piece(&mut transposed, rows, rows * depth + depth * 4, |first, piece| {
        let mut expanded = scratch::filled(0.0, depth);
        for (i, output) in piece.chunks_exact_mut(rows).enumerate() {
            expand(first + i, &mut expanded);
            let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[first + i]));
            output.iter_mut().zip(left.chunks_exact(depth)).looking_if_long(depth).for_each(|(output, row)| {
                let sum: f64 = row.iter().zip(&expanded).map(|(&x, w)| f64::from(x) * w).sum();
                *output = (sum + bias) as f32;
            });
        }
    });
    arguments.output().fill_f32(|output| {
        for (row, output) in output.chunks_exact_mut(columns).enumerate().looking(columns) {
            output.iter_mut().enumerate().for_each(|(column, output)| *output = transposed[column * rows + row]);
        }
    });
}
