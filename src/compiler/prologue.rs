//! Which nodes become part of the step of the one that reads what they make ([`Step::prologue`](super::Step)).

use crate::graph::Graph;

/// What [`attention`](super::attention), [`depthwise`](super::depthwise) and [`channel_scaling`](super::channel_scaling) find.
pub struct Prologues {
    /// By node: those that make its left operand, in order. Each uses what the one before it makes.
    pub nodes: Vec<Vec<usize>>,
    /// By node: those that dequantize the keys and the values of an attention.
    pub dequantized: Vec<Option<[usize; 2]>>,
    /// By node: whether it is among those.
    pub is_inside: Vec<bool>,
}

impl Prologues {
    /// None at all.
    pub fn none(graph: &Graph) -> Prologues {
        let count = graph.nodes.len();
        Prologues { nodes: vec![Vec::new(); count], dequantized: vec![None; count], is_inside: vec![false; count] }
    }

    /// Lets nodes become part of a step.
    pub fn put(&mut self, position: usize, nodes: Vec<usize>) {
        nodes.iter().for_each(|&node| self.is_inside[node] = true);
        self.nodes[position] = nodes;
    }

    /// Lets the nodes that dequantize the keys and the values of an attention become part of its step.
    pub fn put_dequantized(&mut self, position: usize, nodes: [usize; 2]) {
        nodes.iter().for_each(|&node| self.is_inside[node] = true);
        self.dequantized[position] = Some(nodes);
    }

    /// Whether a node is a step of its own, with nothing before it.
    pub fn is_alone(&self, position: usize) -> bool {
        !self.is_inside[position] && self.nodes[position].is_empty()
    }
}
