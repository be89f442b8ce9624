//! Operators that only the importer uses, each a family of its own.

use super::{Contents, Draw};
use crate::wish::{Choice, Wish};
use webnn_node::graph::DataType;
use webnn_node::graph::attribute::Value;

/// Tables of any numbers: every walk through them ends.
pub fn tree_ensemble(draw: &mut Draw<'_>) {
    let (rows, features) = (draw.random.between(1, 9), draw.random.between(1, 5));
    let (nodes, entries) = (draw.random.between(1, 12), draw.random.between(1, 9));
    let (roots, targets) = (draw.random.between(1, 6), draw.random.between(1, 4));
    draw.operand("input", &[rows, features], Contents::Summands);
    // Numbers up to 10 are features and nodes, modes with and without a bit for NaN, and below 0 leaves.
    draw.operand("nodes", &[nodes, 4], Contents::Indices(11));
    draw.operand("thresholds", &[nodes], Contents::Summands);
    draw.operand("leaves", &[entries, 2], Contents::Indices(targets + 1));
    draw.operand("weights", &[entries], Contents::Moderate);
    draw.operand("roots", &[roots], Contents::Indices(nodes));
    draw.set("targets", Value::Unsigned(targets as u32));
    let depth = draw.random.between(0, nodes);
    draw.set("depth", Value::Unsigned(depth as u32));
}

pub fn pairwise_coupling(draw: &mut Draw<'_>) {
    let (rows, classes) = (draw.random.between(1, 80), draw.random.between(2, 6));
    draw.operand("input", &[rows, classes * (classes - 1) / 2], Contents::Probabilities);
    draw.set("classes", Value::Unsigned(classes as u32));
}

pub fn matrices(draw: &mut Draw<'_>) {
    let rank = draw.rank("input");
    let mut shape = draw.shape(rank - 2);
    // The oracle takes the faculty of the size in time.
    let size = draw.random.between(1, 5);
    shape.extend([size, size]);
    draw.operand("input", &shape, Contents::Moderate);
}

pub fn linear_attention(draw: &mut Draw<'_>) {
    let [batch, tokens, key_heads, more] = [3, 5, 3, 3].map(|most| draw.random.between(1, most));
    let (key_size, value_size) = (draw.random.between(1, 6), draw.random.between(1, 40));
    let heads = key_heads * more;
    let query_heads = if draw.random.once_in(2) { heads * draw.random.between(1, 3) } else { key_heads };
    draw.operand("query", &[batch, tokens, query_heads * key_size], Contents::Moderate);
    draw.operand("key", &[batch, tokens, key_heads * key_size], Contents::Probabilities);
    draw.operand("value", &[batch, tokens, heads * value_size], Contents::Moderate);
    draw.operand("state", &[batch, heads, key_size, value_size], Contents::Moderate);
    let of_rows = draw.random.once_in(2);
    draw.optional("decay", &[batch, tokens, if of_rows { heads * key_size } else { heads }], Contents::Moderate);
    let of_all = draw.random.once_in(3);
    draw.optional("rate", &[batch, tokens, if of_all { 1 } else { heads }], Contents::Probabilities);
    let states = if draw.is_given("states") { Value::Unsigned(draw.random.between(1, 7) as u32) } else { Value::Absent };
    draw.set("states", states);
}

pub fn roi_max_pool(draw: &mut Draw<'_>) {
    let shape = draw.shape(4);
    let regions = draw.random.between(1, 6);
    draw.operand("input", &shape, Contents::Summands);
    draw.operand("regions", &[regions, 5], Contents::Summands);
    let sizes = [draw.random.between(1, 4), draw.random.between(1, 4)];
    draw.set_list("sizes", &sizes);
}

/// Numbers from 1 to 4, which are within all sizes.
pub fn check_indices(draw: &mut Draw<'_>) {
    let rank = draw.rank("indices");
    let shape = draw.shape(rank);
    let count = if rank > 0 && draw.random.once_in(2) { shape[rank - 1] } else { 1 };
    let sizes: Vec<usize> = (0..count).map(|_| draw.random.between(5, 9)).collect();
    draw.set_list("sizes", &sizes);
    draw.boolean("from_end", true);
    draw.operand("indices", &shape, Contents::Positive);
}

pub fn bitcast(draw: &mut Draw<'_>) {
    let wished = match &draw.wish {
        Some(Wish::Option("data_type", Choice::Enumeration(index))) => DataType::from_index(*index),
        _ => None,
    };
    let of_bits = |bits: usize| -> Vec<DataType> {
        let is_whole = |data_type: &DataType| data_type.bits() == bits && bits >= 8;
        DataType::ALL.into_iter().filter(is_whole).collect()
    };
    if let Some(wished) = wished {
        let input = draw.random.pick(&of_bits(wished.bits()));
        draw.types.insert("input", input);
    }
    let other = draw.random.pick(&of_bits(draw.data_type("input").bits()));
    draw.set("data_type", Value::Enumeration(wished.unwrap_or(other) as u32));
    let rank = draw.rank("input");
    let shape = draw.shape(rank);
    draw.operand("input", &shape, Contents::Anything);
}
