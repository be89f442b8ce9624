//! Conversion between floating-point and scaled integer values, and arithmetic on such integers.

use super::conv::convolution;
use super::elementwise::one;
use super::matmul::product;
use crate::graph::data_type::QUANTIZED;
use crate::graph::ops::elementwise::{BinaryKind, DequantizeLinear, QuantizeLinear, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis, data_type, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

pub fn quantize(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (mut input, scale) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let of_scale = emit.data_type(scale);
    input = emit.cast(input, of_scale)?;
    let wanted = match node.element("output_dtype") {
        // 0 says that the type is that of the zero point.
        Err(_) if node.int("output_dtype", 0)? == 0 => None,
        found => found?,
    };
    let quantized = match (node.optional(2), wanted) {
        (Some(_), _) => None,
        (None, Some(element)) => Some(data_type(element)?),
        (None, None) => Some(DataType::Uint8),
    };
    let zero_point = match quantized {
        None => emit.input(node, 2)?,
        Some(quantized) => zeros(quantized, emit.shape(scale), emit)?,
    };
    let (scale, zero_point) = blocks(node, input, scale, zero_point, emit)?;
    one(emit.push(QuantizeLinear { input, scale, zero_point })?)
}

pub fn dequantize(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, scale) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let quantized = emit.data_type(input);
    if !QUANTIZED.contains(quantized) {
        return Err(format!("an input of {quantized}").into());
    }
    let zero_point = match emit.optional(node, 2)? {
        Some(zero_point) => zero_point,
        None => zeros(quantized, emit.shape(scale), emit)?,
    };
    let (scale, zero_point) = blocks(node, input, scale, zero_point, emit)?;
    one(emit.push(DequantizeLinear { input, scale, zero_point })?)
}

fn zeros(data_type: DataType, shape: Vec<u32>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let element: ElementType = data_type.into();
    let shape: Vec<usize> = shape.into_iter().map(|size| size as usize).collect();
    let count = shape.iter().product();
    let bytes = element.byte_length(count).ok_or("too many elements")?;
    emit.constant(Tensor { element, shape, bytes: vec![0; bytes].into() })
}

/// Scale and zero point in the input's rank: one for all, one for each index of an axis, or one for each block of an axis.
fn blocks(
    node: &Node<'_>,
    input: OperandId,
    scale: OperandId,
    zero_point: OperandId,
    emit: &mut Emit<'_>,
) -> Mapped<(OperandId, OperandId)> {
    let (shape, of_scale) = (emit.shape(input), emit.shape(scale));
    let aligned = if of_scale.iter().all(|&size| size == 1) && of_scale.len() <= 1 {
        vec![1; shape.len()]
    } else if of_scale.len() == 1 {
        let at = axis(node.int("axis", 1)?, shape.len())?;
        let mut aligned = vec![1; shape.len()];
        aligned[at] = of_scale[0];
        aligned
    } else {
        of_scale
    };
    Ok((emit.reshape(scale, &aligned)?, emit.reshape(zero_point, &aligned)?))
}

/// DynamicQuantizeLinear: scale and zero point of uint8 come from the input's own range, which includes 0.
pub fn dynamic(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let over: Vec<usize> = (0..emit.rank(input)).collect();
    let most = emit.reduce(ReduceKind::Max, input, &over, false)?;
    let most = emit.clamp(most, Some(0.0), None)?;
    let least = emit.reduce(ReduceKind::Min, input, &over, false)?;
    let least = emit.clamp(least, None, Some(0.0))?;
    let range = emit.sub(most, least)?;
    let scale = emit.with(BinaryKind::Div, range, 255.0)?;
    let lowest = emit.unary(UnaryKind::Neg, least)?;
    // A range of nothing has no scale, and everything in it is 0.
    let zero = emit.scalar(emit.data_type(input), 0.0)?;
    let nothing = emit.logical(crate::graph::ops::elementwise::LogicalKind::Equal, range, zero)?;
    let unit = emit.scalar(emit.data_type(input), 1.0)?;
    let divisor = emit.select(nothing, unit, scale)?;
    let place = emit.div(lowest, divisor)?;
    let rounded = emit.unary(UnaryKind::RoundEven, place)?;
    let rounded = emit.clamp(rounded, Some(0.0), Some(255.0))?;
    let zero_point = emit.cast(rounded, DataType::Uint8)?;
    let aligned = vec![1; emit.rank(input)];
    let (block, point) = (emit.reshape(divisor, &aligned)?, emit.reshape(zero_point, &aligned)?);
    let output = emit.push(QuantizeLinear { input, scale: block, zero_point: point })?;
    Ok(vec![output.into(), divisor.into(), zero_point.into()])
}

/// What a quantized operand stands for without its scale: `x - zero point`, as float32, which holds such numbers exactly.
fn centred(input: OperandId, zero_point: Option<OperandId>, at: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let wide = emit.cast(input, DataType::Float32)?;
    let Some(zero_point) = zero_point else { return Ok(wide) };
    let zero_point = emit.cast(zero_point, DataType::Float32)?;
    let zero_point = per_axis(zero_point, at, emit.rank(input), emit)?;
    emit.sub(wide, zero_point)
}

/// A vector along an axis; a single number for all.
fn per_axis(vector: OperandId, at: usize, rank: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(vector);
    match shape[..] {
        [] => Ok(vector),
        [1] => emit.reshape(vector, &[]),
        [length] => {
            let mut aligned = vec![1; rank];
            *aligned.get_mut(at).ok_or("too few dimensions")? = length;
            emit.reshape(vector, &aligned)
        }
        _ => Ok(vector),
    }
}

/// MatMulInteger. float32 sums are exact up to 2²⁴: in blocks of inner elements that cannot exceed it, the sums of which
/// are added as integers.
pub fn matmul_integer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (zero_a, zero_b) = (emit.optional(node, 2)?, emit.optional(node, 3)?);
    let (rank_a, rank_b) = (emit.rank(a), emit.rank(b));
    if rank_a < 2 || rank_b < 2 {
        return Err("vectors are not supported".into());
    }
    let a = centred(a, zero_a, rank_a - 2, emit)?;
    let b = centred(b, zero_b, rank_b - 1, emit)?;
    let inner = emit.shape(a)[rank_a - 1];
    // A product is at most 255 * 255.
    const EXACT: u32 = (1 << 24) / (255 * 255);
    let mut result = None;
    for start in (0..inner).step_by(EXACT as usize) {
        let length = EXACT.min(inner - start);
        let (left, right) = (emit.slice_axis(a, rank_a - 1, start, length)?, emit.slice_axis(b, rank_b - 2, start, length)?);
        let part = emit.matmul(left, right)?;
        let part = emit.cast(part, DataType::Int32)?;
        result = Some(match result {
            Some(sum) => emit.add(sum, part)?,
            None => part,
        });
    }
    one(result.ok_or("no inner elements")?)
}

/// ConvInteger, in float32: exact as long as sums stay below 2²⁴.
pub fn conv_integer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (zero_input, zero_filter) = (emit.optional(node, 2)?, emit.optional(node, 3)?);
    let input = centred(input, zero_input, 1, emit)?;
    let filter = centred(filter, zero_filter, 0, emit)?;
    let output = convolution(node, input, filter, None, emit)?;
    one(emit.cast(output, DataType::Int32)?)
}

/// An input with scale and zero point beside it, as float32.
fn scaled(node: &Node<'_>, first: usize, at: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let (input, scale, zero_point) = (emit.input(node, first)?, emit.input(node, first + 1)?, emit.input(node, first + 2)?);
    let rank = emit.rank(input);
    let numbers = centred(input, Some(zero_point), at, emit)?;
    let scale = per_axis(scale, at, rank, emit)?;
    emit.mul(numbers, scale)
}

/// Quantizes a result with a scale and zero point for all of it.
fn requantized(node: &Node<'_>, result: OperandId, first: usize, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (scale, zero_point) = (emit.input(node, first)?, emit.input(node, first + 1)?);
    let aligned = vec![1; emit.rank(result)];
    let (scale, zero_point) = (emit.reshape(scale, &aligned)?, emit.reshape(zero_point, &aligned)?);
    one(emit.push(QuantizeLinear { input: result, scale, zero_point })?)
}

pub fn qlinear_matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let rank = |position: usize, emit: &mut Emit<'_>| -> Mapped<usize> { Ok(node.input(position)?.shape(emit.builder).len()) };
    let (rank_a, rank_b) = (rank(0, emit)?, rank(3, emit)?);
    let a = scaled(node, 0, rank_a.saturating_sub(2), emit)?;
    let b = scaled(node, 3, rank_b.saturating_sub(1), emit)?;
    let result = product(a, b, emit)?;
    requantized(node, result, 6, emit)
}

pub fn qlinear_conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = scaled(node, 0, 1, emit)?;
    let filter = scaled(node, 3, 0, emit)?;
    let bias = match emit.optional(node, 8)? {
        // Quantized with the product of both scales.
        Some(bias) => {
            let (of_input, of_filter) = (emit.input(node, 1)?, emit.input(node, 4)?);
            let of_input = emit.reshape(of_input, &[1])?;
            let count = size(emit.shape(of_filter).iter().map(|&size| u64::from(size)).product::<u64>())?;
            let of_filter = emit.reshape(of_filter, &[count])?;
            let scale = emit.mul(of_input, of_filter)?;
            let bias = emit.cast(bias, DataType::Float32)?;
            Some(emit.mul(bias, scale)?)
        }
        None => None,
    };
    let result = convolution(node, input, filter, bias, emit)?;
    requantized(node, result, 6, emit)
}

/// QLinearAdd and QLinearMul of com.microsoft.
pub fn qlinear_binary(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (scaled(node, 0, 0, emit)?, scaled(node, 3, 0, emit)?);
    let kind = if node.operator() == "QLinearAdd" { BinaryKind::Add } else { BinaryKind::Mul };
    let result = emit.binary(kind, a, b)?;
    requantized(node, result, 6, emit)
}
