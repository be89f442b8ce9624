//! MultiHeadAttention and GroupQueryAttention of com.microsoft.

use super::cache::Coding;
use super::{Attention, add_bias, bias_of_mask, causal_bias, default_scale, join_heads, split_heads, type_of_scores, with_past};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::scatter::ScatterElements;
use crate::graph::{DataType, OperandId};
use crate::onnx::element::ElementType;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::normalization::simplified;
use crate::onnx::ops::precision::wide;
use crate::onnx::ops::rotary::rotate;
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

/// MultiHeadAttention of com.microsoft, of queries, keys and values.
pub fn multi_head(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let heads = size(node.int("num_heads", 0)?)?;
    node.no_outputs_from(3, "of the scores")?;
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
    let new = emit.shape(key)[2];
    let (key, value) = (with_past(node, 6, key, emit)?, with_past(node, 7, value, emit)?);
    let of = type_of_scores(query, emit);
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
/// How much of the cache is filled is data (`seqlens_k`), while its size is not. The cache may grow with each step: then the
/// past is full, and the present one sequence longer; of several sequences only the longest need fill its part of the past.
/// Where the total length is known not to be above the past's, the cache has a fixed size. What is new is written where the
/// filled part of its sequence ends.
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
    let mut new_key = split_heads(key, key_heads, emit)?;
    let mut new_value = split_heads(value, key_heads, emit)?;
    let shape = emit.shape(query);
    let (batch, length) = (shape[0], shape[2]);
    let past = match node.optional(3) {
        Some(past) => past.shape(emit.builder).get(2).copied().unwrap_or(0) as u32,
        None => 0,
    };
    let of = type_of_scores(query, emit);
    // The last valid position of each sequence.
    let lengths = emit.input(node, 5)?;
    let lengths = emit.cast(lengths, DataType::Int32)?;
    let lengths = emit.reshape(lengths, &[batch, 1, 1, 1])?;
    // Where the new part begins: a prompt at 0, also where it is padded behind its end.
    let back = emit.scalar(DataType::Int32, f64::from(length) - 1.0)?;
    let mut begin = emit.sub(lengths, back)?;
    // A cache that grows in place ends with its last row, and may begin with rows that do not count: also before a shorter sequence.
    let ends_aligned = node.optional(3).is_some_and(|past| emit.ends_count(past));
    if !ends_aligned {
        begin = emit.clamp(begin, Some(0.0), None)?;
    }
    if let (Some(of_query), Some(of_key)) = (emit.optional(node, 14)?, emit.optional(node, 15)?) {
        let epsilon = node.float("qk_norm_epsilon", 1e-6)? as f32;
        query = simplified(query, of_query, 3, node.float("q_norm_epsilon", epsilon)?, emit)?;
        new_key = simplified(new_key, of_key, 3, node.float("k_norm_epsilon", epsilon)?, emit)?;
    } else if node.optional(14).is_some() || node.optional(15).is_some() {
        return Err("a norm of queries without one of keys, or the other way round".into());
    }
    if node.flag("do_rotary", false)? {
        let (cos, sin) = (emit.input(node, 7)?, emit.input(node, 8)?);
        let width = emit.shape(cos).last().copied().unwrap_or(0).saturating_mul(2);
        let interleaved = node.flag("rotary_interleaved", false)?;
        let positions = match emit.optional(node, 9)? {
            Some(given) if emit.shape(given) == [batch, length] => given,
            Some(given) => return Err(format!("position ids of shape {:?}", emit.shape(given)).into()),
            None => {
                let steps = emit.positions(DataType::Int32, 2, 1, length)?;
                let begin = emit.reshape(begin, &[batch, 1])?;
                let positions = emit.add(begin, steps)?;
                if ends_aligned { emit.clamp(positions, Some(0.0), None)? } else { positions }
            }
        };
        let part = |cache: OperandId, emit: &mut Emit<'_>| {
            let gathered = emit.gather(cache, positions, 0)?;
            let gathered = wide(gathered, emit)?;
            emit.reshape(gathered, &[batch, 1, length, width / 2])
        };
        let (cos, sin) = (part(cos, emit)?, part(sin, emit)?);
        let of_key = emit.data_type(new_key);
        (query, new_key) = (wide(query, emit)?, wide(new_key, emit)?);
        query = rotate(query, cos, sin, width, interleaved, emit)?;
        new_key = rotate(new_key, cos, sin, width, interleaved, emit)?;
        new_key = emit.cast(new_key, of_key)?;
    }
    let (of_keys, of_values) = (emit.shape(new_key)[3], emit.shape(new_value)[3]);
    let key_coding = Coding::of(node, "k_quant_type", 12, key_heads, of_keys, emit)?;
    let value_coding = Coding::of(node, "v_quant_type", 13, key_heads, of_values, emit)?;
    if let Some(coding) = key_coding {
        new_key = coding.quantized(new_key, emit)?;
    }
    if let Some(coding) = value_coding {
        new_value = coding.quantized(new_value, emit)?;
    }
    let total = node.optional(6).and_then(Value::constant).map(Tensor::integers);
    let fixed = !ends_aligned && past > 0 && total.is_some_and(|total| total[..].iter().all(|&total| total <= i64::from(past)));
    let causal = node.flag("causal", true)?;
    let window = node.int("local_window_size", -1)?;
    if !causal && window > 0 {
        return Err("a window without causal attention is not supported".into());
    }
    let (key, value, mut bias);
    // The keys of one sequence that grows come one after the other; those of several lie where each of them ends.
    let grows = past > 0 && !fixed;
    if fixed || grows && batch > 1 && !ends_aligned {
        let (mut cache_key, mut cache_value) = (emit.input(node, 3)?, emit.input(node, 4)?);
        if grows {
            cache_key = emit.concat(vec![cache_key, new_key], 2)?;
            cache_value = emit.concat(vec![cache_value, new_value], 2)?;
        }
        (key, value) = (written(cache_key, new_key, begin, emit)?, written(cache_value, new_value, begin, emit)?);
        let size = emit.shape(key)[2];
        let keys = emit.positions(DataType::Int32, 4, 3, size)?;
        let queries = emit.positions(DataType::Int32, 4, 2, length)?;
        let queries = emit.add(queries, begin)?;
        let mut sees = emit.logical(LogicalKind::LesserOrEqual, keys, queries)?;
        if window > 0 {
            let width = emit.scalar(DataType::Int32, window.min(1 << 30) as f64)?;
            let first = emit.sub(queries, width)?;
            let near = emit.logical(LogicalKind::Greater, keys, first)?;
            sees = emit.logical(LogicalKind::LogicalAnd, sees, near)?;
        }
        bias = if causal { Some(bias_of_mask(sees, of, emit)?) } else { None };
    } else {
        (key, value) = (with_past(node, 3, new_key, emit)?, with_past(node, 4, new_value, emit)?);
        let keys = emit.shape(key)[2];
        bias = if causal { Some(causal_bias(of, length, keys, past.into(), window, emit)?) } else { None };
    }
    let keys = emit.shape(key)[2];
    // Beyond the last valid position nothing counts; or before the first one.
    let positions: Vec<i64> = match ends_aligned {
        true => (0..i64::from(keys)).rev().collect(),
        false => (0..keys.into()).collect(),
    };
    let positions = emit.constant(Tensor::from_integers(ElementType::Int32, vec![1, 1, 1, positions.len()], &positions))?;
    let valid = emit.logical(LogicalKind::LesserOrEqual, positions, lengths)?;
    let of_lengths = bias_of_mask(valid, of, emit)?;
    bias = add_bias(bias, of_lengths, emit)?;
    if let Some(given) = emit.optional(node, 10)? {
        bias = add_bias(bias, given, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let softcap = node.float("softcap", 0.0)?;
    // A score of each head besides those of the keys, whose weight goes to no value.
    let sink = match emit.optional(node, 11)? {
        Some(sink) => Some(emit.reshape(sink, &[1, heads, 1, 1])?),
        None if node.int("smooth_softmax", -1)? > 0 => Some(emit.scalar(of, 0.0)?),
        None => None,
    };
    let numbers = |cache: OperandId, coding: Option<Coding>, emit: &mut Emit<'_>| match coding {
        Some(coding) => coding.numbers(cache, emit),
        None => Ok(cache),
    };
    let of_keys = numbers(key, key_coding, emit)?;
    let of_values = numbers(value, value_coding, emit)?;
    let of_values = if value_coding.is_some() { emit.cast(of_values, emit.data_type(query))? } else { of_values };
    let attention = Attention { query, key: of_keys, value: of_values, scale, bias, softcap };
    let result = match sink {
        Some(sink) => attention.with_sink(sink, emit)?,
        None => attention.emit(emit)?,
    };
    Ok(vec![join_heads(result, emit)?.into(), key.into(), value.into()])
}

/// A cache [batch, heads, size, head size] with what is new from `begin` [batch, 1, 1, 1] on.
fn written(input: OperandId, new: OperandId, begin: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(new);
    let positions = emit.positions(DataType::Int32, 4, 2, shape[2])?;
    let places = emit.add(positions, begin)?;
    let indices = emit.expand(places, &shape)?;
    emit.push(ScatterElements { input, indices, updates: new, axis: 2 })
}
