//! Operators of com.microsoft on weights of few bits that are quantized in blocks: MatMulNBits and GatherBlockQuantized.

use super::elementwise::one;
use super::matmul::product;
use crate::graph::ops::elementwise::{BinaryKind, DequantizeLinear, LogicalKind};
use crate::graph::{DataType, OperandId};
use crate::memory;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Weights are [N, blocks, bytes of a block] of uint8, of 4-bit ones the earlier in the low half; scales [N, blocks]; zero
/// points are packed like the weights, each row of its own, and the middle of the range where there are none.
pub fn matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let number = |name: &str| -> Mapped<u32> { size(node.int(name, 0)?) };
    let (inner, columns, block) = (number("K")?, number("N")?, number("block_size")?);
    let bits = node.int("bits", 4)?;
    let element = match bits {
        4 => ElementType::Uint4,
        8 => ElementType::Uint8,
        _ => return Err(format!("{bits} bits are not supported").into()),
    };
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
    let expected = (columns as usize).checked_mul(blocks as usize).and_then(|n| n.checked_mul(block as usize));
    let expected = expected.and_then(|count| element.byte_length(count));
    if weights.element.bits() != 8 || Some(weights.bytes.len()) != expected {
        return Err("weights of another shape than K, N and block_size say".into());
    }
    // The same bytes, with two elements each where they have four bits: nothing is copied.
    let weights = emit.operand(&Tensor { element, shape, bytes: weights.bytes.clone() }.into())?;
    let aligned = [columns, blocks, 1];
    let scale = emit.input(node, 2)?;
    let scale = emit.reshape(scale, &aligned)?;
    let shape = aligned.iter().map(|&size| size as usize).collect();
    let points = Tensor { element, shape, bytes: zero_points(node, columns, blocks, bits == 4)?.into() };
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

/// The zero points of all blocks, half a byte each where they are `packed`: the rows of the input end with whole bytes.
fn zero_points(node: &Node<'_>, columns: u32, blocks: u32, packed: bool) -> Mapped<Vec<u8>> {
    let (columns, blocks) = (columns as usize, blocks as usize);
    let count = columns.checked_mul(blocks).ok_or("too many blocks")?;
    let Some(tensor) = node.optional_constant(3, "the zero points")? else {
        // The middle of the range.
        return Ok(if packed { memory::filled(0x88, count.div_ceil(2))? } else { memory::filled(0x80, count)? });
    };
    if tensor.element != ElementType::Uint8 {
        return Err(format!("zero points of {} are not supported", tensor.element).into());
    }
    let stride = if packed { blocks.div_ceil(2) } else { blocks };
    if Some(tensor.bytes.len()) != columns.checked_mul(stride) {
        return Err("zero points of another shape than K, N and block_size say".into());
    }
    if !packed {
        return Ok(tensor.bytes.to_vec());
    }
    let nibble = |i: usize| {
        let (row, column) = (i / blocks, i % blocks);
        let byte = tensor.bytes[row * stride + column / 2];
        if column % 2 == 0 { byte & 15 } else { byte >> 4 }
    };
    let pair = |i: usize| nibble(2 * i) | if 2 * i + 1 < count { nibble(2 * i + 1) << 4 } else { 0 };
    Ok((0..count.div_ceil(2)).map(pair).collect())
}

/// GatherBlockQuantized: rows of a table that is quantized in blocks along an axis. What is gathered is dequantized, not the
/// table. Of packed elements (uint8 with 4 bits) the earlier one is in the low half, and zero points are packed likewise.
pub fn gather(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let table = node.input(0)?;
    let bits = node.int("bits", 4)?;
    let block = size(node.int("block_size", 128)?)?;
    let element = emit.stored_element(table);
    let packed = match (element, bits) {
        (ElementType::Int4 | ElementType::Uint4, 4) | (ElementType::Uint8, 4) => true,
        (ElementType::Uint8, 8) => false,
        _ => return Err(format!("{bits} bits in elements of {element}").into()),
    };
    if block == 0 {
        return Err("blocks of 0".into());
    }
    let (indices, scale) = (emit.input(node, 1)?, emit.input(node, 2)?);
    let of_scale = emit.shape(scale);
    let rank = of_scale.len();
    let at = axis(node.int("gather_axis", 0)?, rank)?;
    let along = axis(node.int("quantize_axis", 1)?, rank)?;
    if at == along || (packed && at + 1 == rank) {
        return Err("elements that are gathered along the axis of the blocks, or of packed elements, are not supported".into());
    }
    let signed = element == ElementType::Int4;
    let halves = element != ElementType::Uint8;
    // Bytes, whatever they hold.
    let bytes = |position: usize, emit: &mut Emit<'_>| -> Mapped<Option<OperandId>> {
        let Some(value) = node.optional(position) else { return Ok(None) };
        if !halves {
            return Ok(Some(emit.operand(value)?));
        }
        let tensor = value.constant().ok_or("elements of four bits that are computed when the graph runs")?;
        let mut shape = tensor.shape.clone();
        let Some(last) = shape.last_mut().filter(|last| last.is_multiple_of(2)) else {
            return Err("an odd number of packed elements in a row is not supported".into());
        };
        *last /= 2;
        Ok(Some(emit.operand(&Tensor { element: ElementType::Uint8, shape, bytes: tensor.bytes.clone() }.into())?))
    };
    let table = bytes(0, emit)?.ok_or("the table is missing")?;
    if emit.rank(table) != rank {
        return Err(format!("scales of rank {rank} for a table of rank {}", emit.rank(table)).into());
    }
    let table = emit.gather(table, indices, at)?;
    let numbers = if packed { unpacked(table, signed, emit)? } else { emit.cast(table, DataType::Float32)? };
    let zero_point = match bytes(3, emit)? {
        Some(points) => {
            if emit.rank(points) != rank {
                return Err(format!("zero points of rank {} for a table of rank {rank}", emit.rank(points)).into());
            }
            let points = emit.gather(points, indices, at)?;
            let points = if packed { unpacked(points, signed, emit)? } else { emit.cast(points, DataType::Float32)? };
            // A row of an odd number of zero points is filled up.
            let last = emit.rank(points).checked_sub(1).ok_or("zero points without dimensions")?;
            Some(emit.slice_axis(points, last, 0, of_scale[rank - 1])?)
        }
        None => None,
    };
    let scale = emit.gather(scale, indices, at)?;
    let of = emit.data_type(scale);
    let scale = emit.cast(scale, DataType::Float32)?;
    let along = if along > at { along + emit.rank(indices) - 1 } else { along };
    let length = emit.shape(numbers)[along];
    let centred = match zero_point {
        Some(points) => {
            let points = spread(points, along, block, length, emit)?;
            emit.sub(numbers, points)?
        }
        // Without zero points unsigned elements are centred at the middle of their range, if they are bytes.
        None if halves => numbers,
        None => emit.with(BinaryKind::Sub, numbers, if bits == 4 { 8.0 } else { 128.0 })?,
    };
    let scale = spread(scale, along, block, length, emit)?;
    let result = emit.mul(centred, scale)?;
    one(emit.cast(result, of)?)
}

/// The two elements of each byte, as float32.
fn unpacked(bytes: OperandId, signed: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let high = emit.with(BinaryKind::Div, bytes, 16.0)?;
    let above = emit.with(BinaryKind::Mul, high, 16.0)?;
    let low = emit.sub(bytes, above)?;
    let mut shape = emit.shape(bytes);
    shape.push(1);
    let (low, high) = (emit.reshape(low, &shape)?, emit.reshape(high, &shape)?);
    let pairs = emit.concat(vec![low, high], shape.len() - 1)?;
    shape.pop();
    let last = shape.last_mut().ok_or("bytes of rank 0")?;
    *last = last.checked_mul(2).ok_or("too many elements")?;
    let numbers = emit.reshape(pairs, &shape)?;
    let numbers = emit.cast(numbers, DataType::Float32)?;
    if !signed {
        return Ok(numbers);
    }
    let negative = emit.compare(LogicalKind::GreaterOrEqual, numbers, 8.0)?;
    let lowered = emit.with(BinaryKind::Sub, numbers, 16.0)?;
    emit.select(negative, lowered, numbers)
}

/// Gives each element of a block along an axis the block's number.
fn spread(numbers: OperandId, along: usize, block: u32, length: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(numbers);
    let mut apart = shape.clone();
    apart.insert(along + 1, 1);
    let mut wide = apart.clone();
    wide[along + 1] = block.min(length);
    let mut joined = shape;
    joined[along] = joined[along].checked_mul(wide[along + 1]).ok_or("too many elements")?;
    let numbers = emit.reshape(numbers, &apart)?;
    let numbers = emit.expand(numbers, &wide)?;
    let numbers = emit.reshape(numbers, &joined)?;
    emit.slice_axis(numbers, along, 0, length)
}
