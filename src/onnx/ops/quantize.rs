//! Conversion between floating-point and scaled integer values, and arithmetic on such integers.

use super::conv;
use super::elementwise::one;
use super::narrow;
use super::volume;
use crate::graph::data_type::QUANTIZED;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::{Binary, BinaryKind, DequantizeLinear, QuantizeLinear, Remainder, RemainderKind};
use crate::graph::ops::quantized::{DynamicQuantizeLinear, QuantizedMatmul};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::fold;
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
    let element = match (node.optional(2), wanted) {
        (Some(zero_point), _) => emit.element(zero_point),
        (None, Some(element)) => element,
        (None, None) => ElementType::Uint8,
    };
    let quantized = element.held_by().ok_or_else(|| format!("elements of {element}"))?;
    let zero_point = zero_point(node, element, quantized, scale, emit)?;
    let (scale, zero_point) = blocks(node, input, scale, &zero_point, emit)?;
    let result = emit.push(QuantizeLinear { input, scale, zero_point })?;
    if !element.is_narrow() {
        return one(result);
    }
    let (low, high) = element.range();
    let result = emit.clamp(result, Some(low as f64), Some(high as f64))?;
    emit.short.insert(result, element);
    one(result)
}

pub fn dequantize(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let element = emit.element(node.input(0)?);
    let (input, mut scale) = (node.input(0)?, emit.input(node, 1)?);
    // Constants of 4 bits stay packed.
    let input = if element.is_short() { held(input, DataType::Int32, emit)? } else { input.clone() };
    let input = emit.operand(&input)?;
    let quantized = emit.data_type(input);
    let own = emit.data_type(scale);
    let wanted = match node.int("output_dtype", 0)? {
        0 => own,
        _ => node.element("output_dtype")?.map(data_type).transpose()?.unwrap_or(own),
    };
    // In the wider of both types, so that the result is rounded once.
    if wanted == DataType::Float32 {
        scale = emit.cast(scale, wanted)?;
    }
    if !QUANTIZED.contains(quantized) {
        return Err(format!("an input of {quantized}").into());
    }
    let zero_point = zero_point(node, element, quantized, scale, emit)?;
    let (scale, zero_point) = blocks(node, input, scale, &zero_point, emit)?;
    let result = emit.push(DequantizeLinear { input, scale, zero_point })?;
    one(emit.cast(result, wanted)?)
}

/// A value whose elements, if it is a constant, are held by that type.
fn held(value: &Value, by: DataType, emit: &mut Emit<'_>) -> Mapped<Value> {
    match value.constant().filter(|tensor| tensor.element != by.into()) {
        Some(tensor) if emit.folding.charge(tensor.count().saturating_mul(4)) => Ok(tensor.cast(by.into()).into()),
        Some(_) => Err("too much to compute at import".into()),
        None => Ok(value.clone()),
    }
}

/// The zero point of elements of that type, which is 0 where there is none, held as the elements are.
fn zero_point(node: &Node<'_>, element: ElementType, by: DataType, scale: OperandId, emit: &mut Emit<'_>) -> Mapped<Value> {
    match node.optional(2) {
        Some(given) if emit.element(given) != element => {
            Err(format!("a zero point of {} for elements of {element}", emit.element(given)).into())
        }
        Some(given) => held(given, by, emit),
        None => zeros(by.into(), emit.shape(scale)),
    }
}

fn zeros(element: ElementType, shape: Vec<u32>) -> Mapped<Value> {
    let shape: Vec<usize> = shape.into_iter().map(|size| size as usize).collect();
    let count = shape.iter().product();
    let bytes = element.byte_length(count).ok_or("too many elements")?;
    Ok(Tensor { element, shape, bytes: crate::memory::filled(0, bytes)?.into() }.into())
}

/// Scale and zero point in the input's rank: one for all, one for each index of an axis, or one for each block of an axis, of
/// which the last may be short.
fn blocks(
    node: &Node<'_>,
    input: OperandId,
    scale: OperandId,
    zero_point: &Value,
    emit: &mut Emit<'_>,
) -> Mapped<(OperandId, OperandId)> {
    let (shape, of_scale) = (emit.shape(input), emit.shape(scale));
    let block = size(node.int("block_size", 0)?)?;
    if block > 0 {
        let at = axis(node.int("axis", 1)?, shape.len())?;
        let mut expected = shape.clone();
        expected[at] = shape[at].div_ceil(block);
        if of_scale != expected {
            return Err(format!("scales of shape {of_scale:?} for blocks of {block}, where {expected:?} is needed").into());
        }
        if shape[at].is_multiple_of(block) {
            return Ok((scale, emit.operand(zero_point)?));
        }
        // WebNN's blocks are equal: each element gets the numbers of its block.
        let numbers: Vec<i64> = (0..shape[at]).map(|i| i64::from(i / block)).collect();
        let numbers = Tensor::int64s(&numbers);
        let zero_point = match zero_point.constant().filter(|tensor| tensor.element.bits() == 4) {
            Some(tensor) => {
                emit.reserve(&shape.iter().map(|&size| size.into()).collect::<Vec<u64>>())?;
                emit.operand(&fold::gather(tensor, &numbers, at)?.into())?
            }
            None => {
                let (zero_point, numbers) = (emit.operand(zero_point)?, emit.constant(numbers.clone())?);
                emit.gather(zero_point, numbers, at)?
            }
        };
        let numbers = emit.constant(numbers)?;
        return Ok((emit.gather(scale, numbers, at)?, zero_point));
    }
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
    // WebNN reshapes nothing of four bits, but a constant has its bytes in any shape.
    let zero_point = match zero_point.constant() {
        Some(tensor) => {
            let shape: Vec<usize> = aligned.iter().map(|&size| size as usize).collect();
            if tensor.count() != shape.iter().product::<usize>() {
                return Err(format!("zero points of shape {:?} for scales of shape {aligned:?}", tensor.shape).into());
            }
            emit.operand(&Tensor { element: tensor.element, shape, bytes: tensor.bytes.clone() }.into())?
        }
        None => {
            let zero_point = emit.operand(zero_point)?;
            emit.reshape(zero_point, &aligned)?
        }
    };
    Ok((emit.reshape(scale, &aligned)?, zero_point))
}

/// DynamicQuantizeLinear.
pub fn dynamic(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    Ok(dynamically(input, emit)?.map(Value::from).to_vec())
}

/// The quantized input, its scale, and its zero point. They are uint8 and come from the input's range, which includes 0.
pub fn dynamically(input: OperandId, emit: &mut Emit<'_>) -> Mapped<[OperandId; 3]> {
    let input = emit.cast(input, DataType::Float32)?;
    let outputs = emit.push_all(DynamicQuantizeLinear { input })?;
    <[OperandId; 3]>::try_from(&outputs[..]).map_err(|_| "there are three outputs".into())
}

/// What a quantized operand stands for without its scale: `x - zero point`, as float32, which holds such numbers exactly.
pub fn centred(input: OperandId, zero_point: Option<OperandId>, at: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let one = emit.scalar(DataType::Float32, 1.0)?;
    scaled(input, one, zero_point, at, emit)
}

/// `(x - zero point) * scale`, as float32. A vector of scales or zero points lies along an axis.
pub fn scaled(
    input: OperandId,
    scale: OperandId,
    zero_point: Option<OperandId>,
    at: usize,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let (rank, element) = (emit.rank(input), emit.data_type(input));
    let mut scale = emit.cast(scale, DataType::Float32)?;
    let mut zero_point = match zero_point {
        Some(zero_point) => zero_point,
        None => emit.operand(&zeros(element.into(), Vec::new())?)?,
    };
    for vector in [&mut scale, &mut zero_point] {
        let shape = emit.shape(*vector);
        if shape.iter().all(|&size| size == 1) {
            *vector = emit.reshape(*vector, &vec![1; rank])?;
        } else {
            *vector = per_axis(*vector, at, rank, emit)?;
        }
    }
    let shapes = [emit.shape(scale), emit.shape(zero_point)];
    if shapes[0].iter().all(|&size| size == 1) {
        scale = emit.expand(scale, &shapes[1])?;
    } else if shapes[1].iter().all(|&size| size == 1) {
        zero_point = emit.expand(zero_point, &shapes[0])?;
    }
    emit.push(DequantizeLinear { input, scale, zero_point })
}

/// A vector along an axis; a single number for all.
pub fn per_axis(vector: OperandId, at: usize, rank: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
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

pub fn matmul_integer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (zero_a, zero_b) = (emit.optional(node, 2)?, emit.optional(node, 3)?);
    one(integer_product((a, zero_a), (b, zero_b), emit)?)
}

/// MatMulInteger16: the sums modulo 2³², as of integers that overflow. A number of 16 bits is 256 times its upper byte and the lower one, and
/// products of bytes are exact.
pub fn matmul_integer_16(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    for position in 0..2 {
        let element = emit.element(node.input(position)?);
        if element != ElementType::Int16 {
            return Err(format!("an input of {element}, where int16 is computed").into());
        }
    }
    let mut bytes = |position| -> Mapped<[OperandId; 2]> {
        let numbers = narrow::held(node.input(position)?, ElementType::Int16, emit)?;
        let numbers = emit.operand(&numbers)?;
        let radix = emit.scalar(DataType::Int32, 256.0)?;
        let low = emit.push(Remainder { kind: RemainderKind::Floored, a: numbers, b: radix })?;
        let rest = emit.sub(numbers, low)?;
        let high = emit.push(Binary { kind: BinaryKind::Div, a: rest, b: radix })?;
        Ok([emit.cast(high, DataType::Int8)?, emit.cast(low, DataType::Uint8)?])
    };
    let ([a_high, a_low], [b_high, b_low]) = (bytes(0)?, bytes(1)?);
    let mut product = |a, b| integer_product((a, None), (b, None), emit);
    let (high, low) = (product(a_high, b_high)?, product(a_low, b_low)?);
    let (left, right) = (product(a_high, b_low)?, product(a_low, b_high)?);
    let mut sum = high;
    for addend in [emit.add(left, right)?, low] {
        let radix = emit.scalar(DataType::Int32, 256.0)?;
        let shifted = emit.mul(sum, radix)?;
        sum = emit.add(shifted, addend)?;
    }
    one(sum)
}

/// The product of matrices of bytes, each with its zero point, if it has one: one number, or one for each row of the left matrix
/// or column of the right one.
pub fn integer_product(
    (a, zero_a): (OperandId, Option<OperandId>),
    (b, zero_b): (OperandId, Option<OperandId>),
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let (rank_a, rank_b) = (emit.rank(a), emit.rank(b));
    if rank_a < 2 || rank_b < 2 {
        return Err("vectors are not supported".into());
    }
    let a_zero_point = zero_a.map(|zero_point| per_axis(zero_point, rank_a - 2, rank_a, emit)).transpose()?;
    let b_zero_point = zero_b.map(|zero_point| per_axis(zero_point, rank_b - 1, rank_b, emit)).transpose()?;
    emit.push(QuantizedMatmul { a, b, a_zero_point, b_zero_point })
}

/// ConvInteger, in float32.
pub fn conv_integer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (zero_input, zero_filter) = (emit.optional(node, 2)?, emit.optional(node, 3)?);
    let input = centred(input, zero_input, 1, emit)?;
    let filter = centred(filter, zero_filter, 0, emit)?;
    if emit.rank(input) == 5 {
        let groups = size(node.int("group", 1)?)?;
        return one(sums_of_channels((input, filter), groups, emit, &mut |[input, filter], emit| {
            volume::convolution(node, input, filter, None, emit)
        })?);
    }
    one(conv::images(node, input, filter, None, emit, &mut |op, emit| {
        sums_of_channels((op.input, op.filter), op.groups, emit, &mut |[input, filter], emit| {
            emit.push(Conv2d { input, filter, ..op.clone() })
        })
    })?)
}

/// The sums of a convolution of whole numbers in float32, as int32. float32 sums are exact up to 2²⁴: in parts of the channels that
/// cannot exceed it, which are added as integers. (One channel's window has to fit.)
fn sums_of_channels(
    (input, filter): (OperandId, OperandId),
    groups: u32,
    emit: &mut Emit<'_>,
    convolve: &mut dyn FnMut([OperandId; 2], &mut Emit<'_>) -> Mapped<OperandId>,
) -> Mapped<OperandId> {
    // A product is at most 255 * 255.
    const EXACT: u64 = (1 << 24) / (255 * 255);
    let (image, shape) = (emit.shape(input), emit.shape(filter));
    let (Some(&channels), true) = (shape.get(1), image.len() > 1) else { return Err("no channels".into()) };
    let window: u64 = shape[2..].iter().map(|&size| u64::from(size)).product();
    let most = size((EXACT / window.max(1)).max(1))?;
    let mut result = None;
    for start in (0..channels).step_by(most as usize) {
        let length = most.min(channels - start);
        let left = if length == channels {
            input
        } else if groups == 1 {
            emit.slice_axis(input, 1, start, length)?
        } else {
            // The same channels of each group.
            let [mut by_group, mut joined] = [groups, 0].map(|groups| vec![image[0], groups]);
            by_group.push(image[1] / groups.max(1));
            joined[1] = size(u64::from(groups) * u64::from(length))?;
            [&mut by_group, &mut joined].into_iter().for_each(|to| to.extend(&image[2..]));
            let grouped = emit.reshape(input, &by_group)?;
            let part = emit.slice_axis(grouped, 2, start, length)?;
            emit.reshape(part, &joined)?
        };
        let right = if length == channels { filter } else { emit.slice_axis(filter, 1, start, length)? };
        let part = convolve([left, right], emit)?;
        let part = emit.cast(part, DataType::Int32)?;
        result = Some(match result {
            Some(sum) => emit.add(sum, part)?,
            None => part,
        });
    }
    result.ok_or_else(|| "no channels".into())
}
