//! Operators of com.microsoft on weights of few bits that are quantized in blocks: MatMulNBits, MatMulBnb4 and
//! GatherBlockQuantized.

use super::elementwise::one;
use crate::graph::ops::block_quantized::{BITS, BlockQuantizedMatmul, WeightCoding};
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::{DataType, OperandId};
use crate::memory;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Weights are [N, blocks, bytes of a block] of uint8; scales [N, blocks]; zero points are numbers or packed like the weights, each
/// row of its own, and the middle of the range where there are none.
pub fn matmul(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let number = |name: &str| -> Mapped<u32> { size(node.int(name, 0)?) };
    let (inner, columns, block_size) = (number("K")?, number("N")?, number("block_size")?);
    let bits = size(node.int("bits", 4)?)?;
    if !BITS.contains(&bits) {
        return Err(format!("{bits} bits are not supported, only 2, 3, 4 and 8 are").into());
    }
    if block_size == 0 || inner == 0 || columns == 0 {
        return Err(format!("blocks of {block_size}, K = {inner}, N = {columns}").into());
    }
    let level = node.int("accuracy_level", 0)?;
    if !(0..=4).contains(&level) {
        return Err(format!("the attribute accuracy_level = {level}, where 0 to 4 are allowed").into());
    }
    let mut a = emit.input(node, 0)?;
    let blocks = inner.div_ceil(block_size);
    let bytes = |count: u32| size((u64::from(count) * u64::from(bits)).div_ceil(8));
    let row = size(u64::from(blocks) * u64::from(bytes(block_size)?))?;
    let mut weights = in_shape(node, 1, &[columns, row], emit)?;
    if emit.data_type(weights) != DataType::Uint8 {
        return Err(format!("weights of {}, where uint8 is needed", emit.data_type(weights)).into());
    }
    let groups = Groups::of(node, [inner, block_size, blocks])?;
    let mut scales = in_shape(node, 2, &[columns, blocks], emit)?;
    let mut zero_points = match node.optional(3) {
        None => None,
        Some(value) => {
            let length = if emit.element(value) == ElementType::Uint8 { bytes(blocks)? } else { blocks };
            Some(in_shape(node, 3, &[columns, length], emit)?)
        }
    };
    if let Some(groups) = groups {
        let tensor = node.constant(1, "the weights, beside g_idx,")?;
        let sorted = picked_bits(tensor, columns, Some(block_size as usize), bits, &groups.order, emit)?;
        weights = emit.constant(sorted)?;
        a = groups.sorted(a, emit)?;
        scales = groups.of_groups(scales, emit)?;
        zero_points = match zero_points {
            // Packed ones have a row of whole bytes.
            Some(points) if emit.data_type(points) == DataType::Uint8 => {
                let tensor = node.constant(3, "the zero points, beside g_idx,")?;
                let places: Vec<Option<usize>> = groups.of_blocks.iter().copied().map(Some).collect();
                let picked = picked_bits(tensor, columns, None, bits, &places, emit)?;
                Some(emit.constant(picked)?)
            }
            Some(points) => Some(groups.of_groups(points, emit)?),
            None => None,
        };
    }
    let coding = if zero_points.is_some() { WeightCoding::Unsigned } else { WeightCoding::Offset };
    let weights = BlockQuantizedMatmul {
        a,
        weights,
        scales,
        bits,
        block_size,
        zero_points,
        code_book: None,
        bias: None,
        coding,
        by_depth: false,
        high_first: false,
        approximate: level == 4,
    };
    one(quantized_product(weights, emit.optional(node, 5)?, emit)?)
}

/// A product of rows, or of one, to which a row may be added.
fn quantized_product(mut op: BlockQuantizedMatmul, bias: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(op.a);
    let Some(&depth) = shape.last() else { return Err("a scalar in a product of matrices".into()) };
    if shape.len() == 1 {
        op.a = emit.reshape(op.a, &[1, depth])?;
    }
    if let Some(bias) = bias {
        let columns = emit.shape(op.scales)[0];
        let bias = emit.cast(bias, emit.data_type(op.a))?;
        op.bias = Some(emit.reshape(bias, &[columns])?);
    }
    let result = emit.push(op)?;
    if shape.len() > 1 {
        return Ok(result);
    }
    let columns = emit.shape(result)[1];
    emit.reshape(result, &[columns])
}

/// An input in another shape: the bytes of a constant as they are.
fn in_shape(node: &Node<'_>, position: usize, shape: &[u32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let value = node.input(position)?;
    let found = value.shape(emit.builder);
    let count = found.iter().fold(1u64, |count, &size| count.saturating_mul(size as u64));
    if count != shape.iter().fold(1u64, |count, &size| count.saturating_mul(size.into())) {
        return Err(format!("input {position} of shape {found:?}, where {shape:?} is needed").into());
    }
    match value.constant() {
        Some(tensor) => {
            let shape = shape.iter().map(|&size| size as usize).collect();
            emit.operand(&Tensor { element: tensor.element, shape, bytes: tensor.bytes.clone() }.into())
        }
        None => {
            let value = emit.input(node, position)?;
            emit.reshape(value, shape)
        }
    }
}

/// Steps in depth in the order of the groups that `g_idx` puts them into.
struct Groups {
    /// For each step of the sorted weights the one that it was; nothing after the end of a group that does not fill its last block.
    order: Vec<Option<usize>>,
    /// The group of each block.
    of_blocks: Vec<usize>,
}

impl Groups {
    /// Nothing where the steps lie in the order of their groups, each of which is a block.
    fn of(node: &Node<'_>, [inner, block_size, blocks]: [u32; 3]) -> Mapped<Option<Groups>> {
        let Some(groups) = node.optional_constant(4, "the input g_idx")? else { return Ok(None) };
        let groups = groups.integers();
        let (inner, block_size) = (inner as usize, block_size as usize);
        if groups.len() < inner {
            return Err(format!("{} elements of g_idx for K = {inner}", groups.len()).into());
        }
        let groups = &groups[..inner];
        if let Some(group) = groups.iter().find(|group| !(0..i64::from(blocks)).contains(*group)) {
            return Err(format!("the group {group} in g_idx, allowed 0 to {}", blocks - 1).into());
        }
        if (0..inner).all(|k| groups[k] == (k / block_size) as i64) {
            return Ok(None);
        }
        let mut sorted: Vec<usize> = (0..inner).collect();
        sorted.sort_by_key(|&k| groups[k]);
        let (mut order, mut of_blocks) = (Vec::new(), Vec::new());
        for steps in sorted.chunk_by(|&a, &b| groups[a] == groups[b]) {
            of_blocks.resize(of_blocks.len() + steps.len().div_ceil(block_size), groups[steps[0]] as usize);
            order.extend(steps.iter().copied().map(Some));
            order.resize(of_blocks.len() * block_size, None);
        }
        Ok(Some(Groups { order, of_blocks }))
    }

    /// The rows of `a` in that order, with zeros where there is no step.
    fn sorted(&self, a: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let mut shape = emit.shape(a);
        let axis = shape.len().checked_sub(1).ok_or("a scalar in a product of matrices")?;
        let inner = std::mem::replace(&mut shape[axis], 1);
        let mut a = a;
        if self.order.contains(&None) {
            let zero = emit.scalar(emit.data_type(a), 0.0)?;
            let zeros = emit.expand(zero, &shape)?;
            a = emit.concat(vec![a, zeros], axis)?;
        }
        let order: Vec<i64> = self.order.iter().map(|step| step.map_or(inner.into(), |k| k as i64)).collect();
        let order = emit.constant(Tensor::int64s(&order))?;
        emit.gather(a, order, axis)
    }

    /// Numbers of blocks, [columns, blocks], for the blocks of the sorted weights.
    fn of_groups(&self, numbers: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let places: Vec<i64> = self.of_blocks.iter().map(|&group| group as i64).collect();
        let places = emit.constant(Tensor::int64s(&places))?;
        emit.gather(numbers, places, 1)
    }
}

/// Rows of integers of a few bits, [columns, bytes], with the integers at those places in their order; 0 where there is none. So many of
/// them begin with a whole byte, or only a row does.
fn picked_bits(
    tensor: &Tensor,
    columns: u32,
    unit: Option<usize>,
    bits: u32,
    places: &[Option<usize>],
    emit: &mut Emit<'_>,
) -> Mapped<Tensor> {
    let (columns, bits) = (columns as usize, bits as usize);
    let place = |k: usize| match unit {
        Some(unit) => k / unit * (unit * bits).div_ceil(8) * 8 + k % unit * bits,
        None => k * bits,
    };
    let row = match unit {
        Some(unit) => place(places.len().next_multiple_of(unit)) / 8,
        None => (places.len() * bits).div_ceil(8),
    };
    let length = columns.checked_mul(row).ok_or("too many elements")?;
    if !emit.folding.charge(length) {
        return Err("too much to compute at import".into());
    }
    let mut bytes = memory::filled(0, length)?;
    let of_row = tensor.bytes.len() / columns.max(1);
    for (from, to) in tensor.bytes.chunks_exact(of_row.max(1)).zip(bytes.chunks_exact_mut(row.max(1))).take(columns) {
        for (new, old) in places.iter().enumerate() {
            let Some(old) = *old else { continue };
            let (old, new) = (place(old), place(new));
            for bit in 0..bits {
                let is_set = from[(old + bit) / 8] >> ((old + bit) % 8) & 1;
                to[(new + bit) / 8] |= is_set << ((new + bit) % 8);
            }
        }
    }
    Ok(Tensor { element: ElementType::Uint8, shape: vec![columns, row], bytes: bytes.into() })
}

/// What the codes of bitsandbytes stand for: a sign, and then eighths, thirds and so on in an order of their own.
const FP4: [f32; 8] = [0.0, 0.005_208_333_5, 0.666_666_7, 1.0, 0.333_333_34, 0.5, 0.166_666_67, 0.25];
/// Quantiles of the normal distribution.
const NF4: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// MatMulBnb4: weights of 4 bits, the earlier one of two in the high half of a byte, whose codes are those of a table. Blocks go through
/// all rows of the transposed matrix.
pub fn bnb4(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let number = |name: &str| -> Mapped<u32> { size(node.int(name, 0)?) };
    let (inner, columns, whole) = (number("K")?, number("N")?, number("block_size")?);
    if whole == 0 || inner == 0 || columns == 0 {
        return Err(format!("blocks of {whole}, K = {inner}, N = {columns}").into());
    }
    if !node.flag("transB", true)? {
        return Err("the attribute transB = 0 is not supported".into());
    }
    let table = match node.int("quant_type", 1)? {
        0 => FP4.iter().copied().chain(FP4.iter().map(|x| -x)).map(f64::from).collect::<Vec<f64>>(),
        1 => NF4.iter().copied().map(f64::from).collect(),
        other => return Err(format!("the attribute quant_type = {other}, where 0 (FP4) and 1 (NF4) are allowed").into()),
    };
    // Blocks that each lie in one row.
    let block_size = divisor(inner, whole);
    if !block_size.is_multiple_of(2) {
        return Err(format!("blocks of {whole} for K = {inner}, which begin within a byte, are not supported").into());
    }
    let a = emit.input(node, 0)?;
    let weights = in_shape(node, 1, &[columns, inner / 2], emit)?;
    let count = (u64::from(inner) * u64::from(columns)).div_ceil(whole.into());
    let mut scales = in_shape(node, 2, &[size(count)?], emit)?;
    let blocks = inner / block_size;
    if block_size != whole {
        emit.reserve(&[columns.into(), blocks.into()])?;
        let of_block = |i: u64| (i * u64::from(block_size) / u64::from(whole)) as i64;
        let places: Vec<i64> = (0..u64::from(columns) * u64::from(blocks)).map(of_block).collect();
        let places = emit.constant(Tensor::int64s(&places))?;
        scales = emit.gather(scales, places, 0)?;
    }
    let scales = emit.reshape(scales, &[columns, blocks])?;
    let code_book = emit.constant(Tensor::from_floats(ElementType::Float, vec![16], &table))?;
    let op = BlockQuantizedMatmul {
        a,
        weights,
        scales,
        bits: 4,
        block_size,
        zero_points: None,
        code_book: Some(code_book),
        bias: None,
        coding: WeightCoding::Unsigned,
        by_depth: false,
        high_first: true,
        approximate: false,
    };
    one(quantized_product(op, None, emit)?)
}

/// The greatest common divisor.
fn divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { divisor(b, a % b) }
}

/// GatherBlockQuantized: elements of a table that is quantized in blocks along an axis. What is gathered is dequantized, not the
/// table. Of packed elements (uint8 with 2 or 4 bits) the earlier ones are in the lower bits, and zero points are packed likewise.
pub fn gather(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let table = node.input(0)?;
    let bits = node.int("bits", 4)?;
    let block = size(node.int("block_size", 128)?)?;
    let element = emit.element(table);
    let of_byte = match (element, bits) {
        (ElementType::Int4 | ElementType::Uint4, 4) => 2,
        (ElementType::Uint8, 2 | 4 | 8) => 8 / bits as u32,
        _ => return Err(format!("{bits} bits in elements of {element}").into()),
    };
    if block == 0 {
        return Err("blocks of 0".into());
    }
    let scale = emit.input(node, 2)?;
    let of_scale = emit.shape(scale);
    let rank = of_scale.len();
    let at = axis(node.int("gather_axis", 0)?, rank)?;
    let indices = emit.indices(node, 1, &[of_scale[at]], Negative::FromEnd)?;
    let along = axis(node.int("quantize_axis", 1)?, rank)?;
    let halves = element != ElementType::Uint8;
    if at == along || of_byte > 1 && !halves && at + 1 == rank {
        return Err("elements that are gathered along the axis of the blocks, or of packed elements, are not supported".into());
    }
    // What is gathered of an input, as float32.
    let gathered = |position: usize, emit: &mut Emit<'_>| -> Mapped<Option<OperandId>> {
        let Some(value) = node.optional(position) else { return Ok(None) };
        let found = value.shape(emit.builder);
        if found.len() != rank {
            return Err(format!("input {position} of rank {} beside scales of rank {rank}", found.len()).into());
        }
        let (bytes, of_byte) = match value.constant().filter(|_| halves) {
            // Rows of whole bytes stay packed.
            Some(tensor) if at + 1 < rank && tensor.shape[rank - 1].is_multiple_of(2) => {
                let mut shape = tensor.shape.clone();
                shape[rank - 1] /= 2;
                let tensor = Tensor { element: ElementType::Uint8, shape, bytes: tensor.bytes.clone() };
                (emit.operand(&tensor.into())?, 2)
            }
            Some(tensor) if emit.folding.charge(tensor.count()) => {
                let by = if element == ElementType::Int4 { ElementType::Int8 } else { ElementType::Uint8 };
                (emit.operand(&tensor.cast(by).into())?, 1)
            }
            Some(_) => return Err("too much to compute at import".into()),
            None => (emit.operand(value)?, if halves { 1 } else { of_byte }),
        };
        let bytes = emit.gather(bytes, indices, at)?;
        Ok(Some(match of_byte {
            1 => emit.cast(bytes, DataType::Float32)?,
            _ => unpacked(bytes, of_byte, element == ElementType::Int4, emit)?,
        }))
    };
    let numbers = gathered(0, emit)?.ok_or("the table is missing")?;
    let zero_point = match gathered(3, emit)? {
        Some(points) => {
            // A row of zero points that do not fill its last byte.
            let last = emit.rank(points).checked_sub(1).ok_or("zero points without dimensions")?;
            match at + 1 < rank {
                true => Some(emit.slice_axis(points, last, 0, of_scale[rank - 1])?),
                false => Some(points),
            }
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
        None => emit.with(BinaryKind::Sub, numbers, f64::from(1u32 << (bits - 1)))?,
    };
    let scale = spread(scale, along, block, length, emit)?;
    let result = emit.mul(centred, scale)?;
    one(emit.cast(result, of)?)
}

/// The so many elements of each byte, as float32.
fn unpacked(bytes: OperandId, of_byte: u32, signed: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let base = f64::from(1u32 << (8 / of_byte));
    let mut shape = emit.shape(bytes);
    shape.push(1);
    let (mut parts, mut rest) = (Vec::new(), bytes);
    for part in 0..of_byte {
        let number = if part + 1 == of_byte {
            rest
        } else {
            let high = emit.with(BinaryKind::Div, rest, base)?;
            let above = emit.with(BinaryKind::Mul, high, base)?;
            let low = emit.sub(rest, above)?;
            rest = high;
            low
        };
        parts.push(emit.reshape(number, &shape)?);
    }
    let together = emit.concat(parts, shape.len() - 1)?;
    shape.pop();
    let last = shape.last_mut().ok_or("bytes of rank 0")?;
    *last = last.checked_mul(of_byte).ok_or("too many elements")?;
    let numbers = emit.reshape(together, &shape)?;
    let numbers = emit.cast(numbers, DataType::Float32)?;
    if !signed {
        return Ok(numbers);
    }
    let negative = emit.compare(LogicalKind::GreaterOrEqual, numbers, base / 2.0)?;
    let lowered = emit.with(BinaryKind::Sub, numbers, base)?;
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
