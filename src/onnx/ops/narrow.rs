//! Integers of 16 and of 4 bits, which operands of 32 bits hold: what of operators may be given them, and results of arithmetic that are
//! brought back to their bits, as they would overflow there.

use super::Entry;
use crate::graph::ops::elementwise::{Remainder, RemainderKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Operators that may give what the bits do not hold.
const OVERFLOW: [&str; 9] = ["Abs", "Add", "BitShift", "BitwiseNot", "Div", "Mul", "Neg", "Shrink", "Sub"];

/// Operators that give numbers between those that they are given, or truth values and indices.
const STAY: [&str; 17] = [
    "ArgMax",
    "ArgMin",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Clip",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Min",
    "Mod",
    "Relu",
    "Sign",
    "TopK",
];

/// Operators whose outputs are elements of their inputs.
const MOVE: [&str; 25] = [
    "CenterCropPad",
    "Compress",
    "Concat",
    "DepthToSpace",
    "Expand",
    "ExpandDims",
    "Flatten",
    "Gather",
    "GatherElements",
    "GatherND",
    "Identity",
    "Pad",
    "Reshape",
    "ReverseSequence",
    "Slice",
    "SpaceToDepth",
    "Split",
    "Squeeze",
    "TensorScatter",
    "Tile",
    "Transpose",
    "Trilu",
    "Unique",
    "Unsqueeze",
    "Where",
];

/// The same of some elements, and what an attribute says of others.
const SCATTER: [&str; 3] = ["Scatter", "ScatterElements", "ScatterND"];

/// Operators that take such integers, and whose results are of other types, or of those that the node says.
const TAKE: [&str; 7] = ["Cast", "CastLike", "DequantizeLinear", "MatMulInteger16", "QuantizeLinear", "Shape", "Size"];

/// What becomes of a node that is given such integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It makes others of the same type.
    Makes(ElementType),
    /// Its mapping knows what they are.
    Takes,
    /// There is no such operator.
    Refuses(ElementType),
}

/// What becomes of a node; nothing where no input is of such integers. Constants are no operands of 32 bits yet, so what has been able to
/// read them as they are still does.
pub fn role(node: &Node<'_>, emit: &Emit<'_>) -> Option<Role> {
    let elements = || node.inputs.iter().flatten().filter(|value| value.is_tensor()).map(|value| (value, emit.element(value)));
    let held = elements().find(|(value, element)| element.is_narrow() && value.constant().is_none());
    let short = elements().find(|(_, element)| element.is_short());
    let (_, element) = held.or(short)?;
    let operator = node.operator();
    let is_arithmetic = OVERFLOW.contains(&operator) || STAY.contains(&operator);
    let is_result = MOVE.contains(&operator)
        || SCATTER.contains(&operator) && (element.is_short() || reduction(node).is_none())
        || element.is_short() && node.proto.domain.is_empty() && is_arithmetic;
    if is_result {
        Some(Role::Makes(element))
    } else if TAKE.contains(&operator) || held.is_none() {
        Some(Role::Takes)
    } else {
        Some(Role::Refuses(element))
    }
}

/// How such a node combines elements.
fn reduction(node: &Node<'_>) -> Option<String> {
    node.string("reduction", "none").ok().filter(|name| name != "none" && node.operator() != "Scatter")
}

/// A value of such integers in 32 bits, where it is a constant.
pub fn held(value: &Value, element: ElementType, emit: &mut Emit<'_>) -> Mapped<Value> {
    match value.constant().filter(|tensor| tensor.element == element) {
        Some(tensor) if emit.folding.charge(tensor.count().saturating_mul(4)) => Ok(tensor.cast(ElementType::Int32).into()),
        Some(_) => Err("too much to compute at import".into()),
        None => Ok(value.clone()),
    }
}

/// The outputs of a node that makes such integers.
pub fn map(entry: &Entry, node: &Node<'_>, element: ElementType, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut held = |value: &Value| held(value, element, emit);
    let inputs = node.inputs.iter().map(|value| value.as_ref().map(&mut held).transpose()).collect::<Result<Vec<_>, _>>()?;
    let outputs = (entry.map)(&Node { inputs, ..*node }, emit)?;
    let combines = SCATTER.contains(&node.operator()) && reduction(node).is_some();
    let overflows = OVERFLOW.contains(&node.operator()) || combines;
    let back = |value: Value| match value {
        // Truth values and indices are none of them.
        Value::Operand(id) if emit.data_type(id) == DataType::Int32 => {
            let id = if overflows { wrap(id, element, emit)? } else { id };
            emit.short.insert(id, element);
            Ok(id.into())
        }
        Value::Constant(constant) if constant.tensor.element == ElementType::Int32 => Ok(constant.tensor.cast(element).into()),
        value => Ok(value),
    };
    outputs.into_iter().map(back).collect()
}

/// The numbers modulo a power of two, in the range of the element type.
pub fn wrap(numbers: OperandId, element: ElementType, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let count = f64::from(1u32 << element.bits());
    let b = emit.scalar(DataType::Int32, count)?;
    let mut remainder = |a| emit.push(Remainder { kind: RemainderKind::Floored, a, b });
    let unsigned = remainder(numbers)?;
    let (low, _) = element.range();
    if low == 0 {
        return Ok(unsigned);
    }
    let half = emit.scalar(DataType::Int32, count / 2.0)?;
    let moved = emit.add(unsigned, half)?;
    let moved = emit.push(Remainder { kind: RemainderKind::Floored, a: moved, b })?;
    emit.sub(moved, half)
}
