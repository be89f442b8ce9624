//! Attention of the standard, version 23 on.

use super::{Attention, Scores, join_heads, split_heads, type_of_scores, ungrouped, with_past};
use crate::graph::ops::elementwise::LogicalKind;
use crate::graph::ops::movement::{Pad, PaddingMode};
use crate::graph::ops::reduce::ReduceKind;
use crate::graph::{DataType, Number, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, data_type, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// What may hide keys from queries. What is hidden gets a score of minus infinity, and a query that sees no key at all gets
/// zeros.
struct Mask {
    of: DataType,
    /// Keys and queries.
    keys: u32,
    queries: u32,
    /// How many keys come before the first query, a number or for each batch.
    before: OperandId,
    bias: Option<OperandId>,
}

impl Mask {
    fn add(&mut self, other: OperandId, emit: &mut Emit<'_>) -> Mapped<()> {
        self.bias = Some(match self.bias {
            Some(bias) => emit.add(bias, other)?,
            None => other,
        });
        Ok(())
    }

    /// Hides where a condition is not true.
    fn keep(&mut self, sees: OperandId, emit: &mut Emit<'_>) -> Mapped<()> {
        let bias = emit.choose(sees, self.of, 0.0, f64::NEG_INFINITY)?;
        self.add(bias, emit)
    }

    /// Hides keys further to the right or to the left of a query than so many; a negative number is no limit.
    fn limit(&mut self, right: i64, left: i64, emit: &mut Emit<'_>) -> Mapped<()> {
        if right < 0 && left < 0 {
            return Ok(());
        }
        emit.check_count(&[self.queries, self.keys])?;
        let queries = emit.positions(DataType::Int32, 4, 2, self.queries)?;
        let queries = emit.add(queries, self.before)?;
        let keys = emit.positions(DataType::Int32, 4, 3, self.keys)?;
        let distance = emit.sub(keys, queries)?;
        if right >= 0 {
            let sees = emit.compare(LogicalKind::LesserOrEqual, distance, right.min(1 << 30) as f64)?;
            self.keep(sees, emit)?;
        }
        if left >= 0 {
            let sees = emit.compare(LogicalKind::GreaterOrEqual, distance, -(left.min(1 << 30) as f64))?;
            self.keep(sees, emit)?;
        }
        Ok(())
    }
}

/// A mask that may be shorter than the keys: those after it are hidden. Rank 4, and true or false as a bias.
fn widened(mask: OperandId, keys: u32, of: DataType, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let mut shape = emit.shape(mask);
    let own = shape.last().copied().ok_or("a mask of rank 0")?;
    if shape.len() > 4 || own > keys {
        return Err(format!("a mask of shape {shape:?} for {keys} keys").into());
    }
    while shape.len() < 4 {
        shape.insert(0, 1);
    }
    let mask = emit.reshape(mask, &shape)?;
    let bias = match emit.data_type(mask).is_float() {
        true => emit.cast(mask, of)?,
        false => {
            let shown = emit.compare(LogicalKind::NotEqual, mask, 0.0)?;
            emit.choose(shown, of, 0.0, f64::NEG_INFINITY)?
        }
    };
    // A single column stands for all keys, unless there is one key only.
    if own == keys || (own == 1 && keys > 1) {
        return Ok(bias);
    }
    emit.push(Pad {
        input: bias,
        beginning_padding: vec![0; 4],
        ending_padding: vec![0, 0, 0, keys - own],
        mode: PaddingMode::Constant,
        value: Number::Double(f64::NEG_INFINITY),
    })
}

/// Whether it is known that all keys count, so that each query sees its own.
fn are_all_filled(node: &Node<'_>, queries: u32, keys: u32) -> bool {
    let counts_all = |lengths: &Tensor| !lengths.is_empty() && lengths.integers().iter().all(|&length| length == i64::from(keys));
    queries <= keys && node.optional(6).and_then(Value::constant).is_some_and(counts_all)
}

pub fn standard(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let inputs = [emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?];
    let joined = emit.rank(inputs[0]) == 3;
    let [query, key, value] = if joined {
        let query_heads = size(node.int("q_num_heads", 0)?)?;
        let key_heads = size(node.int("kv_num_heads", 0)?)?;
        [
            split_heads(inputs[0], query_heads, emit)?,
            split_heads(inputs[1], key_heads, emit)?,
            split_heads(inputs[2], key_heads, emit)?,
        ]
    } else {
        inputs
    };
    if emit.rank(query) != 4 || emit.rank(key) != 4 || emit.rank(value) != 4 {
        return Err("inputs whose rank is neither 3 nor 4".into());
    }
    let new = emit.shape(key)[2];
    let (key, value) = (with_past(node, 4, key, emit)?, with_past(node, 5, value, emit)?);
    let of = type_of_scores(query, emit);
    let (shape, keys) = (emit.shape(query), emit.shape(key)[2]);
    let (batches, queries) = (shape[0], shape[2]);
    let are_all_filled = are_all_filled(node, queries, keys);
    let filled = match if are_all_filled { None } else { emit.optional(node, 6)? } {
        Some(lengths) => {
            let lengths = emit.cast(lengths, DataType::Int32)?;
            Some(emit.reshape(lengths, &[batches, 1, 1, 1])?)
        }
        None => None,
    };
    let before = match filled {
        Some(lengths) => {
            let queries = emit.scalar(DataType::Int32, queries.into())?;
            emit.sub(lengths, queries)?
        }
        None if are_all_filled => emit.scalar(DataType::Int32, (keys - queries).into())?,
        None => emit.scalar(DataType::Int32, (keys - new).into())?,
    };
    let mut mask = Mask { of, keys, queries, before, bias: None };
    if let Some(given) = emit.optional(node, 3)? {
        mask.bias = Some(widened(given, keys, of, emit)?);
    }
    let causal = node.flag("is_causal", false)?;
    let (left, right) = (node.int("left_window_size", -1)?, node.int("right_window_size", -1)?);
    mask.limit(if causal { 0 } else { -1 }, -1, emit)?;
    mask.limit(right, left, emit)?;
    if let Some(lengths) = filled {
        let positions = emit.positions(DataType::Int32, 4, 3, keys)?;
        let valid = emit.logical(LogicalKind::Lesser, positions, lengths)?;
        mask.keep(valid, emit)?;
    }
    let scale = match node.optional_float("scale")? {
        Some(scale) => scale,
        None => 1.0 / f64::from(shape[3]).sqrt(),
    };
    let softcap = node.float("softcap", 0.0)?;
    let attention = Attention { query, key, value, scale, bias: mask.bias, softcap };
    let attention = attention.by_group(emit)?;
    let mut scores = attention.scores(emit)?;
    let precision = node.element("softmax_precision")?.map(data_type).transpose()?.unwrap_or(of);
    let wide = emit.cast(scores.biased, precision)?;
    let weights = attention.softmax(wide, emit)?;
    scores.weights = emit.cast(weights, of)?;
    // Without a mask or a length every query sees its own key at least.
    let may_see_nothing = node.optional(3).is_some() || filled.is_some() || left >= 0 || right >= 0;
    if let Some(bias) = attention.bias.filter(|_| may_see_nothing) {
        let last = emit.rank(bias).checked_sub(1).ok_or("a mask of rank 0")?;
        let most = emit.reduce(ReduceKind::Max, bias, &[last], true)?;
        let seen = emit.compare(LogicalKind::Greater, most, f64::NEG_INFINITY)?;
        let zero = emit.scalar(of, 0.0)?;
        scores.weights = emit.select(seen, scores.weights, zero)?;
    }
    let result = attention.result(scores.weights, emit)?;
    let result = ungrouped(result, &shape, emit)?;
    let result = if joined { join_heads(result, emit)? } else { result };
    let mut outputs: Vec<Value> = vec![result.into(), key.into(), value.into()];
    if node.has_output(3) {
        let shown = chosen(node, &scores)?;
        let shown = emit.reshape(shown, &[batches, shape[1], queries, keys])?;
        outputs.push(emit.cast(shown, emit.data_type(query))?.into());
    }
    Ok(outputs)
}

/// What the fourth output shows.
fn chosen(node: &Node<'_>, scores: &Scores) -> Mapped<OperandId> {
    Ok(match node.int("qk_matmul_output_mode", 0)? {
        0 => scores.products,
        1 => scores.capped,
        2 => scores.biased,
        3 => scores.weights,
        other => return Err(format!("attribute qk_matmul_output_mode is {other}").into()),
    })
}
