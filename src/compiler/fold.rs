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
