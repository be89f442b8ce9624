//! A graph that is one of two, as an input says: of a step with an adapter, or of one without.
//!
//! The graph for steps without an adapter has fewer nodes. For each of them its twin is found among the others, in their order, by what it is
//! called and computes. Where a twin has another operand than the node, that is chosen: the value of the one graph or of the other. So all that
//! is computed where the input says 0 is what the smaller graph computes, number by number: nothing is multiplied by zero or added to it.
//! Which twins are found matters only for how much is chosen.

use super::join::is_same_constant;
use super::{Reason, operands};
use crate::graph::ops::elementwise::Where;
use crate::graph::ops::movement::Reshape;
use crate::graph::{DataType, Descriptor, Graph, Node, Op, Operand, OperandId, Source};
use std::collections::HashMap;

/// The name of the input.
const CHOICE: &str = "choice";

/// The graph of `full` where its new input is 1, and that of `plain` where it is 0; with the name of that input.
///
/// # Errors
/// The reason, where a node of the smaller graph has no twin.
pub fn either(full: &Graph, plain: &Graph) -> Result<(Graph, String), Reason> {
    let mut name = CHOICE.to_owned();
    while full.inputs.iter().any(|(other, _)| *other == name) {
        name.push('_');
    }
    let mut graph = Graph { nodes: Vec::new(), ..full.clone() };
    let choice = OperandId(graph.operands.len() as u32);
    let source = Source::Input { name: name.clone() };
    graph.operands.push(Operand { descriptor: Descriptor::new(DataType::Uint8, [1]), source });
    graph.inputs.push((name.clone(), choice));
    let twins = vec![None; plain.operands.len()];
    let mut either = Either { full, plain, graph, next: 0, twins, chosen: HashMap::new(), conditions: HashMap::new(), choice };
    for (name, id) in &plain.inputs {
        let twin = full.inputs.iter().find(|(other, _)| other == name).map(|(_, id)| *id);
        let twin = twin.filter(|twin| full.descriptor(*twin) == plain.descriptor(*id));
        either.twins[id.0 as usize] = Some(twin.ok_or("an input without a twin")?);
    }
    for node in &plain.nodes {
        either.node(node)?;
    }
    either.copy(full.nodes.len());
    either.outputs()?;
    Ok((either.graph, name))
}

struct Either<'a> {
    full: &'a Graph,
    plain: &'a Graph,
    graph: Graph,
    /// The first node of the larger graph that is not in the new one.
    next: usize,
    /// By operand of the smaller graph: what it is in the new one.
    twins: Vec<Option<OperandId>>,
    /// By the values of both: the one that counts.
    chosen: HashMap<(OperandId, OperandId), OperandId>,
    /// By rank: the input.
    conditions: HashMap<usize, OperandId>,
    choice: OperandId,
}

impl<'a> Either<'a> {
    /// Puts the nodes of the larger graph into the new one, up to a node and its twin.
    fn node(&mut self, node: &Node) -> Result<(), Reason> {
        let inputs = operands(&node.op);
        let mut found = None;
        for (position, twin) in self.full.nodes.iter().enumerate().skip(self.next) {
            match self.likeness(node, &inputs, twin) {
                Some(true) => {
                    found = Some(position);
                    break;
                }
                Some(false) if found.is_none() => found = Some(position),
                _ => {}
            }
        }
        let position = found.ok_or_else(|| format!("{}: a node without a twin", node.op.row().name))?;
        self.copy(position);
        let twin = &self.full.nodes[position];
        let mut op = twin.op.clone();
        let mut names = Vec::with_capacity(inputs.len());
        for (full, plain) in operands(&op).into_iter().zip(inputs) {
            names.push(self.choose(full, plain)?);
        }
        let mut names = names.into_iter();
        op.visit_mut(&mut |id| *id = names.next().unwrap_or(*id));
        self.push(op, twin);
        self.next = position + 1;
        for (plain, full) in node.outputs.iter().zip(&twin.outputs) {
            self.twins[plain.0 as usize] = Some(*full);
        }
        Ok(())
    }

    /// Whether a node may be the twin of one, and whether it has the same operands, too.
    fn likeness(&self, node: &Node, inputs: &[OperandId], twin: &Node) -> Option<bool> {
        if node.label != twin.label || node.op.row().name != twin.op.row().name || node.outputs.len() != twin.outputs.len() {
            return None;
        }
        let others = operands(&twin.op);
        let mut op = node.op.clone();
        let mut names = others.iter();
        op.visit_mut(&mut |id| *id = names.next().copied().unwrap_or(*id));
        let is_like = |(plain, full): (&OperandId, &OperandId)| self.plain.descriptor(*plain) == self.full.descriptor(*full);
        let are_like = others.len() == inputs.len() && op == twin.op && node.outputs.iter().zip(&twin.outputs).all(is_like);
        if !are_like || !inputs.iter().zip(&others).all(is_like) {
            return None;
        }
        Some(inputs.iter().zip(&others).all(|(plain, full)| self.is_same(*plain, *full)))
    }

    /// Whether an operand of the smaller graph has the value of one of the larger.
    fn is_same(&self, plain: OperandId, full: OperandId) -> bool {
        self.twins[plain.0 as usize] == Some(full)
            || is_same_constant(&self.plain.operands[plain.0 as usize], &self.full.operands[full.0 as usize])
    }

    /// The value of the larger graph or that of the smaller.
    fn choose(&mut self, full: OperandId, plain: OperandId) -> Result<OperandId, Reason> {
        if self.is_same(plain, full) {
            return Ok(full);
        }
        let own = match self.twins[plain.0 as usize] {
            Some(twin) => twin,
            None => {
                let operand = self.plain.operands[plain.0 as usize].clone();
                if !matches!(operand.source, Source::Constant(_)) {
                    return Err("an operand without a twin".into());
                }
                let id = self.operand(operand);
                *self.twins[plain.0 as usize].insert(id)
            }
        };
        if let Some(&chosen) = self.chosen.get(&(full, own)) {
            return Ok(chosen);
        }
        let descriptor = self.full.descriptor(full).clone();
        let condition = self.condition(descriptor.rank());
        let chosen = self.make(Where { condition, true_value: full, false_value: own }.into(), descriptor)?;
        self.chosen.insert((full, own), chosen);
        Ok(chosen)
    }

    /// The input with a rank, so that those of sequences can stand beside each other where the values do.
    fn condition(&mut self, rank: usize) -> OperandId {
        if let Some(&known) = self.conditions.get(&rank) {
            return known;
        }
        let shape = vec![1; rank];
        let op = Reshape { input: self.choice, new_shape: shape.clone() }.into();
        let condition = self.make(op, Descriptor::new(DataType::Uint8, shape)).unwrap_or(self.choice);
        self.conditions.insert(rank, condition);
        condition
    }

    fn operand(&mut self, operand: Operand) -> OperandId {
        let id = OperandId(self.graph.operands.len() as u32);
        self.graph.operands.push(operand);
        id
    }

    /// A new node with that output.
    fn make(&mut self, op: Op, descriptor: Descriptor) -> Result<OperandId, Reason> {
        let described = self.graph.infer(&op).map_err(|error| error.message().to_owned())?;
        if described.len() != 1 || described[0] != descriptor {
            return Err("values that cannot be chosen from".into());
        }
        let node = self.graph.nodes.len() as u32;
        let id = self.operand(Operand { descriptor, source: Source::Node { node, output: 0 } });
        self.graph.nodes.push(Node { op, label: String::new(), outputs: vec![id] });
        Ok(id)
    }

    /// Puts the nodes of the larger graph before that one into the new one.
    fn copy(&mut self, end: usize) {
        for node in &self.full.nodes[self.next..end] {
            self.push(node.op.clone(), node);
        }
        self.next = end;
    }

    /// Puts a node of the larger graph into the new one, with that operator.
    fn push(&mut self, op: Op, of: &Node) {
        let node = self.graph.nodes.len() as u32;
        for (output, id) in of.outputs.iter().enumerate() {
            self.graph.operands[id.0 as usize].source = Source::Node { node, output: output as u32 };
        }
        self.graph.nodes.push(Node { op, ..of.clone() });
    }

    fn outputs(&mut self) -> Result<(), Reason> {
        if self.full.outputs.len() != self.plain.outputs.len() {
            return Err("an output of one graph only".into());
        }
        for position in 0..self.full.outputs.len() {
            let ((name, full), (other, plain)) = (&self.full.outputs[position], &self.plain.outputs[position]);
            if name != other || self.full.descriptor(*full) != self.plain.descriptor(*plain) {
                return Err("an output of one graph only".into());
            }
            let chosen = self.choose(*full, *plain)?;
            self.graph.outputs[position].1 = chosen;
        }
        Ok(())
    }
}
