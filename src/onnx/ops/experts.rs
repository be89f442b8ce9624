//! MoE and QMoE of com.microsoft: each token goes through a few of several networks of two layers, which a router chooses. The weights of
//! QMoE have few bits.

use super::activation::tanh_gelu;
use super::elementwise::one;
use crate::graph::ops::block_quantized::BITS;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, LogicalKind, Swish, UnaryKind};
use crate::graph::ops::expert_matmul::ExpertMatmul;
use crate::graph::ops::gather::GatherElements;
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::ops::softmax::Softmax;
use crate::graph::ops::top_k::TopK;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::precision::wide;
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// Which experts' layers are computed.
struct Chosen {
    /// [tokens, k], where only these are: their weights are gathered. Without it all experts see all tokens.
    indices: Option<OperandId>,
    tokens: u32,
    count: u32,
    experts: u32,
}

/// The weights of a layer of all experts: [experts, outputs, inputs].
struct Layer {
    weights: Weights,
    bias: Option<OperandId>,
    outputs: u32,
}

enum Weights {
    Float(OperandId),
    Quantized(Quantized),
}

/// Bits in rows [experts, outputs, bytes], scales and numbers of zero points [experts, outputs, blocks].
struct Quantized {
    weights: OperandId,
    scales: OperandId,
    zero_points: Option<OperandId>,
    bits: u32,
    inputs: u32,
}

pub fn mixture(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, router) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let &[_, experts] = &emit.shape(router)[..] else { return Err("a router whose rank is not 2".into()) };
    let best = best(node, router, experts, emit)?;
    // What each chosen expert adds: its part of a softmax over all, or over those that were chosen.
    let weights = match node.flag("normalize_routing_weights", false)? {
        true => emit.push(Softmax { input: best.0, axis: 1 })?,
        false => {
            let most = emit.reduce(ReduceKind::Max, router, &[1], true)?;
            let below = emit.sub(router, most)?;
            let total = emit.reduce(ReduceKind::LogSumExp, below, &[1], true)?;
            let chosen = emit.sub(best.0, most)?;
            let logarithm = emit.sub(chosen, total)?;
            emit.unary(UnaryKind::Exp, logarithm)?
        }
    };
    let layer = |weights: usize, emit: &mut Emit<'_>| -> Mapped<Option<Layer>> {
        let Some(found) = emit.optional(node, weights)? else { return Ok(None) };
        let &[_, outputs, _] = &emit.shape(found)[..] else { return Err("weights of experts whose rank is not 3".into()) };
        Ok(Some(Layer { weights: Weights::Float(found), bias: emit.optional(node, weights + 1)?, outputs }))
    };
    let layers = [layer(2, emit)?, layer(4, emit)?, layer(6, emit)?];
    one(computed(node, input, (best.1, weights), layers, emit)?)
}

pub fn quantized(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, router) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let of = emit.data_type(input);
    let &[_, experts] = &emit.shape(router)[..] else { return Err("a router whose rank is not 2".into()) };
    let kind = node.string("quant_type", "int")?;
    if kind != "int" {
        return Err(format!("the attribute quant_type is {kind:?}, allowed int").into());
    }
    if node.int("weights_prepacked", -1)? == 1 {
        return Err("the attribute weights_prepacked is 1, allowed -1 and 0: rows of bits as they are".into());
    }
    let router = wide(router, emit)?;
    let (values, indices) = best(node, router, experts, emit)?;
    let weights = match emit.optional(node, 14)? {
        Some(given) => {
            let given = wide(given, emit)?;
            let chosen = emit.push(GatherElements { input: given, indices, axis: 1 })?;
            match node.flag("normalize_routing_weights", false)? {
                true => {
                    let sum = emit.reduce(ReduceKind::Sum, chosen, &[1], true)?;
                    emit.div(chosen, sum)?
                }
                false => chosen,
            }
        }
        // Over those that were chosen, as onnxruntime does it on the CPU whatever normalize_routing_weights is.
        None => emit.push(Softmax { input: values, axis: 1 })?,
    };
    let hidden = emit.shape(input).last().copied().unwrap_or(0);
    let common = node.int("expert_weight_bits", 4)?;
    let first = Quantized::layer(node, [2, 11], hidden, node.int("fc1_expert_weight_bits", common)?, experts, emit)?;
    let third = Quantized::layer(node, [8, 13], hidden, node.int("fc3_expert_weight_bits", common)?, experts, emit)?;
    let outputs = first.as_ref().map_or(0, |layer| layer.outputs);
    let is_gated = matches!(node.string("activation_type", "relu")?.as_str(), "swiglu" | "geglu");
    let inside = if is_gated && third.is_none() { outputs / 2 } else { outputs };
    let second = Quantized::layer(node, [5, 12], inside, node.int("fc2_expert_weight_bits", common)?, experts, emit)?;
    let input = wide(input, emit)?;
    let result = computed(node, input, (indices, weights), [first, second, third], emit)?;
    one(emit.cast(result, of)?)
}

/// The greatest numbers of the router and their places, [tokens, k].
fn best(node: &Node<'_>, router: OperandId, experts: u32, emit: &mut Emit<'_>) -> Mapped<(OperandId, OperandId)> {
    let count = size(node.int("k", 1)?)?;
    if count == 0 || count > experts {
        return Err(format!("the attribute k is {count}, allowed 1 to the {experts} experts").into());
    }
    let best = emit.push_all(TopK { input: router, axis: 1, count, largest: true })?;
    Ok((best[0], best[1]))
}

/// The sum of what the chosen experts make of each token.
fn computed(
    node: &Node<'_>,
    input: OperandId,
    (indices, shares): (OperandId, OperandId),
    [first, second, third]: [Option<Layer>; 3],
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let (first, second) = (
        first.ok_or("the weights of the first layer are missing")?,
        second.ok_or("the weights of the second layer are missing")?,
    );
    let given = emit.shape(input);
    let (&[tokens, count], Some(&hidden)) = (&emit.shape(shares)[..], given.last()) else {
        return Err("an input of rank 0".into());
    };
    let experts = match &first.weights {
        Weights::Float(weights) => emit.shape(*weights)[0],
        Weights::Quantized(weights) => emit.shape(weights.scales)[0],
    };
    let rows = emit.reshape(input, &[tokens, hidden])?;
    // A few tokens need the weights of a few experts. Those of a few bits are never expanded.
    let is_quantized = matches!(first.weights, Weights::Quantized(_));
    let is_sparse = is_quantized || u64::from(tokens) * u64::from(count) < u64::from(experts);
    let chosen = Chosen { indices: is_sparse.then_some(indices), tokens, count, experts };
    let x = match is_sparse {
        true => emit.reshape(rows, &[tokens, 1, 1, hidden])?,
        false => emit.reshape(rows, &[1, tokens, hidden])?,
    };
    let inside = chosen.layer(x, &first, emit)?;
    let beside = third.map(|third| chosen.layer(x, &third, emit)).transpose()?;
    let active = activated(node, inside, beside, emit)?;
    let products = chosen.layer(active, &second, emit)?;
    let sum = if is_sparse {
        let shares = emit.reshape(shares, &[tokens, count, 1, 1])?;
        let parts = emit.mul(products, shares)?;
        emit.reduce(ReduceKind::Sum, parts, &[1], false)?
    } else {
        // [tokens, k, experts]: 1 where an expert is that choice.
        let numbers = emit.positions(DataType::Int64, 3, 2, experts)?;
        let indices = emit.reshape(indices, &[tokens, count, 1])?;
        let is_it = emit.logical(LogicalKind::Equal, indices, numbers)?;
        let is_it = emit.cast(is_it, emit.data_type(shares))?;
        let shares = emit.reshape(shares, &[tokens, count, 1])?;
        let parts = emit.mul(is_it, shares)?;
        let of_expert = emit.reduce(ReduceKind::Sum, parts, &[1], false)?;
        let of_expert = emit.transpose(of_expert, &[1, 0])?;
        let of_expert = emit.reshape(of_expert, &[experts, tokens, 1])?;
        let parts = emit.mul(products, of_expert)?;
        emit.reduce(ReduceKind::Sum, parts, &[0], false)?
    };
    emit.reshape(sum, &given)
}

impl Chosen {
    /// A layer of the experts: [tokens, k, 1, outputs], or [experts, tokens, outputs].
    fn layer(&self, x: OperandId, layer: &Layer, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let product = match (&layer.weights, self.indices) {
            (Weights::Float(weights), None) => {
                let transposed = emit.transpose(*weights, &[0, 2, 1])?;
                emit.matmul(x, transposed)?
            }
            (Weights::Float(weights), Some(indices)) => {
                let own = emit.gather(*weights, indices, 0)?;
                let transposed = emit.transpose(own, &[0, 1, 3, 2])?;
                emit.matmul(x, transposed)?
            }
            (Weights::Quantized(weights), Some(indices)) => weights.product(x, indices, layer.outputs, emit)?,
            (Weights::Quantized(_), None) => return Err("weights of a few bits without choices".into()),
        };
        let Some(bias) = layer.bias else { return Ok(product) };
        let bias = emit.cast(bias, emit.data_type(product))?;
        let bias = match self.indices {
            None => emit.reshape(bias, &[self.experts, 1, layer.outputs])?,
            Some(indices) => {
                let own = emit.gather(bias, indices, 0)?;
                emit.reshape(own, &[self.tokens, self.count, 1, layer.outputs])?
            }
        };
        emit.add(product, bias)
    }
}

impl Quantized {
    /// The layer whose weights, scales and bias are the inputs from a position on, and whose zero points are another one.
    fn layer(
        node: &Node<'_>,
        [position, of_zero_points]: [usize; 2],
        inputs: u32,
        bits: i64,
        experts: u32,
        emit: &mut Emit<'_>,
    ) -> Mapped<Option<Layer>> {
        let Some(bytes) = node.optional(position) else { return Ok(None) };
        let bits = size(bits)?;
        if !BITS.contains(&bits) {
            return Err(format!("weights of {bits} bits, allowed 2, 3, 4 and 8").into());
        }
        let given = node.int("block_size", 0)?;
        let block_size = if given > 0 { size(given)? } else { inputs };
        let found: Vec<u32> = bytes.shape(emit.builder).iter().map(|&size| size as u32).collect();
        let row = size(u64::from(inputs) * u64::from(bits) / 8)?;
        let &[_, outputs, _] = &found[..] else { return Err("weights of experts whose rank is not 3".into()) };
        let fits = inputs > 0 && inputs.is_multiple_of(block_size) && (block_size * bits).is_multiple_of(8);
        if !fits || found != [experts, outputs, row] {
            let needed = [experts, outputs, row];
            return Err(format!(
                "weights of shape {found:?} for {inputs} inputs in blocks of {block_size}, where {needed:?} is needed"
            )
            .into());
        }
        let blocks = inputs / block_size;
        let scales = emit.optional(node, position + 1)?.ok_or("the scales of a layer are missing")?;
        let scales = wide(scales, emit)?;
        let scales = emit.reshape(scales, &[experts, outputs, blocks])?;
        // Those of 3 bits are in the middle in any case.
        let zero_points = match node.optional(of_zero_points).is_some() && bits != 3 {
            true => {
                let packed = emit.input(node, of_zero_points)?;
                let numbers = unpacked(packed, bits, emit)?;
                // A row of them is filled up to whole bytes.
                let of_row = if given > 0 { blocks } else { outputs };
                let last = emit.rank(numbers) - 1;
                let numbers = emit.slice_axis(numbers, last, 0, of_row)?;
                Some(emit.reshape(numbers, &[experts, outputs, blocks])?)
            }
            false => None,
        };
        let weights = Quantized { weights: emit.operand(bytes)?, scales, zero_points, bits, inputs };
        Ok(Some(Layer { weights: Weights::Quantized(weights), bias: emit.optional(node, position + 2)?, outputs }))
    }

    /// The products of rows [tokens, 1 or k, 1, inputs] with the weights of the experts [tokens, k]: [tokens, k, 1, outputs].
    fn product(&self, x: OperandId, indices: OperandId, outputs: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let &[tokens, count] = &emit.shape(indices)[..] else { return Err("choices whose rank is not 2".into()) };
        let rows = tokens.checked_mul(count).ok_or("too many elements")?;
        let a = emit.expand(x, &[tokens, count, 1, self.inputs])?;
        let a = emit.reshape(a, &[rows, self.inputs])?;
        let experts = emit.reshape(indices, &[rows])?;
        let experts = emit.cast(experts, DataType::Int32)?;
        let Quantized { weights, scales, zero_points, bits, .. } = *self;
        let product = emit.push(ExpertMatmul { a, weights, scales, experts, bits, zero_points })?;
        emit.reshape(product, &[tokens, count, 1, outputs])
    }
}

/// The numbers of 2, 4 or 8 bits that bytes hold, the first one in the lowest, as float32.
fn unpacked(bytes: OperandId, bits: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut rest = emit.cast(bytes, DataType::Float32)?;
    let (parts, base) = (8 / bits, f64::from(1u32 << bits));
    let mut shape = emit.shape(bytes);
    let last = shape.len();
    shape.push(1);
    let mut numbers = Vec::new();
    for part in 0..parts {
        let number = if part + 1 < parts {
            let scaled = emit.with(BinaryKind::Mul, rest, 1.0 / base)?;
            let above = emit.unary(UnaryKind::Floor, scaled)?;
            let over = emit.with(BinaryKind::Mul, above, base)?;
            let number = emit.sub(rest, over)?;
            rest = above;
            number
        } else {
            rest
        };
        numbers.push(emit.reshape(number, &shape)?);
    }
    let joined = emit.concat(numbers, last)?;
    shape.pop();
    shape[last - 1] = shape[last - 1].checked_mul(parts).ok_or("too many elements")?;
    emit.reshape(joined, &shape)
}

/// The activation of a first layer, and of what a third one makes beside it.
fn activated(node: &Node<'_>, x: OperandId, beside: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let kind = node.string("activation_type", "relu")?;
    if kind == "swiglu" || kind == "geglu" {
        return gated(node, x, beside, kind == "swiglu", emit);
    }
    let active = match kind.as_str() {
        "relu" => emit.activation(ActivationKind::Relu, x)?,
        "relu2" => {
            let positive = emit.activation(ActivationKind::Relu, x)?;
            emit.mul(positive, positive)?
        }
        "gelu" => tanh_gelu(emit, x)?,
        "silu" => emit.push(Swish { input: x, alpha: 1.0 })?,
        "identity" => x,
        other => return Err(format!("the activation {other:?}").into()),
    };
    match beside {
        Some(beside) => emit.mul(active, beside),
        None => Ok(active),
    }
}

/// Gates times what they let through, which are made by two layers, or by one: in turn or one after the other.
fn gated(node: &Node<'_>, x: OperandId, beside: Option<OperandId>, is_swish: bool, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut shape = emit.shape(x);
    let last = shape.len() - 1;
    let width = shape[last];
    let fusion = node.int("swiglu_fusion", 0)?;
    let (mut gate, mut up) = match (fusion, beside) {
        (0, Some(beside)) => (x, beside),
        (0, None) => return Err("the attribute swiglu_fusion is 0, where gates without a third layer need 1 or 2".into()),
        (_, Some(_)) => return Err(format!("the attribute swiglu_fusion is {fusion}, where a third layer needs 0").into()),
        _ if !width.is_multiple_of(2) => return Err(format!("{width} outputs of a first layer with gates").into()),
        (1, None) => {
            shape[last] = width / 2;
            let mut pairs = shape.clone();
            pairs.push(2);
            let apart = emit.reshape(x, &pairs)?;
            let parts = emit.split(apart, vec![1, 1], last + 1)?;
            (emit.reshape(parts[0], &shape)?, emit.reshape(parts[1], &shape)?)
        }
        (2, None) => {
            let parts = emit.split(x, vec![width / 2, width / 2], last)?;
            (parts[0], parts[1])
        }
        (other, None) => return Err(format!("the attribute swiglu_fusion is {other}, allowed 0 to 2").into()),
    };
    if !is_swish {
        let active = tanh_gelu(emit, gate)?;
        return emit.mul(active, up);
    }
    let limit = node.optional_float("swiglu_limit")?;
    let is_limited_later = node.flag("swiglu_limit_after_activation", false)?;
    if let Some(limit) = limit {
        if !is_limited_later {
            gate = emit.clamp(gate, None, Some(limit))?;
        }
        up = emit.clamp(up, Some(-limit), Some(limit))?;
    }
    let alpha = node.float("activation_alpha", 1.0)?;
    let beta = node.float("activation_beta", 0.0)?;
    let mut swish = emit.push(Swish { input: gate, alpha })?;
    if let Some(limit) = limit.filter(|_| is_limited_later) {
        swish = emit.clamp(swish, None, Some(limit))?;
    }
    let up = if beta == 0.0 { up } else { emit.with(BinaryKind::Add, up, beta)? };
    emit.mul(swish, up)
}
