//! Attention of transformers: what the standard's operator and those of com.microsoft have in common.

mod blocks;
mod cache;
mod contributed;
mod fixed;
mod grouped;
mod masked;
mod packed;
mod padding;
mod standard;
#[cfg(test)]
mod tests;

pub use blocks::{paged, sparse};
pub use contributed::multi_head;
pub use grouped::group_query;
pub use masked::decoder_masked;
pub use packed::{packed, quantized};
pub use standard::standard;

use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, LogicalKind};
use crate::graph::ops::softmax::Softmax;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::fold::CausalMask;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::precision::wide;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Queries, keys and values as [batch, heads, sequence, head size], and what changes their scores.
struct Attention {
    query: OperandId,
    key: OperandId,
    value: OperandId,
    scale: f64,
    /// Added to the scores.
    bias: Option<OperandId>,
    softcap: f64,
}

/// The scores as they are computed, and what they weigh. Those of float16 queries are float32.
struct Scores {
    /// query * key' * scale
    products: OperandId,
    capped: OperandId,
    biased: OperandId,
    weights: OperandId,
}

impl Attention {
    /// `softmax(query * key' * scale + bias) * value`, [batch, heads, sequence, head size], of the type of the values.
    fn emit(self, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let shape = emit.shape(self.query);
        let own = self.by_group(emit)?;
        let scores = own.scores(emit)?;
        let weights = own.softmax(scores.biased, emit)?;
        let result = own.result(weights, emit)?;
        ungrouped(result, &shape, emit)
    }

    /// Where several query heads share a head of keys and values, these have a dimension of their own: [batch, key heads, group, …]. So
    /// nothing is repeated in memory.
    fn by_group(self, emit: &mut Emit<'_>) -> Mapped<Attention> {
        let &[batch, heads, queries, width] = &emit.shape(self.query)[..] else {
            return Err("queries of another rank than 4".into());
        };
        let own = emit.shape(self.key).get(1).copied().unwrap_or(0);
        if own == heads {
            return Ok(self);
        }
        if own == 0 || !heads.is_multiple_of(own) || emit.shape(self.value).get(1) != Some(&own) {
            return Err(format!("{heads} query heads for {own} key heads").into());
        }
        let bias = match self.bias {
            Some(bias) if emit.rank(bias) >= 3 => {
                let mut shape = emit.shape(bias);
                let at = shape.len() - 3;
                if shape[at] == heads {
                    shape.splice(at..=at, [own, heads / own]);
                } else {
                    shape.insert(at, 1);
                }
                Some(emit.reshape(bias, &shape)?)
            }
            bias => bias,
        };
        Ok(Attention {
            query: emit.reshape(self.query, &[batch, own, heads / own, queries, width])?,
            key: emit.insert_axis(self.key, 2)?,
            value: emit.insert_axis(self.value, 2)?,
            bias,
            ..self
        })
    }

    fn softmax(&self, scores: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let axis = emit.rank(scores) as u32 - 1;
        emit.push(Softmax { input: scores, axis })
    }

    /// The same with one more score for each query, of which only the weights of the others become less.
    fn with_sink(self, sink: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        Ok(self.with_scores(Some(sink), emit)?.0)
    }

    /// The same, perhaps with a sink, and the scores.
    fn with_scores(self, sink: Option<OperandId>, emit: &mut Emit<'_>) -> Mapped<(OperandId, Scores)> {
        let shape = emit.shape(self.query);
        let own = self.by_group(emit)?;
        let mut all = own.scores(emit)?;
        all.weights = match sink {
            Some(sink) => own.weights_beside(sink, all.biased, emit)?,
            None => own.softmax(all.biased, emit)?,
        };
        let result = own.result(all.weights, emit)?;
        Ok((ungrouped(result, &shape, emit)?, all))
    }

    /// The weights of scores by groups where there is one more score.
    fn weights_beside(&self, sink: OperandId, scores: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let mut sink = wide(sink, emit)?;
        let mut of_sink = emit.shape(scores);
        let axis = of_sink.len() - 1;
        let keys = std::mem::replace(&mut of_sink[axis], 1);
        if axis == 4 && emit.shape(sink).len() == 4 {
            sink = emit.reshape(sink, &[1, of_sink[1], of_sink[2], 1, 1])?;
        }
        let sink = emit.expand(sink, &of_sink)?;
        let all = emit.concat(vec![scores, sink], axis)?;
        let weights = self.softmax(all, emit)?;
        emit.slice_axis(weights, axis, 0, keys)
    }

    /// All steps before the softmax; the weights are not there yet.
    fn scores(&self, emit: &mut Emit<'_>) -> Mapped<Scores> {
        let (query, key) = (wide(self.query, emit)?, wide(self.key, emit)?);
        let key = emit.transpose_matrices(key)?;
        let products = emit.matmul(query, key)?;
        let products = emit.with(BinaryKind::Mul, products, self.scale)?;
        let mut capped = products;
        if self.softcap > 0.0 {
            let scaled = emit.with(BinaryKind::Div, products, self.softcap)?;
            let bounded = emit.activation(ActivationKind::Tanh, scaled)?;
            capped = emit.with(BinaryKind::Mul, bounded, self.softcap)?;
        }
        let biased = match self.bias {
            Some(bias) => {
                let bias = wide(bias, emit)?;
                emit.add(capped, bias)?
            }
            None => capped,
        };
        Ok(Scores { products, capped, biased, weights: biased })
    }

    fn result(&self, weights: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let of = emit.data_type(self.value);
        let value = wide(self.value, emit)?;
        let result = emit.matmul(weights, value)?;
        emit.cast(result, of)
    }
}

/// Puts the query heads of [`Attention::by_group`] together again.
fn ungrouped(result: OperandId, query: &[u32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut shape = query.to_vec();
    if let (Some(last), Some(width)) = (shape.last_mut(), emit.shape(result).last()) {
        *last = *width;
    }
    emit.reshape(result, &shape)
}

/// [batch, sequence, heads * head size] as [batch, heads, sequence, head size].
fn split_heads(input: OperandId, heads: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let &[batch, length, hidden] = &emit.shape(input)[..] else { return Err("an input whose rank is not 3".into()) };
    if heads == 0 || hidden % heads != 0 {
        return Err(format!("{heads} heads of {hidden} elements").into());
    }
    let apart = emit.reshape(input, &[batch, length, heads, hidden / heads])?;
    emit.transpose(apart, &[0, 2, 1, 3])
}

fn join_heads(input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let &[batch, heads, length, width] = &emit.shape(input)[..] else { return Err("heads of another rank than 4".into()) };
    let apart = emit.transpose(input, &[0, 2, 1, 3])?;
    let hidden = heads.checked_mul(width).ok_or("too many elements")?;
    emit.reshape(apart, &[batch, length, hidden])
}

/// Puts what is cached before what is new.
fn with_past(node: &Node<'_>, position: usize, new: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    match node.optional(position) {
        // An empty cache is known.
        Some(past) if !past.constant().is_some_and(Tensor::is_empty) => {
            let past = emit.operand(past)?;
            emit.concat(vec![past, new], 2)
        }
        _ => Ok(new),
    }
}

/// How many rows of a cache of a fixed size the longest sequence has: as many as the mask, or what is added to scores, has columns. Where
/// neither is there and scores of so many rows are shown, the input at `position` says it, after which `new` rows follow.
fn longest(
    node: &Node<'_>,
    (position, new): (usize, u32),
    given: [Option<OperandId>; 2],
    is_shown: bool,
    emit: &Emit<'_>,
) -> Mapped<Option<u32>> {
    let mut shapes = given.into_iter().flatten().map(|id| emit.shape(id));
    let columns = shapes.find_map(|shape| shape.split_first().and_then(|(_, rest)| rest.last().copied()));
    match columns.filter(|&columns| columns > 1) {
        None if is_shown => {
            let before = node.constant(position, "the number of rows before")?.integers();
            let before = before.first().copied().ok_or("past_sequence_length without elements")?;
            Ok(Some(size(before.saturating_add(new.into()))?))
        }
        known => Ok(known),
    }
}

/// The scale for heads of that size, when no other is given.
fn default_scale(node: &Node<'_>, query: OperandId, emit: &Emit<'_>) -> Mapped<f64> {
    let width = f64::from(emit.shape(query).last().copied().unwrap_or(1));
    Ok(match node.float("scale", 0.0)? {
        0.0 => 1.0 / width.sqrt(),
        scale => scale,
    })
}

/// 0 where a query may look, and a large negative number at the keys that come later: with `past` keys before the queries. The layers of a
/// model share it.
fn causal_bias(of: DataType, queries: u32, keys: u32, past: i64, window: i64, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mask = CausalMask { of, queries, keys, past, window };
    let known = emit.folding.causal_masks.get(&mask).cloned();
    let bias = match known {
        Some(known) => known,
        None => Value::from(mask.bias(emit)?),
    };
    let id = emit.operand(&bias)?;
    emit.folding.causal_masks.insert(mask, bias);
    Ok(id)
}

impl CausalMask {
    fn bias(&self, emit: &mut Emit<'_>) -> Mapped<Tensor> {
        let (queries, keys) = (self.queries as usize, self.keys as usize);
        if u64::from(self.queries) * u64::from(self.keys) > 1 << 24 {
            return Err("a causal mask of too many elements".into());
        }
        // As numbers, and as their bytes.
        crate::memory::require(2 * size_of::<f64>() * queries * keys)?;
        let mut bias = Vec::with_capacity(queries * keys);
        for query in 0..i64::from(self.queries) {
            let last = query + self.past;
            bias.extend((0..i64::from(self.keys)).map(|key| {
                let sees = key <= last && (self.window <= 0 || key > last - self.window);
                if sees { 0.0 } else { LOWEST }
            }));
        }
        let tensor = Tensor::from_floats(self.of.into(), vec![queries, keys], &bias);
        match emit.folding.charge(tensor.bytes.len()) {
            true => Ok(tensor),
            false => Err("too much to compute at import".into()),
        }
    }
}

/// The type of the scores of queries: products of float16 may exceed its range.
fn type_of_scores(query: OperandId, emit: &Emit<'_>) -> DataType {
    match emit.data_type(query) {
        DataType::Float16 => DataType::Float32,
        of => of,
    }
}

/// What hides a score without making a row of hidden ones NaN. Scores are float32.
const LOWEST: f64 = f32::MIN as f64;

/// 0 where a mask is true and a large negative number where it is not.
fn bias_of_mask(mask: OperandId, of: DataType, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let zero_of_mask = emit.scalar(emit.data_type(mask), 0.0)?;
    let shown = emit.logical(LogicalKind::NotEqual, mask, zero_of_mask)?;
    let (zero, hidden) = (emit.scalar(of, 0.0)?, emit.scalar(of, LOWEST)?);
    emit.select(shown, zero, hidden)
}

fn add_bias(bias: Option<OperandId>, other: OperandId, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    match bias {
        Some(bias) => {
            let (bias, other) = (wide(bias, emit)?, wide(other, emit)?);
            Ok(Some(emit.add(bias, other)?))
        }
        None => Ok(Some(other)),
    }
}
