//! OneHotEncoder and LabelEncoder, of numbers.

use super::super::elementwise::one;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, PredicateKind};
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, data_type};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;
use std::cmp::Ordering;

const STRINGS: &str = "strings are not supported: encode them as numbers before they come to the model";

/// OneHotEncoder: for each number as many as there are categories, of which that of its own is 1. A number that is no
/// category has none: nothing can fail while a graph runs, as ONNX wants of `zeros` = 0.
pub fn one_hot_encoder(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if node.strings("cats_strings")?.is_some_and(|list| !list.is_empty()) {
        return Err(format!("cats_strings: {STRINGS}").into());
    }
    let categories = node.ints("cats_int64s")?.unwrap_or_default();
    let mut sorted = categories.clone();
    sorted.sort_unstable();
    if categories.is_empty() || sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(format!("{} categories (cats_int64s), allowed at least one, each once", categories.len()).into());
    }
    let input = emit.input(node, 0)?;
    let input = emit.cast(input, DataType::Int64)?;
    let mut shape = emit.shape(input);
    shape.push(1);
    let aligned = emit.reshape(input, &shape)?;
    let categories = emit.constant(Tensor::int64s(&categories))?;
    let is_own = emit.logical(LogicalKind::Equal, aligned, categories)?;
    one(emit.cast(is_own, DataType::Float32)?)
}

/// A list of numbers that is a tensor, or a list of integers or of floats.
fn list(node: &Node<'_>, what: &str) -> Mapped<Option<Tensor>> {
    if node.strings(&format!("{what}_strings"))?.is_some_and(|list| !list.is_empty()) {
        return Err(format!("{what}_strings: {STRINGS}").into());
    }
    if let Some(tensor) = node.tensor(&format!("{what}_tensor"))? {
        return Ok(Some(tensor));
    }
    if let Some(list) = node.ints(&format!("{what}_int64s"))?.filter(|list| !list.is_empty()) {
        return Ok(Some(Tensor::int64s(&list)));
    }
    let list = node.floats(&format!("{what}_floats"))?.filter(|list| !list.is_empty());
    Ok(list.map(|list| {
        let wide: Vec<f64> = list.into_iter().map(f64::from).collect();
        Tensor::from_floats(ElementType::Float, vec![wide.len()], &wide)
    }))
}

/// LabelEncoder: the value beside the key that a number is equal to, or else the default. Of equal keys the first counts, and
/// NaN is equal to NaN.
pub fn label_encoder(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if node.strings("classes_strings")?.is_some() {
        return Err(format!("classes_strings: {STRINGS}").into());
    }
    let (Some(keys), Some(values)) = (list(node, "keys")?, list(node, "values")?) else {
        return Err("keys or values that are not numbers".into());
    };
    let count = keys.count();
    if count == 0 || values.count() != count {
        return Err(format!("{count} keys with {} values", values.count()).into());
    }
    let default = match node.tensor("default_tensor")? {
        Some(tensor) if tensor.count() == 1 => tensor.reshaped(vec![1]).cast(values.element),
        Some(_) => return Err("a default_tensor that is not one number".into()),
        None if values.element.is_float() => Tensor::from_floats(values.element, vec![1], &[node.float("default_float", -0.0)?]),
        None => Tensor::from_integers(values.element, vec![1], &[node.int("default_int64", -1)?]),
    };
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    if keys.element.data_type() != Some(of) || values.element.bits() < 8 {
        return Err(format!("keys of {} with values of {} for an input of {of}", keys.element, values.element).into());
    }
    let keys = keys.reshaped(vec![count]).cast(of.into());
    // Sorted, each once. Of keys that are NaN the first has a value of its own.
    let (wide, whole) = (keys.floats(), keys.integers());
    let order = |&a: &usize, &b: &usize| match of.is_float() {
        true => wide[a].partial_cmp(&wide[b]).unwrap_or(Ordering::Equal),
        false if of == DataType::Uint64 => (whole[a] as u64).cmp(&(whole[b] as u64)),
        false => whole[a].cmp(&whole[b]),
    };
    let (missing, mut places): (Vec<usize>, Vec<usize>) = (0..count).partition(|&i| of.is_float() && wide[i].is_nan());
    places.sort_by(order);
    places.dedup_by(|b, a| order(a, b) == Ordering::Equal);
    let output = data_type(values.element)?;
    let values = [values.reshaped(vec![count]).cast(output.into()), default.cast(output.into())];
    let mut result = match places.is_empty() {
        true => {
            let default = emit.constant(values[1].clone())?;
            let shape = emit.shape(input);
            emit.expand(default, &shape)?
        }
        false => search(input, &keys, &values, &places, emit)?,
    };
    if let Some(&first) = missing.first() {
        let is_missing = emit.predicate(PredicateKind::IsNan, input)?;
        let own = emit.constant(picked(&values[0], [first].into_iter()))?;
        result = emit.select(is_missing, own, result)?;
    }
    one(result)
}

/// The elements of a list at places.
fn picked(list: &Tensor, places: impl Iterator<Item = usize>) -> Tensor {
    let width = list.element.bits() / 8;
    let places: Vec<usize> = places.collect();
    let bytes: Vec<u8> = places.iter().flat_map(|&place| &list.bytes[place * width..][..width]).copied().collect();
    Tensor { element: list.element, shape: vec![places.len()], bytes: bytes.into() }
}

/// Looks numbers up among sorted keys, which are halved again and again.
fn search(
    input: OperandId,
    keys: &Tensor,
    [values, default]: &[Tensor; 2],
    places: &[usize],
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    // So many that each half has its middle: what comes after the last key is like it.
    let whole = (places.len() + 1).next_power_of_two() - 1;
    let last = places[places.len() - 1];
    emit.reserve(&[whole as u64, 2])?;
    let padded = |list: &Tensor| picked(list, (0..whole).map(|i| places.get(i).copied().unwrap_or(last)));
    let (sorted, values) = (emit.constant(padded(keys))?, emit.constant(padded(values))?);
    // How many keys are below each number.
    let zero = emit.scalar(DataType::Int32, 0.0)?;
    let shape = emit.shape(input);
    let mut below = emit.expand(zero, &shape)?;
    let mut step = whole.div_ceil(2);
    while step > 0 {
        let middle = emit.with(BinaryKind::Add, below, step as f64 - 1.0)?;
        let key = emit.gather(sorted, middle, 0)?;
        let is_below = emit.logical(LogicalKind::Lesser, key, input)?;
        let is_below = emit.cast(is_below, DataType::Int32)?;
        let more = emit.with(BinaryKind::Mul, is_below, step as f64)?;
        below = emit.add(below, more)?;
        step /= 2;
    }
    let at = emit.clamp(below, None, Some(whole as f64 - 1.0))?;
    let key = emit.gather(sorted, at, 0)?;
    let is_equal = emit.logical(LogicalKind::Equal, key, input)?;
    let found = emit.gather(values, at, 0)?;
    let default = emit.constant(default.clone())?;
    let result = emit.select(is_equal, found, default)?;
    emit.reshape(result, &shape)
}
