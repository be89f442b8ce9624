//! Operators that choose elements, or put them into another order.

use super::elementwise::one;
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::gather::GatherElements;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::fold;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Hardmax: 1 at the first of the largest elements, 0 elsewhere. Before version 13 everything from the axis on counts as one.
pub fn hardmax(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let at = axis(node.int("axis", if node.version < 13 { 1 } else { -1 })?, shape.len())?;
    let product = |sizes: &[u32]| size(sizes.iter().map(|&size| u64::from(size)).product::<u64>());
    let (flat, at) = if node.version < 13 {
        (emit.reshape(input, &[product(&shape[..at])?, product(&shape[at..])?])?, 1)
    } else {
        (input, at)
    };
    let found =
        Arg { kind: ArgKind::Max, input: flat, axis: size(at)?, keep_dimensions: true, output_data_type: DataType::Int32 };
    let place = emit.push(found)?;
    let positions = emit.positions(DataType::Int32, emit.rank(flat), at, emit.shape(flat)[at])?;
    let is_there = emit.logical(LogicalKind::Equal, positions, place)?;
    let result = emit.cast(is_there, emit.data_type(input))?;
    one(emit.reshape(result, &shape)?)
}

/// Compress: the slices for which a condition is true. How many they are must be known.
pub fn compress(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let Some(condition) = node.input(1)?.constant() else {
        return Err("the size of its output depends on data".into());
    };
    let shape = node.input(0)?.shape(emit.builder);
    let chosen: Vec<i64> = (0..).zip(condition.integers()).filter(|(_, truth)| *truth != 0).map(|(i, _)| i).collect();
    let (at, whole) = match node.optional_int("axis")? {
        Some(at) => (axis(at, shape.len())?, None),
        None => (0, Some(shape.iter().product::<usize>())),
    };
    let most = whole.unwrap_or_else(|| shape[at]);
    if let Some(last) = chosen.last().filter(|&&last| last as usize >= most) {
        return Err(format!("a condition that is true at {last}, beyond the {most} elements of the axis").into());
    }
    let indices = Tensor::int64s(&chosen);
    if let Some(tensor) = node.input(0)?.constant().filter(|tensor| emit.folding.affords(&tensor.shape)) {
        let tensor = whole.map_or_else(|| tensor.clone(), |whole| tensor.reshaped(vec![whole]));
        return Ok(vec![fold::gather(&tensor, &indices, at)?.into()]);
    }
    let mut input = emit.input(node, 0)?;
    if let Some(whole) = whole {
        input = emit.reshape(input, &[size(whole)?])?;
    }
    if chosen.is_empty() {
        let mut target: Vec<usize> = emit.shape(input).into_iter().map(|size| size as usize).collect();
        target[at] = 0;
        let element: ElementType = emit.data_type(input).into();
        return Ok(vec![Tensor::without_elements(element, target).into()]);
    }
    let indices = emit.constant(indices)?;
    one(emit.gather(input, indices, at)?)
}

/// ReverseSequence: the first elements along the time axis in reverse order, so many as each batch's length says.
pub fn reverse_sequence(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let rank = emit.rank(input);
    let (batch, time) = (axis(node.int("batch_axis", 1)?, rank)?, axis(node.int("time_axis", 0)?, rank)?);
    if batch == time {
        return Err("one axis for batch and time".into());
    }
    // A sequence may be as long as the axis.
    let most = emit.shape(input)[time].checked_add(1).ok_or("too many elements")?;
    let lengths = emit.indices(node, 1, &[most], Negative::Outside)?;
    one(reversed(input, lengths, [batch, time], emit)?)
}

/// The first elements along the time axis in reverse order, so many as the length of their batch says.
pub fn reversed(input: OperandId, lengths: OperandId, [batch, time]: [usize; 2], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let rank = shape.len();
    let mut aligned = vec![1; rank];
    aligned[batch] = shape[batch];
    let lengths = emit.cast(lengths, DataType::Int64)?;
    let lengths = emit.reshape(lengths, &aligned)?;
    let positions = emit.positions(DataType::Int64, rank, time, shape[time])?;
    let unit = emit.scalar(DataType::Int64, 1.0)?;
    let last = emit.sub(lengths, unit)?;
    let mirrored = emit.sub(last, positions)?;
    let within = emit.logical(LogicalKind::Lesser, positions, lengths)?;
    let indices = emit.select(within, mirrored, positions)?;
    let indices = emit.expand(indices, &shape)?;
    emit.push(GatherElements { input, indices, axis: size(time)? })
}
