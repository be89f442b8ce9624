//! Operations on the bits of integers, which WebNN does not have: arithmetic on unsigned integers stands for them.

use super::elementwise::one;
use crate::graph::ops::bitcast::Bitcast;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, data_type};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// BitCast: the bits of elements as elements of another type with as many bits.
pub fn cast(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let to = node.element("to")?.ok_or("the attribute to is missing")?;
    if let Some(tensor) = node.input(0)?.constant() {
        if tensor.element.bits() != to.bits() {
            return Err(format!("{} elements as {to} ones, which have another number of bits", tensor.element).into());
        }
        return Ok(vec![Tensor { element: to, ..tensor.clone() }.into()]);
    }
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let data_type = data_type(to)?;
    // double and bfloat16 are there as float32: their bits are not.
    if of.bits() != to.bits() || data_type.bits() != to.bits() {
        return Err(format!("{of} elements as {to} ones, which have another number of bits here").into());
    }
    let result = if of == data_type { input } else { emit.push(Bitcast { input, data_type })? };
    match to {
        // Any byte but 0 is true, and others count on 1.
        ElementType::Bool => {
            let zero = emit.scalar(data_type, 0.0)?;
            one(emit.logical(LogicalKind::NotEqual, result, zero)?)
        }
        _ => one(result),
    }
}

/// An integer as an unsigned one of as many bits, and its own type if that is another.
fn unsigned(input: OperandId, emit: &mut Emit<'_>) -> Mapped<(OperandId, Option<DataType>)> {
    let of = emit.data_type(input);
    let data_type = match of {
        DataType::Int8 => DataType::Uint8,
        DataType::Int32 => DataType::Uint32,
        DataType::Int64 => DataType::Uint64,
        DataType::Uint8 | DataType::Uint32 | DataType::Uint64 => return Ok((input, None)),
        _ => return Err(format!("an input of {of}, where integers are needed").into()),
    };
    Ok((emit.push(Bitcast { input, data_type })?, Some(of)))
}

/// The result of unsigned integers as one of the type that its inputs had.
fn back(result: OperandId, own: Option<DataType>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    match own {
        Some(data_type) => emit.push(Bitcast { input: result, data_type }),
        None => Ok(result),
    }
}

/// BitShift: a product with a power of two, or a quotient.
pub fn shift(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let left = match node.string("direction", "")?.as_str() {
        "LEFT" => true,
        "RIGHT" => false,
        other => return Err(format!("the direction {other:?}").into()),
    };
    let elements = [emit.element(node.input(0)?), emit.element(node.input(1)?)];
    let (input, by) = (emit.input(node, 0)?, emit.input(node, 1)?);
    // uint16 is held by int32, and more is known of it than of a constant that has been made one.
    if !elements.contains(&ElementType::Uint16)
        && !matches!(emit.data_type(input), DataType::Uint8 | DataType::Uint32 | DataType::Uint64)
    {
        return Err(format!("an input of {}, where unsigned integers are needed", elements[0]).into());
    }
    let ((input, own), (by, _)) = (unsigned(input, emit)?, unsigned(by, emit)?);
    let of = emit.data_type(input);
    let powers: Vec<i64> = (0..of.bits()).map(|bit| 1i64.wrapping_shl(bit as u32)).collect();
    let powers = emit.constant(Tensor::from_integers(of.into(), vec![powers.len()], &powers))?;
    let most = emit.scalar(of, of.bits() as f64 - 1.0)?;
    let limited = emit.binary(BinaryKind::Min, by, most)?;
    let places = emit.cast(limited, DataType::Int32)?;
    let power = emit.gather(powers, places, 0)?;
    let shifted = if left { emit.mul(input, power)? } else { emit.div(input, power)? };
    // Nothing is left when all bits are moved out.
    let all = emit.logical(LogicalKind::Greater, by, most)?;
    let zero = emit.scalar(of, 0.0)?;
    let result = emit.select(all, zero, shifted)?;
    one(back(result, own, emit)?)
}

/// BitwiseNot: the complement of an unsigned integer, or the negative of a signed one, less 1.
pub fn not(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    if of.is_float() {
        return Err(format!("an input of {of}").into());
    }
    let ones = emit.constant(Tensor::from_integers(of.into(), vec![], &[-1]))?;
    one(emit.sub(ones, input)?)
}

/// BitwiseAnd, BitwiseOr and BitwiseXor, bit by bit.
pub fn binary(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let ((a, own), (b, _)) = (unsigned(a, emit)?, unsigned(b, emit)?);
    let of = emit.data_type(a);
    let element: ElementType = of.into();
    let two = emit.scalar(of, 2.0)?;
    let (mut rest_a, mut rest_b, mut common) = (a, b, None);
    for bit in 0..of.bits() {
        let odd = |rest: &mut OperandId, emit: &mut Emit<'_>| -> Mapped<OperandId> {
            let half = emit.div(*rest, two)?;
            let even = emit.mul(half, two)?;
            let odd = emit.sub(*rest, even)?;
            *rest = half;
            Ok(odd)
        };
        let (of_a, of_b) = (odd(&mut rest_a, emit)?, odd(&mut rest_b, emit)?);
        let both = emit.mul(of_a, of_b)?;
        let power = emit.constant(Tensor::from_integers(element, vec![], &[1i64.wrapping_shl(bit as u32)]))?;
        let part = emit.mul(both, power)?;
        common = Some(match common {
            Some(sum) => emit.add(sum, part)?,
            None => part,
        });
    }
    let common = common.ok_or("no bits")?;
    if node.operator() == "BitwiseAnd" {
        return one(back(common, own, emit)?);
    }
    // Of the bits of both, common ones would count twice.
    let first = emit.sub(a, common)?;
    let either = emit.add(first, b)?;
    let result = if node.operator() == "BitwiseOr" { either } else { emit.sub(either, common)? };
    one(back(result, own, emit)?)
}
