//! LinearRegressor and LinearClassifier: products of rows of features with rows of coefficients.

use super::super::elementwise::one;
use super::scores::{Labels, above, greatest, post_transform, second_class, with_base};
use super::{floats, rows, rows_of};
use crate::graph::OperandId;
use crate::onnx::emit::Emit;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// The products of the input and the coefficients, and how many columns they have.
fn product(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<(OperandId, usize)> {
    let input = rows(node, emit)?;
    let features = emit.shape(input)[1];
    let coefficients = node.floats("coefficients")?.unwrap_or_default();
    let count = rows_of("coefficients", coefficients.len(), features)?;
    let coefficients = floats(emit, &[count, features as usize], &coefficients)?;
    let coefficients = emit.transpose_matrices(coefficients)?;
    let result = emit.matmul(input, coefficients)?;
    let intercepts = node.floats("intercepts")?.unwrap_or_default();
    Ok((with_base(result, "intercepts", &intercepts, emit)?, count))
}

pub fn linear_regressor(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (scores, count) = product(node, emit)?;
    let targets = node.int("targets", 1)?;
    if usize::try_from(targets) != Ok(count) {
        return Err(format!("coefficients of {count} targets, where there are {targets}").into());
    }
    one(post_transform(node)?.apply(scores, emit)?)
}

pub fn linear_classifier(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let labels = Labels::of(node, "classlabels_ints")?;
    let (scores, count) = product(node, emit)?;
    let transform = post_transform(node)?;
    if count == 1 {
        let result = match labels.count() {
            2 => second_class(scores, true, transform, emit)?,
            _ => transform.apply(scores, emit)?,
        };
        return labels.outputs(node, result, |emit| above(scores, 0.0, emit), emit);
    }
    if labels.count() != count {
        return Err(format!("coefficients of {count} classes with {} labels", labels.count()).into());
    }
    let result = transform.apply(scores, emit)?;
    labels.outputs(node, result, |emit| greatest(scores, emit), emit)
}
