//! GroupQueryAttention of com.microsoft.

use super::cache::Coding;
use super::fixed::{filled, written};
use super::{Attention, add_bias, bias_of_mask, causal_bias, default_scale, join_heads, split_heads, type_of_scores, with_past};
use crate::graph::ops::elementwise::{BinaryKind, LogicalKind};
use crate::graph::ops::gather::GatherElements;
use crate::graph::ops::movement::{Pad, PaddingMode};
use crate::graph::{DataType, Number, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::normalization::simplified;
use crate::onnx::ops::precision::wide;
use crate::onnx::ops::rotary::rotate;
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// Queries, keys and values [batch, sequence, hidden], which may come in one.
pub fn packed_or_apart(node: &Node<'_>, [heads, key_heads]: [u32; 2], emit: &mut Emit<'_>) -> Mapped<[OperandId; 3]> {
    let query = emit.input(node, 0)?;
    match (emit.optional(node, 1)?, emit.optional(node, 2)?) {
        (Some(key), Some(value)) => Ok([query, key, value]),
        _ => {
            let hidden = emit.shape(query).last().copied().unwrap_or(0);
            let all = heads.checked_add(key_heads.checked_mul(2).ok_or("too many heads")?).ok_or("too many heads")?;
            let width = hidden / all;
            let last = emit.rank(query).saturating_sub(1);
            let parts = emit.split(query, vec![heads * width, key_heads * width, key_heads * width], last)?;
            Ok([parts[0], parts[1], parts[2]])
        }
    }
}

/// The numbers of heads, of queries and of keys.
pub fn heads(node: &Node<'_>) -> Mapped<[u32; 2]> {
    let heads = [size(node.int("num_heads", 0)?)?, size(node.int("kv_num_heads", 0)?)?];
    if heads.contains(&0) {
        return Err("no heads".into());
    }
    Ok(heads)
}

/// The part of a rotary cache that is for positions [batch, sequence]: [batch, 1, sequence, half].
pub fn angles(cache: OperandId, positions: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let gathered = emit.gather(cache, positions, 0)?;
    let gathered = wide(gathered, emit)?;
    emit.insert_axis(gathered, 1)
}

/// Scores that are hidden are not looked at, so that each query has those of its keys.
struct Keys {
    key: OperandId,
    value: OperandId,
    bias: Option<OperandId>,
    presents: [OperandId; 2],
    /// The position of each key, [batch or 1, 1, 1, keys], where that is not its number.
    positions: Option<OperandId>,
}

/// What is new, and where its sequence is.
struct Step {
    key: OperandId,
    value: OperandId,
    length: u32,
    of: DataType,
    /// [batch, 1, 1, 1]: the last position that counts, and where the new part begins.
    last: OperandId,
    begin: OperandId,
    window: i64,
    causal: bool,
}

/// Where the sequences are: the last valid position of each, and where the new part begins, [batch, 1, 1, 1].
struct Places {
    last: OperandId,
    begin: OperandId,
    /// How many of the new ones count, of each sequence, if that is given.
    counts: Option<OperandId>,
}

impl Places {
    fn of(node: &Node<'_>, [batch, length]: [u32; 2], emit: &mut Emit<'_>) -> Mapped<Places> {
        let last = emit.input(node, 5)?;
        let last = emit.cast(last, DataType::Int32)?;
        let last = emit.reshape(last, &[batch, 1, 1, 1])?;
        // A prompt begins at 0, also where it is padded after its end.
        let counts = emit.optional(node, 16)?;
        let begin = match counts {
            Some(counts) => {
                let counts = emit.cast(counts, DataType::Int32)?;
                let counts = emit.reshape(counts, &[batch, 1, 1, 1])?;
                let before = emit.sub(last, counts)?;
                emit.with(BinaryKind::Add, before, 1.0)?
            }
            None => {
                let back = emit.scalar(DataType::Int32, f64::from(length) - 1.0)?;
                let begin = emit.sub(last, back)?;
                emit.clamp(begin, Some(0.0), None)?
            }
        };
        Ok(Places { last, begin, counts })
    }

    /// The positions of the new part, [batch, length], of which a cache of angles has so many.
    fn positions(&self, node: &Node<'_>, [batch, length]: [u32; 2], angles: &[u32], emit: &mut Emit<'_>) -> Mapped<OperandId> {
        match emit.optional(node, 9)? {
            Some(given) if emit.shape(given) == [batch, length] => emit.within(given, angles, Negative::Outside),
            Some(given) => Err(format!("position ids of shape {:?}", emit.shape(given)).into()),
            None => {
                let steps = emit.positions(DataType::Int32, 2, 1, length)?;
                let begin = emit.reshape(self.begin, &[batch, 1])?;
                let positions = emit.add(begin, steps)?;
                // What is padded after a part of a prompt is not looked at.
                let positions = match self.counts {
                    Some(_) => {
                        let last = emit.reshape(self.last, &[batch, 1])?;
                        emit.binary(BinaryKind::Min, positions, last)?
                    }
                    None => positions,
                };
                emit.within(positions, angles, Negative::Outside)
            }
        }
    }
}

/// Queries and new keys with their norms, if the node has any.
fn with_norms(node: &Node<'_>, [query, key]: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
    let (Some(of_query), Some(of_key)) = (emit.optional(node, 14)?, emit.optional(node, 15)?) else {
        return match node.optional(14).is_some() || node.optional(15).is_some() {
            true => Err("a norm of queries without one of keys, or the other way round".into()),
            false => Ok([query, key]),
        };
    };
    let epsilon = node.float("qk_norm_epsilon", 1e-6)? as f32;
    let query = simplified(query, of_query, 3, node.float("q_norm_epsilon", epsilon)?, emit)?;
    let key = simplified(key, of_key, 3, node.float("k_norm_epsilon", epsilon)?, emit)?;
    Ok([query, key])
}

/// Queries and new keys, rotated by their positions if the node does that.
fn with_rotation(node: &Node<'_>, [query, key]: [OperandId; 2], places: &Places, emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
    if !node.flag("do_rotary", false)? {
        return Ok([query, key]);
    }
    let shape = emit.shape(query);
    let (cos, sin) = (emit.input(node, 7)?, emit.input(node, 8)?);
    let width = emit.shape(cos).last().copied().unwrap_or(0).saturating_mul(2);
    let interleaved = node.flag("rotary_interleaved", false)?;
    let number = emit.shape(cos)[..1].to_vec();
    let positions = places.positions(node, [shape[0], shape[2]], &number, emit)?;
    let (cos, sin) = (angles(cos, positions, emit)?, angles(sin, positions, emit)?);
    let of_key = emit.data_type(key);
    let (query, key) = (wide(query, emit)?, wide(key, emit)?);
    let query = rotate(query, cos, sin, width, interleaved, emit)?;
    let key = rotate(key, cos, sin, width, interleaved, emit)?;
    Ok([query, emit.cast(key, of_key)?])
}

/// How long the present cache is.
struct Growth {
    /// Rows of the past.
    past: u32,
    /// The total length, where it is known.
    total: Option<Vec<i64>>,
    /// Whether the cache has a fixed size.
    is_fixed: bool,
    /// Whether it is a window that follows the sequence.
    follows: bool,
}

impl Growth {
    fn of(node: &Node<'_>, length: u32, has_counts: bool, emit: &Emit<'_>) -> Mapped<Growth> {
        let past = match node.optional(3) {
            Some(past) => past.shape(emit.builder).get(2).copied().unwrap_or(0) as u32,
            None => 0,
        };
        // How long the present cache is follows from it where the past is no cache of ours, which grows.
        let total = match node.optional(6) {
            Some(_) if past > 0 => Some(node.constant(6, "the total length")?.integers()),
            total => total.and_then(Value::constant).map(Tensor::integers),
        };
        let is_fixed = past > 0 && total.as_ref().is_some_and(|total| total.iter().all(|&total| total <= i64::from(past)));
        let follows = node.flag("sliding_window_cache", false)?;
        // Between the two nobody knows which rows of the past count.
        let grown = i64::from(past) + i64::from(length);
        let is_other = |total: &&i64| **total > i64::from(past) && **total != grown;
        if past > 0
            && !has_counts
            && !follows
            && let Some(found) = total.as_ref().and_then(|total| total.iter().find(is_other))
        {
            return Err(format!(
                "total_sequence_length is {found} for {past} past and {length} new keys, allowed {grown}, or up to {past} in a cache of \
                 a fixed size"
            )
            .into());
        }
        Ok(Growth { past, total, is_fixed, follows })
    }

    /// The keys and values of all positions. Those of one sequence that grows come one after the other, and so do those of several that are
    /// known to be full; else they lie where each of them ends.
    fn keys(&self, node: &Node<'_>, step: &Step, batch: u32, has_counts: bool, emit: &mut Emit<'_>) -> Mapped<Keys> {
        let &Growth { past, is_fixed, .. } = self;
        let ends = node.optional(5).and_then(Value::constant).map(Tensor::integers);
        let are_full = ends.is_some_and(|ends| ends.iter().all(|&end| end + 1 == i64::from(past) + i64::from(step.length)));
        if self.follows {
            step.following(node, past, emit)
        } else if is_fixed || past > 0 && (batch > 1 && !are_full || has_counts) {
            // With padded chunks a cache may grow by less than they are long.
            let longest = self.total.as_ref().filter(|_| is_fixed || has_counts).and_then(|total| total.first().copied());
            step.written(node, past, if is_fixed { Written::Within } else { Written::Beyond }, longest, emit)
        } else {
            step.after(node, past, emit)
        }
    }
}

/// How much of the cache is filled is data (`seqlens_k`), while its size is not. The cache may grow with each step: then the
/// past is full, and the present one sequence longer; of several sequences only the longest need fill its part of the past.
/// Where the total length is known not to be above the past's, the cache has a fixed size. What is new is written where the
/// filled part of its sequence ends.
pub fn group_query(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let [heads, key_heads] = heads(node)?;
    let [query, key, value] = packed_or_apart(node, [heads, key_heads], emit)?;
    let of_given = emit.data_type(query);
    let query = split_heads(query, heads, emit)?;
    let key = split_heads(key, key_heads, emit)?;
    let value = split_heads(value, key_heads, emit)?;
    let shape = emit.shape(query);
    let (batch, length) = (shape[0], shape[2]);
    let of = type_of_scores(query, emit);
    let places = Places::of(node, [batch, length], emit)?;
    let [query, key] = with_norms(node, [query, key], emit)?;
    let [query, key] = with_rotation(node, [query, key], &places, emit)?;
    let codings = Codings::of(node, key_heads, [key, value], emit)?;
    let [key, value] = codings.quantized([key, value], emit)?;
    let has_counts = places.counts.is_some();
    let growth = Growth::of(node, length, has_counts, emit)?;
    let (causal, window) = (node.flag("causal", true)?, node.int("local_window_size", -1)?);
    if !causal && window > 0 {
        return Err("the attribute local_window_size is above 0, allowed only -1 with causal = 0".into());
    }
    let step = Step { key, value, length, of, last: places.last, begin: places.begin, window, causal };
    let keys = growth.keys(node, &step, batch, has_counts, emit)?;
    let (mut bias, mut added) = (keys.bias, None);
    if let Some(given) = emit.optional(node, 10)? {
        let columns = match keys.positions {
            Some(positions) => at_positions(given, positions, emit)?,
            None => as_wide_as(given, emit.shape(keys.key)[2], emit)?,
        };
        added = Some(columns);
        bias = add_bias(bias, columns, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let softcap = node.float("softcap", 0.0)?;
    let sink = sink(node, heads, of, emit)?;
    let [of_keys, of_values] = codings.numbers([keys.key, keys.value], of_given, emit)?;
    let attention = Attention { query, key: of_keys, value: of_values, scale, bias, softcap };
    let shown = node.int("qk_output", 0)?;
    if shown == 0 || !node.has_output(3) {
        let result = match sink {
            Some(sink) => attention.with_sink(sink, emit)?,
            None => attention.emit(emit)?,
        };
        return Ok(vec![join_heads(result, emit)?.into(), keys.presents[0].into(), keys.presents[1].into()]);
    }
    let (result, scores) = attention.with_scores(sink, emit)?;
    let scores = match shown {
        1 => scores.capped,
        2 => scores.weights,
        other => return Err(format!("the attribute qk_output is {other}, allowed 0 to 2").into()),
    };
    let number = emit.shape(keys.key)[2];
    let scores = emit.reshape(scores, &[batch, heads, length, number])?;
    // Before the softmax, with what the node adds to them and without what hides keys.
    let scores = shown_scores(scores, added.filter(|_| shown == 1), &growth, emit)?;
    let scores = emit.cast(scores, of_given)?;
    Ok(vec![join_heads(result, emit)?.into(), keys.presents[0].into(), keys.presents[1].into(), scores.into()])
}

/// A score of each head besides those of the keys, whose weight goes to no value.
fn sink(node: &Node<'_>, heads: u32, of: DataType, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
    Ok(match emit.optional(node, 11)? {
        Some(sink) => Some(emit.reshape(sink, &[1, heads, 1, 1])?),
        None if node.int("smooth_softmax", -1)? > 0 => Some(emit.scalar(of, 0.0)?),
        None => None,
    })
}

/// The scores [batch, heads, queries, keys] that the node shows, with what is added to them.
fn shown_scores(mut scores: OperandId, added: Option<OperandId>, growth: &Growth, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let number = emit.shape(scores)[3];
    if let Some(added) = added {
        let added = wide(added, emit)?;
        scores = emit.add(scores, added)?;
    }
    // Of a cache of a fixed size only so much is shown as the longest sequence has.
    if let Some(total) = growth.total.as_ref().and_then(|total| total.first()).and_then(|&total| u32::try_from(total).ok())
        && total < number
    {
        scores = emit.slice_axis(scores, 3, 0, total)?;
    }
    Ok(scores)
}

/// How the keys and the values of the cache are stored, if not as they are.
struct Codings([Option<Coding>; 2]);

impl Codings {
    fn of(node: &Node<'_>, heads: u32, [key, value]: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<Codings> {
        let (of_keys, of_values) = (emit.shape(key)[3], emit.shape(value)[3]);
        let keys = Coding::of(node, "k_quant_type", 12, heads, of_keys, emit)?;
        let values = Coding::of(node, "v_quant_type", 13, heads, of_values, emit)?;
        Ok(Codings([keys, values]))
    }

    fn quantized(&self, new: [OperandId; 2], emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
        let mut each =
            |coding: Option<Coding>, new| if let Some(coding) = coding { coding.quantized(new, emit) } else { Ok(new) };
        Ok([each(self.0[0], new[0])?, each(self.0[1], new[1])?])
    }

    /// The numbers of a cache. Those of values have the type of the result.
    fn numbers(&self, cache: [OperandId; 2], of_result: DataType, emit: &mut Emit<'_>) -> Mapped<[OperandId; 2]> {
        let mut each =
            |coding: Option<Coding>, cache| if let Some(coding) = coding { coding.numbers(cache, emit) } else { Ok(cache) };
        let (keys, values) = (each(self.0[0], cache[0])?, each(self.0[1], cache[1])?);
        Ok([keys, if self.0[1].is_some() { emit.cast(values, of_result)? } else { values }])
    }
}

/// Where what is new of a cache is written.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    /// Into what there is.
    Within,
    /// Also into as many rows after it.
    Beyond,
}

impl Step {
    /// Whether queries see keys at positions [batch or 1, 1, 1, keys].
    fn sees(&self, keys: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let queries = emit.positions(DataType::Int32, 4, 2, self.length)?;
        let queries = emit.add(queries, self.begin)?;
        let sees = emit.logical(LogicalKind::LesserOrEqual, keys, queries)?;
        if self.window <= 0 {
            return Ok(sees);
        }
        let width = emit.scalar(DataType::Int32, self.window.min(1 << 30) as f64)?;
        let first = emit.sub(queries, width)?;
        let near = emit.logical(LogicalKind::Greater, keys, first)?;
        emit.logical(LogicalKind::LogicalAnd, sees, near)
    }

    /// Hides keys beyond the last valid position.
    fn hide(&self, bias: Option<OperandId>, positions: OperandId, emit: &mut Emit<'_>) -> Mapped<Option<OperandId>> {
        let valid = emit.logical(LogicalKind::LesserOrEqual, positions, self.last)?;
        let of_lengths = bias_of_mask(valid, self.of, emit)?;
        add_bias(bias, of_lengths, emit)
    }

    /// What is new comes after a full past.
    fn after(&self, node: &Node<'_>, past: u32, emit: &mut Emit<'_>) -> Mapped<Keys> {
        let (key, value) = (with_past(node, 3, self.key, emit)?, with_past(node, 4, self.value, emit)?);
        let keys = emit.shape(key)[2];
        let causal =
            if self.causal { Some(causal_bias(self.of, self.length, keys, past.into(), self.window, emit)?) } else { None };
        // Beyond the last valid position nothing counts.
        let positions = emit.positions(DataType::Int32, 4, 3, keys)?;
        let bias = self.hide(causal, positions, emit)?;
        Ok(Keys { key, value, bias, presents: [key, value], positions: None })
    }

    /// What is new is written where each sequence ends: into a cache of a fixed size, or into one that grows, by the sequence or to a
    /// length.
    fn written(&self, node: &Node<'_>, past: u32, room: Written, longest: Option<i64>, emit: &mut Emit<'_>) -> Mapped<Keys> {
        let (key, value) = (emit.input(node, 3)?, emit.input(node, 4)?);
        if room == Written::Within {
            // An empty sequence ends before its first row.
            let last = emit.within(self.last, &[past], Negative::FromEnd)?;
            return Step { last, ..*self }.written_to([key, value], past, room, longest, emit);
        }
        let (key, value) = (emit.concat(vec![key, self.key], 2)?, emit.concat(vec![value, self.value], 2)?);
        self.written_to([key, value], past, room, longest, emit)
    }

    /// The same in these caches.
    fn written_to(
        &self,
        [mut key, mut value]: [OperandId; 2],
        past: u32,
        room: Written,
        longest: Option<i64>,
        emit: &mut Emit<'_>,
    ) -> Mapped<Keys> {
        (key, value) = (written(key, self.key, self.begin, emit)?, written(value, self.value, self.begin, emit)?);
        let longest = longest.map(size).transpose()?;
        let mut shown = None;
        match (room, longest) {
            (Written::Beyond, Some(longest)) => {
                let longest = longest.clamp(past, past + self.length);
                (key, value) = (emit.slice_axis(key, 2, 0, longest)?, emit.slice_axis(value, 2, 0, longest)?);
            }
            (Written::Within, longest) => shown = longest.map(|longest| longest.clamp(1, past)),
            (Written::Beyond, None) => {}
        }
        // What is after a sequence becomes zeros, as in onnxruntime, of which the first rows are looked at.
        let presents = [filled(key, self.last, None, emit)?, filled(value, self.last, None, emit)?];
        let first = |rows: OperandId, emit: &mut Emit<'_>| match shown {
            Some(longest) => emit.slice_axis(rows, 2, 0, longest),
            None => Ok(rows),
        };
        (key, value) = (first(presents[0], emit)?, first(presents[1], emit)?);
        let positions = emit.positions(DataType::Int32, 4, 3, emit.shape(key)[2])?;
        let causal = match self.causal {
            true => {
                let sees = self.sees(positions, emit)?;
                Some(bias_of_mask(sees, self.of, emit)?)
            }
            false => None,
        };
        let bias = self.hide(causal, positions, emit)?;
        Ok(Keys { key, value, bias, presents, positions: None })
    }

    /// A cache of a fixed size that has the last positions only, from its first row on. All that is in it, and what is new after that, is
    /// looked at; then the rows that stay are picked.
    fn following(&self, node: &Node<'_>, capacity: u32, emit: &mut Emit<'_>) -> Mapped<Keys> {
        let window = size(self.window.max(0))?;
        if window == 0 || capacity < window || !self.causal {
            let found = format!("a cache of {capacity} rows for a window of {}", self.window);
            return Err(format!(
                "{found}, where sliding_window_cache needs causal attention, a window, and as many rows or more"
            )
            .into());
        }
        let (past_key, past_value) = (emit.input(node, 3)?, emit.input(node, 4)?);
        let (key, value) = (emit.concat(vec![past_key, self.key], 2)?, emit.concat(vec![past_value, self.value], 2)?);
        let total = emit.with(BinaryKind::Add, self.last, 1.0)?;
        let (before, after) = (resident(self.begin, capacity, window, emit)?, resident(total, capacity, window, emit)?);
        // Positions of the rows of the past: those beyond its end are hidden as if they were to come.
        let rows = emit.positions(DataType::Int32, 4, 3, capacity)?;
        let first = emit.sub(self.begin, before)?;
        let of_past = emit.add(rows, first)?;
        let counts = emit.logical(LogicalKind::Lesser, rows, before)?;
        let never = emit.scalar(DataType::Int32, f64::from(1 << 30))?;
        let of_past = emit.select(counts, of_past, never)?;
        let new = emit.positions(DataType::Int32, 4, 3, self.length)?;
        let of_new = emit.add(new, self.begin)?;
        let positions = emit.concat(vec![of_past, of_new], 3)?;
        let sees = self.sees(positions, emit)?;
        let causal = bias_of_mask(sees, self.of, emit)?;
        let bias = self.hide(Some(causal), positions, emit)?;
        // A row that stays is one of the past, or one of the new ones after all rows of the past.
        let kept = emit.positions(DataType::Int32, 4, 2, capacity)?;
        let oldest = emit.sub(total, after)?;
        let at = emit.add(kept, oldest)?;
        let is_new = emit.logical(LogicalKind::GreaterOrEqual, at, self.begin)?;
        let of_new = emit.sub(at, self.begin)?;
        let of_new = emit.with(BinaryKind::Add, of_new, capacity.into())?;
        let of_past = emit.sub(at, first)?;
        let from = emit.select(is_new, of_new, of_past)?;
        let from = emit.clamp(from, Some(0.0), Some(f64::from(capacity) + f64::from(self.length) - 1.0))?;
        let picked = |of: OperandId, all: OperandId, emit: &mut Emit<'_>| -> Mapped<OperandId> {
            let indices = emit.expand(from, &emit.shape(of))?;
            emit.push(GatherElements { input: all, indices, axis: 2 })
        };
        let presents = [picked(past_key, key, emit)?, picked(past_value, value, emit)?];
        Ok(Keys { key, value, bias, presents, positions: Some(positions) })
    }
}

/// How many positions a cache that follows a window has after `total` of them: when it is full, so many go at once that it holds the
/// window.
fn resident(total: OperandId, capacity: u32, window: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let chunk = f64::from(capacity - window + 1);
    let over = emit.with(BinaryKind::Add, total, chunk - 1.0 - f64::from(capacity))?;
    let over = emit.clamp(over, Some(0.0), None)?;
    let times = emit.with(BinaryKind::Div, over, chunk)?;
    let gone = emit.with(BinaryKind::Mul, times, chunk)?;
    emit.sub(total, gone)
}

/// The columns of a bias [batch or 1, heads or 1, queries, positions] at positions [batch or 1, 1, 1, keys].
fn at_positions(bias: OperandId, positions: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let (mut shape, of_positions) = (emit.shape(bias), emit.shape(positions));
    let &[batch, _, _, columns] = &shape[..] else { return Err("a bias whose rank is not 4".into()) };
    shape[3] = of_positions[3];
    let mut bias = bias;
    if batch < of_positions[0] {
        shape[0] = of_positions[0];
        let mut whole = shape.clone();
        whole[3] = columns;
        bias = emit.expand(bias, &whole)?;
    }
    let places = emit.clamp(positions, Some(0.0), Some(f64::from(columns) - 1.0))?;
    let indices = emit.expand(places, &shape)?;
    emit.push(GatherElements { input: bias, indices, axis: 3 })
}

/// A bias for as many keys: those of a cache of a fixed size after all sequences are hidden anyway.
fn as_wide_as(bias: OperandId, keys: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let shape = emit.shape(bias);
    let columns = shape.last().copied().unwrap_or(0);
    if columns >= keys || columns <= 1 || shape.len() != 4 {
        return Ok(bias);
    }
    emit.push(Pad {
        input: bias,
        beginning_padding: vec![0; 4],
        ending_padding: vec![0, 0, 0, keys - columns],
        mode: PaddingMode::Constant,
        value: Number::Double(0.0),
    })
}
