//! MoE of com.microsoft: each token goes through a few of several networks of two layers, which a router chooses.

use super::activation::tanh_gelu;
use super::elementwise::one;
use crate::graph::ops::elementwise::{ActivationKind, LogicalKind, Swish};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::softmax::Softmax;
use crate::graph::ops::top_k::TopK;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Which experts' layers are computed.
struct Chosen {
    /// [tokens, k], where only these are: their weights are gathered. Without it all experts see all tokens.
    indices: Option<OperandId>,
    tokens: u32,
    count: u32,
}

pub fn mixture(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, router) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (first, second) = (emit.input(node, 2)?, emit.input(node, 4)?);
    let (&[tokens, experts], &[_, _, hidden]) = (&emit.shape(router)[..], &emit.shape(first)[..]) else {
        return Err("a router whose rank is not 2, or weights whose rank is not 3".into());
    };
    let given = emit.shape(input);
    let count = size(node.int("k", 1)?)?;
    if count == 0 || count > experts {
        return Err(format!("the attribute k is {count}, allowed 1 to the {experts} experts").into());
    }
    // What each chosen expert adds: its part of a softmax over all, or over those that were chosen.
    let best = emit.push_all(TopK { input: router, axis: 1, count, largest: true })?;
    let (values, indices) = (best[0], best[1]);
    let weights = if node.flag("normalize_routing_weights", false)? {
        emit.push(Softmax { input: values, axis: 1 })?
    } else {
        let most = emit.reduce(ReduceKind::Max, router, &[1], true)?;
        let below = emit.sub(router, most)?;
        let total = emit.reduce(ReduceKind::LogSumExp, below, &[1], true)?;
        let chosen = emit.sub(values, most)?;
        let logarithm = emit.sub(chosen, total)?;
        emit.unary(crate::graph::ops::elementwise::UnaryKind::Exp, logarithm)?
    };
    let rows = emit.reshape(input, &[tokens, hidden])?;
    // A few tokens need the weights of a few experts.
    let is_sparse = u64::from(tokens) * u64::from(count) < u64::from(experts);
    let chosen = Chosen { indices: is_sparse.then_some(indices), tokens, count };
    let x = match is_sparse {
        true => emit.reshape(rows, &[tokens, 1, 1, hidden])?,
        false => emit.reshape(rows, &[1, tokens, hidden])?,
    };
    let inside = chosen.layer(x, first, emit.optional(node, 3)?, emit)?;
    let active = activated(node, inside, emit)?;
    let made = chosen.layer(active, second, emit.optional(node, 5)?, emit)?;
    let sum = if is_sparse {
        let weights = emit.reshape(weights, &[tokens, count, 1, 1])?;
        let parts = emit.mul(made, weights)?;
        emit.reduce(ReduceKind::Sum, parts, &[1], false)?
    } else {
        // [tokens, k, experts]: 1 where an expert is that choice.
        let numbers = emit.positions(DataType::Int64, 3, 2, experts)?;
        let indices = emit.reshape(indices, &[tokens, count, 1])?;
        let is_it = emit.logical(LogicalKind::Equal, indices, numbers)?;
        let is_it = emit.cast(is_it, emit.data_type(weights))?;
        let weights = emit.reshape(weights, &[tokens, count, 1])?;
        let parts = emit.mul(is_it, weights)?;
        let of_expert = emit.reduce(ReduceKind::Sum, parts, &[1], false)?;
        let of_expert = emit.transpose(of_expert, &[1, 0])?;
        let of_expert = emit.reshape(of_expert, &[experts, tokens, 1])?;
        let parts = emit.mul(made, of_expert)?;
        emit.reduce(ReduceKind::Sum, parts, &[0], false)?
    };
    one(emit.reshape(sum, &given)?)
}

impl Chosen {
    /// A layer of the experts, whose weights are [experts, outputs, inputs]: [tokens, k, 1, outputs], or [experts, tokens, outputs].
    fn layer(&self, x: OperandId, weights: OperandId, bias: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let &[experts, outputs, inputs] = &emit.shape(weights)[..] else {
            return Err("weights of experts whose rank is not 3".into());
        };
        let Some(indices) = self.indices else {
            let turned = emit.transpose(weights, &[0, 2, 1])?;
            let product = emit.matmul(x, turned)?;
            return match bias {
                Some(bias) => {
                    let bias = emit.reshape(bias, &[experts, 1, outputs])?;
                    emit.add(product, bias)
                }
                None => Ok(product),
            };
        };
        let own = emit.gather(weights, indices, 0)?;
        debug_assert_eq!(emit.shape(own), [self.tokens, self.count, outputs, inputs]);
        let turned = emit.transpose(own, &[0, 1, 3, 2])?;
        let product = emit.matmul(x, turned)?;
        match bias {
            Some(bias) => {
                let own = emit.gather(bias, indices, 0)?;
                let own = emit.reshape(own, &[self.tokens, self.count, 1, outputs])?;
                emit.add(product, own)
            }
            None => Ok(product),
        }
    }
}

fn activated(node: &Node<'_>, x: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let kind = node.string("activation_type", "relu")?;
    match kind.as_str() {
        "relu" => emit.activation(ActivationKind::Relu, x),
        "gelu" => tanh_gelu(emit, x),
        "silu" => emit.push(Swish { input: x, alpha: 1.0 }),
        "identity" => Ok(x),
        "swiglu" => {
            let mut shape = emit.shape(x);
            let last = shape.len() - 1;
            let width = shape[last];
            if !width.is_multiple_of(2) {
                return Err(format!("{width} outputs of a first layer with gates").into());
            }
            let (mut gate, mut up) = match node.int("swiglu_fusion", 0)? {
                1 => {
                    shape[last] = width / 2;
                    let mut pairs = shape.clone();
                    pairs.push(2);
                    let apart = emit.reshape(x, &pairs)?;
                    let parts = emit.split(apart, vec![1, 1], last + 1)?;
                    (emit.reshape(parts[0], &shape)?, emit.reshape(parts[1], &shape)?)
                }
                2 => {
                    let parts = emit.split(x, vec![width / 2, width / 2], last)?;
                    (parts[0], parts[1])
                }
                other => return Err(format!("the attribute swiglu_fusion is {other}, allowed 1 and 2").into()),
            };
            let limit = node.optional_float("swiglu_limit")?;
            if let Some(limit) = limit {
                gate = emit.clamp(gate, None, Some(limit))?;
                up = emit.clamp(up, Some(-limit), Some(limit))?;
            }
            let alpha = node.float("activation_alpha", 1.0)?;
            let beta = node.float("activation_beta", 0.0)?;
            let swish = emit.push(Swish { input: gate, alpha })?;
            let up = if beta == 0.0 { up } else { emit.with(crate::graph::ops::elementwise::BinaryKind::Add, up, beta)? };
            emit.mul(swish, up)
        }
        other => Err(format!("the activation {other:?}").into()),
    }
}
