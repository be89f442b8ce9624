//! Transpositions that cost nothing: matrix products read operands and write outputs whose dimensions lie in another order.

use super::fuse::{Fusing, Fusion};
use super::quantized::Integers;
use crate::graph::ops::movement::Transpose;
use crate::graph::{DataType, Graph, Op, OperandId, Source};

/// Which transpositions are no steps of their own.
pub struct Orders {
    /// By operand: the permutation of a transposition whose consumers all read its input instead.
    pub reads: Vec<Option<Vec<u32>>>,
    /// By node: the transposition of its output that it may do itself.
    pub writes: Vec<Option<usize>>,
}

impl Orders {
    pub fn find(graph: &Graph, fusing: Fusing, integers: &Integers) -> Orders {
        let mut orders = Orders { reads: vec![None; graph.operands.len()], writes: vec![None; graph.nodes.len()] };
        if fusing != Fusing::Quick {
            return orders;
        }
        // Whether all that is known of an operand's consumers allows it to be read in another order, and how many there are.
        let mut only_products = vec![true; graph.operands.len()];
        let mut uses = vec![0; graph.operands.len()];
        let is_stack = |node: usize| integers.of[node].is_none() && is_stack(graph, &graph.nodes[node].op);
        for (position, node) in graph.nodes.iter().enumerate() {
            let is_product = is_stack(position);
            node.op.visit(&mut |_, id| {
                only_products[id.0 as usize] &= is_product;
                uses[id.0 as usize] += 1;
            });
        }
        for (_, id) in &graph.outputs {
            only_products[id.0 as usize] = false;
            uses[id.0 as usize] += 1;
        }
        for (position, node) in graph.nodes.iter().enumerate() {
            let Op::Transpose(op) = &node.op else { continue };
            let output = node.outputs[0].0 as usize;
            if graph.descriptor(node.outputs[0]).data_type != DataType::Float32 {
                continue;
            }
            if only_products[output] && uses[output] > 0 && matches!(maker(graph, op.input), Maker::Input | Maker::Node(_)) {
                orders.reads[output] = Some(permutation(graph, op));
                continue;
            }
            let Maker::Node(maker) = maker(graph, op.input) else { continue };
            let is_last_kept = permutation(graph, op).last().is_some_and(|&last| last as usize + 1 == rank(graph, op.input));
            if is_last_kept && uses[op.input.0 as usize] == 1 && is_stack(maker) {
                orders.writes[maker] = Some(position);
            }
        }
        orders
    }

    /// Whether a node is a transposition that others do.
    pub fn is_absorbed(&self, graph: &Graph, fusion: &Fusion, position: usize) -> bool {
        let Op::Transpose(op) = &graph.nodes[position].op else { return false };
        let is_written =
            |maker: usize| self.writes[maker] == Some(position) && fusion.then[maker].is_empty() && !fusion.is_fused[maker];
        self.reads[graph.nodes[position].outputs[0].0 as usize].is_some()
            || matches!(maker(graph, op.input), Maker::Node(maker) if is_written(maker))
    }

    /// The order in which a step writes its output, when that is a transposition of what the node makes.
    pub fn written(&self, graph: &Graph, node: usize, outputs: &[OperandId]) -> Option<Vec<u32>> {
        let transpose = self.writes[node].filter(|&transpose| graph.nodes[transpose].outputs.as_slice() == outputs)?;
        match &graph.nodes[transpose].op {
            Op::Transpose(op) => Some(permutation(graph, op)),
            _ => None,
        }
    }
}

enum Maker {
    Input,
    Node(usize),
    Other,
}

fn maker(graph: &Graph, id: OperandId) -> Maker {
    match graph.operands[id.0 as usize].source {
        Source::Input { .. } => Maker::Input,
        Source::Node { node, .. } => Maker::Node(node as usize),
        Source::Constant(_) => Maker::Other,
    }
}

fn rank(graph: &Graph, id: OperandId) -> usize {
    graph.descriptor(id).shape.len()
}

fn permutation(graph: &Graph, op: &Transpose) -> Vec<u32> {
    op.permutation.clone().unwrap_or_else(|| (0..rank(graph, op.input) as u32).rev().collect())
}

/// Whether an operator is a product of float32 matrices that are both computed.
fn is_stack(graph: &Graph, op: &Op) -> bool {
    let Op::Matmul(op) = op else { return false };
    let is_computed = |id: OperandId| !matches!(graph.operands[id.0 as usize].source, Source::Constant(_));
    graph.descriptor(op.a).data_type == DataType::Float32 && is_computed(op.a) && is_computed(op.b)
}
