//! The caches of a decoder: inputs of a model to whose rows an output appends. Whoever runs such a model step by step can keep them in
//! memory with room to grow, and nothing of them needs to be copied.
//!
//! They are found by what the nodes do, whatever their names are: a concatenation whose first operand is an input, or attention with
//! a cache; also within the branches of an If, as in exports that hold the prompt and the step in one file.

use super::bounds::Bounds;
use super::branch;
use super::fold::Folding;
use super::importer::normalized;
use super::loaded::Loaded;
use super::protobuf::{GraphProto, NodeProto};
use crate::error::Result;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Branches within branches are looked into so deep.
pub(super) const MOST_NESTED: usize = 4;

/// An input and the output that has what comes after it along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvCache {
    pub past: String,
    pub present: String,
    pub axis: usize,
}

/// What a model passes on from step to step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvCaches {
    pub rows: Vec<KvCache>,
    /// Inputs and outputs of the same shape, which are exchanged as a whole: states of convolutions and recurrences, by their names.
    pub states: Vec<(String, String)>,
}

/// Whether a model appends to each sequence of a batch where that one ends, so that only equal lengths make one append of all.
///
/// # Errors
/// As [`find`].
pub fn ends_by_sequence(loaded: &Loaded) -> Result<bool> {
    let is_grouped = |node: &NodeProto| normalized(&node.domain) == "com.microsoft" && node.op_type == "GroupQueryAttention";
    Ok(loaded.graph()?.node.iter().any(is_grouped))
}

/// Finds the caches of a model.
///
/// # Errors
/// `TypeError` for a branch that is no graph, `OperationError` when to look is too much work.
pub fn find(loaded: &Loaded, bounds: &Bounds) -> Result<KvCaches> {
    let graph = loaded.graph()?;
    let mut folding = Folding::within(bounds.work(&loaded.model));
    let inputs: HashSet<&str> = loaded.inputs().iter().map(|input| input.name.as_str()).collect();
    let outputs: Vec<&str> = graph.output.iter().map(|info| info.name.as_str()).collect();
    let found = appended(graph, &inputs, &outputs, &mut folding, 0)?;
    let mut caches = KvCaches::default();
    let mut taken = BTreeSet::new();
    for (present, past) in outputs.iter().zip(found) {
        let Some((past, axis)) = past else { continue };
        let Some(input) = loaded.inputs().iter().find(|input| input.name == past) else { continue };
        let rank = input.shape.len() as i64;
        let axis = if axis < 0 { axis + rank } else { axis };
        if (0..rank).contains(&axis) && taken.insert(past.clone()) {
            caches.rows.push(KvCache { past, present: (*present).to_owned(), axis: axis as usize });
        }
    }
    let appended: BTreeSet<&str> = caches.rows.iter().map(|cache| cache.present.as_str()).collect();
    for present in outputs.iter().filter(|name| !appended.contains(**name)) {
        let named = past_names(present).into_iter().find(|name| inputs.contains(name.as_str()) && !taken.contains(name));
        if let Some(past) = named {
            taken.insert(past.clone());
            caches.states.push((past, (*present).to_owned()));
        }
    }
    Ok(caches)
}

/// A graph of a model's with concatenations that have what they append, and not the cache that they append it to: a cache without rows, whose
/// other sizes need not be known.
pub fn without_pasts(graph: &GraphProto, caches: &KvCaches) -> GraphProto {
    let pasts: HashSet<&str> = caches.rows.iter().map(|cache| cache.past.as_str()).collect();
    let mut graph = graph.clone();
    for node in &mut graph.node {
        let appends = normalized(&node.domain).is_empty() && node.op_type == "Concat" && node.input.len() > 1;
        if appends && pasts.contains(node.input[0].as_str()) {
            node.input.remove(0);
        }
    }
    graph
}

/// What the input may be called that an output is the next value of.
fn past_names(present: &str) -> Vec<String> {
    let mut names = Vec::new();
    for (new, old) in
        [("present_key_values", "past_key_values"), ("present", "past_key_values"), ("present", "past"), ("_out", "_in")]
    {
        if present.contains(new) {
            names.push(present.replacen(new, old, 1));
        }
    }
    names
}

/// The position of the cache that an output of a node appends to, and the axis along which it does.
fn of_node(node: &NodeProto, output: usize) -> Option<(usize, i64)> {
    let is_set = |name: &str| node.attribute.iter().any(|attribute| attribute.name == name && attribute.i.unwrap_or(0) != 0);
    let (keys, values, axis) = match (normalized(&node.domain), node.op_type.as_str()) {
        ("", "Attention") => (4, 5, 2),
        // One that follows the window drops rows, and is exchanged as a whole. Scores that are shown are those of the rows that there are,
        // and chunks that are padded may leave rows open.
        ("com.microsoft", "GroupQueryAttention") => {
            let is_padded = node.input.get(16).is_some_and(|name| !name.is_empty());
            if is_set("sliding_window_cache") || is_set("qk_output") || is_padded {
                return None;
            }
            (3, 4, 2)
        }
        // Into caches of a fixed size nothing is appended.
        ("com.microsoft", "MultiHeadAttention") if node.input.get(8).is_some_and(|name| !name.is_empty()) => return None,
        ("com.microsoft", "MultiHeadAttention") => (6, 7, 2),
        ("com.microsoft", "Attention") if is_set("past_present_share_buffer") => return None,
        // Both in one.
        ("com.microsoft", "Attention") => (4, 4, 3),
        ("com.microsoft", "QAttention") => (8, 8, 3),
        ("", "Concat") => {
            let axis = node.attribute.iter().find(|attribute| attribute.name == "axis").and_then(|attribute| attribute.i)?;
            return (output == 0).then_some((0, axis));
        }
        _ => return None,
    };
    match output {
        1 => Some((keys, axis)),
        2 if keys != values => Some((values, axis)),
        _ => None,
    }
}

/// By value: the node that makes it, and which of its outputs it is.
pub(super) fn makers(graph: &GraphProto) -> HashMap<&str, (usize, usize)> {
    let mut makers = HashMap::new();
    for (position, node) in graph.node.iter().enumerate() {
        for (output, name) in node.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            makers.insert(name.as_str(), (position, output));
        }
    }
    makers
}

/// What a value is called before nodes that only give it another name.
pub(super) fn origin<'a>(mut name: &'a str, graph: &'a GraphProto, makers: &HashMap<&str, (usize, usize)>) -> &'a str {
    for _ in 0..MOST_NESTED {
        match makers.get(name).map(|&(position, _)| &graph.node[position]) {
            Some(node) if node.op_type == "Identity" && !node.input.is_empty() => name = &node.input[0],
            _ => break,
        }
    }
    name
}

/// For each wanted value of a graph: the input that it is appended to, and the axis.
fn appended(
    graph: &GraphProto,
    inputs: &HashSet<&str>,
    wanted: &[&str],
    folding: &mut Folding,
    depth: usize,
) -> Result<Vec<Option<(String, i64)>>> {
    let makers = makers(graph);
    let mut found = vec![None; wanted.len()];
    // By node: what is wanted of its branches.
    let mut of_branches: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (i, name) in wanted.iter().enumerate() {
        let Some(&(position, output)) = makers.get(origin(name, graph, &makers)) else { continue };
        let node = &graph.node[position];
        if branch::graphs(node).len() == 2 && depth < MOST_NESTED {
            of_branches.entry(position).or_default().push((i, output));
        } else if let Some((input, axis)) = of_node(node, output)
            && let Some(past) = node.input.get(input).map(|name| origin(name, graph, &makers))
            && inputs.contains(past)
            && !makers.contains_key(past)
        {
            found[i] = Some((past.to_owned(), axis));
        }
    }
    for (position, list) in of_branches {
        for name in branch::graphs(&graph.node[position]) {
            let inner = branch::decode(&graph.node[position], name, folding)?;
            let names: Vec<&str> =
                list.iter().map(|&(_, output)| inner.output.get(output).map_or("", |info| info.name.as_str())).collect();
            let inside = appended(&inner, inputs, &names, folding, depth + 1)?;
            for ((i, _), past) in list.iter().zip(inside) {
                if found[*i].is_none() {
                    found[*i] = past;
                }
            }
        }
    }
    Ok(found)
}
