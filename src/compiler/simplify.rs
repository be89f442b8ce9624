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
    match &graph.nodes[node as usize].op {
        Op::Expand(expand) => Some(expand.input),
        _ => None,
    }
}

/// Whether an operator broadcasts all its operands to each other.
fn broadcasts(op: &Op) -> bool {
    matches!(op, Op::Binary(_) | Op::Logical(_) | Op::Where(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::prune::prune;
    use crate::graph::ops::elementwise::{Binary, BinaryKind};
    use crate::graph::ops::movement::Expand;
    use crate::graph::{DataType, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    /// The operators that are left of `add(expand(a), b)` for these shapes.
    fn left(a: &[u32], expanded: &[u32], b: &[u32]) -> Vec<&'static str> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let mut input =
            |name: &str, shape: &[u32]| builder.input(name, Descriptor::new(DataType::Float32, shape.iter().copied())).unwrap();
        let (a, b) = (input("a", a), input("b", b));
        let stretched = builder.push_op(Expand { input: a, new_shape: expanded.to_vec() }, "").unwrap()[0];
        let sum = builder.push_op(Binary { kind: BinaryKind::Add, a: stretched, b }, "").unwrap()[0];
        let mut graph = builder.build(vec![("sum".into(), sum)]).unwrap();
        simplify(&mut graph);
        prune(&mut graph);
        graph.nodes.iter().map(|node| node.op.row().name).collect()
    }

    #[test]
    fn an_expand_goes_where_the_consumer_broadcasts_anyway() {
        assert_eq!(left(&[1, 3], &[2, 3], &[2, 3]), ["add"]);
        assert_eq!(left(&[], &[2, 3], &[2, 1]), ["expand", "add"]);
        assert_eq!(left(&[3], &[2, 3], &[3]), ["expand", "add"]);
    }
}
