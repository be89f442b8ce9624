//! Rotary position embeddings.

use super::elementwise::one;
use crate::graph::OperandId;
use crate::onnx::emit::Emit;
use crate::onnx::indices::Negative;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::tensor::Tensor;
use crate::onnx::value::Value;

/// RotaryEmbedding of the standard: input, cos and sin caches, position ids.
pub fn standard(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, cos, sin, positions) =
        (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?, emit.optional(node, 3)?);
    embed(node, Caches { cos, sin, positions }, input, emit)
}

/// RotaryEmbedding of com.microsoft: input, position ids, cos and sin caches.
pub fn contributed(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if node.float("scale", 1.0)? != 1.0 {
        return Err("the attribute scale is not supported".into());
    }
    let (input, positions, cos, sin) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?, emit.input(node, 3)?);
    // Sequences of different lengths that lie one after the other: each token has a position of its own, and there may be more of
    // them than the caches have rows.
    let is_packed = node.flag("is_packed_batching", false)?;
    let (length, most) = (sequence_length(input, emit)?, emit.shape(cos).first().copied().unwrap_or(0));
    if !is_packed && length > most {
        return Err(format!("a sequence of {length} where the caches have {most} positions").into());
    }
    let batches = emit.shape(input)[0];
    let positions = match emit.shape(positions)[..] {
        [_, _] => positions,
        _ if is_packed => return Err("is_packed_batching with position ids that are not [batch, sequence]".into()),
        // One number: where the first position is. The others follow.
        [1] => {
            let steps: Vec<i64> = (0..length.into()).collect();
            let steps =
                crate::onnx::tensor::Tensor::from_integers(emit.data_type(positions).into(), vec![1, steps.len()], &steps);
            let steps = emit.constant(steps)?;
            let all = emit.add(positions, steps)?;
            emit.expand(all, &[batches, length])?
        }
        _ => return Err("position ids of another shape than [1] or [batch, sequence]".into()),
    };
    embed(node, Caches { cos, sin, positions: Some(positions) }, input, emit)
}

/// MRotaryEmbedding of com.microsoft: three positions of each token, in time, height and width, of which each turns some of the pairs.
pub fn multimodal(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if node.float("scale", 1.0)? != 1.0 || node.flag("is_packed_batching", false)? {
        return Err("the attributes scale and is_packed_batching are not supported".into());
    }
    let (input, positions, cos, sin) = (emit.input(node, 0)?, emit.input(node, 1)?, emit.input(node, 2)?, emit.input(node, 3)?);
    let length = sequence_length(input, emit)?;
    let batch = emit.shape(input)[0];
    if emit.shape(positions) != [3, batch, length] {
        return Err(format!("position ids of shape {:?}, allowed {:?}", emit.shape(positions), [3, batch, length]).into());
    }
    let half = emit.shape(cos).last().copied().unwrap_or(0);
    let sections = node.ints("mrope_section")?.unwrap_or_default();
    let &[time, height, width] = &sections[..] else { return Err("an attribute mrope_section that has not three sizes".into()) };
    if sections.iter().any(|&size| size < 0) || time.saturating_add(height).saturating_add(width) != i64::from(half) {
        return Err(format!("sections of {sections:?} for caches of {half} elements").into());
    }
    // Which of the three turns a pair.
    let of_pair = |pair: i64| match pair {
        _ if node.int("mrope_layout", 0) == Ok(1) => match pair % 3 {
            1 if pair < height.saturating_mul(3) => 1,
            2 if pair < width.saturating_mul(3) => 2,
            _ => 0,
        },
        pair if pair < time => 0,
        pair if pair < time.saturating_add(height) => 1,
        _ => 2,
    };
    let places: Vec<i64> = (0..i64::from(half)).map(|pair| of_pair(pair) * i64::from(half) + pair).collect();
    let places = emit.constant(Tensor::int64s(&places))?;
    let positions = emit.within(positions, &emit.shape(cos)[..1], Negative::Outside)?;
    let mut part = |cache: OperandId| -> Mapped<OperandId> {
        let all = emit.gather(cache, positions, 0)?;
        let all = emit.transpose(all, &[1, 2, 0, 3])?;
        let flat = emit.reshape(all, &[batch, length, 3 * half])?;
        emit.gather(flat, places, 2)
    };
    let (cos, sin) = (part(cos)?, part(sin)?);
    embed(node, Caches { cos, sin, positions: None }, input, emit)
}

fn sequence_length(input: OperandId, emit: &Emit<'_>) -> Mapped<u32> {
    match emit.shape(input)[..] {
        [_, length, _] => Ok(length),
        [_, _, length, _] => Ok(length),
        _ => Err("an input whose rank is not 3 or 4".into()),
    }
}

struct Caches {
    cos: OperandId,
    sin: OperandId,
    positions: Option<OperandId>,
}

fn embed(node: &Node<'_>, caches: Caches, input: OperandId, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let interleaved = node.flag("interleaved", false)?;
    let shape = emit.shape(input);
    // [batch, heads, sequence, head size]
    let heads_first = match shape[..] {
        [_, _, _, _] => input,
        [batch, length, hidden] => {
            let heads = match node.int("num_heads", 0)? {
                // The caches tell the head's size, unless only a part of the head is rotated.
                0 => hidden.checked_div(emit.shape(caches.cos).last().copied().unwrap_or(0).saturating_mul(2)).unwrap_or(0),
                heads => size(heads)?,
            };
            if heads == 0 || hidden % heads != 0 {
                return Err(format!("{heads} heads of {hidden} elements").into());
            }
            let apart = emit.reshape(input, &[batch, length, heads, hidden / heads])?;
            emit.transpose(apart, &[0, 2, 1, 3])?
        }
        _ => return Err(format!("an input of rank {}", shape.len()).into()),
    };
    let rows = emit.shape(caches.cos).first().copied().ok_or("caches of another rank")?;
    let positions = caches.positions.map(|positions| emit.within(positions, &[rows], Negative::Outside)).transpose()?;
    let width = node.int("rotary_embedding_dim", 0)?;
    let whole = emit.shape(heads_first)[3];
    let width = if width == 0 { whole } else { size(width)? };
    let mut part = |cache: OperandId| -> Mapped<OperandId> {
        let gathered = match positions {
            Some(positions) => emit.gather(cache, positions, 0)?,
            None => cache,
        };
        // [batch, 1, sequence, width / 2]
        let &[batch, length, half] = &emit.shape(gathered)[..] else { return Err("caches of another rank".into()) };
        emit.reshape(gathered, &[batch, 1, length, half])
    };
    let (cos, sin) = (part(caches.cos)?, part(caches.sin)?);
    let rotated = rotate(heads_first, cos, sin, width, interleaved, emit)?;
    let result = match shape[..] {
        [_, _, _] => {
            let back = emit.transpose(rotated, &[0, 2, 1, 3])?;
            emit.reshape(back, &shape)?
        }
        _ => rotated,
    };
    one(result)
}

/// Rotates pairs of the first `width` elements of heads: the two halves, or neighbours where they are interleaved.
pub fn rotate(
    input: OperandId,
    cos: OperandId,
    sin: OperandId,
    width: u32,
    interleaved: bool,
    emit: &mut Emit<'_>,
) -> Mapped<OperandId> {
    let shape = emit.shape(input);
    let &[batch, heads, length, whole] = &shape[..] else { return Err("heads of another rank than 4".into()) };
    if width == 0 || !width.is_multiple_of(2) || width > whole {
        return Err(format!("{width} rotated elements of {whole}").into());
    }
    let half = width / 2;
    let rotated = emit.slice_axis(input, 3, 0, width)?;
    let pairs = if interleaved {
        let pairs = emit.reshape(rotated, &[batch, heads, length, half, 2])?;
        emit.split(pairs, vec![1, 1], 4)?
    } else {
        emit.split(rotated, vec![half, half], 3)?
    };
    let (real, imaginary) = if interleaved {
        let flat = [batch, heads, length, half];
        (emit.reshape(pairs[0], &flat)?, emit.reshape(pairs[1], &flat)?)
    } else {
        (pairs[0], pairs[1])
    };
    let product = |a: OperandId, b: OperandId, emit: &mut Emit<'_>| emit.mul(a, b);
    let (a, b) = (product(real, cos, emit)?, product(imaginary, sin, emit)?);
    let (c, d) = (product(real, sin, emit)?, product(imaginary, cos, emit)?);
    let (first, second) = (emit.sub(a, b)?, emit.add(c, d)?);
    let joined = if interleaved {
        let apart = [batch, heads, length, half, 1];
        let (first, second) = (emit.reshape(first, &apart)?, emit.reshape(second, &apart)?);
        let pairs = emit.concat(vec![first, second], 4)?;
        emit.reshape(pairs, &[batch, heads, length, width])?
    } else {
        emit.concat(vec![first, second], 3)?
    };
    if width == whole {
        return Ok(joined);
    }
    let rest = emit.slice_axis(input, 3, width, whole - width)?;
    emit.concat(vec![joined, rest], 3)
}
