//! The operators of a step: those of nodes, with their operands numbered by position.

use crate::graph::ops::elementwise::UnaryKind;
use crate::graph::{Graph, Node, Op, OperandId};
use std::collections::HashMap;

/// Stands in an operator of a step for the value that the one before it makes.
pub const RUNNING: OperandId = OperandId(u32::MAX);

/// Lets fused operators find the value that they are done to after the step's inputs.
pub fn after_inputs(mut fused: Vec<Op>, inputs: usize) -> Vec<Op> {
    for op in &mut fused {
        op.visit_mut(&mut |id| {
            if *id == RUNNING {
                *id = OperandId(inputs as u32);
            }
        });
    }
    fused
}

/// Whether a node gives other names to memory: its output has the very bytes of its operand. Whoever reads it checks what is to be checked.
pub fn renames(op: &Op) -> bool {
    matches!(op, Op::CheckIndices(_) | Op::Reshape(_)) || matches!(op, Op::Unary(unary) if unary.kind == UnaryKind::Identity)
}

/// The operators of a node and of those whose results become part of its step.
#[derive(Debug)]
pub struct Operators {
    /// See [`Step`](super::Step) for these.
    pub prologue: Vec<Op>,
    pub dequantized: Vec<Op>,
    pub op: Op,
    pub fused: Vec<Op>,
    /// Which operand of the graph each number is.
    pub operands: Vec<OperandId>,
    /// What the last one makes.
    pub outputs: Vec<OperandId>,
}

impl Operators {
    /// Of a node, of those before it in its step, and of those that dequantize its operands if it is a product of integers.
    pub fn of(graph: &Graph, before: &[usize], position: usize, dequantize: Option<[usize; 2]>) -> Operators {
        let node = &graph.nodes[position];
        let mut operands = Vec::new();
        // What dequantizes, and for what it makes the integers that it is made from.
        let (mut dequantized, mut integer) = (Vec::new(), HashMap::new());
        for number in dequantize.into_iter().flatten() {
            let mut op = graph.nodes[number].op.clone();
            integer.insert(graph.nodes[number].outputs[0], OperandId(operands.len() as u32));
            op.visit_mut(&mut |id| *id = add(&mut operands, *id));
            dequantized.push(op);
        }
        // What the node before has made.
        let mut before_output: Option<OperandId> = None;
        let mut numbered = |node: &Node| {
            let mut op = node.op.clone();
            op.visit_mut(&mut |id| {
                *id = match integer.get(id) {
                    _ if before_output == Some(*id) => RUNNING,
                    Some(integer) => *integer,
                    None => add(&mut operands, *id),
                };
            });
            before_output = Some(node.outputs[0]);
            op
        };
        let prologue: Vec<Op> = before.iter().map(|&position| numbered(&graph.nodes[position])).collect();
        let op = numbered(node);
        Operators { prologue, dequantized, op, fused: Vec::new(), operands, outputs: node.outputs.clone() }
    }

    /// Does another node to the output.
    pub fn follow(&mut self, node: &Node) {
        let mut op = node.op.clone();
        let before = std::mem::replace(&mut self.outputs, node.outputs.clone());
        op.visit_mut(&mut |id| {
            *id = if *id == before[0] { RUNNING } else { add(&mut self.operands, *id) };
        });
        self.fused.push(op);
    }
}

/// An operand more: its position among them.
fn add(operands: &mut Vec<OperandId>, id: OperandId) -> OperandId {
    operands.push(id);
    OperandId(operands.len() as u32 - 1)
}
