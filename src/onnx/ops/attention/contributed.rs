//! MultiHeadAttention and GroupQueryAttention of com.microsoft.

use super::{Attention, add_bias, bias_of_mask, causal_bias, default_scale, join_heads, split_heads, with_past};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::rotary::rotate;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// MultiHeadAttention of com.microsoft, with queries, keys and values of their own (not packed).
pub fn multi_head(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let heads = size(node.int("num_heads", 0)?)?;
    if node.optional(1).is_none() || node.optional(2).is_none() {
        return Err("packed queries, keys and values are not supported".into());
    }
    node.no_outputs_from(3, "of the scores")?;
    let mut inputs = [emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?];
    if let Some(bias) = emit.optional(node, 3)? {
        let mut start = 0;
        for input in &mut inputs {
            let &[_, _, hidden] = &emit.shape(*input)[..] else { return Err("a bias for inputs whose rank is not 3".into()) };
            let own = emit.slice_axis(bias, 0, start, hidden)?;
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
    let new = emit.shape(key)[2];
    let (key, value) = (with_past(node, 6, key, emit)?, with_past(node, 7, value, emit)?);
    let of = emit.data_type(query);
    let (queries, keys) = (emit.shape(query)[2], emit.shape(key)[2]);
    let mut bias = emit.optional(node, 5)?;
    if let Some(mask) = emit.optional(node, 4)? {
        let batch = emit.shape(query)[0];
        let aligned = match emit.shape(mask)[..] {
            [b, k] if b == batch && k == keys => vec![b, 1, 1, k],
            [b, q, k] if q == queries && k == keys => vec![b, 1, q, k],
            _ => return Err("a key padding mask of another shape than [batch, keys] is not supported".into()),
        };
        let mask = emit.reshape(mask, &aligned)?;
        // As onnxruntime does it: a finite number, so that a row that is all hidden stays one of numbers.
        let hidden = node.float("mask_filter_value", -10000.0)?;
        let zero_of_mask = emit.scalar(emit.data_type(mask), 0.0)?;
        let shown = emit.logical(LogicalKind::NotEqual, mask, zero_of_mask)?;
        let (zero, hidden) = (emit.scalar(of, 0.0)?, emit.scalar(of, hidden)?);
        let of_mask = emit.select(shown, zero, hidden)?;
        bias = add_bias(bias, of_mask, emit)?;
    }
    if node.flag("unidirectional", false)? {
        let causal = causal_bias(of, queries, keys, i64::from(keys) - i64::from(new), 0, emit)?;
        bias = add_bias(bias, causal, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let result = Attention { query, key, value, scale, bias, softcap: 0.0 }.emit(emit)?;
    Ok(vec![join_heads(result, emit)?.into(), key.into(), value.into()])
}

/// GroupQueryAttention of com.microsoft.
///
/// How much of the cache is filled is data in this operator (`seqlens_k`), while the cache's size is not. It is supported
/// where the cache grows with each step: the past holds what came before, the present one more sequence, and everything in
/// it counts up to `seqlens_k`.
pub fn group_query(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let heads = size(node.int("num_heads", 0)?)?;
    let key_heads = size(node.int("kv_num_heads", 0)?)?;
    if heads == 0 || key_heads == 0 {
        return Err("no heads".into());
    }
    let query = emit.input(node, 0)?;
    let (query, key, value) = match (emit.optional(node, 1)?, emit.optional(node, 2)?) {
        (Some(key), Some(value)) => (query, key, value),
        _ => {
            let hidden = emit.shape(query).last().copied().unwrap_or(0);
            let all = heads.checked_add(key_heads.checked_mul(2).ok_or("too many heads")?).ok_or("too many heads")?;
            let width = hidden / all;
            let parts = emit.split(query, vec![heads * width, key_heads * width, key_heads * width], 2)?;
            (parts[0], parts[1], parts[2])
        }
    };
    let mut query = split_heads(query, heads, emit)?;
    let mut key = split_heads(key, key_heads, emit)?;
    let value = split_heads(value, key_heads, emit)?;
    let shape = emit.shape(query);
    let (batch, length) = (shape[0], shape[2]);
    let past = match node.optional(3) {
        Some(past) => past.shape(emit.builder).get(2).copied().unwrap_or(0) as u32,
        None => 0,
    };
    let of = emit.data_type(query);
    // The last valid position of each sequence.
    let lengths = emit.input(node, 5)?;
    let lengths = emit.cast(lengths, DataType::Int32)?;
    let lengths = emit.reshape(lengths, &[batch, 1, 1, 1])?;
    if node.flag("do_rotary", false)? {
        let (cos, sin) = (emit.input(node, 7)?, emit.input(node, 8)?);
        let width = emit.shape(cos).last().copied().unwrap_or(0).saturating_mul(2);
        let interleaved = node.flag("rotary_interleaved", false)?;
        // New positions end at the last valid one.
        let back: Vec<i64> = (0..i64::from(length)).map(|i| i + 1 - i64::from(length)).collect();
        let back = emit.constant(Tensor::from_integers(ElementType::Int32, vec![1, back.len()], &back))?;
        let ends = emit.reshape(lengths, &[batch, 1])?;
        let positions = emit.add(ends, back)?;
        let positions = emit.clamp(positions, Some(0.0), None)?;
        let part = |cache: OperandId, emit: &mut Emit<'_>| {
            let gathered = emit.gather(cache, positions, 0)?;
            emit.reshape(gathered, &[batch, 1, length, width / 2])
        };
        let (cos, sin) = (part(cos, emit)?, part(sin, emit)?);
        query = rotate(query, cos, sin, width, interleaved, emit)?;
        key = rotate(key, cos, sin, width, interleaved, emit)?;
    }
    let (key, value) = (with_past(node, 3, key, emit)?, with_past(node, 4, value, emit)?);
    let keys = emit.shape(key)[2];
    let window = node.int("local_window_size", -1)?;
    let mut bias = Some(causal_bias(of, length, keys, past.into(), window, emit)?);
    // Beyond the last valid position nothing counts.
    let positions: Vec<i64> = (0..keys.into()).collect();
    let positions = emit.constant(Tensor::from_integers(ElementType::Int32, vec![1, 1, 1, positions.len()], &positions))?;
    let valid = emit.logical(LogicalKind::LesserOrEqual, positions, lengths)?;
    let of_lengths = bias_of_mask(valid, of, emit)?;
    bias = add_bias(bias, of_lengths, emit)?;
    if let Some(given) = emit.optional(node, 10)? {
        bias = add_bias(bias, given, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let softcap = node.float("softcap", 0.0)?;
    let result = Attention { query, key, value, scale, bias, softcap }.emit(emit)?;
    Ok(vec![join_heads(result, emit)?.into(), key.into(), value.into()])
}
