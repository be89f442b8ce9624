//! If nodes whose condition is known at import: one of their branches stands in their place. Exporters write them for
//! choices that depend on shapes. All other control flow is refused.

use super::protobuf::{GraphProto, NodeProto};
use super::structure::{self, malformed};
use crate::error::Result;
use prost::Message;
use std::collections::HashMap;

/// Branches within branches may go this deep.
const MOST_NESTED: usize = 16;

fn is_choice(node: &NodeProto) -> bool {
    node.op_type == "If" && super::importer::normalized(&node.domain).is_empty()
}

/// A branch of an If node.
///
/// # Errors
/// `TypeError` when there is none, or it is no graph.
pub fn decode(node: &NodeProto, name: &str) -> Result<GraphProto> {
    let attribute = node.attribute.iter().find(|attribute| attribute.name == name);
    let bytes = attribute.and_then(|attribute| attribute.g.clone()).ok_or_else(|| malformed(format!("an If without {name}")))?;
    structure::check_graph(&bytes)?;
    GraphProto::decode(bytes).map_err(malformed)
}

/// The names that branches of these nodes use, by the position of the node: they may be values around it.
///
/// # Errors
/// As [`decode`].
pub fn captured(nodes: &[NodeProto]) -> Result<HashMap<usize, Vec<String>>> {
    let mut names = HashMap::new();
    for (position, node) in nodes.iter().enumerate().filter(|(_, node)| is_choice(node)) {
        let mut used = Vec::new();
        collect(node, &mut used, 0)?;
        names.insert(position, used);
    }
    Ok(names)
}

fn collect(node: &NodeProto, names: &mut Vec<String>, depth: usize) -> Result<()> {
    if depth == MOST_NESTED {
        return Err(malformed("branches that are nested too deep"));
    }
    for branch in ["then_branch", "else_branch"] {
        let graph = decode(node, branch)?;
        for inner in graph.node {
            if is_choice(&inner) {
                collect(&inner, names, depth + 1)?;
            }
            names.extend(inner.input);
        }
        names.extend(graph.output.into_iter().map(|output| output.name));
    }
    Ok(())
}
