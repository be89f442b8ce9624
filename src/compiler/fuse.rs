//! Fuses element-wise operators into the operator that makes their data, so that these are finished while they are in the
//! cache: biases, activations, residual additions; on backends that make code for it, whole chains.

use crate::graph::ops::elementwise::UnaryKind;
use crate::graph::{Graph, Op, OperandId, Source};

/// Which nodes run as part of which.
pub struct Fusion {
    /// By node: the nodes that are done to its output, in order.
    pub then: Vec<Vec<usize>>,
    /// By node: whether it runs as part of another.
    pub is_fused: Vec<bool>,
}

/// What a backend can do in one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusing {
    /// Convolutions and products with what is done to their output, of the same data type.
    Products,
    /// Element-wise operators too, and conversions in the middle of a chain.
    Chains,
}

/// Finds the chains. A node joins when it is the only consumer of the chain's value so far, leaves its shape alone, and
/// everything else that it reads is there before the chain begins.
pub fn fuse(graph: &Graph, fusing: Fusing) -> Fusion {
    let mut fusion = Fusion { then: vec![Vec::new(); graph.nodes.len()], is_fused: vec![false; graph.nodes.len()] };
    let consumers = consumers(graph);
    for (head, node) in graph.nodes.iter().enumerate() {
        let leads = match node.op {
            Op::Conv2d(_) | Op::Matmul(_) | Op::Gemm(_) => true,
            // One that has joined another leads nothing itself.
            ref op => fusing == Fusing::Chains && is_elementwise(op) && !fusion.is_fused[head],
        };
        if !leads {
            continue;
        }
        let mut value = node.outputs[0];
        while let Consumers::One(next) = consumers[value.0 as usize] {
            let follower = &graph.nodes[next];
            let (before, after) = (graph.descriptor(value), graph.descriptor(follower.outputs[0]));
            let fits = match fusing {
                Fusing::Products => before == after && matches!(follower.op, Op::Activation(_) | Op::Clamp(_) | Op::Binary(_)),
                Fusing::Chains => before.shape == after.shape && is_elementwise(&follower.op),
            };
            if !fits || !joins(graph, &follower.op, value, head) {
                break;
            }
            fusion.then[head].push(next);
            fusion.is_fused[next] = true;
            value = follower.outputs[0];
        }
    }
    fusion
}

/// Whether every element of the output depends on one element of each operand. (Operators that only copy are no steps, or
/// are there to copy.)
fn is_elementwise(op: &Op) -> bool {
    match op {
        Op::Unary(unary) => unary.kind != UnaryKind::Identity,
        Op::Activation(_)
        | Op::Binary(_)
        | Op::Cast(_)
        | Op::Clamp(_)
        | Op::DequantizeLinear(_)
        | Op::Elu(_)
        | Op::HardSigmoid(_)
        | Op::LeakyRelu(_)
        | Op::Linear(_)
        | Op::Logical(_)
        | Op::Predicate(_)
        | Op::Prelu(_)
        | Op::QuantizeLinear(_)
        | Op::Where(_) => true,
        _ => false,
    }
}

fn joins(graph: &Graph, op: &Op, value: OperandId, head: usize) -> bool {
    let mut there = true;
    let mut uses = 0;
    op.visit(&mut |_, id| match graph.operands[id.0 as usize].source {
        _ if id == value => uses += 1,
        Source::Node { node, .. } => there &= (node as usize) < head,
        Source::Input { .. } | Source::Constant(_) => {}
    });
    there && uses == 1
}

/// Who reads an operand.
#[derive(Clone, Copy, PartialEq)]
enum Consumers {
    Nobody,
    One(usize),
    /// Several, or the caller of the graph.
    More,
}

fn consumers(graph: &Graph) -> Vec<Consumers> {
    let mut consumers = vec![Consumers::Nobody; graph.operands.len()];
    for (position, node) in graph.nodes.iter().enumerate() {
        node.op.visit(&mut |_, id| {
            let consumer = &mut consumers[id.0 as usize];
            *consumer = match consumer {
                Consumers::Nobody => Consumers::One(position),
                _ => Consumers::More,
            };
        });
    }
    for (_, id) in &graph.outputs {
        consumers[id.0 as usize] = Consumers::More;
    }
    consumers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::{DataType, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    /// A product with `follow` done to it; how many nodes are fused.
    fn fused(follow: impl Fn(&mut GraphBuilder, OperandId, OperandId) -> Vec<OperandId>) -> usize {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, [4, 4])).unwrap();
        let product = builder.push_op(Matmul { a: x, b: x }, "").unwrap()[0];
        let outputs = follow(&mut builder, x, product);
        let outputs = outputs.into_iter().enumerate().map(|(i, id)| (format!("{i}"), id)).collect();
        let graph = builder.build(outputs).unwrap();
        fuse(&graph, Fusing::Products).then.iter().map(Vec::len).sum()
    }

    fn relu(builder: &mut GraphBuilder, input: OperandId) -> OperandId {
        builder.push_op(Activation { kind: ActivationKind::Relu, input }, "").unwrap()[0]
    }

    fn add(builder: &mut GraphBuilder, a: OperandId, b: OperandId) -> OperandId {
        builder.push_op(Binary { kind: BinaryKind::Add, a, b }, "").unwrap()[0]
    }

    #[test]
    fn chains_join_what_makes_their_data() {
        assert_eq!(
            fused(|builder, x, product| {
                let sum = add(builder, x, product);
                vec![relu(builder, sum)]
            }),
            2
        );
    }

    #[test]
    fn a_value_that_others_need_is_kept() {
        assert_eq!(fused(|builder, _, product| vec![relu(builder, product), product]), 0);
        assert_eq!(fused(|builder, _, product| vec![add(builder, product, product)]), 0);
        // The other operand is made after the product.
        assert_eq!(
            fused(|builder, x, product| {
                let late = relu(builder, x);
                vec![add(builder, product, late)]
            }),
            0
        );
    }
}
