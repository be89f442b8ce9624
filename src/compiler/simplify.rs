//! Removes operators whose effect their consumers have anyway.

use crate::graph::{Graph, Op, OperandId, Source, shape};

/// Lets operators that broadcast read the input of an `expand` instead of its output.
pub fn simplify(graph: &mut Graph) {
    for position in 0..graph.nodes.len() {
        if !broadcasts(&graph.nodes[position].op) {
            continue;
        }
        let output = graph.nodes[position].outputs[0];
        let mut operands = Vec::new();
        graph.nodes[position].op.visit(&mut |_, id| operands.push(id));
        for i in 0..operands.len() {
            let Some(input) = expanded(graph, operands[i]) else { continue };
            let mut candidate = operands.clone();
            candidate[i] = input;
            // All operands together must still broadcast to the output's shape.
            let joint = candidate.iter().try_fold(Default::default(), |shape: crate::graph::Shape, &id| {
                shape::bidirectionally_broadcast(&shape, &graph.descriptor(id).shape)
            });
            if joint.as_ref() == Some(&graph.descriptor(output).shape) {
                operands = candidate;
            }
        }
        let mut operands = operands.into_iter();
        graph.nodes[position].op.visit_mut(&mut |id| *id = operands.next().expect("as many as were visited"));
    }
}

/// The input of the `expand` that makes an operand.
fn expanded(graph: &Graph, id: OperandId) -> Option<OperandId> {
    let Source::Node { node, .. } = graph.operands[id.0 as usize].source else { return None };
    let op = &graph.nodes[node as usize].op;
    let mut input = None;
    if op.row().name == "expand" {
        op.visit(&mut |_, id| input = Some(id));
    }
    input
}

/// Whether an operator broadcasts all its operands to each other.
fn broadcasts(op: &Op) -> bool {
    matches!(op, Op::Binary(_))
}
