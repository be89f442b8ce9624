//! Reductions, positions of extreme values, softmax.

use super::elementwise::one;
use super::generate::reduced;
use crate::graph::ops::arg::{Arg, ArgKind};
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, UnaryKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axes, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// The axes are an attribute in earlier versions and an input since 13 (ReduceSum) or 18.
pub fn reduce(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let rank = node.input(0)?.shape(emit.builder).len();
    let list = node.ints_at(1, "axes")?.filter(|list| !list.is_empty());
    if list.is_none() && node.flag("noop_with_empty_axes", false)? {
        return no_axes(node, emit);
    }
    let list = list.unwrap_or_else(|| (0..rank as i64).collect());
    let keep = node.flag("keepdims", true)?;
    if let Some(known) = reduced(node, &list, keep, emit)? {
        return Ok(vec![known]);
    }
    let axes = axes(&list, rank)?;
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let kind = match node.operator() {
        "ReduceL1" => ReduceKind::L1,
        "ReduceL2" => ReduceKind::L2,
        "ReduceLogSum" => ReduceKind::LogSum,
        "ReduceLogSumExp" => ReduceKind::LogSumExp,
        "ReduceMax" => ReduceKind::Max,
        "ReduceMean" => ReduceKind::Mean,
        "ReduceMin" => ReduceKind::Min,
        "ReduceProd" => ReduceKind::Product,
        "ReduceSum" => ReduceKind::Sum,
        _ => ReduceKind::SumSquare,
    };
    match kind {
        ReduceKind::Mean if !of.is_float() => one(integer_mean(input, &axes, keep, emit)?),
        ReduceKind::L2 | ReduceKind::LogSum | ReduceKind::LogSumExp if !of.is_float() => {
            let wide = emit.cast(input, DataType::Float32)?;
            let result = emit.reduce(kind, wide, &axes, keep)?;
            one(emit.cast(result, of)?)
        }
        _ => one(emit.reduce(kind, input, &axes, keep)?),
    }
}

/// The mean of integers is their sum, divided as integers are. The sum may leave their type though the mean does not.
fn integer_mean(input: OperandId, axes: &[usize], keep: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let of = emit.data_type(input);
    let count = axes.iter().map(|&axis| u64::from(emit.shape(input)[axis])).product::<u64>() as f64;
    if !matches!(of, DataType::Int64 | DataType::Uint64) {
        // 2³¹ numbers of 32 bits have a sum of 63.
        let wide = emit.cast(input, DataType::Int64)?;
        let sum = emit.reduce(ReduceKind::Sum, wide, axes, keep)?;
        let mean = emit.with(BinaryKind::Div, sum, count)?;
        return emit.cast(mean, of);
    }
    // Quotients and remainders are added up by themselves: the sum is `count * quotients + remainders`.
    let quotients = emit.with(BinaryKind::Div, input, count)?;
    let product = emit.with(BinaryKind::Mul, quotients, count)?;
    let remainders = emit.sub(input, product)?;
    let quotients = emit.reduce(ReduceKind::Sum, quotients, axes, keep)?;
    let remainders = emit.reduce(ReduceKind::Sum, remainders, axes, keep)?;
    let more = emit.with(BinaryKind::Div, remainders, count)?;
    let mean = emit.add(quotients, more)?;
    if of == DataType::Uint64 {
        return Ok(mean);
    }
    // What is left has the sign of the remainders. Where the mean has the other one, it is too far from 0 by one.
    let product = emit.with(BinaryKind::Mul, more, count)?;
    let left = emit.sub(remainders, product)?;
    let (above, below) = (emit.compare(LogicalKind::Greater, mean, 0.0)?, emit.compare(LogicalKind::Lesser, mean, 0.0)?);
    let (missing, surplus) = (emit.compare(LogicalKind::Lesser, left, 0.0)?, emit.compare(LogicalKind::Greater, left, 0.0)?);
    let lowered = emit.logical(LogicalKind::LogicalAnd, above, missing)?;
    let raised = emit.logical(LogicalKind::LogicalAnd, below, surplus)?;
    let (lowered, raised) = (emit.cast(lowered, of)?, emit.cast(raised, of)?);
    let mean = emit.sub(mean, lowered)?;
    emit.add(mean, raised)
}

/// With no axes at all every element is reduced for itself.
fn no_axes(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    match node.operator() {
        "ReduceL1" | "ReduceL2" => one(emit.unary(UnaryKind::Abs, input)?),
        "ReduceLogSum" => one(emit.unary(UnaryKind::Log, input)?),
        "ReduceSumSquare" => one(emit.mul(input, input)?),
        _ => one(input),
    }
}

pub fn arg(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let kind = if node.operator() == "ArgMax" { ArgKind::Max } else { ArgKind::Min };
    let mut input = emit.input(node, 0)?;
    let at = axis(node.int("axis", 0)?, emit.rank(input))?;
    let last = node.flag("select_last_index", false)?;
    let whole = emit.shape(input)[at];
    if last {
        // The first from the other end.
        input = emit.push(crate::graph::ops::movement::Reverse { input, axes: Some(vec![size(at)?]) })?;
    }
    let keep_dimensions = node.flag("keepdims", true)?;
    let place = emit.push(Arg { kind, input, axis: size(at)?, keep_dimensions, output_data_type: DataType::Int64 })?;
    if !last {
        return one(place);
    }
    let end = emit.scalar(DataType::Int64, f64::from(whole) - 1.0)?;
    one(emit.sub(end, place)?)
}

/// Softmax and LogSoftmax. Before version 13 everything from the axis on counts as one dimension.
pub fn softmax(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let (at, last) = if node.version < 13 {
        let at = axis(node.int("axis", 1)?, shape.len())?;
        (at, at + 1 == shape.len())
    } else {
        (axis(node.int("axis", -1)?, shape.len())?, true)
    };
    let flat = if last {
        input
    } else {
        let product = |sizes: &[u32]| size(sizes.iter().map(|&size| u64::from(size)).product::<u64>());
        let target = [product(&shape[..at])?, product(&shape[at..])?];
        emit.reshape(input, &target)?
    };
    let at = if last { at } else { 1 };
    let result = match node.operator() {
        "Softmax" => emit.push(Softmax { input: flat, axis: size(at)? })?,
        _ => log_softmax(flat, at, emit)?,
    };
    one(emit.reshape(result, &shape)?)
}

/// `y - log(sum(exp(y)))` of `y = x - max(x)`, which cannot overflow.
fn log_softmax(input: OperandId, at: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let most = emit.reduce(ReduceKind::Max, input, &[at], true)?;
    let shifted = emit.sub(input, most)?;
    let powers = emit.unary(UnaryKind::Exp, shifted)?;
    let sum = emit.reduce(ReduceKind::Sum, powers, &[at], true)?;
    let log = emit.unary(UnaryKind::Log, sum)?;
    emit.sub(shifted, log)
}
