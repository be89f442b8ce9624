//! MultiHeadAttention of com.microsoft.

use super::fixed::SharedBufferCaches;
use super::padding::with_mask;
use super::{Attention, add_bias, causal_bias, default_scale, join_heads, longest, split_heads, type_of_scores, with_past};
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::precision::wide;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Queries, keys and values, which may come packed: [batch, sequence, heads, 3, head size], or keys and values alone with 2.
fn separate(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<[OperandId; 3]> {
    let first = emit.input(node, 0)?;
    let (key, value) = (emit.optional(node, 1)?, emit.optional(node, 2)?);
    let apart = |packed: OperandId, count: u32, emit: &mut Emit<'_>| -> Mapped<Vec<OperandId>> {
        let &[batch, length, heads, parts, width] = &emit.shape(packed)[..] else {
            return Err("packed values whose rank is not 5".into());
        };
        if parts != count {
            return Err(format!("{parts} packed values instead of {count}").into());
        }
        let hidden = heads.checked_mul(width).ok_or("too many elements")?;
        let parts = emit.split(packed, vec![1; count as usize], 3)?;
        parts.into_iter().map(|part| emit.reshape(part, &[batch, length, hidden])).collect()
    };
    match (key, value) {
        (Some(key), Some(value)) => Ok([first, key, value]),
        (Some(both), None) => {
            let parts = apart(both, 2, emit)?;
            Ok([first, parts[0], parts[1]])
        }
        (None, _) => {
            let parts = apart(first, 3, emit)?;
            Ok([parts[0], parts[1], parts[2]])
        }
    }
}

/// What hides later ones of so many past and new keys from causal queries. As in onnxruntime the last query sees all keys, also where there
/// are more new ones than queries.
fn causal_but_last(of: DataType, queries: u32, [past, new]: [u32; 2], emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    let keys = past + new;
    if queries == new {
        return causal_bias(of, queries, keys, past.into(), 0, emit).map(Some);
    }
    if queries <= 1 {
        return Ok(None);
    }
    let others = causal_bias(of, queries - 1, keys, past.into(), 0, emit)?;
    let last = emit.constant(Tensor::from_floats(of.into(), vec![1, keys as usize], &vec![0.0; keys as usize]))?;
    emit.concat(vec![others, last], 0).map(Some)
}

/// MultiHeadAttention of com.microsoft, of queries, keys and values. The scores that it shows are those that the softmax gets, as in
/// onnxruntime, whatever the operator's description calls them.
pub fn multi_head(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let heads = size(node.int("num_heads", 0)?)?;
    let mut inputs = separate(node, emit)?;
    if let Some(bias) = emit.optional(node, 3)? {
        let mut start = 0;
        // The queries are needed for nothing else, so they are not rounded here; keys and values are results too.
        inputs[0] = wide(inputs[0], emit)?;
        for input in &mut inputs {
            let &[_, _, hidden] = &emit.shape(*input)[..] else { return Err("a bias for inputs whose rank is not 3".into()) };
            let own = emit.slice_axis(bias, 0, start, hidden)?;
            let own = emit.cast(own, emit.data_type(*input))?;
            *input = emit.add(*input, own)?;
            start = start.checked_add(hidden).ok_or("too many elements")?;
        }
    }
    let query = split_heads(inputs[0], heads, emit)?;
    // Keys and values of another attention come with their heads apart.
    let apart = |input: OperandId, emit: &mut Emit<'_>| match emit.rank(input) {
        4 => Ok(input),
        _ => split_heads(input, heads, emit),
    };
    let (key, value) = (apart(inputs[1], emit)?, apart(inputs[2], emit)?);
    let (batch, new) = (emit.shape(query)[0], emit.shape(key)[2]);
    let (mask, mut bias) = (emit.optional(node, 4)?, emit.optional(node, 5)?);
    let is_shared = node.optional(6).is_some() && node.optional(8).is_some();
    if !is_shared && node.optional(9).is_some() {
        return Err("cache_indirection without a cache and past_sequence_length".into());
    }
    let shared = is_shared.then(|| SharedBufferCaches::of(node, [8, 9], batch, new, emit)).transpose()?;
    let (key, value, presents) = match &shared {
        None => {
            let presents = [with_past(node, 6, key, emit)?, with_past(node, 7, value, emit)?];
            (presents[0], presents[1], presents)
        }
        Some(shared) => {
            let presents = [shared.written(emit.input(node, 6)?, key, emit)?, shared.written(emit.input(node, 7)?, value, emit)?];
            let rows = longest(node, (8, new), [mask, bias], node.has_output(3), emit)?;
            (shared.rows(presents[0], rows, emit)?, shared.rows(presents[1], rows, emit)?, presents)
        }
    };
    let of = type_of_scores(query, emit);
    let (queries, keys) = (emit.shape(query)[2], emit.shape(key)[2]);
    if let Some(mask) = mask {
        bias = with_mask(node, mask, (query, keys), bias, emit)?;
    }
    let is_causal = node.flag("unidirectional", false)?;
    if let Some(shared) = shared {
        bias = shared.hide(bias, (keys, is_causal.then_some(queries)), of, emit)?;
    } else if is_causal && let Some(causal) = causal_but_last(of, queries, [keys - new, new], emit)? {
        bias = add_bias(bias, causal, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let attention = Attention { query, key, value, scale, bias, softcap: 0.0 };
    if !node.has_output(3) {
        let result = attention.emit(emit)?;
        return Ok(vec![join_heads(result, emit)?.into(), presents[0].into(), presents[1].into()]);
    }
    let (result, scores) = attention.with_scores(None, emit)?;
    let shown = emit.cast(scores.biased, emit.data_type(query))?;
    Ok(vec![join_heads(result, emit)?.into(), presents[0].into(), presents[1].into(), shown.into()])
}
