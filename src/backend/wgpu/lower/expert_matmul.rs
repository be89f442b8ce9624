//! Products of rows with matrices of a few bits that are chosen: each thread makes an element.

use super::kernel::Kernel;
use super::lowering::{Lowering, Operands};
use crate::error::Result;
use crate::graph::ops::expert_matmul::{ExpertMatmul, Sizes};

pub fn expert_matmul(lowering: &mut Lowering<'_>, op: &ExpertMatmul, operands: &Operands) -> Result<()> {
    let Sizes { depth, experts, columns, blocks, block, bytes, .. } = op.sizes(|id| operands.input(id).shape.clone());
    let bits = op.bits;
    // What may lie in two bytes.
    let next = if bits == 3 { " | (weights(byte + 1u) << 8u)" } else { "" };
    let zero = match op.zero_points {
        Some(_) => "zero_points(of_block)".to_owned(),
        None => format!("{}.0f", 1 << (bits - 1)),
    };
    let body = format!(
        "let row = i / {columns}u;\n\
         let matrix = u32(clamp(experts(row), 0, {last})) * {columns}u + i % {columns}u;\n\
         var sum = 0.0f;\n\
         for (var block = 0u; block < {blocks}u; block += 1u) {{\n\
         let of_block = matrix * {blocks}u + block;\n\
         let zero = {zero};\n\
         var part = 0.0f;\n\
         for (var k = block * {block}u; k < (block + 1u) * {block}u; k += 1u) {{\n\
         let byte = matrix * {bytes}u + k * {bits}u / 8u;\n\
         let code = ((weights(byte){next}) >> (k * {bits}u % 8u)) & {mask}u;\n\
         part += a(row * {depth}u + k) * (f32(code) - zero);\n}}\n\
         sum += part * scales(of_block);\n}}\n\
         return sum;",
        last = experts - 1,
        mask = (1 << bits) - 1,
    );
    let mut kernel = Kernel::new("expertMatmul");
    for (name, id) in [("a", op.a), ("weights", op.weights), ("scales", op.scales), ("experts", op.experts)] {
        kernel.add_reads(lowering, name, operands.input(id));
    }
    if let Some(id) = op.zero_points {
        kernel.add_reads(lowering, "zero_points", operands.input(id));
    }
    kernel.each(lowering, operands.output(), &body)
}
