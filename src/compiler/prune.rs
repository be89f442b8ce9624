//! Drops what no output of the graph needs.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::{Graph, OperandId, Source};

/// Removes nodes whose outputs nobody reads. Graph inputs stay: they are part of the graph's interface.
pub fn prune(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let mut needed = vec![false; graph.operands.len()];
    for (_, id) in &graph.outputs {
        needed[id.0 as usize] = true;
    }
    let mut keep = vec![false; graph.nodes.len()];
    // Nodes stand after what they use: one pass from the end reaches everything.
    for node in compilation.each(graph.nodes.iter().enumerate().rev()) {
        let (position, node) = node?;
        // A folded node's outputs are constants by now and need no node.
        let computes =
            |id: &OperandId| needed[id.0 as usize] && matches!(graph.operands[id.0 as usize].source, Source::Node { .. });
        if node.outputs.iter().any(computes) {
            keep[position] = true;
            node.op.visit(&mut |_, id| needed[id.0 as usize] = true);
        }
    }
    let mut keep = keep.into_iter();
    graph.nodes.retain(|_| keep.next().expect("one flag a node"));
    graph.renumber();
    Ok(())
}
