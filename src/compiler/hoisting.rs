//! Lets what a value is scaled and shifted with be computed as soon as it can be, so that this can join the operator that makes
//! the value: the scale of a quantized product is often known before the product, but written down after it.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::{Graph, Node, Op, OperandId, Source};

pub fn hoist(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let wanted = wanted(graph, compilation)?;
    // By operand: wanted nodes that wait for it. By node: how many operands it waits for.
    let mut waiting: Vec<Vec<usize>> = vec![Vec::new(); graph.operands.len()];
    let mut missing = vec![0usize; graph.nodes.len()];
    for node in compilation.each(graph.nodes.iter().enumerate()) {
        let (position, node) = node?;
        if !node.outputs.iter().all(|id| wanted[id.0 as usize]) {
            continue;
        }
        node.op.visit(&mut |_, id| {
            if matches!(graph.operands[id.0 as usize].source, Source::Node { .. }) {
                waiting[id.0 as usize].push(position);
                missing[position] += 1;
            }
        });
    }
    let mut nodes: Vec<Option<Node>> = std::mem::take(&mut graph.nodes).into_iter().map(Some).collect();
    for first in compilation.each(0..nodes.len()) {
        let mut ready = vec![first?];
        while let Some(position) = ready.pop() {
            let Some(node) = nodes[position].take() else { continue };
            for id in &node.outputs {
                for &next in &waiting[id.0 as usize] {
                    missing[next] -= 1;
                    if missing[next] == 0 {
                        ready.push(next);
                    }
                }
            }
            graph.push(node);
        }
    }
    Ok(())
}

/// By operand: whether it is a number or a line of them that a larger value is scaled or shifted with, or goes into one.
fn wanted(graph: &Graph, compilation: &Compilation<'_>) -> Result<Vec<bool>> {
    let mut wanted = vec![false; graph.operands.len()];
    let is_line = |id: OperandId| graph.descriptor(id).shape.iter().filter(|&&size| size != 1).count() <= 1;
    for node in compilation.each(graph.nodes.iter().rev()) {
        let node = node?;
        let goes_on = node.outputs.iter().all(|id| wanted[id.0 as usize]);
        match &node.op {
            Op::Binary(op) if is_line(op.a) != is_line(op.b) => {
                wanted[if is_line(op.a) { op.a } else { op.b }.0 as usize] = true;
            }
            op if goes_on => op.visit(&mut |_, id| wanted[id.0 as usize] |= is_line(id)),
            _ => {}
        }
    }
    Ok(wanted)
}
