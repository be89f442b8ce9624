//! Constant folding: a node all of whose operands are constants is computed once, here.

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

/// Turns the outputs of constant nodes into constants. The nodes stay, needed by nobody.
pub fn fold(graph: &mut Graph, evaluator: &dyn Evaluate) -> Result<()> {
    for node in &graph.nodes {
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
                continue;
            }
            evaluator.evaluate(&op, &operands, &outputs).map_err(|error| error.of(node.op.row().name, &node.label))?
        };
        for (&id, bytes) in node.outputs.iter().zip(results) {
            graph.operands[id.0 as usize].source = Source::Constant(bytes);
        }
    }
    Ok(())
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
    use crate::graph::ops::movement::Expand;
    use crate::graph::{DataType, GraphBuilder, Limits, Number};
    use std::sync::Arc;

    /// Everything is zeros.
    struct Zeros;

    impl Evaluate for Zeros {
        fn evaluate(&self, _: &Op, _: &[(&Descriptor, &[u8])], outputs: &[&Descriptor]) -> Result<Vec<ConstantBytes>> {
            Ok(outputs.iter().map(|output| ConstantBytes::new(vec![0; output.byte_length()])).collect())
        }
    }

    /// Whether a number that is repeated so often becomes a constant.
    fn folds(count: u32) -> bool {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let input = builder.scalar(DataType::Float32, Number::Double(1.0)).unwrap();
        let output = builder.push_op(Expand { input, new_shape: vec![count] }, "").unwrap()[0];
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        fold(&mut graph, &Zeros).unwrap();
        matches!(graph.operands[graph.outputs[0].1.0 as usize].source, Source::Constant(_))
    }

    #[test]
    fn little_does_not_become_a_lot() {
        assert!(folds(1 << 10));
        assert!(!folds(1 << 30));
    }
}
