//! Operators that change features one by one, or choose among them.

use super::super::elementwise::one;
use super::super::magnitude::power_of_two;
use super::{check_length, floats};
use crate::graph::DataType;
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind, PredicateKind};
use crate::graph::ops::reduce::ReduceKind;
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// How many features there are: of rows the second dimension, of a vector the only one.
fn features(shape: &[u32]) -> Mapped<u32> {
    match shape {
        [features] | [_, features] => Ok(*features),
        _ => Err(format!("an input of shape {shape:?}; allowed are rows of features").into()),
    }
}

/// A list of one number, or of one for each feature.
fn check_features(name: &str, found: usize, features: u32) -> Mapped<()> {
    if found == 1 { Ok(()) } else { check_length(name, found, features as usize) }
}

/// Scaler: `(x - offset) * scale`.
pub fn scaler(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let features = features(&emit.shape(input))?;
    let mut result = emit.cast(input, DataType::Float32)?;
    for (name, kind) in [("offset", BinaryKind::Sub), ("scale", BinaryKind::Mul)] {
        if let Some(list) = node.floats(name)? {
            check_features(name, list.len(), features)?;
            let list = floats(emit, &[list.len()], &list)?;
            result = emit.binary(kind, result, list)?;
        }
    }
    one(result)
}

/// Normalizer: each row divided by its maximum, the sum of its magnitudes, or its length; a row for which that is 0 stays.
pub fn normalizer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let input = emit.cast(input, DataType::Float32)?;
    let at = match emit.rank(input) {
        0 => return Err("a scalar, which has no rows".into()),
        1 => 0,
        _ => 1,
    };
    let kind = match node.string("norm", "MAX")?.as_str() {
        "MAX" => ReduceKind::Max,
        "L1" => ReduceKind::L1,
        "L2" => ReduceKind::L2,
        other => return Err(format!("the norm {other:?}; allowed are MAX, L1 and L2").into()),
    };
    let input = match kind {
        ReduceKind::Max => input,
        // Sums of what float32 has may leave it.
        _ => {
            let power = power_of_two(input, &[at], emit)?;
            emit.div(input, power)?
        }
    };
    let norm = emit.reduce(kind, input, &[at], true)?;
    let is_zero = emit.compare(LogicalKind::Equal, norm, 0.0)?;
    let unit = emit.scalar(DataType::Float32, 1.0)?;
    let divisor = emit.select(is_zero, unit, norm)?;
    one(emit.div(input, divisor)?)
}

/// Binarizer: 1 where a number is above the threshold, and 0 elsewhere.
pub fn binarizer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let wide = emit.cast(input, DataType::Float32)?;
    let above = emit.compare(LogicalKind::Greater, wide, node.float("threshold", 0.0)?)?;
    one(emit.cast(above, of)?)
}

/// Imputer: what is the replaced value, which may be NaN, becomes that of its feature.
pub fn imputer(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let input = emit.input(node, 0)?;
    let of = emit.data_type(input);
    let features = features(&emit.shape(input))?;
    let (replaced, values) = if of.is_float() {
        let list = node.floats("imputed_value_floats")?.filter(|list| !list.is_empty());
        let list = list.ok_or("attribute imputed_value_floats is missing, for an input of floats")?;
        check_features("imputed_value_floats", list.len(), features)?;
        let replaced = node.float("replaced_value_float", 0.0)?;
        let is_replaced = match replaced.is_nan() {
            true => emit.predicate(PredicateKind::IsNan, input)?,
            false => emit.compare(LogicalKind::Equal, input, replaced)?,
        };
        let values = floats(emit, &[list.len()], &list)?;
        (is_replaced, emit.cast(values, of)?)
    } else {
        let list = node.ints("imputed_value_int64s")?.filter(|list| !list.is_empty());
        let list = list.ok_or("attribute imputed_value_int64s is missing, for an input of integers")?;
        check_features("imputed_value_int64s", list.len(), features)?;
        let replaced = Tensor::int64s(&[node.int("replaced_value_int64", 0)?]);
        let replaced = emit.constant(replaced)?;
        let wide = emit.cast(input, DataType::Int64)?;
        let is_replaced = emit.logical(LogicalKind::Equal, wide, replaced)?;
        let values = Tensor::from_integers(of.into(), vec![list.len()], &list);
        (is_replaced, emit.constant(values)?)
    };
    one(emit.select(replaced, values, input)?)
}

/// ArrayFeatureExtractor: elements of the last dimension by their places. A vector is one row.
pub fn array_feature_extractor(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let mut input = emit.input(node, 0)?;
    let mut shape = emit.shape(input);
    if shape.is_empty() {
        return Err("a scalar, which has no features".into());
    }
    if shape.len() == 1 {
        shape.insert(0, 1);
        input = emit.reshape(input, &shape)?;
    }
    let last = shape.len() - 1;
    let places = emit.indices(node, 1, &[shape[last]], Negative::Outside)?;
    let count = emit.check_count(&emit.shape(places))?;
    let places = emit.reshape(places, &[count])?;
    one(emit.gather(input, places, last)?)
}
