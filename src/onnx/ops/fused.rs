//! Operators of com.microsoft that stand for several of the standard: what onnxruntime's optimizer writes.

use super::conv::convolution;
use super::elementwise::one;
use super::normalization::normalized;
use super::precision::wide;
use crate::graph::ops::elementwise::{Activation, ActivationKind, Elu, HardSigmoid, LeakyRelu, LogicalKind, Swish};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::Node;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// FusedConv: a convolution, a sum, an activation.
pub fn conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, filter, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.optional(node, 2)?);
    let mut result = convolution(node, input, filter, bias, emit)?;
    if let Some(other) = emit.optional(node, 3)? {
        result = emit.add(result, other)?;
    }
    let parameters = node.floats("activation_params")?.unwrap_or_default();
    one(activation(node, result, &parameters, emit)?)
}

/// NhwcConv: a convolution of images whose channels are last. The filter's are in front, as its documentation says, or last, as
/// its kernels for GPUs read them.
pub fn channels_last_conv(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, mut filter, bias) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.optional(node, 2)?);
    let (shape, of_filter) = (emit.shape(input), emit.shape(filter));
    let rank = shape.len();
    if rank < 3 || of_filter.len() != rank {
        return Err(format!("a filter of shape {of_filter:?} for an input of shape {shape:?}").into());
    }
    let first: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let last: Vec<usize> = std::iter::once(0).chain(2..rank).chain([1]).collect();
    let channels = |of_filter: u32| i64::from(of_filter).checked_mul(node.int("group", 1).ok()?);
    let wanted = Some(i64::from(shape[rank - 1]));
    if channels(of_filter[1]) != wanted && channels(of_filter[rank - 1]) == wanted {
        filter = emit.transpose(filter, &first)?;
    }
    let input = emit.transpose(input, &first)?;
    let result = convolution(node, input, filter, bias, emit)?;
    one(emit.transpose(result, &last)?)
}

/// FusedGemm.
pub fn gemm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let result = super::matmul::gemm(node, emit)?;
    let [Value::Operand(result)] = result[..] else { return Err("a product that is known".into()) };
    let mut parameters = Vec::new();
    for name in ["activation_alpha", "activation_beta", "activation_gamma"] {
        parameters.extend(node.optional_float(name)?.map(|number| number as f32));
    }
    one(activation(node, result, &parameters, emit)?)
}

fn activation(node: &Node<'_>, input: OperandId, parameters: &[f32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let parameter = |i: usize, default: f64| parameters.get(i).map_or(default, |&number| number.into());
    let kind = match node.string("activation", "")?.as_str() {
        "" => return Ok(input),
        "Relu" => ActivationKind::Relu,
        "Sigmoid" => ActivationKind::Sigmoid,
        "Tanh" => ActivationKind::Tanh,
        "Softplus" => ActivationKind::Softplus,
        "Softsign" => ActivationKind::Softsign,
        "LeakyRelu" => return emit.push(LeakyRelu { input, alpha: parameter(0, 0.01) }),
        "Elu" => return emit.push(Elu { input, alpha: parameter(0, 1.0) }),
        "Clip" => return emit.clamp(input, Some(parameter(0, f64::NEG_INFINITY)), Some(parameter(1, f64::INFINITY))),
        "HardSigmoid" => return emit.push(HardSigmoid { input, alpha: parameter(0, 0.2), beta: parameter(1, 0.5) }),
        other => return Err(format!("the activation {other:?} is not supported").into()),
    };
    emit.push(Activation { kind, input })
}

/// An input of numbers of rows of a table.
fn rows_of(node: &Node<'_>, position: usize, table: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let rows = emit.shape(table).first().copied().ok_or("a table of rank 0")?;
    emit.indices(node, position, &[rows], Negative::Outside)
}

/// EmbedLayerNormalization: the sum of the embeddings of words, positions and segments, normalized.
pub fn embed(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (words, positions) = (emit.input(node, 2)?, emit.input(node, 3)?);
    let ids = rows_of(node, 0, words, emit)?;
    let &[batches, length] = &emit.shape(ids)[..] else { return Err("ids whose rank is not 2".into()) };
    let of = emit.data_type(words);
    // In float32 from the elements of the tables on, which stay as they are.
    let sum = emit.gather(words, ids, 0)?;
    let mut sum = wide(sum, emit)?;
    let of_positions = match node.optional(8) {
        Some(_) => {
            let own = rows_of(node, 8, positions, emit)?;
            emit.gather(positions, own, 0)?
        }
        None => emit.slice_axis(positions, 0, 0, length)?,
    };
    let of_positions = wide(of_positions, emit)?;
    sum = emit.add(sum, of_positions)?;
    if let (Some(_), Some(table)) = (node.optional(1), emit.optional(node, 4)?) {
        let segments = rows_of(node, 1, table, emit)?;
        let of_segments = emit.gather(table, segments, 0)?;
        let of_segments = wide(of_segments, emit)?;
        sum = emit.add(sum, of_segments)?;
    }
    let (scale, bias) = (emit.input(node, 5)?, emit.optional(node, 6)?);
    let (scale, bias) = (wide(scale, emit)?, bias.map(|bias| wide(bias, emit)).transpose()?);
    let result = normalized(sum, Some(scale), bias, 2, node.float("epsilon", 1e-12)?, emit)?;
    let (result, sum) = (emit.cast(result, of)?, emit.cast(sum, of)?);
    // How many of the mask are 1: the number of words of each batch.
    let lengths = match emit.optional(node, 7)? {
        Some(mask) => {
            let mask = emit.compare(LogicalKind::Equal, mask, 1.0)?;
            let mask = emit.cast(mask, DataType::Int32)?;
            emit.reduce(ReduceKind::Sum, mask, &[1], false)?
        }
        None => {
            let zero = emit.scalar(DataType::Int32, 0.0)?;
            emit.expand(zero, &[batches])?
        }
    };
    Ok(vec![result.into(), lengths.into(), sum.into()])
}

/// BiasAdd: an input, a bias of its last dimension, and what skipped. BiasSplitGelu: half of the sum times gelu of the other.
pub fn bias(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, bias) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let sum = emit.add(input, bias)?;
    if node.operator() == "BiasAdd" {
        let skip = emit.input(node, 2)?;
        return one(emit.add(sum, skip)?);
    }
    let shape = emit.shape(sum);
    let half = shape.last().copied().unwrap_or(0) / 2;
    let parts = emit.split(sum, vec![half, half], shape.len().saturating_sub(1))?;
    let gelu = emit.activation(ActivationKind::Gelu, parts[1])?;
    one(emit.mul(parts[0], gelu)?)
}

/// SwiGLU of the standard: `a * sigmoid(alpha * a) * b`.
pub fn swiglu(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (a, b) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let alpha = node.float("alpha", 1.0)?;
    let swish = emit.push(Swish { input: a, alpha })?;
    one(emit.mul(swish, b)?)
}
