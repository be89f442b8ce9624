//! Values from nothing but attributes and shapes.

use super::movement::expanded;
use crate::graph::OperandId;
use crate::graph::ops::elementwise::LogicalKind;
use crate::looks::Looking;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::fold;
use crate::onnx::node::{Node, axis};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

pub fn constant(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if let Some(tensor) = node.tensor("value")? {
        return Ok(vec![tensor.into()]);
    }
    if let Some(number) = node.optional_int("value_int")? {
        return Ok(vec![Tensor::from_integers(ElementType::Int64, vec![], &[number]).into()]);
    }
    if let Some(numbers) = node.ints("value_ints")? {
        return Ok(vec![Tensor::int64s(&numbers).into()]);
    }
    if let Some(number) = node.optional_float("value_float")? {
        return Ok(vec![Tensor::from_floats(ElementType::Float, vec![], &[number]).into()]);
    }
    if let Some(numbers) = node.floats("value_floats")? {
        let numbers: Vec<f64> = numbers.into_iter().map(f64::from).collect();
        return Ok(vec![Tensor::from_floats(ElementType::Float, vec![numbers.len()], &numbers).into()]);
    }
    if let Some(tensor) = node.sparse_tensor("sparse_value", |bytes| emit.folding.charge(bytes))? {
        return Ok(vec![tensor.into()]);
    }
    Err("a constant that is neither a tensor nor numbers".into())
}

pub fn constant_of_shape(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let wanted = node.constant(0, "the shape")?.integers();
    let shape: Vec<usize> =
        wanted.iter().map(|&size| usize::try_from(size).map_err(|_| "a negative size")).collect::<Result<_, _>>()?;
    let value = match node.tensor("value")? {
        Some(tensor) if tensor.count() == 1 => tensor.reshaped(vec![]),
        Some(_) => return Err("a value of several elements".into()),
        None => Tensor::from_floats(ElementType::Float, vec![], &[0.0]),
    };
    expanded(&value.into(), &shape, emit)
}

/// The shape, or a part of it from version 15 on.
pub fn shape(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let shape = node.input(0)?.shape(emit.builder);
    let rank = shape.len() as i64;
    let counted = |place: i64| (if place < 0 { place.saturating_add(rank) } else { place }).clamp(0, rank) as usize;
    let (start, end) = (counted(node.int("start", 0)?), counted(node.int("end", rank)?));
    let sizes: Vec<i64> = shape.get(start..end).unwrap_or_default().iter().map(|&size| size as i64).collect();
    Ok(vec![Tensor::int64s(&sizes).into()])
}

pub fn size(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let count: usize = node.input(0)?.shape(emit.builder).iter().product();
    Ok(vec![Tensor::from_integers(ElementType::Int64, vec![], &[count as i64]).into()])
}

/// Range: start, start + delta, … below the limit.
pub fn range(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let bound = |position, meaning| match node.constant(position, meaning)? {
        tensor if tensor.count() == 1 => Ok(tensor),
        _ => Err(crate::onnx::refusal::Reason::from(format!("{meaning} is no scalar"))),
    };
    let (start, limit, delta) = (bound(0, "the start")?, bound(1, "the limit")?, bound(2, "the step")?);
    let element = start.element;
    const MOST: f64 = (1 << 24) as f64;
    if element.is_float() {
        let (start, limit, delta) = (start.floats()[0], limit.floats()[0], delta.floats()[0]);
        let count = ((limit - start) / delta).ceil();
        if count.is_nan() || count > MOST {
            return Err("a range that does not end".into());
        }
        affordable(count as usize, emit)?;
        let numbers: Vec<f64> = (0..count as usize).map(|i| start + i as f64 * delta).collect();
        return Ok(vec![Tensor::from_floats(element, vec![numbers.len()], &numbers).into()]);
    }
    let (start, limit, delta) = (start.integers()[0] as i128, limit.integers()[0] as i128, delta.integers()[0] as i128);
    let span = if delta < 0 { start - limit } else { limit - start };
    let step = delta.abs();
    if step == 0 || span / step > MOST as i128 {
        return Err("a range that does not end".into());
    }
    let count = if span <= 0 { 0 } else { (span - 1) / step + 1 };
    affordable(count as usize, emit)?;
    let numbers: Vec<i64> = (0..count).map(|i| (start + i * delta) as i64).collect();
    Ok(vec![Tensor::from_integers(element, vec![numbers.len()], &numbers).into()])
}

/// A range is always computed here, so it is charged in pieces.
fn affordable(count: usize, emit: &mut Emit<'_>) -> Mapped<()> {
    let pieces = count / (1 << 16);
    let affords = (0..pieces).all(|_| emit.folding.affords(&[1 << 16])) && emit.folding.affords(&[count % (1 << 16)]);
    if affords { Ok(()) } else { Err("too much to compute at import".into()) }
}

pub fn eye_like(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let &[rows, columns] = &node.input(0)?.shape(emit.builder)[..] else { return Err("an input whose rank is not 2".into()) };
    if !emit.folding.affords(&[rows, columns]) {
        return Err("a matrix that is too large".into());
    }
    let element = match node.element("dtype")? {
        Some(element) => element,
        None => emit.stored_element(node.input(0)?),
    };
    let diagonal = node.int("k", 0)?;
    let is_one = |i: usize| ((i % columns.max(1)) as i64).checked_sub((i / columns.max(1)) as i64) == Some(diagonal);
    let truths: Vec<i64> = (0..rows * columns).map(|i| is_one(i).into()).collect();
    Ok(vec![Tensor::from_integers(ElementType::Int64, vec![rows, columns], &truths).cast(element).into()])
}

/// The positions of what is not 0, known only for what is known.
pub fn non_zero(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let tensor = node.constant(0, "what is searched")?;
    let rank = tensor.shape.len();
    if !emit.folding.affords(&tensor.shape) || !emit.folding.affords(&[rank, tensor.count()]) {
        return Err("too many elements to search at import".into());
    }
    let found: Vec<i64> = (0..).zip(tensor.floats()).looking(1).filter(|(_, x)| *x != 0.0).map(|(place, _)| place).collect();
    let mut coordinates = Vec::with_capacity(found.len() * rank);
    for dimension in 0..rank {
        let stride: usize = tensor.shape[dimension + 1..].iter().product();
        coordinates.extend(found.iter().looking(4).map(|place| place / stride as i64 % tensor.shape[dimension] as i64));
    }
    Ok(vec![Tensor::from_integers(ElementType::Int64, vec![rank, found.len()], &coordinates).into()])
}

/// Running sums of what is known are left to the graph too.
pub fn cumulative_sum(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let (exclusive, reversed) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    along_axis(node, input, emit, |at, emit| {
        let axis = crate::graph::attribute::Modulo(crate::onnx::node::size(at)?);
        emit.push(crate::graph::ops::cumulative::CumulativeSum { input, axis, exclusive, reversed })
    })
}

/// What `compute` makes of the axis that is input 1. Where it is known only when the graph runs, all axes are computed, and one
/// of the results is chosen.
fn along_axis(
    node: &Node<'_>,
    input: OperandId,
    emit: &mut Emit<'_>,
    compute: impl Fn(usize, &mut Emit<'_>) -> Mapped<OperandId>,
) -> Mapped<Vec<Value>> {
    let rank = emit.rank(input);
    if let Some(tensor) = node.input(1)?.constant() {
        let &[at] = &tensor.integers()[..] else { return Err("an axis that is not a scalar".into()) };
        return super::elementwise::one(compute(axis(at, rank)?, emit)?);
    }
    let at = emit.input(node, 1)?;
    if emit.shape(at).iter().any(|&size| size != 1) {
        return Err("an axis that is not a scalar".into());
    }
    let at = emit.reshape(at, &[])?;
    let mut result = compute(0, emit)?;
    for own in 1..rank {
        let along = compute(own, emit)?;
        let from_end = own as f64 - rank as f64;
        let (counted, negative) =
            (emit.compare(LogicalKind::Equal, at, own as f64)?, emit.compare(LogicalKind::Equal, at, from_end)?);
        let is_own = emit.logical(LogicalKind::LogicalOr, counted, negative)?;
        result = emit.select(is_own, along, result)?;
    }
    super::elementwise::one(result)
}

/// Running products.
pub fn cumulative_product(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let (exclusive, reversed) = (node.flag("exclusive", false)?, node.flag("reverse", false)?);
    along_axis(node, input, emit, |at, emit| {
        let axis = crate::graph::attribute::Modulo(crate::onnx::node::size(at)?);
        emit.push(crate::graph::ops::cumulative::CumulativeProduct { input, axis, exclusive, reversed })
    })
}

/// What reductions compute at import: products and sums of shapes.
pub fn reduced(node: &Node<'_>, axes: &[i64], keep: bool, emit: &mut Emit<'_>) -> Mapped<Option<Value>> {
    let Some(tensor) = node.input(0)?.constant() else { return Ok(None) };
    // What is made of nothing may be larger than that.
    let shape = fold::reduced_shape(&tensor.shape, &crate::onnx::node::axes(axes, tensor.shape.len())?, keep);
    if !emit.folding.affords(&tensor.shape) || !emit.folding.affords(&shape) {
        return Ok(None);
    }
    Ok(fold::reduce(node.operator(), tensor, axes, keep).transpose()?.map(Value::from))
}
