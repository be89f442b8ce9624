//! What is computed twice alike is computed once: exporters write what all layers need into each of them, such as the mask of attention
//! and the sines of positions. After the patterns of operators have been found, since what two of these have in common would belong to
//! neither.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::{Descriptor, Graph, Op, OperandId, Source};
use std::collections::{HashMap, HashSet};
use xxhash_rust::xxh3::xxh3_128;

/// Constants of so many bytes are compared.
const SMALL: usize = 256;
/// And of so many, if somebody has written them, such as the positions of some thousand keys: those that are computed have a key, and larger ones are
/// the same where they are at the same place.
const WRITTEN: usize = 16 << 10;

/// What tells constants apart.
#[derive(PartialEq, Eq, Hash)]
enum Known {
    Bytes(Descriptor, u128),
    Place(Descriptor, usize),
    Computed(Descriptor, u128),
}

/// Lets whoever reads the outputs of a node read those of an earlier one that computes the same. The node stays, needed by nobody. Outputs
/// of the graph are computed each for itself.
pub fn common(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let mut same: Vec<OperandId> = (0..graph.operands.len()).map(|id| OperandId(id as u32)).collect();
    let mut constants: HashMap<Known, OperandId> = HashMap::new();
    for (id, operand) in graph.operands.iter().enumerate() {
        if let Source::Constant(bytes) = &operand.source {
            let descriptor = operand.descriptor.clone();
            let known = match (bytes.len(), bytes.key()) {
                (..=SMALL, _) => Known::Bytes(descriptor, xxh3_128(bytes.briefly().as_slice())),
                (_, Some(key)) => Known::Computed(descriptor, key),
                (..=WRITTEN, None) => Known::Bytes(descriptor, xxh3_128(bytes.briefly().as_slice())),
                _ => Known::Place(descriptor, bytes.place().start),
            };
            same[id] = *constants.entry(known).or_insert(same[id]);
        }
    }
    let wanted: HashSet<OperandId> = graph.outputs.iter().map(|(_, id)| *id).collect();
    // By a hash of 128 bits of what a node is: its outputs.
    let mut seen: HashMap<u128, Vec<OperandId>> = HashMap::new();
    let mut text = String::new();
    for node in compilation.each(&mut graph.nodes) {
        let node = node?;
        node.op.visit_mut(&mut |id| *id = same[id.0 as usize]);
        // Each belongs to the product that reads it, and is often written once for each so that it can.
        if matches!(node.op, Op::DequantizeLinear(_)) {
            continue;
        }
        text.clear();
        // Writing to a string cannot fail.
        let _ = std::fmt::Write::write_fmt(&mut text, format_args!("{:?}", node.op));
        let first = seen.entry(xxh3_128(text.as_bytes())).or_insert_with(|| node.outputs.clone());
        if node.outputs.iter().any(|id| wanted.contains(id)) {
            continue;
        }
        for (id, first) in node.outputs.iter().zip(first) {
            // A pass may have decided on another type for one of them.
            if graph.operands[id.0 as usize].descriptor == graph.operands[first.0 as usize].descriptor {
                same[id.0 as usize] = *first;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::prune::prune;
    use crate::graph::ops::elementwise::{Binary, BinaryKind};
    use crate::graph::testing::check_graph;
    use crate::graph::{ConstantBytes, DataType, GraphBuilder, Limits};
    use std::sync::Arc;

    /// How many nodes are left of two layers, each of which adds a number to the input, multiplies that by itself and takes the input off.
    fn left(numbers: [f32; 2], are_outputs: bool) -> usize {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let descriptor = |shape: &[u32]| Descriptor::new(DataType::Float32, shape.iter().copied());
        let x = builder.input("x", descriptor(&[2, 3])).unwrap();
        let mut inner = Vec::new();
        let mut results = Vec::new();
        for (layer, number) in numbers.into_iter().enumerate() {
            let number = builder.constant(descriptor(&[1]), ConstantBytes::new(number.to_le_bytes())).unwrap();
            let mut binary = |kind, a, b| builder.push_op(Binary { kind, a, b }, &format!("layer {layer}")).unwrap()[0];
            let sum = binary(BinaryKind::Add, x, number);
            let square = binary(BinaryKind::Mul, sum, sum);
            inner.push((format!("square {layer}"), square));
            let kind = if layer == 0 { BinaryKind::Sub } else { BinaryKind::Div };
            results.push((format!("result {layer}"), binary(kind, square, x)));
        }
        let outputs = if are_outputs { inner.into_iter().chain(results).collect() } else { results };
        let mut graph = builder.build(outputs).unwrap();
        let compilation = &Compilation::unasked();
        common(&mut graph, compilation).unwrap();
        prune(&mut graph, compilation).unwrap();
        check_graph(&graph);
        graph.nodes.len()
    }

    #[test]
    fn what_layers_have_in_common_is_computed_once() {
        assert_eq!(left([1.5, 1.5], false), 4);
        // Another number, and others than 0 that are equal to it.
        assert_eq!(left([1.5, 2.5], false), 6);
        assert_eq!(left([0.0, -0.0], false), 6);
        // Each output has memory of its own; only what it is made of is common.
        assert_eq!(left([1.5, 1.5], true), 5);
    }
}
