//! Steps that passes propose to the backend, which knows what it has kernels for ([`Capabilities::accepts`](super::Capabilities::accepts)).

use super::operators::Operators;
use crate::graph::{ConstantBytes, Descriptor, Graph, Op, OperandId, Source};

/// A step with what is known of its operands.
#[derive(Debug)]
pub struct Pattern<'a> {
    /// See [`Step::prologue`](super::Step).
    pub prologue: Vec<Op>,
    /// See [`Step::dequantized`](super::Step).
    pub dequantized: Vec<Op>,
    pub op: Op,
    /// By operand of the operators.
    pub inputs: Vec<Known<'a>>,
    pub output: &'a Descriptor,
}

/// What is known of an operand.
#[derive(Debug)]
pub struct Known<'a> {
    pub descriptor: &'a Descriptor,
    pub constant: Option<&'a ConstantBytes>,
    /// See [`Value::order`](super::Value).
    pub order: Option<Vec<u32>>,
}

impl<'a> Pattern<'a> {
    /// Of a node, and of those whose results become part of its step, in order.
    pub fn of(graph: &'a Graph, before: &[usize], position: usize) -> Pattern<'a> {
        Pattern::dequantizing(graph, before, position, None)
    }

    /// The same with those that dequantize two of its operands.
    pub fn dequantizing(graph: &'a Graph, before: &[usize], position: usize, nodes: Option<[usize; 2]>) -> Pattern<'a> {
        let node = &graph.nodes[position];
        let Operators { prologue, dequantized, op, operands, .. } = Operators::of(graph, before, position, nodes);
        let known = |id: &OperandId| {
            let operand = &graph.operands[id.0 as usize];
            let constant = match &operand.source {
                Source::Constant(bytes) => Some(bytes),
                _ => None,
            };
            Known { descriptor: &operand.descriptor, constant, order: None }
        };
        let inputs = operands.iter().map(known).collect();
        Pattern { prologue, dequantized, op, inputs, output: graph.descriptor(node.outputs[0]) }
    }

    /// Reads one of the operator's operands in another order.
    pub fn ordered(mut self, operand: OperandId, order: &[u32]) -> Pattern<'a> {
        self.inputs[operand.0 as usize].order = Some(order.to_vec());
        self
    }
}
