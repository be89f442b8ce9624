//! Removes operators whose effect their consumers have anyway.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::accumulate::{AccumulateElements, AccumulateNd};
use crate::graph::ops::movement::Reshape;
use crate::graph::{Graph, Node, Op, OperandId, shape};

/// Lets operators that broadcast read the input of an `expand` instead of its output.
pub fn expands(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    for position in compilation.each(0..graph.nodes.len()) {
        let position = position?;
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
    Ok(())
}

/// Lets updates along the first axis whose indices an `expand` repeats for all elements after it be updates of slices: the layers
/// of graph networks are exported so, with an index for each feature.
pub fn slices(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    if !graph.nodes.iter().any(|node| slice_indices(graph, &node.op).is_some()) {
        return Ok(());
    }
    graph.rewrite(compilation, |graph, Node { op, label, outputs }| {
        let op = match (slice_indices(graph, &op), op) {
            (Some(indices), Op::AccumulateElements(op)) => {
                let count = graph.descriptor(op.updates).shape[0];
                let reshape = Reshape { input: indices, new_shape: vec![count, 1] };
                let indices = graph.insert(reshape, graph.descriptor(indices).shaped(&[count, 1]));
                AccumulateNd { input: op.input, indices, updates: op.updates, reduction: op.reduction }.into()
            }
            (_, op) => op,
        };
        Ok(Node { op, label, outputs })
    })
}

/// The indices of updates along the first axis, if there is one for each slice.
fn slice_indices(graph: &Graph, op: &Op) -> Option<OperandId> {
    let Op::AccumulateElements(AccumulateElements { input, indices, axis: 0, .. }) = op else { return None };
    let found = expanded(graph, *indices)?;
    let [input, indices, found_shape] = [*input, *indices, found].map(|id| &graph.descriptor(id).shape);
    let is_line = found_shape.first() == indices.first() && found_shape.iter().skip(1).all(|&size| size == 1);
    (is_line && found_shape.len() == indices.len() && indices[1..] == input[1..]).then_some(found)
}

/// The input of the `expand` that makes an operand.
fn expanded(graph: &Graph, id: OperandId) -> Option<OperandId> {
    match &graph.maker(id)?.1.op {
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
    use crate::graph::ops::accumulate::Accumulation;
    use crate::graph::ops::elementwise::{Binary, BinaryKind};
    use crate::graph::ops::movement::Expand;
    use crate::graph::testing::check_graph;
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
        let compilation = &Compilation::unasked();
        expands(&mut graph, compilation).unwrap();
        prune(&mut graph, compilation).unwrap();
        graph.nodes.iter().map(|node| node.op.row().name).collect()
    }

    #[test]
    fn indices_that_are_repeated_name_slices() {
        // The operators that are left for indices of such a shape, repeated, beside an input, along an axis.
        let left = |input: &[u32], indices: &[u32], expanded: &[u32], axis: u32| {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let mut add = |name: &str, data_type, shape: &[u32]| {
                builder.input(name, Descriptor::new(data_type, shape.iter().copied())).unwrap()
            };
            let [input, updates] = [("x", input), ("u", expanded)].map(|(name, shape)| add(name, DataType::Float32, shape));
            let indices = add("i", DataType::Int64, indices);
            let indices = builder.push_op(Expand { input: indices, new_shape: expanded.to_vec() }, "").unwrap()[0];
            let op = AccumulateElements { input, indices, updates, axis, reduction: Accumulation::Max };
            let output = builder.push_op(op, "").unwrap()[0];
            let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
            let compilation = &Compilation::unasked();
            slices(&mut graph, compilation).unwrap();
            prune(&mut graph, compilation).unwrap();
            check_graph(&graph);
            graph.nodes.iter().map(|node| node.op.row().name).collect::<Vec<_>>()
        };
        let by_slices = ["reshape", "accumulateND"];
        assert_eq!(left(&[7, 3], &[5, 1], &[5, 3], 0), by_slices);
        assert_eq!(left(&[7, 3, 2], &[5, 1, 1], &[5, 3, 2], 0), by_slices);
        assert_eq!(left(&[7], &[1], &[1], 0), by_slices);
        let by_elements = ["expand", "accumulateElements"];
        assert_eq!(left(&[7, 3], &[1, 3], &[5, 3], 0), by_elements);
        assert_eq!(left(&[7, 4], &[5, 1], &[5, 3], 0), by_elements);
        assert_eq!(left(&[7, 3], &[5, 1], &[5, 3], 1), by_elements);
        assert_eq!(left(&[7, 3, 2], &[5, 1, 2], &[5, 3, 2], 0), by_elements);
        assert_eq!(left(&[7, 3], &[1], &[5, 3], 0), by_elements);
    }

    #[test]
    fn an_expand_goes_where_the_consumer_broadcasts_anyway() {
        assert_eq!(left(&[1, 3], &[2, 3], &[2, 3]), ["add"]);
        assert_eq!(left(&[], &[2, 3], &[2, 1]), ["expand", "add"]);
        assert_eq!(left(&[3], &[2, 3], &[3]), ["expand", "add"]);
    }
}
