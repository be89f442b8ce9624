//! MatMulNBits of com.microsoft: a product with weights of four bits, quantized in blocks.

use super::elementwise::one;
use super::matmul::product;

use crate::graph::ops::elementwise::DequantizeLinear;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Weights are [N, blocks, bytes of a block] of uint8, the earlier element in the low half; scales [N, blocks]; zero points
/// are packed like the weights, each row of its own, and 8 where there are none.
pub fn matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let number = |name: &str| -> Mapped<u32> { size(node.int(name, 0)?) };
    let (inner, columns, block) = (number("K")?, number("N")?, number("block_size")?);
    let bits = node.int("bits", 4)?;
    if bits != 4 {
        return Err(format!("{bits} bits are not supported").into());
    }
    if block == 0 || block % 2 != 0 || inner == 0 || columns == 0 {
        return Err(format!("blocks of {block}, K = {inner}, N = {columns}").into());
    }
    if node.optional(4).is_some() {
        return Err("the input g_idx is not supported".into());
    }
    let a = emit.input(node, 0)?;
    let of = emit.data_type(a);
    let blocks = inner.div_ceil(block);
    let shape = vec![columns as usize, blocks as usize, block as usize];
    let weights = node.constant(1, "the weights")?;
    let expected = (columns as usize).checked_mul(blocks as usize).and_then(|n| n.checked_mul(block as usize / 2));
    if weights.element.bits() != 8 || Some(weights.bytes.len()) != expected {
        return Err("weights of another shape than K, N and block_size say".into());
    }
    // The same bytes, two elements each: nothing is copied.
    let weights = emit.operand(&Tensor { element: ElementType::Uint4, shape, bytes: weights.bytes.clone() }.into())?;
    let aligned = [columns, blocks, 1];
    let scale = emit.input(node, 2)?;
    let scale = emit.reshape(scale, &aligned)?;
    let count = columns as usize * blocks as usize;
    let zero_point = match node.optional_constant(3, "the zero points")? {
        Some(tensor) if tensor.element == ElementType::Uint8 => {
            let stride = (blocks as usize).div_ceil(2);
            if tensor.bytes.len() != columns as usize * stride {
                return Err("zero points of another shape than K, N and block_size say".into());
            }
            let nibble = |i: usize| {
                let (row, column) = (i / blocks as usize, i % blocks as usize);
                let byte = tensor.bytes[row * stride + column / 2];
                if column % 2 == 0 { byte & 15 } else { byte >> 4 }
            };
            let bytes: Vec<u8> = (0..count.div_ceil(2))
                .map(|i| nibble(2 * i) | if 2 * i + 1 < count { nibble(2 * i + 1) << 4 } else { 0 })
                .collect();
            bytes
        }
        Some(tensor) => return Err(format!("zero points of {} are not supported", tensor.element).into()),
        None => vec![0x88; count.div_ceil(2)],
    };
    let points = Tensor {
        element: ElementType::Uint4,
        shape: aligned.iter().map(|&size| size as usize).collect(),
        bytes: zero_point.into(),
    };
    let zero_point = emit.constant(points)?;
    let wide = emit.push(DequantizeLinear { input: weights, scale, zero_point })?;
    let rows = emit.reshape(wide, &[columns, blocks.checked_mul(block).ok_or("too many elements")?])?;
    let rows = emit.slice(rows, vec![0, 0], vec![columns, inner])?;
    let matrix = emit.transpose(rows, &[1, 0])?;
    let matrix = emit.cast(matrix, of)?;
    let mut result = product(a, matrix, emit)?;
    if let Some(bias) = emit.optional(node, 5)? {
        result = emit.add(result, bias)?;
    }
    one(result)
}
