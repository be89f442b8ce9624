//! Nodes that have graphs of their own: If, Loop, Scan and SequenceMap. Exporters write an If for choices that depend on shapes, whose
//! condition is known at import: one of the branches stands in its place. Where the condition depends on data, small branches are
//! both computed and one result is selected.

use super::emit::Emit;
use super::fold::Folding;
use super::protobuf::{GraphProto, NodeProto};
use super::refusal::Mapped;
use super::structure::{self, malformed};
use super::value::Value;
use crate::error::Result;
use prost::Message;
use std::collections::{HashMap, HashSet};

/// Branches within branches may go this deep.
const MOST_NESTED: usize = 16;

/// What helps where a branch cannot be mapped.
pub const HINT: &str = "the choice is made when the graph runs, so both branches are needed; where it depends on an input that \
                        never changes, give that input's value when the model is loaded (the option constants)";

/// The attributes that hold a node's graphs.
pub fn graphs(node: &NodeProto) -> &'static [&'static str] {
    if !super::importer::normalized(&node.domain).is_empty() {
        return &[];
    }
    match node.op_type.as_str() {
        "If" => &["then_branch", "else_branch"],
        "Loop" | "Scan" | "SequenceMap" => &["body"],
        _ => &[],
    }
}

/// A graph of a node.
///
/// # Errors
/// `TypeError` when there is none, or it is no graph; `OperationError` when that is too much work.
pub fn decode(node: &NodeProto, name: &str, folding: &mut Folding) -> Result<GraphProto> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name == name);
    let bytes = attribute
        .and_then(|attribute| attribute.g.clone())
        .ok_or_else(|| malformed(format!("{} without {name}", node.op_type)))?;
    // A function that is called often, and each graph around it, decode it again.
    folding.require(bytes.len().saturating_mul(4))?;
    structure::check_graph(&bytes)?;
    GraphProto::decode(bytes).map_err(malformed)
}

/// The names that the graphs of these nodes use from around them, by the position of the node. Other nodes have no entry.
///
/// # Errors
/// As [`decode`].
pub fn captured(nodes: &[NodeProto], folding: &mut Folding) -> Result<HashMap<usize, Vec<String>>> {
    let mut names = HashMap::new();
    for (position, node) in nodes.iter().enumerate().filter(|(_, node)| !graphs(node).is_empty()) {
        let mut used = Vec::new();
        collect(node, &mut used, 0, folding)?;
        names.insert(position, used);
    }
    Ok(names)
}

/// Selects the results of one of two branches by a condition that is known when the graph runs.
///
/// # Errors
/// The reason why not, when the branches give different shapes or data types.
pub fn select(condition: &Value, a: &[Value], b: &[Value], emit: &mut Emit<'_>) -> Mapped<Vec<Value>> {
    if condition.shape(emit.builder).iter().any(|&size| size != 1) {
        return Err("a condition of several elements".into());
    }
    if a.len() != b.len() {
        return Err("branches with different numbers of results".into());
    }
    let condition = emit.operand(condition)?;
    let condition = emit.reshape(condition, &[])?;
    let mut results = Vec::with_capacity(a.len());
    for (a, b) in a.iter().zip(b) {
        if let (Some(known), Some(other)) = (a.constant(), b.constant())
            && known == other
        {
            results.push(a.clone());
            continue;
        }
        let (a, b) = (emit.operand(a)?, emit.operand(b)?);
        let text = |id| format!("{}{:?}", emit.data_type(id), emit.shape(id));
        let (of_a, of_b) = (text(a), text(b));
        if of_a != of_b {
            return Err(format!("{HINT}; its branches give {of_a} and {of_b}, which must be alike").into());
        }
        results.push(emit.select(condition, a, b)?.into());
    }
    Ok(results)
}

/// Whether a node of a graph, or of a branch within it, reads a value of that name, or it is an output.
pub fn reads(graph: &GraphProto, name: &str, folding: &mut Folding) -> Result<bool> {
    if graph
        .node
        .iter()
        .flat_map(|node| &node.input)
        .chain(graph.output.iter().map(|output| &output.name))
        .any(|read| read == name)
    {
        return Ok(true);
    }
    let captured = captured(&graph.node, folding)?;
    Ok(captured.values().flatten().any(|read| read == name))
}

/// The names of values that a node's branches use and do not make themselves. What a branch makes is its own, also where
/// the node itself, the other branch, or the graph around them has a value of that name.
fn collect(node: &NodeProto, names: &mut Vec<String>, depth: usize, folding: &mut Folding) -> Result<()> {
    if depth == MOST_NESTED {
        return Err(malformed("branches that are nested too deep"));
    }
    for name in graphs(node) {
        let graph = decode(node, name, folding)?;
        let mut used = Vec::new();
        for inner in graph.node.iter().filter(|inner| !graphs(inner).is_empty()) {
            collect(inner, &mut used, depth + 1, folding)?;
        }
        let results = graph.node.iter().flat_map(|node| &node.output);
        let sparse = graph.sparse_initializer.iter().filter_map(|initializer| initializer.values.as_ref());
        let given = graph.initializer.iter().chain(sparse).map(|initializer| &initializer.name);
        let own: HashSet<&str> =
            results.chain(given).chain(graph.input.iter().map(|input| &input.name)).map(String::as_str).collect();
        let read = graph.node.iter().flat_map(|node| &node.input).chain(graph.output.iter().map(|output| &output.name));
        used.extend(read.cloned());
        used.retain(|name| !own.contains(name.as_str()));
        names.append(&mut used);
    }
    Ok(())
}
