//! Attention of com.microsoft: queries, keys and values come from one product with packed weights.

use super::fixed::SharedBufferCaches;
use super::padding::with_mask;
use super::{Attention, add_bias, causal_bias, default_scale, join_heads, split_heads, type_of_scores};
use crate::graph::OperandId;
use crate::onnx::emit::Emit;
use crate::onnx::node::{Node, size};
use crate::onnx::ops::quantize::{integer_product, per_axis};
use crate::onnx::refusal::Mapped;
use crate::onnx::value::Value;

pub fn packed(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, weights) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let product = emit.matmul(input, weights)?;
    let bias = emit.optional(node, 5)?;
    attend(node, product, Places { mask: 3, past: 4, length: Some(6) }, bias, emit)
}

/// QAttention of com.microsoft: the product is one of quantized values.
pub fn quantized(node: &Node<'_>, emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    let (input, weights) = (emit.input(node, 0)?, emit.input(node, 1)?);
    let (scale_input, scale_weights) = (emit.input(node, 3)?, emit.input(node, 4)?);
    let (zero_input, zero_weights) = (emit.optional(node, 6)?, emit.optional(node, 7)?);
    let sums = integer_product((input, zero_input), (weights, zero_weights), emit)?;
    let sums = emit.cast(sums, emit.data_type(scale_input))?;
    let scale_input = emit.reshape(scale_input, &[])?;
    let scaled = emit.mul(sums, scale_input)?;
    let scale_weights = per_axis(scale_weights, 2, 3, emit)?;
    let product = emit.mul(scaled, scale_weights)?;
    attend(node, product, Places { mask: 5, past: 8, length: None }, None, emit)
}

/// Which inputs are the mask, the cache, and how many of its rows count, if it may have a fixed size.
struct Places {
    mask: usize,
    past: usize,
    length: Option<usize>,
}

/// Attention of a product that holds queries, keys and values; its bias is the third input.
fn attend(
    node: &Node<'_>,
    product: OperandId,
    places: Places,
    mut bias: Option<OperandId>,
    emit: &mut Emit<'_>,
) -> Mapped<Vec<Value>> {
    let heads = size(node.int("num_heads", 0)?)?;
    if node.flag("do_rotary", false)? {
        return Err("rotary embeddings in this operator are not supported".into());
    }
    let &[batches, queries, _] = &emit.shape(product)[..] else { return Err("an input whose rank is not 3".into()) };
    let mut product = product;
    if let Some(bias) = emit.optional(node, 2)? {
        product = emit.add(product, bias)?;
    }
    let all = emit.shape(product)[2];
    let parts = match node.ints("qkv_hidden_sizes")?.filter(|sizes| !sizes.is_empty()) {
        Some(sizes) => sizes.iter().map(|&part| size(part)).collect::<Mapped<Vec<u32>>>()?,
        None => vec![all / 3; 3],
    };
    let &[of_query, of_key, of_value] = &parts[..] else { return Err("attribute qkv_hidden_sizes has not three sizes".into()) };
    let parts = emit.split(product, vec![of_query, of_key, of_value], 2)?;
    let query = split_heads(parts[0], heads, emit)?;
    let (mut key, mut value) = (split_heads(parts[1], heads, emit)?, split_heads(parts[2], heads, emit)?);
    let mut presents = [key, value];
    let mut shared = None;
    let mask = emit.optional(node, places.mask)?;
    let is_shared = places.length.is_some() && node.flag("past_present_share_buffer", false)?;
    if let Some(past) = emit.optional(node, places.past)? {
        // [2, batch, heads, sequence, head size]
        let mut own = |which: u32| {
            let own = emit.slice_axis(past, 0, which, 1)?;
            let shape = emit.shape(own);
            emit.reshape(own, shape.get(1..).unwrap_or_default())
        };
        let pasts = [own(0)?, own(1)?];
        match places.length.filter(|_| is_shared) {
            None => {
                presents = [emit.concat(vec![pasts[0], key], 2)?, emit.concat(vec![pasts[1], value], 2)?];
                (key, value) = (presents[0], presents[1]);
            }
            Some(length) => {
                let own = SharedBufferCaches::of(node, [length, usize::MAX], batches, queries, emit)?;
                presents = [own.written(pasts[0], key, emit)?, own.written(pasts[1], value, emit)?];
                // A mask is as wide as the longest sequence is long.
                let longest =
                    mask.map(|mask| emit.shape(mask)).filter(|shape| shape.len() > 1).and_then(|shape| shape.last().copied());
                (key, value) = (own.rows(presents[0], longest, emit)?, own.rows(presents[1], longest, emit)?);
                shared = Some(own);
            }
        }
    }
    let of = type_of_scores(query, emit);
    let keys = emit.shape(key)[2];
    if let Some(mask) = mask {
        bias = with_mask(node, mask, (query, keys), bias, emit)?;
    }
    let is_causal = node.flag("unidirectional", false)?;
    if let Some(shared) = shared {
        bias = shared.hide(bias, (keys, is_causal.then_some(queries)), of, emit)?;
    } else if is_causal {
        let causal = causal_bias(of, queries, keys, i64::from(keys) - i64::from(queries), 0, emit)?;
        bias = add_bias(bias, causal, emit)?;
    }
    let scale = default_scale(node, query, emit)?;
    let result = Attention { query, key, value, scale, bias, softcap: 0.0 }.emit(emit)?;
    let mut outputs: Vec<Value> = vec![join_heads(result, emit)?.into()];
    if node.has_output(1) {
        let mut both = Vec::new();
        for part in presents {
            let mut shape = emit.shape(part);
            shape.insert(0, 1);
            both.push(emit.reshape(part, &shape)?);
        }
        outputs.push(emit.concat(both, 0)?.into());
    }
    Ok(outputs)
}
