//! Which nodes become part of the step of the one that reads what they make
//! ([`Step::prologue`](super::Step)). A backend asks for it ([`Fusing::Quick`]).

use super::fuse::{Fusing, Fusion};
use super::progress::Progress;
use super::quantized::Integers;
use super::{attention, channel_scaling, depthwise};
use crate::error::Result;
use crate::graph::Graph;

pub struct Prologues {
    /// By node: those that make its left operand, in order. Each uses what the one before it makes.
    pub nodes: Vec<Vec<usize>>,
    /// By node: whether it is among those.
    pub is_inside: Vec<bool>,
}

impl Prologues {
    pub fn find(
        graph: &Graph,
        fusing: Fusing,
        fusion: &mut Fusion,
        integers: &Integers,
        progress: &Progress<'_>,
    ) -> Result<Prologues> {
        let count = graph.nodes.len();
        let mut before = Prologues { nodes: vec![Vec::new(); count], is_inside: vec![false; count] };
        if fusing == Fusing::Quick {
            attention::find(graph, fusion, integers, &mut before, progress)?;
            depthwise::find(graph, fusion, &mut before, progress)?;
            channel_scaling::find(graph, fusion, integers, &mut before, progress)?;
        }
        Ok(before)
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
