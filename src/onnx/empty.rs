//! Nodes of empty inputs. No operand can hold what is empty, so such a node's results are found without one: their shapes are those
//! that the node gives for sizes of 1 and of 2, continued to 0, and what is not empty then is what the operator makes of nothing.

use super::element::ElementType;
use super::emit::{Emit, Short, Transposed};
use super::fold::Folding;
use super::node::Node;
use super::ops::Entry;
use super::refusal::Mapped;
use super::tensor::Tensor;
use super::value::Value;
use crate::graph::{Descriptor, GraphBuilder, Limits};
use std::sync::Arc;

/// Whether an input of a node is empty.
pub fn concerns(node: &Node<'_>) -> bool {
    node.inputs.iter().flatten().any(|value| value.constant().is_some_and(Tensor::is_empty))
}

/// Whether a node's result is its first input: where there are no updates, and where there are no tokens, of which another input has one
/// size for what are two of the first.
fn passes_through(operator: &str, first: &Value) -> bool {
    match operator {
        "Scatter" | "ScatterElements" | "ScatterND" | "TensorScatter" => true,
        "MoE" | "QMoE" => first.constant().is_some_and(Tensor::is_empty),
        _ => false,
    }
}

/// What reductions and products make of nothing, as one of their results.
fn neutral(operator: &str, result: usize) -> Option<f64> {
    Some(match operator {
        // The scale and the zero point of 0 alone.
        "DynamicQuantizeLinear" => f64::from(u8::from(result == 1)),
        "ReduceSum" | "ReduceSumSquare" | "ReduceL1" | "ReduceL2" | "MatMul" | "Einsum" => 0.0,
        "ReduceProd" => 1.0,
        "ReduceMax" | "ReduceLogSum" | "ReduceLogSumExp" => f64::NEG_INFINITY,
        "ReduceMin" => f64::INFINITY,
        "ReduceMean" => f64::NAN,
        _ => return None,
    })
}

/// Whether a value without elements may be a list, as of axes: nothing to compute with.
fn is_list(position: usize, tensor: &Tensor) -> bool {
    position > 0 && tensor.element == ElementType::Int64 && tensor.shape == [0]
}

/// The element types and shapes of a node's results, with sizes of `size` for those of 0. Lists stay as they are where `lists` says so.
fn probe(
    entry: &Entry,
    node: &Node<'_>,
    size: u32,
    lists: bool,
    emit: &Emit<'_>,
    limits: &Arc<Limits>,
) -> Mapped<Vec<(ElementType, Vec<usize>)>> {
    let mut builder = GraphBuilder::new(limits.clone());
    let (mut folding, mut short) = (Folding::default(), Short::new());
    let mut inputs = Vec::with_capacity(node.inputs.len());
    for (position, value) in node.inputs.iter().enumerate() {
        let element = value.as_ref().map(|value| emit.element(value)).filter(|element| element.is_short());
        let descriptor = match value {
            Some(Value::Operand(id)) => Some(emit.builder.operands().descriptor(*id).clone()),
            Some(Value::Constant(constant)) if constant.tensor.is_empty() && !(lists && is_list(position, &constant.tensor)) => {
                let tensor = &constant.tensor;
                let data_type = tensor.element.held_by().ok_or("an input of a type that WebNN does not have")?;
                Some(Descriptor::new(data_type, tensor.shape.iter().map(|&own| if own == 0 { size } else { own as u32 })))
            }
            _ => None,
        };
        inputs.push(match descriptor {
            Some(descriptor) => {
                let id = builder.input(&format!("input {position}"), descriptor)?;
                short.extend(element.map(|element| (id, element)));
                Some(id.into())
            }
            None => value.as_ref().map(|value| match value {
                // Its operand would be one of the other graph.
                Value::Constant(constant) => constant.tensor.clone().into(),
                other => other.clone(),
            }),
        });
    }
    let node = Node { inputs, ..*node };
    let mut emit = Emit {
        builder: &mut builder,
        folding: &mut folding,
        short: &mut short,
        transposed: &mut Transposed::new(),
        label: String::new(),
    };
    let values = super::ops::precision::map(entry, &node, &mut emit)?;
    Ok(values.iter().map(|value| (emit.element(value), value.shape(emit.builder))).collect())
}

/// The results of a node that has an empty input and cannot be mapped for that.
///
/// # Errors
/// The reason why they cannot be told.
pub fn map(entry: &Entry, node: &Node<'_>, emit: &mut Emit<'_>, limits: &Arc<Limits>) -> Mapped<Vec<Value>> {
    if let Some(Some(first)) = node.inputs.first()
        && passes_through(node.operator(), first)
    {
        return Ok(vec![first.clone()]);
    }
    let both =
        |lists| -> Mapped<_> { Ok((probe(entry, node, 1, lists, emit, limits)?, probe(entry, node, 2, lists, emit, limits)?)) };
    let (one, two) = both(true).or_else(|_| both(false))?;
    let mut results = Vec::with_capacity(one.len());
    for (i, ((element, one), (_, two))) in one.into_iter().zip(two).enumerate() {
        // A product of two such sizes grows faster, and is 0 as well.
        let shape: Vec<usize> = one.iter().zip(&two).map(|(&one, &two)| (2 * one).saturating_sub(two)).collect();
        if shape.contains(&0) {
            results.push(Tensor::without_elements(element, shape).into());
            continue;
        }
        let number = neutral(node.operator(), i).ok_or("an input without elements")?;
        let number = match element.is_float() {
            true => Tensor::from_floats(element, vec![], &[number]),
            // The least and the greatest number of the type; there is no mean.
            false => Tensor::from_floats(ElementType::Double, vec![], &[number]).cast(element),
        };
        results.extend(super::ops::expanded(&number.into(), &shape, emit)?);
    }
    Ok(results)
}
