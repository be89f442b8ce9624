//! Constant folding: a node all of whose operands are constants is computed once, here.

use super::quantized;
use crate::error::Result;
use crate::graph::{ConstantBytes, Descriptor, Graph, Op, OperandId, Source};

/// Computes a node for the compiler. The ids in the node are positions in the list of operands.
pub trait Evaluate {
    /// The bytes of the outputs.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for them.
    fn evaluate(&self, op: &Op, operands: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>>;
}

/// A result that is larger than this, and much larger than what it is made from, is not kept: a few nodes could ask for any
/// amount of memory, and repeating values is cheap.
const LARGE: usize = 1 << 20;
const GROWTH: usize = 16;
/// Weights are kept all the same, as long as all such results together are no larger than this: kernels are made for
/// constants, and a run would need the memory too.
const WEIGHTS: usize = 1 << 30;

/// Turns the outputs of constant nodes into constants. The nodes stay, needed by nobody. With `integers`, weights that only
/// products of integers use are not dequantized.
pub fn fold(graph: &mut Graph, evaluator: &dyn Evaluate, integers: bool) -> Result<()> {
    let weights = weights(graph);
    let mut room = WEIGHTS;
    let held = quantized::integers(graph, integers).is_inside;
    for (node, held) in graph.nodes.iter().zip(held) {
        if held {
            continue;
        }
        let mut op = node.op.clone();
        let operands = number_operands(&mut op);
        let constants: Option<Vec<ConstantBytes>> = operands
            .iter()
            .map(|id| match &graph.operands[id.0 as usize].source {
                Source::Constant(bytes) => Some(bytes.clone()),
                _ => None,
            })
            .collect();
        let Some(constants) = constants else { continue };
        let results = if super::plan::renames(&node.op) {
            vec![constants[0].clone()]
        } else {
            let operands: Vec<_> =
                operands.iter().zip(&constants).map(|(&id, bytes)| (graph.descriptor(id), bytes.as_slice())).collect();
            let outputs: Vec<_> = node.outputs.iter().map(|&id| graph.descriptor(id)).collect();
            let made_from = constants.iter().map(|bytes| bytes.as_slice().len()).sum::<usize>();
            let made = outputs.iter().map(|descriptor| descriptor.byte_length()).fold(0, usize::saturating_add);
            if made > LARGE.max(made_from.saturating_mul(GROWTH)) {
                let is_weight = node.outputs.iter().any(|id| weights[id.0 as usize]);
                if !is_weight || made > room {
                    continue;
                }
                room -= made;
            }
            evaluator.evaluate(&op, &operands, &outputs).map_err(|error| error.of(node.op.row().name, &node.label))?
        };
        for (&id, bytes) in node.outputs.iter().zip(results) {
            graph.operands[id.0 as usize].source = Source::Constant(bytes);
        }
    }
    Ok(())
}

/// By operand: whether it is what a convolution, a product or a recurrent network multiplies with, or goes into that.
fn weights(graph: &Graph) -> Vec<bool> {
    let mut weights = vec![false; graph.operands.len()];
    for node in graph.nodes.iter().rev() {
        let goes_on = node.outputs.iter().any(|id| weights[id.0 as usize]);
        let mut mark = |id: OperandId| weights[id.0 as usize] = true;
        match &node.op {
            _ if goes_on => node.op.visit(&mut |_, id| mark(id)),
            Op::Conv2d(op) => mark(op.filter),
            Op::ConvTranspose2d(op) => mark(op.filter),
            Op::Matmul(op) => [op.a, op.b].into_iter().for_each(mark),
            Op::Gemm(op) => [op.a, op.b].into_iter().for_each(mark),
            Op::Lstm(op) => [op.weight, op.recurrent_weight].into_iter().for_each(mark),
            Op::Gru(op) => [op.weight, op.recurrent_weight].into_iter().for_each(mark),
            _ => {}
        }
    }
    weights
}

/// Renumbers the operands of a node to their positions among them, and returns what they were.
pub fn number_operands(op: &mut Op) -> Vec<OperandId> {
    let mut operands = Vec::new();
    op.visit_mut(&mut |id| {
        operands.push(*id);
        *id = OperandId(operands.len() as u32 - 1);
    });
    operands
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::movement::{Expand, Reshape};
    use crate::graph::{DataType, GraphBuilder, Limits, Number};
    use std::sync::Arc;

    /// Everything is zeros.
    struct Zeros;

    impl Evaluate for Zeros {
        fn evaluate(&self, _: &Op, _: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
            Ok(outputs.iter().map(|output| ConstantBytes::new(vec![0; output.byte_length()])).collect())
        }
    }

    /// Whether a number that is repeated so often becomes a constant that a vector is multiplied with.
    fn becomes_weights(count: u32) -> bool {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let vector = builder.input("x", Descriptor::new(DataType::Float32, [1, 4])).unwrap();
        let number = builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let repeated = builder.push_op(Expand { input: number, new_shape: vec![count] }, "").unwrap()[0];
        let b = builder.push_op(Reshape { input: repeated, new_shape: vec![4, count / 4] }, "").unwrap()[0];
        let output = builder.push_op(Matmul { a: vector, b }, "").unwrap()[0];
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        fold(&mut graph, &Zeros, false).unwrap();
        matches!(graph.operands[b.0 as usize].source, Source::Constant(_))
    }

    #[test]
    fn weights_may_be_large() {
        assert!(becomes_weights(1 << 20));
        assert!(!becomes_weights(1 << 29));
    }

    /// Whether a number that is repeated so often becomes a constant.
    fn folds(count: u32) -> bool {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let input = builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let output = builder.push_op(Expand { input, new_shape: vec![count] }, "").unwrap()[0];
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        fold(&mut graph, &Zeros, false).unwrap();
        matches!(graph.operands[graph.outputs[0].1.0 as usize].source, Source::Constant(_))
    }

    #[test]
    fn little_does_not_become_a_lot() {
        assert!(folds(1 << 10));
        assert!(!folds(1 << 29));
    }
}
