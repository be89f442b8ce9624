//! Attention with a state of a fixed size: LinearAttention of the standard and of com.microsoft, GatedDeltaNet, and what stands around
//! them.

use super::elementwise::one;
use super::normalization::simplified;
use super::precision::wide;
use crate::graph::ops::elementwise::{ActivationKind, BinaryKind, UnaryKind};
use crate::graph::ops::linear_attention::LinearAttention;
use crate::graph::ops::normalization::RmsNormalization;
use crate::graph::{DataType, OperandId};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

/// More states than this are no window.
const MOST_STATES: i64 = 8;

/// What a rule has beside keys and values.
struct UpdateRule {
    decays: bool,
    has_rate: bool,
}

impl UpdateRule {
    fn of(node: &Node<'_>) -> Mapped<UpdateRule> {
        let name = node.string("update_rule", "gated_delta")?;
        let (decays, has_rate) = match name.as_str() {
            "linear" => (false, false),
            "gated" => (true, false),
            "delta" => (false, true),
            "gated_delta" => (true, true),
            other => return Err(format!("the update rule {other:?}, allowed linear, gated, delta and gated_delta").into()),
        };
        for (is_needed, position, input) in [(decays, 4, "decay"), (has_rate, 5, "beta")] {
            if is_needed && node.optional(position).is_none() {
                return Err(format!("the update rule {name:?} needs the input {input}").into());
            }
        }
        Ok(UpdateRule { decays, has_rate })
    }
}

/// How many states there are in a window; 0 for one without a window.
pub fn window(node: &Node<'_>) -> Mapped<u32> {
    match node.int("state_window", 0)? {
        found @ 0..=MOST_STATES => size(found),
        found => Err(format!("the attribute state_window is {found}, allowed 0 to {MOST_STATES}").into()),
    }
}

/// The state that a recurrence begins with: the last one of a window.
pub fn last_of_window(past: OperandId, window: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    if window == 0 {
        return Ok(past);
    }
    let shape = emit.shape(past);
    if shape.first() != Some(&window) {
        return Err(format!("a state of shape {shape:?} for a window of {window}").into());
    }
    let last = emit.slice_axis(past, 0, window - 1, 1)?;
    emit.reshape(last, &shape[1..])
}

/// The scale is a number of the node, or follows from the size of the keys.
fn scale(node: &Node<'_>, key_size: u32) -> Mapped<f64> {
    Ok(match node.float("scale", 0.0)? {
        0.0 => 1.0 / f64::from(key_size).sqrt(),
        scale => scale,
    })
}

fn type_of_input(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<DataType> {
    let input = emit.input(node, 0)?;
    Ok(emit.data_type(input))
}

fn wide_input(node: &Node<'_>, position: usize, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let input = emit.input(node, position)?;
    wide(input, emit)
}

pub fn linear_attention(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (query_heads, heads) = (size(node.int("q_num_heads", 0)?)?, size(node.int("kv_num_heads", 0)?)?);
    let rule = UpdateRule::of(node)?;
    let window = window(node)?;
    let of = type_of_input(node, emit)?;
    let [query, key, value] = [wide_input(node, 0, emit)?, wide_input(node, 1, emit)?, wide_input(node, 2, emit)?];
    let (&[batch, _, queries], &[_, _, values]) = (&emit.shape(query)[..], &emit.shape(value)[..]) else {
        return Err("an input whose rank is not 3".into());
    };
    if query_heads == 0 || heads == 0 || !queries.is_multiple_of(query_heads) || !values.is_multiple_of(heads) {
        return Err(format!("{query_heads} query heads of {queries} elements, {heads} of {values}").into());
    }
    let (key_size, value_size) = (queries / query_heads, values / heads);
    let (state, of_state) = match emit.optional(node, 3)? {
        Some(past) => {
            let of_state = emit.data_type(past);
            let past = last_of_window(past, window, emit)?;
            (wide(past, emit)?, of_state)
        }
        None => {
            let zero = emit.scalar(DataType::Float32, 0.0)?;
            (emit.expand(zero, &[batch, heads, key_size, value_size])?, of)
        }
    };
    let decay = if rule.decays { Some(wide_input(node, 4, emit)?) } else { None };
    let rate = if rule.has_rate { Some(wide_input(node, 5, emit)?) } else { None };
    let scale = scale(node, key_size)?;
    let states = window.max(1);
    let results = emit.push_all(LinearAttention { query, key, value, state, scale, decay, rate, states })?;
    let mut states = results[1];
    if window == 0 {
        states = emit.reshape(states, &[batch, heads, key_size, value_size])?;
    }
    let (result, states) = (emit.cast(results[0], of)?, emit.cast(states, of_state)?);
    Ok(vec![result.into(), states.into()])
}

/// LinearAttentionGate: a decay and a rate from their projections.
pub fn gate(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let of = type_of_input(node, emit)?;
    let [a, bias, factor] = [wide_input(node, 0, emit)?, wide_input(node, 1, emit)?, wide_input(node, 2, emit)?];
    let sum = emit.add(a, bias)?;
    let soft = emit.activation(ActivationKind::Softplus, sum)?;
    let decay = emit.mul(soft, factor)?;
    let mut outputs: Vec<Value> = vec![emit.cast(decay, of)?.into()];
    if node.optional(3).is_some() {
        let b = wide_input(node, 3, emit)?;
        let rate = emit.activation(ActivationKind::Sigmoid, b)?;
        outputs.push(emit.cast(rate, of)?.into());
    } else if node.has_output(1) {
        return Err("the output beta without the input b".into());
    }
    Ok(outputs)
}

/// GatedRMSNorm: each group of as many elements as there are factors is normalized, and multiplied by a function of the gate.
pub fn gated_norm(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let of = type_of_input(node, emit)?;
    let [x, factors, gate] = [wide_input(node, 0, emit)?, wide_input(node, 1, emit)?, wide_input(node, 2, emit)?];
    let shape = emit.shape(x);
    let &[width] = &emit.shape(factors)[..] else { return Err("a scale whose rank is not 1".into()) };
    let Some(&last) = shape.last().filter(|last| last.is_multiple_of(width)) else {
        return Err(format!("a scale of {width} elements for an input of shape {shape:?}").into());
    };
    let mut apart = shape[..shape.len() - 1].to_vec();
    apart.extend([last / width, width]);
    let groups = emit.reshape(x, &apart)?;
    let normal = simplified(groups, factors, apart.len() - 1, node.float("epsilon", 1e-5)?, emit)?;
    let normal = emit.reshape(normal, &shape)?;
    let mut factor = emit.activation(ActivationKind::Sigmoid, gate)?;
    match node.string("activation", "silu")?.as_str() {
        "silu" | "swish" => factor = emit.mul(gate, factor)?,
        "sigmoid" => {}
        other => return Err(format!("the activation {other:?}, allowed silu, swish and sigmoid").into()),
    }
    let result = emit.mul(normal, factor)?;
    one(emit.cast(result, of)?)
}

/// GatedAdd: the product is rounded for itself.
pub fn gated_add(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (x, y, gate) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?);
    let shape = emit.shape(x);
    let mut rows = shape.clone();
    if let Some(last) = rows.last_mut() {
        *last = 1;
    }
    if emit.shape(gate) != rows || emit.shape(y) != shape {
        return Err(format!("a gate of shape {:?}, where {rows:?} is needed", emit.shape(gate)).into());
    }
    let product = emit.mul(y, gate)?;
    one(emit.add(x, product)?)
}

/// The sequences of a GatedDeltaNet, one after the other or each in a row: all as [rows, tokens, heads * size].
struct Tokens {
    rows: u32,
    length: u32,
}

impl Tokens {
    fn joined(&self, input: OperandId, emit: &mut Emit<'_>) -> Mapped<OperandId> {
        let count = emit.shape(input).iter().fold(1u64, |count, &size| count.saturating_mul(size.into()));
        let width = size(count / u64::from(self.rows * self.length).max(1))?;
        emit.reshape(input, &[self.rows, self.length, width])
    }
}

/// Where sequences begin that lie one after the other, and where the last one ends.
pub fn ends(node: &Node<'_>, position: usize, tokens: u32) -> Mapped<Option<Vec<u32>>> {
    let Some(given) = node.optional_constant(position, "where the sequences end")? else { return Ok(None) };
    let ends = given.integers().iter().map(|&end| size(end)).collect::<Mapped<Vec<u32>>>()?;
    let rises = ends.windows(2).all(|pair| pair[0] < pair[1]);
    if ends.len() < 2 || ends[0] != 0 || ends.last() != Some(&tokens) || !rises {
        return Err(format!("ends of sequences {ends:?}, allowed ascending numbers from 0 to the {tokens} tokens").into());
    }
    Ok(Some(ends))
}

/// Queries, keys and values in float32, and their sizes.
struct Projections {
    query: OperandId,
    key: OperandId,
    value: OperandId,
    query_heads: u32,
    key_heads: u32,
    heads: u32,
    key_size: u32,
    value_size: u32,
}

impl Projections {
    /// Of an input [rows, tokens, width] that has all of them one after the other. A state says how long each is.
    fn packed(input: OperandId, state: Option<OperandId>, tokens: &Tokens, emit: &mut Emit<'_>) -> Mapped<Projections> {
        let state = state.ok_or("queries, keys and values in one need the input initial_state")?;
        let &[_, heads, value_size, key_size] = &emit.shape(state)[..] else { return Err("a state whose rank is not 4".into()) };
        let width = emit.shape(input).last().copied().unwrap_or(0);
        let values = heads.checked_mul(value_size).ok_or("too many elements")?;
        let keys = width.checked_sub(values);
        let fits = |rest: &u32| key_size > 0 && rest.is_multiple_of(2) && (rest / 2).is_multiple_of(key_size);
        let Some(keys) = keys.filter(fits) else {
            return Err(format!("{width} elements of queries, keys and values for a state of {:?}", emit.shape(state)).into());
        };
        let joined = emit.reshape(input, &[tokens.rows, tokens.length, width])?;
        let parts = emit.split(joined, vec![keys / 2, keys / 2, values], 2)?;
        let (query, key, value) = (parts[0], parts[1], parts[2]);
        let query_heads = keys / 2 / key_size;
        Ok(Projections { query, key, value, query_heads, key_heads: query_heads, heads, key_size, value_size })
    }

    /// Of three inputs whose last dimensions are heads and sizes.
    fn apart(node: &Node<'_>, query: OperandId, tokens: &Tokens, emit: &mut Emit<'_>) -> Mapped<Projections> {
        let (key, value) = (wide_input(node, 1, emit)?, wide_input(node, 2, emit)?);
        let last = |id: OperandId, emit: &Emit<'_>| -> Mapped<[u32; 2]> {
            emit.shape(id).last_chunk().copied().ok_or_else(|| "queries, keys or values whose rank is below 3".into())
        };
        let ([query_heads, key_size], [key_heads, _]) = (last(query, emit)?, last(key, emit)?);
        let [heads, value_size] = last(value, emit)?;
        let [query, key, value] = [tokens.joined(query, emit)?, tokens.joined(key, emit)?, tokens.joined(value, emit)?];
        Ok(Projections { query, key, value, query_heads, key_heads, heads, key_size, value_size })
    }
}

/// How much of an update there is, if the rule asks for that.
fn rate(node: &Node<'_>, tokens: &Tokens, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let given = wide_input(node, 5, emit)?;
    let rate = tokens.joined(given, emit)?;
    match node.string("beta_activation", "none")?.as_str() {
        "none" => Ok(rate),
        "sigmoid" => emit.activation(ActivationKind::Sigmoid, rate),
        other => Err(format!("the activation {other:?} of beta, allowed none and sigmoid").into()),
    }
}

/// The recurrence on sequences that lie one after the other: the results of all, and their last states.
fn run_each(op: &LinearAttention, ends: &[u32], emit: &mut Emit<'_>) -> Mapped<(OperandId, OperandId)> {
    let (mut results, mut states) = (Vec::new(), Vec::new());
    for (number, pair) in (0..).zip(ends.windows(2)) {
        let mut own = op.clone();
        let part = |input: OperandId, emit: &mut Emit<'_>| emit.slice_axis(input, 1, pair[0], pair[1] - pair[0]);
        own.query = part(op.query, emit)?;
        own.key = part(op.key, emit)?;
        own.value = part(op.value, emit)?;
        own.decay = op.decay.map(|decay| part(decay, emit)).transpose()?;
        own.rate = op.rate.map(|rate| part(rate, emit)).transpose()?;
        own.state = emit.slice_axis(op.state, 0, number, 1)?;
        let (result, last) = run(own, emit)?;
        results.push(result);
        states.push(last);
    }
    Ok((emit.concat(results, 1)?, emit.concat(states, 0)?))
}

/// GatedDeltaNet: the recurrence with the functions of its gates, on sequences of one length or of several.
pub fn gated_delta_net(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let rule = UpdateRule::of(node)?;
    node.no_outputs_from(2, "of transitions")?;
    let query = emit.input(node, 0)?;
    let of = emit.data_type(query);
    let given = emit.shape(query);
    let state = emit.optional(node, 6)?;
    let is_packed = node.optional(1).is_none() && node.optional(2).is_none();
    let heads_from = if is_packed { given.len() - 1 } else { given.len().saturating_sub(2) };
    let all = given[..heads_from].iter().fold(1u32, |all, &size| all.saturating_mul(size));
    let ends = ends(node, 3, all)?;
    // In rows, where all sequences are of one length.
    let rows = match (heads_from, &ends, state) {
        (_, Some(_), _) => 1,
        (2, None, _) => given[0],
        (_, None, Some(state)) => emit.shape(state)[0],
        _ => return Err("sequences without ends need the input initial_state".into()),
    };
    if rows == 0 || !all.is_multiple_of(rows) {
        return Err(format!("{all} tokens of {rows} sequences").into());
    }
    let tokens = Tokens { rows, length: all / rows };
    let batch = ends.as_ref().map_or(rows, |ends| ends.len() as u32 - 1);
    let query = wide(query, emit)?;
    let projections = match is_packed {
        true => Projections::packed(query, state, &tokens, emit)?,
        false => Projections::apart(node, query, &tokens, emit)?,
    };
    let Projections { mut query, mut key, value, query_heads, key_heads, heads, key_size, value_size } = projections;
    if node.flag("qk_l2_norm", false)? {
        query = unit(query, query_heads, key_size, emit)?;
        key = unit(key, key_heads, key_size, emit)?;
    }
    let decay = if rule.decays { Some(decay(node, &tokens, [heads, key_size], emit)?) } else { None };
    let rate = if rule.has_rate { Some(rate(node, &tokens, emit)?) } else { None };
    // Its rows are those of the values.
    let state = match state {
        Some(state) => {
            let state = wide(state, emit)?;
            emit.transpose(state, &[0, 1, 3, 2])?
        }
        None => {
            let zero = emit.scalar(DataType::Float32, 0.0)?;
            emit.expand(zero, &[batch, heads, key_size, value_size])?
        }
    };
    let op = LinearAttention { query, key, value, state, scale: scale(node, key_size)?, decay, rate, states: 1 };
    let (result, last) = match ends {
        None => run(op, emit)?,
        Some(ends) => run_each(&op, &ends, emit)?,
    };
    let mut shape = given[..heads_from].to_vec();
    shape.extend([query_heads.max(heads), value_size]);
    let result = emit.reshape(result, &shape)?;
    let last = emit.transpose(last, &[0, 1, 3, 2])?;
    Ok(vec![emit.cast(result, of)?.into(), last.into()])
}

fn run(op: LinearAttention, emit: &mut Emit<'_>) -> Mapped<(OperandId, OperandId)> {
    let results = emit.push_all(op)?;
    let shape = emit.shape(results[1]);
    Ok((results[0], emit.reshape(results[1], &shape[1..])?))
}

/// Heads of length 1.
fn unit(input: OperandId, heads: u32, width: u32, emit: &mut Emit<'_>) -> Mapped<OperandId> {
    const EPSILON: f64 = 1e-6;
    let shape = emit.shape(input);
    let apart = emit.reshape(input, &[shape[0], shape[1], heads, width])?;
    // Of the mean square instead of the sum.
    let count = f64::from(width);
    let normal = RmsNormalization { input: apart, scale: None, axes: Some(vec![3]), epsilon: EPSILON / count };
    let normal = emit.push(normal)?;
    let result = emit.with(BinaryKind::Mul, normal, 1.0 / count.sqrt())?;
    emit.reshape(result, &shape)
}

/// The logarithms of a GatedDeltaNet's decay, [rows, tokens, heads], or times the key size.
fn decay(node: &Node<'_>, tokens: &Tokens, [heads, key_size]: [u32; 2], emit: &mut Emit<'_>) -> Mapped<OperandId> {
    let given = wide_input(node, 4, emit)?;
    let decay = tokens.joined(given, emit)?;
    let width = emit.shape(decay)[2] / heads.max(1);
    let kind = node.string("gate_activation", "none")?;
    if kind == "none" {
        return Ok(decay);
    }
    if width != 1 && width != key_size {
        return Err(format!("{width} decays of each head").into());
    }
    // For each head, and where decays are for rows of states, for each of them or not.
    let spread = |position: usize, emit: &mut Emit<'_>| -> Mapped<OperandId> {
        let numbers = wide_input(node, position, emit)?;
        let count = emit.shape(numbers).iter().fold(1u64, |count, &size| count.saturating_mul(size.into()));
        let own = if count == u64::from(heads) { 1 } else { width };
        let numbers = emit.reshape(numbers, &[1, 1, heads, own])?;
        Ok(numbers)
    };
    let (logarithm, bias) = (spread(7, emit)?, spread(8, emit)?);
    let rate = emit.unary(UnaryKind::Exp, logarithm)?;
    let apart = emit.reshape(decay, &[tokens.rows, tokens.length, heads, width])?;
    let sum = emit.add(apart, bias)?;
    let result = match kind.as_str() {
        "softplus" | "qwen" => {
            let soft = emit.activation(ActivationKind::Softplus, sum)?;
            let product = emit.mul(soft, rate)?;
            emit.unary(UnaryKind::Neg, product)?
        }
        "sigmoid" | "kda" => {
            let product = emit.mul(sum, rate)?;
            let part = emit.activation(ActivationKind::Sigmoid, product)?;
            emit.with(BinaryKind::Mul, part, node.float("gate_lower_bound", -5.0)?)?
        }
        other => return Err(format!("the activation {other:?} of decay, allowed none, softplus and sigmoid").into()),
    };
    emit.reshape(result, &[tokens.rows, tokens.length, heads * width])
}
