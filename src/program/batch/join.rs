//! One graph for a step of several sequences, made of the graphs for a step of each.
//!
//! The graphs have the same nodes, and may have caches of different lengths. What reads weights is computed once, for the values of all
//! sequences, one after the other along an axis: then the weights are read once. What reads a cache is computed for each sequence. Where the
//! results of one are the operands of the other, parts are taken and joined. Whether a node may be computed for all at once, the rules of
//! the proof say ([`super::rules`]): what has no rule is computed for each sequence, too.
//!
//! The last sequences may bring several tokens each, as a piece of a prompt does, and may be without outputs that the first ones have. What
//! only these outputs need is computed for the first sequences alone.

use super::{Reason, RowAnalysis, Rows, operands};
use crate::graph::ops::movement::{Concat, Slice};
use crate::graph::{Descriptor, Graph, Node, Op, Operand, OperandId, Source};
use std::collections::HashMap;

/// The joined graph. Inputs and outputs are those of each sequence, which is given with their names.
#[derive(Debug)]
pub struct Joined {
    pub graph: Graph,
    pub inputs: Vec<(usize, String)>,
    pub outputs: Vec<(usize, String)>,
}

/// Constants of so many bytes are weights: products with smaller ones may as well be computed for each sequence.
const WEIGHTS: usize = 1024;
/// So many times as many elements as the values that are joined already may be brought beside them.
const BESIDE: usize = 2;

/// The graph of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct SequenceGraph<'a> {
    pub graph: &'a Graph,
    /// How many times as many tokens it has as the first one.
    pub tokens: u32,
}

impl<'a> SequenceGraph<'a> {
    /// Of a sequence with as many tokens as the first one.
    pub fn new(graph: &'a Graph) -> SequenceGraph<'a> {
        SequenceGraph { graph, tokens: 1 }
    }
}

/// Joins the graphs of some sequences.
///
/// # Errors
/// The reason, where the graphs do not have the same nodes, or no weights are read together.
pub fn join(graphs: &[SequenceGraph<'_>]) -> Result<Joined, Reason> {
    let first = graphs.first().ok_or("there is no sequence")?.graph;
    for SequenceGraph { graph: other, .. } in graphs {
        let is_alike = other.nodes.len() == first.nodes.len()
            && other.operands.len() == first.operands.len()
            && other.inputs == first.inputs
            && other.outputs.iter().all(|output| first.outputs.contains(output));
        if !is_alike {
            return Err("the graphs of the sequences have different inputs, outputs or numbers of nodes".into());
        }
    }
    let needs = needs(graphs)?;
    let graph = Graph { operands: Vec::new(), nodes: Vec::new(), inputs: Vec::new(), outputs: Vec::new(), ..first.clone() };
    let values = first.operands.iter().map(|_| None).collect();
    let mut join = Join { graphs, needs, graph, values, inputs: Vec::new(), products: 0 };
    for (name, id) in &first.inputs {
        join.input(name, *id);
    }
    for position in 0..first.nodes.len() {
        join.node(position)?;
    }
    let mut outputs = Vec::new();
    for (number, SequenceGraph { graph, .. }) in graphs.iter().enumerate() {
        for (name, id) in &graph.outputs {
            let own = join.of_graph(*id, number)?;
            join.graph.outputs.push((name_of(number, name), own));
            outputs.push((number, name.clone()));
        }
    }
    if join.products == 0 {
        return Err(format!("no product with weights can be computed once for all sequences{}", join.obstacle()));
    }
    Ok(Joined { graph: join.graph, inputs: join.inputs, outputs })
}

/// By node: how many sequences need it. These are the first ones.
fn needs(graphs: &[SequenceGraph<'_>]) -> Result<Vec<usize>, Reason> {
    let first = graphs[0].graph;
    let mut needs = vec![0; first.nodes.len()];
    for (number, SequenceGraph { graph, .. }) in graphs.iter().enumerate() {
        let mut is_needed = vec![false; graph.operands.len()];
        graph.outputs.iter().for_each(|(_, id)| is_needed[id.0 as usize] = true);
        for (node, need) in graph.nodes.iter().zip(&mut needs).rev() {
            if !node.outputs.iter().any(|id| is_needed[id.0 as usize]) {
                continue;
            }
            node.op.visit(&mut |_, id| is_needed[id.0 as usize] = true);
            if *need != number {
                return Err("a sequence has an output that an earlier one lacks".into());
            }
            *need = number + 1;
        }
    }
    Ok(needs)
}

/// A name that no other sequence has.
fn name_of(number: usize, name: &str) -> String {
    format!("{number}\0{name}")
}

/// How the joined graph has a value.
#[derive(Clone, Debug, Default)]
struct Value {
    /// All sequences have the same.
    common: Option<OperandId>,
    /// That of each that needs it.
    by_graph: Option<Vec<OperandId>>,
    /// Those of all that need it, one after the other along an axis.
    stacked: Option<(OperandId, usize)>,
    /// The same of so many of the first ones.
    front: Option<(OperandId, usize)>,
}

struct Join<'a> {
    graphs: &'a [SequenceGraph<'a>],
    /// By node: how many of the first sequences need it.
    needs: Vec<usize>,
    graph: Graph,
    /// By operand of the graphs of the sequences.
    values: Vec<Option<Value>>,
    inputs: Vec<(usize, String)>,
    /// Products with weights that are computed once for all.
    products: usize,
}

impl<'a> Join<'a> {
    fn first(&self) -> &'a Graph {
        self.graphs[0].graph
    }

    /// How many times as many tokens the first sequences have together as the first one.
    fn factor(&self, count: usize) -> u32 {
        self.graphs[..count].iter().map(|sequence| sequence.tokens).sum()
    }

    /// How much of the axis with the sequences the first ones have of a value.
    fn share(&self, id: OperandId, axis: usize, count: usize) -> u32 {
        self.first().descriptor(id).shape[axis] * self.factor(count)
    }

    /// Whether the values of the first sequences differ by their tokens only, along that axis.
    fn grows_along(&self, id: OperandId, axis: usize, count: usize) -> bool {
        let one = self.first().descriptor(id);
        self.graphs[..count]
            .iter()
            .all(|sequence| times(one, axis, sequence.tokens).as_ref() == Some(sequence.graph.descriptor(id)))
    }

    fn operand(&mut self, operand: Operand) -> OperandId {
        let id = OperandId(self.graph.operands.len() as u32);
        self.graph.operands.push(operand);
        id
    }

    fn push(&mut self, op: Op, label: &str, outputs: impl IntoIterator<Item = Descriptor>) -> Vec<OperandId> {
        let node = self.graph.nodes.len() as u32;
        let operand = |(output, descriptor)| Operand { descriptor, source: Source::Node { node, output: output as u32 } };
        let operands: Vec<Operand> = outputs.into_iter().enumerate().map(operand).collect();
        let outputs: Vec<OperandId> = operands.into_iter().map(|operand| self.operand(operand)).collect();
        self.graph.nodes.push(Node { op, label: label.to_owned(), outputs: outputs.clone() });
        outputs
    }

    fn input(&mut self, name: &str, id: OperandId) {
        let mut own = Vec::with_capacity(self.graphs.len());
        for (number, SequenceGraph { graph, .. }) in self.graphs.iter().enumerate() {
            let source = Source::Input { name: name_of(number, name) };
            let input = self.operand(Operand { descriptor: graph.descriptor(id).clone(), source });
            self.graph.inputs.push((name_of(number, name), input));
            self.inputs.push((number, name.to_owned()));
            own.push(input);
        }
        self.values[id.0 as usize] = Some(Value { by_graph: Some(own), ..Value::default() });
    }

    /// The value of an operand, which may be a constant that was not met yet.
    fn value(&mut self, id: OperandId) -> Result<Value, Reason> {
        if let Some(value) = &self.values[id.0 as usize] {
            return Ok(value.clone());
        }
        let all: Vec<&Operand> = self.graphs.iter().map(|sequence| &sequence.graph.operands[id.0 as usize]).collect();
        let is_constant = |operand: &&Operand| matches!(operand.source, Source::Constant(_));
        if !all.iter().all(is_constant) {
            return Err("no node computes an operand".into());
        }
        let is_same = all.windows(2).all(|pair| is_same_constant(pair[0], pair[1]));
        let value = if is_same {
            Value { common: Some(self.operand(all[0].clone())), ..Value::default() }
        } else {
            let own = all.into_iter().map(|operand| self.operand(operand.clone())).collect();
            Value { by_graph: Some(own), ..Value::default() }
        };
        self.values[id.0 as usize] = Some(value.clone());
        Ok(value)
    }

    /// The value of one sequence.
    fn of_graph(&mut self, id: OperandId, number: usize) -> Result<OperandId, Reason> {
        let mut value = self.value(id)?;
        if let Some(common) = value.common {
            return Ok(common);
        }
        if let (None, Some((stacked, axis))) = (&value.by_graph, value.stacked) {
            let count = self.needs_of(id);
            let mut own = Vec::with_capacity(count);
            for number in 0..count {
                let descriptor = self.graphs[number].graph.descriptor(id).clone();
                let mut starts = vec![0; descriptor.rank()];
                starts[axis] = self.share(id, axis, number);
                let slice = Slice { input: stacked, starts, sizes: descriptor.shape.to_vec(), strides: None };
                own.extend(self.push(slice.into(), "", [descriptor.clone()]));
            }
            value.by_graph = Some(own);
            self.values[id.0 as usize] = Some(value.clone());
        }
        value.by_graph.and_then(|own| own.get(number).copied()).ok_or_else(|| "a sequence lacks a value that it needs".into())
    }

    /// How many sequences need a value that a node has made, or an input.
    fn needs_of(&self, id: OperandId) -> usize {
        match self.first().operands[id.0 as usize].source {
            Source::Node { node, .. } => self.needs[node as usize],
            _ => self.graphs.len(),
        }
    }

    /// The values of the first sequences along that axis, if they can be had so.
    fn stacked(&mut self, id: OperandId, axis: usize, count: usize) -> Result<Option<OperandId>, Reason> {
        let mut value = self.value(id)?;
        let is_whole = count == self.needs_of(id);
        if let Some((stacked, own)) = if is_whole { value.stacked } else { value.front } {
            return Ok((own == axis).then_some(stacked));
        }
        let rank = self.first().descriptor(id).rank();
        if axis >= rank || !self.grows_along(id, axis, count) {
            return Ok(None);
        }
        let op = match (value.stacked, &value.by_graph) {
            (Some((_, own)), _) if own != axis => return Ok(None),
            (Some((stacked, _)), _) => {
                let mut sizes = self.first().descriptor(id).shape.to_vec();
                sizes[axis] = self.share(id, axis, count);
                Op::from(Slice { input: stacked, starts: vec![0; rank], sizes, strides: None })
            }
            (None, Some(own)) => Op::from(Concat { inputs: own[..count].to_vec(), axis: axis as u32 }),
            (None, None) => return Ok(None),
        };
        let Ok(described) = self.graph.infer(&op) else { return Ok(None) };
        let stacked = self.push(op, "", described)[0];
        *(if is_whole { &mut value.stacked } else { &mut value.front }) = Some((stacked, axis));
        self.values[id.0 as usize] = Some(value);
        Ok(Some(stacked))
    }

    fn node(&mut self, position: usize) -> Result<(), Reason> {
        let node = &self.first().nodes[position];
        let (inputs, count) = (operands(&node.op), self.needs[position]);
        if count == 0 {
            return Ok(());
        }
        for SequenceGraph { graph, .. } in self.graphs {
            let other = &graph.nodes[position];
            if other.op.row().name != node.op.row().name || operands(&other.op) != inputs || other.outputs != node.outputs {
                return Err("the graphs of the sequences have different operators".into());
            }
        }
        let mut are_common = self.graphs[..count].iter().all(|sequence| sequence.graph.nodes[position].op == node.op);
        for &id in &inputs {
            are_common &= self.value(id)?.common.is_some();
        }
        if are_common {
            let op = self.renamed(&node.op, |join, id| join.of_graph(id, 0))?;
            let described: Vec<Descriptor> = node.outputs.iter().map(|id| self.first().descriptor(*id).clone()).collect();
            let outputs = self.push(op, &node.label, described);
            for (&id, common) in node.outputs.iter().zip(outputs) {
                self.values[id.0 as usize] = Some(Value { common: Some(common), ..Value::default() });
            }
            return Ok(());
        }
        if count > 1 && self.stack(position, &inputs)? {
            return Ok(());
        }
        self.apart(position)
    }

    /// What makes operands of products with weights for each sequence by itself, to be told.
    fn obstacle(&self) -> String {
        let graph = self.first();
        let products = graph.nodes.iter().filter(|node| is_product(&node.op));
        let operands =
            products.map(|node| operands(&node.op)).filter(|inputs| inputs[1..].iter().any(|id| graph.is_constant(*id)));
        let maker = |id: OperandId| match graph.operands[id.0 as usize].source {
            Source::Node { node, .. } => Some(graph.nodes[node as usize].op.row().name),
            _ => None,
        };
        let mut names: Vec<&str> = operands.flatten().filter_map(maker).collect();
        names.sort_unstable();
        names.dedup();
        match names[..] {
            [] => String::new(),
            _ => format!(": their operands are made by {}", names.join(", ")),
        }
    }

    /// The operator with the joined graph's names.
    fn renamed(
        &mut self,
        op: &Op,
        mut name: impl FnMut(&mut Self, OperandId) -> Result<OperandId, Reason>,
    ) -> Result<Op, Reason> {
        let names = operands(op).into_iter().map(|id| name(self, id)).collect::<Result<Vec<_>, _>>()?;
        let (mut op, mut names) = (op.clone(), names.into_iter());
        op.visit_mut(&mut |id| *id = names.next().unwrap_or(*id));
        Ok(op)
    }

    /// A node for each sequence that needs it.
    fn apart(&mut self, position: usize) -> Result<(), Reason> {
        let outputs = &self.first().nodes[position].outputs;
        let mut own: Vec<Vec<OperandId>> = outputs.iter().map(|_| Vec::new()).collect();
        for number in 0..self.needs[position] {
            let graph = self.graphs[number].graph;
            let node = &graph.nodes[position];
            let op = self.renamed(&node.op, |join, id| join.of_graph(id, number))?;
            let described: Vec<Descriptor> = node.outputs.iter().map(|id| graph.descriptor(*id).clone()).collect();
            for (output, own) in self.push(op, &node.label, described).into_iter().zip(&mut own) {
                own.push(output);
            }
        }
        for (&id, own) in outputs.iter().zip(own) {
            self.values[id.0 as usize] = Some(Value { by_graph: Some(own), ..Value::default() });
        }
        Ok(())
    }

    /// A node for all sequences that need it at once, if it pays and is allowed; whether that is so.
    fn stack(&mut self, position: usize, inputs: &[OperandId]) -> Result<bool, Reason> {
        let Some((rank, axis_from_end)) = self.axis(position, inputs)? else { return Ok(false) };
        // What is only made for the attempt goes with it.
        let (operands_before, nodes_before) = (self.graph.operands.len(), self.graph.nodes.len());
        let values_before: Vec<_> = inputs.iter().map(|&id| (id, self.values[id.0 as usize].clone())).collect();
        if self.stack_along(position, inputs, rank, axis_from_end)? {
            return Ok(true);
        }
        self.graph.operands.truncate(operands_before);
        self.graph.nodes.truncate(nodes_before);
        for (id, value) in values_before {
            self.values[id.0 as usize] = value;
        }
        Ok(false)
    }

    /// The rank of the value beside which the others are brought, and where its sequences are, from the last axis on; nothing where a node
    /// had better be computed for each sequence.
    fn axis(&mut self, position: usize, inputs: &[OperandId]) -> Result<Option<(usize, usize)>, Reason> {
        let node = &self.first().nodes[position];
        let mut widest: Option<(usize, usize)> = None;
        let (mut most, mut others) = (0, 0);
        for &id in inputs {
            let value = self.value(id)?;
            let descriptor = self.first().descriptor(id);
            let elements = descriptor.element_count();
            match value.stacked {
                Some((_, axis)) => {
                    most = most.max(elements);
                    let found = (descriptor.rank(), descriptor.rank() - axis);
                    widest = Some(widest.map_or(found, |other| other.max(found)));
                }
                None if value.common.is_none() => others = others.max(elements),
                None => {}
            }
        }
        if let Some(found) = widest {
            return Ok((others <= BESIDE * most).then_some(found));
        }
        // Nothing is joined yet: it pays where weights are read.
        if !is_product(&node.op) {
            return Ok(None);
        }
        let mut reads_weights = false;
        for &id in &inputs[1..] {
            reads_weights |= self.value(id)?.common.is_some() && self.first().descriptor(id).byte_length() >= WEIGHTS;
        }
        let rank = self.first().descriptor(inputs[0]).rank();
        // Along the first axis, or that of the tokens where some have more.
        let all = self.needs_of(inputs[0]);
        let axis = (0..rank).find(|&axis| self.grows_along(inputs[0], axis, all));
        Ok(axis.filter(|_| reads_weights && rank >= 2).map(|axis| (rank, rank - axis)))
    }

    fn stack_along(&mut self, position: usize, inputs: &[OperandId], rank: usize, from_end: usize) -> Result<bool, Reason> {
        let (node, count) = (&self.first().nodes[position], self.needs[position]);
        let is_elementwise = node.op.elementwise().is_some();
        let mut pairs: HashMap<OperandId, (OperandId, Rows)> = HashMap::new();
        let mut names = Vec::with_capacity(inputs.len());
        for &id in inputs {
            let value = self.value(id)?;
            if let Some(common) = value.common {
                names.push(common);
                pairs.insert(common, (id, None));
                continue;
            }
            let own = self.first().descriptor(id).rank();
            let axis = match (value.stacked, is_elementwise) {
                (Some((_, axis)), _) => Some(axis),
                // Shapes are aligned at their ends.
                (None, true) => own.checked_sub(from_end),
                (None, false) => (own == rank).then(|| rank - from_end),
            };
            let Some(axis) = axis else { return Ok(false) };
            let Some(stacked) = self.stacked(id, axis, count)? else { return Ok(false) };
            names.push(stacked);
            pairs.insert(stacked, (id, Some(axis)));
        }
        let (mut op, mut next) = (node.op.clone(), names.iter());
        op.visit_mut(&mut |id| *id = next.next().copied().unwrap_or(*id));
        let shape = &self.first().descriptor(node.outputs[0]).shape;
        for axis in 0..shape.len() {
            if !self.all_grow(position, inputs, &names, &pairs, axis) {
                continue;
            }
            if let Some(rows) = self.attempt(position, &op, &names, &mut pairs, axis) {
                if is_product(&node.op) {
                    self.products += 1;
                }
                for (&id, stacked) in node.outputs.iter().zip(rows) {
                    self.values[id.0 as usize] = Some(Value { stacked: Some(stacked), ..Value::default() });
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a node of each sequence is that of the first one for as many times as many rows along an axis of its outputs, and computes
    /// each row as that one does. `names` are the joined graph's for `inputs`, and `pairs` says where the rows of these are.
    fn all_grow(
        &self,
        position: usize,
        inputs: &[OperandId],
        names: &[OperandId],
        pairs: &HashMap<OperandId, (OperandId, Rows)>,
        axis: usize,
    ) -> bool {
        let node = &self.first().nodes[position];
        let expected: Vec<Rows> = node.outputs.iter().map(|_| Some(axis)).collect();
        let rows_of = |name: &OperandId| pairs.get(name).and_then(|(_, rows)| *rows);
        self.graphs[..self.needs[position]].iter().all(|sequence| {
            let own = &sequence.graph.nodes[position];
            if sequence.tokens == 1 {
                return own.op == node.op;
            }
            let is_same = widened(&node.op, axis, sequence.tokens).as_ref() == Some(&own.op);
            let pairs = inputs.iter().zip(names).map(|(&id, name)| (id, (id, rows_of(name)))).collect();
            let analysis = RowAnalysis { one: self.first(), many: sequence.graph, factor: sequence.tokens, pairs };
            is_same
                && node.outputs.iter().all(|id| self.grows_along(*id, axis, self.needs[position]))
                && analysis.rule(own, &node.op, inputs, &expected).is_ok_and(|found| found == expected)
        })
    }

    /// Pushes an operator for all sequences, if its outputs then have their values along that axis.
    fn attempt(
        &mut self,
        position: usize,
        op: &Op,
        names: &[OperandId],
        pairs: &mut HashMap<OperandId, (OperandId, Rows)>,
        axis: usize,
    ) -> Option<Vec<(OperandId, usize)>> {
        let node = &self.first().nodes[position];
        let factor = self.factor(self.needs[position]);
        let many = widened(op, axis, factor)?;
        let described = self.graph.infer(&many).ok()?;
        let is_wide =
            |(id, found): (&OperandId, &Descriptor)| times(self.first().descriptor(*id), axis, factor).as_ref() == Some(found);
        if described.len() != node.outputs.len() || !node.outputs.iter().zip(&described).all(is_wide) {
            return None;
        }
        let (operands_before, nodes_before) = (self.graph.operands.len(), self.graph.nodes.len());
        let outputs = self.push(many, &node.label, described);
        let expected: Vec<Rows> = outputs.iter().map(|_| Some(axis)).collect();
        let analysis = RowAnalysis { one: self.first(), many: &self.graph, factor, pairs: std::mem::take(pairs) };
        let found = analysis.rule(&analysis.many.nodes[nodes_before], op, names, &expected);
        *pairs = analysis.pairs;
        if found.is_ok_and(|found| found == expected) {
            return Some(outputs.into_iter().map(|id| (id, axis)).collect());
        }
        self.graph.nodes.truncate(nodes_before);
        self.graph.operands.truncate(operands_before);
        None
    }
}

/// A value of so many times as many rows along an axis, if it has that.
fn times(one: &Descriptor, axis: usize, factor: u32) -> Option<Descriptor> {
    let mut many = one.clone();
    let size = many.shape.get_mut(axis)?;
    *size = size.checked_mul(factor)?;
    Some(many)
}

/// The operator for so many times as many rows along an axis of its output, where it says sizes.
fn widened(op: &Op, axis: usize, factor: u32) -> Option<Op> {
    let mut op = op.clone();
    let size = match &mut op {
        Op::Reshape(op) => op.new_shape.get_mut(axis),
        Op::Expand(op) => op.new_shape.get_mut(axis),
        Op::Slice(op) => op.sizes.get_mut(axis),
        _ => return Some(op),
    };
    let size = size?;
    *size = size.checked_mul(factor)?;
    Some(op)
}

/// Whether it may read weights.
fn is_product(op: &Op) -> bool {
    matches!(
        op,
        Op::Matmul(_)
            | Op::IntegerMatmul(_)
            | Op::QuantizedMatmul(_)
            | Op::BlockQuantizedMatmul(_)
            | Op::ExpertMatmul(_)
            | Op::Gemm(_)
    )
}

/// Whether two constants are one.
pub(super) fn is_same_constant(one: &Operand, other: &Operand) -> bool {
    let (Source::Constant(a), Source::Constant(b)) = (&one.source, &other.source) else { return false };
    one.descriptor == other.descriptor && (a.place() == b.place() || a.briefly().as_slice() == b.briefly().as_slice())
}
