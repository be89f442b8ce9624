//! The first half of scheduling: which steps there are. Most nodes are one; some only rename memory, or join the step of another node.

use super::compilation::Compilation;
use super::fuse::fuse;
use super::operators::{Operators, renames};
use super::orders::Orders;
use super::prologue::Prologues;
use super::quantized::Integers;
use super::{attention, channel_scaling, depthwise};
use crate::error::Result;
use crate::graph::{Graph, OperandId};

/// The steps of a graph, whose operands have no places yet.
pub struct Steps {
    pub list: Vec<Pending>,
    /// By operand of the graph: the one whose memory it shares.
    pub root: Vec<OperandId>,
    /// By operand of the graph: the order in which its dimensions lie in that memory, unless it is that of its shape.
    pub orders: Vec<Option<Vec<u32>>>,
}

/// One of them.
pub struct Pending {
    /// The node that gives the step its name.
    pub node: usize,
    pub operators: Operators,
    /// See [`Step::order`](super::Step).
    pub order: Option<Vec<u32>>,
}

/// Finds them.
///
/// # Errors
/// When nobody wants the graph any more.
pub fn steps(graph: &Graph, compilation: &Compilation<'_>) -> Result<Steps> {
    let integers = Integers::find(graph, compilation)?;
    let mut fusion = fuse(graph, &integers, compilation)?;
    let mut before = Prologues::none(graph);
    if compilation.preferences.patterns {
        attention::find(graph, &mut fusion, &integers, &mut before, compilation)?;
    }
    let orders = Orders::find(graph, &integers, &before, compilation)?;
    if compilation.preferences.patterns {
        depthwise::find(graph, &fusion, &mut before, compilation)?;
        channel_scaling::find(graph, &fusion, &integers, &mut before, compilation)?;
    }
    let mut list = Vec::new();
    for node in compilation.each(graph.nodes.iter().enumerate()) {
        let (position, node) = node?;
        let is_inside = before.is_inside[position] || integers.is_inside[position];
        if is_inside || renames(&node.op) || fusion.is_fused[position] || orders.is_absorbed(graph, &fusion, position) {
            continue;
        }
        let then = &fusion.then[position];
        let mut operators =
            Operators::of(graph, &before.nodes[position], position, before.dequantized[position].or(integers.of[position]));
        then.iter().for_each(|&follower| operators.follow(&graph.nodes[follower]));
        if let Some(transpose) = orders.writes[position].filter(|_| then.is_empty()) {
            operators.outputs = graph.nodes[transpose].outputs.clone();
        }
        let order = orders.written(graph, position, &operators.outputs);
        list.push(Pending { node: position, operators, order });
    }
    Ok(Steps { list, root: roots(graph, &orders), orders: orders.reads })
}

/// By operand: the one whose memory it shares.
fn roots(graph: &Graph, orders: &Orders) -> Vec<OperandId> {
    let mut root: Vec<OperandId> = (0..graph.operands.len()).map(|position| OperandId(position as u32)).collect();
    for node in &graph.nodes {
        if renames(&node.op) || orders.reads[node.outputs[0].0 as usize].is_some() {
            node.op.visit(&mut |_, id| root[node.outputs[0].0 as usize] = root[id.0 as usize]);
        }
    }
    root
}
