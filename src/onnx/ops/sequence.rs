//! Sequences and optional values. How long a sequence is, and whether an optional value has content, is known at import, so that
//! nothing of them is left in the graph.

use super::movement::{divided, joined, reshaped};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis};
use crate::onnx::refusal::Mapped;
use crate::onnx::shapes;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Longer ones are not made at import: a few nodes could double them again and again.
const MOST: usize = 1 << 16;

fn list<'n>(node: &'n Node<'_>, position: usize) -> Mapped<&'n [Value]> {
    match node.input(position)? {
        Value::Sequence(list) => Ok(list),
        _ => Err(format!("input {position} is no sequence").into()),
    }
}

fn sequence(list: Vec<Value>) -> Mapped<Vec<Value>> {
    if list.len() > MOST {
        return Err(format!("a sequence of {} values, where {MOST} are allowed", list.len()).into());
    }
    Ok(vec![Value::Sequence(list.into())])
}

fn tensor<'n>(node: &'n Node<'_>, position: usize) -> Mapped<&'n Value> {
    Some(node.input(position)?).filter(|value| value.is_tensor()).ok_or_else(|| format!("input {position} is no tensor").into())
}

pub fn construct(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    sequence((0..node.inputs.len()).map(|position| tensor(node, position).cloned()).collect::<Mapped<_>>()?)
}

pub fn empty(_: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    sequence(Vec::new())
}

pub fn length(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    Ok(vec![Tensor::from_integers(ElementType::Int64, vec![], &[list(node, 0)?.len() as i64]).into()])
}

/// A place in a sequence, which may count from its end; of so many places.
fn place_in(node: &Node<'_>, position: usize, places: usize) -> Mapped<Option<usize>> {
    let Some(tensor) = node.optional_constant(position, "the position in a sequence")? else { return Ok(None) };
    let &[at] = &tensor.integers()[..] else { return Err("a position that is not a scalar".into()) };
    Ok(Some(axis(at, places).map_err(|_| format!("position {at} of {places}"))?))
}

pub fn at(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let list = list(node, 0)?;
    let at = place_in(node, 1, list.len())?.ok_or("no position")?;
    Ok(vec![list[at].clone()])
}

pub fn insert(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut list = list(node, 0)?.to_vec();
    // It may count from the end, before which -1 is here as elsewhere, or be the end.
    let at = match node.optional_constant(2, "the position in a sequence")? {
        None => list.len(),
        Some(tensor) => {
            let &[at] = &tensor.integers()[..] else { return Err("a position that is not a scalar".into()) };
            let counted = if at < 0 { at.saturating_add(list.len() as i64) } else { at };
            let at = usize::try_from(counted).ok().filter(|&at| at <= list.len());
            at.ok_or_else(|| format!("position {counted} of {}", list.len()))?
        }
    };
    list.insert(at, tensor(node, 1)?.clone());
    sequence(list)
}

pub fn erase(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut list = list(node, 0)?.to_vec();
    let last = list.len().checked_sub(1).ok_or("a sequence without values")?;
    let at = place_in(node, 1, list.len())?.unwrap_or(last);
    list.remove(at);
    sequence(list)
}

pub fn split(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = tensor(node, 0)?;
    let shape = input.shape(emit.builder);
    let at = axis(node.int("axis", 0)?, shape.len())?;
    let size = |number: i64| usize::try_from(number).map_err(|_| "a negative size");
    let parts: Vec<usize> = match node.optional_constant(1, "how it is split")? {
        None if shape[at] > MOST => return Err(format!("{} parts, where {MOST} are allowed", shape[at]).into()),
        None => std::iter::repeat_n(1, shape[at]).collect(),
        Some(tensor) if tensor.shape.is_empty() => {
            let part = size(tensor.integers()[0])?;
            if part == 0 {
                return Err("parts of 0".into());
            }
            (0..shape[at].div_ceil(part)).map(|i| part.min(shape[at] - i * part)).collect()
        }
        Some(tensor) => tensor.integers().into_iter().map(size).collect::<Result<_, _>>()?,
    };
    if parts.len() > MOST || parts.iter().try_fold(0usize, |sum, &part| sum.checked_add(part)) != Some(shape[at]) {
        return Err(format!("parts {parts:?} of a dimension of {}", shape[at]).into());
    }
    let mut values = divided(input, &parts, at, emit)?;
    if node.optional(1).is_none() && !node.flag("keepdims", true)? {
        for value in &mut values {
            *value = without_axis(value, at, emit)?;
        }
    }
    sequence(values)
}

fn without_axis(value: &Value, at: usize, emit: &mut Emit<'_>) -> Mapped<Value> {
    let shape = shapes::squeeze(&value.shape(emit.builder), Some(&[at as i64]))?;
    reshaped(value, shape, emit)
}

pub fn concat(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let list = list(node, 0)?;
    let rank = list.first().ok_or("a sequence without values")?.shape(emit.builder).len();
    let is_new = node.flag("new_axis", false)?;
    let at = axis(node.int("axis", 0)?, if is_new { rank + 1 } else { rank })?;
    if !is_new {
        return Ok(vec![joined(list.iter().collect(), at, emit)?]);
    }
    let with_axis = |value: &Value| {
        let shape = shapes::unsqueeze(&value.shape(emit.builder), &[at as i64])?;
        reshaped(value, shape, emit)
    };
    let list: Vec<Value> = list.iter().map(with_axis).collect::<Mapped<_>>()?;
    Ok(vec![joined(list.iter().collect(), at, emit)?])
}

pub fn optional(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    Ok(vec![node.optional(0).cloned().unwrap_or(Value::Nothing)])
}

pub fn has_element(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let has = node.optional(0).is_some_and(|value| !matches!(value, Value::Nothing));
    Ok(vec![Tensor::from_integers(ElementType::Bool, vec![], &[has.into()]).into()])
}

pub fn get_element(node: &Node<'_>, _: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    match node.input(0)? {
        Value::Nothing => Err("an optional value without content".into()),
        value => Ok(vec![value.clone()]),
    }
}
