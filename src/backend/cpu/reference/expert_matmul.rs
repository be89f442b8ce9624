//! Products of rows with matrices of a few bits that are chosen, in float64.

use crate::backend::cpu::threads::for_each_piece;
use crate::backend::cpu::view::Arguments;
use crate::graph::ops::expert_matmul::{ExpertMatmul, Sizes};
use crate::looks::Looking;

pub fn expert_matmul(op: &ExpertMatmul, arguments: &mut Arguments<'_, '_>) {
    let Sizes { depth, experts, columns, blocks, block, bytes, .. } = op.sizes(|id| arguments.input(id).shape.to_vec());
    let (a, scales) = (arguments.input(op.a).elements::<f32>(), arguments.input(op.scales).elements::<f32>());
    let (weights, chosen) = (arguments.input(op.weights).elements::<u8>(), arguments.input(op.experts).elements::<i32>());
    let zero_points = op.zero_points.map(|id| arguments.input(id).elements::<f32>());
    let bits = op.bits as usize;
    let middle = f64::from(1 << (bits - 1));
    for_each_piece(arguments.output().elements::<f32>(), 1, 4 * depth, |first, piece| {
        for (number, output) in (first..).zip(piece) {
            let (row, column) = (number / columns, number % columns);
            let matrix = (chosen[row].max(0) as usize).min(experts - 1) * columns + column;
            let packed = &weights[matrix * bytes..][..bytes];
            let weight = |k: usize| {
                let place = k * bits;
                let both = u32::from(packed[place / 8]) | u32::from(packed.get(place / 8 + 1).copied().unwrap_or(0)) << 8;
                let code = f64::from(both >> (place % 8) & ((1 << bits) - 1));
                let of_block = matrix * blocks + k / block;
                (code - zero_points.map_or(middle, |points| f64::from(points[of_block]))) * f64::from(scales[of_block])
            };
            let sum: f64 = (0..depth).looking_if_long(4).map(|k| f64::from(a[row * depth + k]) * weight(k)).sum();
            *output = sum as f32;
        }
    });
}
