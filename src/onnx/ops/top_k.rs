//! TopK.

use crate::graph::ops::top_k::TopK;
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, axis, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// TopK: values and int64 indices of the k largest or smallest elements along an axis, of equal ones the earlier first.
/// (Without `sorted` any order is allowed.)
pub fn top_k(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let count = match node.version {
        ..10 => node.int("k", 0)?,
        _ => match node.constant(1, "the number K")?.integers()[..] {
            [count] => count,
            _ => return Err("a number K that is not a scalar".into()),
        },
    };
    let input = emit.input(node, 0)?;
    let shape = emit.shape(input);
    let at = axis(node.int("axis", -1)?, shape.len())?;
    let count = size(count)?;
    if count > shape[at] {
        return Err(format!("{count} elements of {}", shape[at]).into());
    }
    if count == 0 {
        let mut shape: Vec<usize> = shape.iter().map(|&size| size as usize).collect();
        shape[at] = 0;
        let nothing = |element| Tensor::without_elements(element, shape.clone()).into();
        return Ok(vec![nothing(emit.data_type(input).into()), nothing(ElementType::Int64)]);
    }
    let outputs = emit.push_all(TopK { input, axis: size(at)?, count, largest: node.flag("largest", true)? })?;
    Ok(outputs.into_iter().map(Value::from).collect())
}
