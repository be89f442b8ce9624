//! Which nodes become part of the step of the one that reads what they make
//! ([`Step::before`](super::Step)). A backend asks for it ([`Fusing::Quick`]).

use super::fuse::{Fusing, Fusion};
use super::quantized::Integers;
use super::{Evaluate, attention, channel_scaling, depthwise};
use crate::graph::Graph;

pub struct Before {
    /// By node: those that make its left operand, in order. Each uses what the one before it makes.
    pub nodes: Vec<Vec<usize>>,
    /// By node: whether it is among those.
    pub is_inside: Vec<bool>,
}

impl Before {
    pub fn find(graph: &Graph, evaluator: &dyn Evaluate, fusing: Fusing, fusion: &Fusion, integers: &Integers) -> Before {
        let count = graph.nodes.len();
        let mut before = Before { nodes: vec![Vec::new(); count], is_inside: vec![false; count] };
        if fusing == Fusing::Quick {
            attention::find(graph, evaluator, integers, &mut before);
            depthwise::find(graph, evaluator, fusion, &mut before);
            channel_scaling::find(graph, evaluator, fusion, integers, &mut before);
        }
        before
    }

    /// Lets nodes become part of a step.
    pub fn put(&mut self, position: usize, nodes: Vec<usize>) {
        nodes.iter().for_each(|&node| self.is_inside[node] = true);
        self.nodes[position] = nodes;
    }

    /// Whether a node is a step of its own, with nothing before it.
    pub fn is_alone(&self, position: usize) -> bool {
        !self.is_inside[position] && self.nodes[position].is_empty()
    }
}
