//! DecoderMaskedMultiHeadAttention of com.microsoft: one query of each sequence, and a cache.

use super::fixed::SharedBufferCaches;
use super::padding::with_mask;
use super::{Attention, default_scale, join_heads, longest, split_heads, type_of_scores, with_past};
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

pub fn decoder_masked(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let heads = size(node.int("num_heads", 0)?)?;
    if heads == 0 {
        return Err("no heads".into());
    }
    let query = emit.input(node, 0)?;
    if emit.shape(query).get(1) != Some(&1) {
        return Err(format!("queries of shape {:?}, allowed one for each sequence", emit.shape(query)).into());
    }
    let mut inputs = vec![query];
    match (emit.optional(node, 1)?, emit.optional(node, 2)?) {
        (Some(key), Some(value)) => inputs.extend([key, value]),
        (None, None) => {
            let all = emit.shape(query).last().copied().unwrap_or(0);
            if !all.is_multiple_of(3) {
                return Err(format!("{all} elements of packed queries, keys and values").into());
            }
            inputs = emit.split(query, vec![all / 3; 3], 2)?;
        }
        _ => return Err("keys without values, or the other way round".into()),
    }
    // Those of another sequence come with their heads apart, and nothing is appended to them.
    let is_cross = emit.rank(inputs[1]) == 4;
    if let Some(bias) = emit.optional(node, 10)? {
        let mut start = 0;
        for input in &mut inputs[..if is_cross { 1 } else { 3 }] {
            let hidden = emit.shape(*input).last().copied().unwrap_or(0);
            let own = emit.slice_axis(bias, 0, start, hidden)?;
            *input = emit.add(*input, own)?;
            start = start.checked_add(hidden).ok_or("too many elements")?;
        }
    }
    let query = split_heads(inputs[0], heads, emit)?;
    let (mask, mut bias) = (emit.optional(node, 3)?, emit.optional(node, 4)?);
    let (key, value, presents) = match is_cross {
        true => (inputs[1], inputs[2], [inputs[1], inputs[2]]),
        false => {
            let (key, value) = (split_heads(inputs[1], heads, emit)?, split_heads(inputs[2], heads, emit)?);
            match node.flag("past_present_share_buffer", false)? {
                false => {
                    let presents = [with_past(node, 5, key, emit)?, with_past(node, 6, value, emit)?];
                    (presents[0], presents[1], presents)
                }
                true => {
                    let shared = SharedBufferCaches::of(node, [7, 9], emit.shape(query)[0], 1, emit)?;
                    let presents =
                        [shared.written(emit.input(node, 5)?, key, emit)?, shared.written(emit.input(node, 6)?, value, emit)?];
                    let rows = longest(node, (7, 1), [mask, bias], node.has_output(3), emit)?;
                    let [key, value] = [shared.rows(presents[0], rows, emit)?, shared.rows(presents[1], rows, emit)?];
                    bias = shared.hide(bias, (emit.shape(key)[2], None), type_of_scores(query, emit), emit)?;
                    (key, value, presents)
                }
            }
        }
    };
    let keys = emit.shape(key).get(2).copied().unwrap_or(0);
    if let Some(mask) = mask {
        bias = with_mask(node, mask, (query, keys), bias, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let attention = Attention { query, key, value, scale, bias, softcap: 0.0 };
    let scores = attention.scores(emit)?;
    let weights = attention.softmax(scores.biased, emit)?;
    let result = attention.result(weights, emit)?;
    let mut outputs: Vec<Value> = vec![join_heads(result, emit)?.into(), presents[0].into(), presents[1].into()];
    if node.has_output(3) {
        // What the softmax gets, as in onnxruntime, whatever the operator's description calls it.
        outputs.push(emit.cast(scores.biased, emit.data_type(query))?.into());
    }
    Ok(outputs)
}
