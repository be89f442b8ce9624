//! Arithmetic on integers of 16 bits, which operands of 32 bits hold: results are brought back to 16, as they would overflow there.

use super::Entry;
use crate::graph::ops::elementwise::{Remainder, RemainderKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Operators that may give what 16 bits do not hold.
const OVERFLOW: [&str; 6] = ["Abs", "Add", "Div", "Mul", "Neg", "Sub"];

/// Operators that give numbers between those that they are given, or truth values.
const STAY: [&str; 12] =
    ["Clip", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Mod", "Relu", "Sign", "Where"];

/// Whether an operator computes with such integers.
pub fn computes(node: &Node<'_>, element: ElementType) -> bool {
    let operator = node.operator();
    element.is_short() && node.proto.domain.is_empty() && (OVERFLOW.contains(&operator) || STAY.contains(&operator))
}

/// The outputs of such an operator.
pub fn map(entry: &Entry, node: &Node<'_>, element: ElementType, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut held = |value: &Value| match value.constant().filter(|tensor| tensor.element.is_short()) {
        Some(tensor) if emit.folding.affords(&tensor.shape) => Ok(tensor.cast(ElementType::Int32).into()),
        Some(_) => Err("too much to compute at import"),
        None => Ok(value.clone()),
    };
    let inputs = node.inputs.iter().map(|value| value.as_ref().map(&mut held).transpose()).collect::<Result<Vec<_>, _>>()?;
    let outputs = (entry.map)(&Node { inputs, ..*node }, emit)?;
    let back = |value: Value| {
        let Value::Operand(id) = value else { return Ok(value) };
        // Truth values are none of them.
        if emit.data_type(id) != DataType::Int32 {
            return Ok(value);
        }
        let id = if OVERFLOW.contains(&node.operator()) { wrap(id, element, emit)? } else { id };
        emit.short.insert(id, element);
        Ok(id.into())
    };
    outputs.into_iter().map(back).collect()
}

/// The numbers modulo 2^16, in the range of the element type.
pub fn wrap(numbers: OperandId, element: ElementType, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let b = emit.scalar(DataType::Int32, 65536.0)?;
    let mut remainder = |a| emit.push(Remainder { kind: RemainderKind::Floored, a, b });
    let unsigned = remainder(numbers)?;
    let (low, _) = element.range();
    if low == 0 {
        return Ok(unsigned);
    }
    let half = emit.scalar(DataType::Int32, 32768.0)?;
    let moved = emit.add(unsigned, half)?;
    let moved = emit.push(Remainder { kind: RemainderKind::Floored, a: moved, b })?;
    emit.sub(moved, half)
}
