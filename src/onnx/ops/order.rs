//! Operators that order elements. WebNN has argMax only; the others are put together from it and from comparisons.

use super::elementwise::one;
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::gather::GatherElements;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::fold;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Elements of the largest comparison of all elements with each other, and the most steps otherwise.
const MOST_COMPARISONS: u64 = 1 << 24;
const MOST_STEPS: u32 = 128;

/// TopK: values and int64 indices of the k largest or smallest elements along an axis, of equal ones the earlier first.
pub fn top_k(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let count = match node.version {
        ..10 => node.int("k", 0)?,
        _ => match node.constant(1, "the number K")?.integers()[..] {
            [count] => count,
            _ => return Err("a number K that is no scalar".into()),
        },
    };
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let at = axis(node.int("axis", -1)?, shape.len())?;
    let count = size(count)?;
    if count == 0 || count > shape[at] {
        return Err(format!("{count} elements of {}", shape[at]).into());
    }
    let largest = node.flag("largest", true)?;
    // The axis comes last.
    let mut permutation: Vec<usize> = (0..shape.len()).collect();
    permutation.swap(at, shape.len() - 1);
    let moved = emit.transpose(input, &permutation)?;
    let all = shape.iter().map(|&size| u64::from(size)).product::<u64>();
    let indices = if count == 1 {
        arg(moved, largest, true).push(emit)?
    } else if all.saturating_mul(shape[at].into()) <= MOST_COMPARISONS {
        by_rank(moved, count, largest, emit)?
    } else if count <= MOST_STEPS {
        one_by_one(moved, count, largest, emit)?
    } else {
        return Err(format!("{count} elements of {} in {all} are too many; WebNN has no such operator", shape[at]).into());
    };
    let last = size(shape.len() - 1)?;
    let values = emit.push(GatherElements { input: moved, indices, axis: last })?;
    Ok(vec![emit.transpose(values, &permutation)?.into(), emit.transpose(indices, &permutation)?.into()])
}

fn arg(input: OperandId, largest: bool, keep_dimensions: bool) -> ArgOfLast {
    ArgOfLast { input, kind: if largest { ArgKind::Max } else { ArgKind::Min }, keep_dimensions }
}

/// The position of the largest or smallest element of the last axis.
struct ArgOfLast {
    input: OperandId,
    kind: ArgKind,
    keep_dimensions: bool,
}

impl ArgOfLast {
    fn push(self, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let last = size(emit.rank(self.input) - 1)?;
        let ArgOfLast { input, kind, keep_dimensions } = self;
        emit.push(Arg { kind, input, axis: last, keep_dimensions, output_data_type: DataType::Int64 })
    }
}

/// Each element's rank is the number of those that come before it; the element of rank r is the r-th.
fn by_rank(input: OperandId, count: u32, largest: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let (rank, width) = (shape.len(), shape[shape.len() - 1]);
    let (mut own, mut other) = (shape.clone(), shape.clone());
    own.push(1);
    other.insert(rank - 1, 1);
    let (own, other) = (emit.reshape(input, &own)?, emit.reshape(input, &other)?);
    let kind = if largest { LogicalKind::Greater } else { LogicalKind::Lesser };
    let better = emit.logical(kind, other, own)?;
    let equal = emit.logical(LogicalKind::Equal, other, own)?;
    let (rows, columns) = (emit.positions(DataType::Int32, 2, 0, width)?, emit.positions(DataType::Int32, 2, 1, width)?);
    let earlier = emit.logical(LogicalKind::Lesser, columns, rows)?;
    let tied = emit.logical(LogicalKind::LogicalAnd, equal, earlier)?;
    let before = emit.logical(LogicalKind::LogicalOr, better, tied)?;
    let before = emit.cast(before, DataType::Int32)?;
    let ranks = emit.reduce(ReduceKind::Sum, before, &[rank], false)?;
    let mut aligned = shape.clone();
    aligned.insert(rank - 1, 1);
    let ranks = emit.reshape(ranks, &aligned)?;
    let wanted = emit.positions(DataType::Int32, 2, 0, count)?;
    let is_there = emit.logical(LogicalKind::Equal, ranks, wanted)?;
    let is_there = emit.cast(is_there, DataType::Int32)?;
    arg(is_there, true, false).push(emit)
}

/// The best element, then the best of the others, and so on.
fn one_by_one(input: OperandId, count: u32, largest: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let of = emit.data_type(input);
    if !of.is_float() {
        return Err(format!("so many elements of {of} are not supported").into());
    }
    let (rank, width) = (emit.rank(input), emit.shape(input)[emit.rank(input) - 1]);
    let positions = emit.positions(DataType::Int64, rank, rank - 1, width)?;
    let out = emit.scalar(of, if largest { f64::NEG_INFINITY } else { f64::INFINITY })?;
    let (mut rest, mut indices) = (input, Vec::new());
    for _ in 0..count {
        let best = arg(rest, largest, true).push(emit)?;
        indices.push(best);
        let taken = emit.logical(LogicalKind::Equal, positions, best)?;
        rest = emit.select(taken, out, rest)?;
    }
    emit.concat(indices, rank - 1)
}

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
        return Err("the size of its output depends on data, which no graph can express".into());
    };
    let shape = node.input(0)?.shape(emit.builder);
    let chosen: Vec<i64> = (0..).zip(condition.integers()).filter(|(_, truth)| *truth != 0).map(|(i, _)| i).collect();
    let (at, whole) = match node.optional_int("axis")? {
        Some(at) => (axis(at, shape.len())?, None),
        None => (0, Some(shape.iter().product::<usize>())),
    };
    if chosen.last().is_some_and(|&last| last as usize >= whole.unwrap_or_else(|| shape[at])) {
        return Err("a condition that is longer than the axis".into());
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
        return Ok(vec![Tensor { element, shape: target, bytes: Default::default() }.into()]);
    }
    let indices = emit.constant(indices)?;
    one(emit.gather(input, indices, at)?)
}

/// ReverseSequence: the first elements along the time axis in reverse order, so many as each batch's length says.
pub fn reverse_sequence(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, lengths) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let rank = emit.rank(input);
    let (batch, time) = (axis(node.int("batch_axis", 1)?, rank)?, axis(node.int("time_axis", 0)?, rank)?);
    if batch == time {
        return Err("one axis for batch and time".into());
    }
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
