//! One graph for a step of several sequences, made of the graphs for a step of each.
//!
//! The graphs have the same nodes, and may have caches of different lengths. What reads weights is computed once, for the values of all
//! sequences, one after the other along an axis: then the weights are read once. What reads a cache is computed for each sequence. Where the
//! results of one are the operands of the other, parts are taken and joined. Whether a node may be computed for all at once, the rules of
//! the proof say ([`super::rules`]): what has no rule is computed for each sequence, too.

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

/// Joins the graphs of some sequences.
///
/// # Errors
/// The reason, where the graphs do not have the same nodes, or no weights are read together.
pub fn join(graphs: &[&Graph]) -> Result<Joined, Reason> {
    let first = *graphs.first().ok_or("no sequence")?;
    for other in graphs {
        let is_alike = other.nodes.len() == first.nodes.len()
            && other.operands.len() == first.operands.len()
            && other.inputs == first.inputs
            && other.outputs == first.outputs;
        if !is_alike {
            return Err("graphs of other forms for other lengths".into());
        }
    }
    let graph = Graph { operands: Vec::new(), nodes: Vec::new(), inputs: Vec::new(), outputs: Vec::new(), ..first.clone() };
    let values = first.operands.iter().map(|_| None).collect();
    let mut join = Join { graphs, graph, values, inputs: Vec::new(), products: 0 };
    for (name, id) in &first.inputs {
        join.input(name, *id);
    }
    for position in 0..first.nodes.len() {
        join.node(position)?;
    }
    let mut outputs = Vec::new();
    for number in 0..graphs.len() {
        for (name, id) in &first.outputs {
            let own = join.of_graph(*id, number)?;
            join.graph.outputs.push((name_of(number, name), own));
            outputs.push((number, name.clone()));
        }
    }
    if join.products == 0 {
        return Err("no product with weights whose rows are apart".into());
    }
    Ok(Joined { graph: join.graph, inputs: join.inputs, outputs })
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
    /// That of each.
    by_graph: Option<Vec<OperandId>>,
    /// Those of all, one after the other along an axis.
    stacked: Option<(OperandId, usize)>,
}

struct Join<'a> {
    graphs: &'a [&'a Graph],
    graph: Graph,
    /// By operand of the graphs of the sequences.
    values: Vec<Option<Value>>,
    inputs: Vec<(usize, String)>,
    /// Products with weights that are computed once for all.
    products: usize,
}

impl<'a> Join<'a> {
    fn first(&self) -> &'a Graph {
        self.graphs[0]
    }

    fn operand(&mut self, operand: Operand) -> OperandId {
        let id = OperandId(self.graph.operands.len() as u32);
        self.graph.operands.push(operand);
        id
    }

    fn push(&mut self, op: Op, label: &str, outputs: impl IntoIterator<Item = Descriptor>) -> Vec<OperandId> {
        let node = self.graph.nodes.len() as u32;
        let made = |(output, descriptor)| Operand { descriptor, source: Source::Node { node, output: output as u32 } };
        let operands: Vec<Operand> = outputs.into_iter().enumerate().map(made).collect();
        let outputs: Vec<OperandId> = operands.into_iter().map(|operand| self.operand(operand)).collect();
        self.graph.nodes.push(Node { op, label: label.to_owned(), outputs: outputs.clone() });
        outputs
    }

    fn input(&mut self, name: &str, id: OperandId) {
        let mut own = Vec::with_capacity(self.graphs.len());
        for (number, graph) in self.graphs.iter().enumerate() {
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
        let all: Vec<&Operand> = self.graphs.iter().map(|graph| &graph.operands[id.0 as usize]).collect();
        let is_constant = |operand: &&Operand| matches!(operand.source, Source::Constant(_));
        if !all.iter().all(is_constant) {
            return Err("an operand that nothing has made".into());
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
            let descriptor = self.first().descriptor(id).clone();
            let mut own = Vec::with_capacity(self.graphs.len());
            for number in 0..self.graphs.len() as u32 {
                let mut starts = vec![0; descriptor.rank()];
                starts[axis] = number * descriptor.shape[axis];
                let slice = Slice { input: stacked, starts, sizes: descriptor.shape.to_vec(), strides: None };
                own.extend(self.push(slice.into(), "", [descriptor.clone()]));
            }
            value.by_graph = Some(own);
            self.values[id.0 as usize] = Some(value.clone());
        }
        value.by_graph.and_then(|own| own.get(number).copied()).ok_or_else(|| "a value of no sequence".into())
    }

    /// The values of all sequences along that axis, if they can be had so.
    fn stacked(&mut self, id: OperandId, axis: usize) -> Result<Option<OperandId>, Reason> {
        let mut value = self.value(id)?;
        if let Some((stacked, own)) = value.stacked {
            return Ok((own == axis).then_some(stacked));
        }
        let descriptor = self.first().descriptor(id).clone();
        let Some(inputs) = value.by_graph.clone().filter(|_| axis < descriptor.rank()) else { return Ok(None) };
        if self.graphs.iter().any(|graph| *graph.descriptor(id) != descriptor) {
            return Ok(None);
        }
        let op = Op::from(Concat { inputs, axis: axis as u32 });
        let Ok(described) = self.graph.infer(&op) else { return Ok(None) };
        let stacked = self.push(op, "", described)[0];
        value.stacked = Some((stacked, axis));
        self.values[id.0 as usize] = Some(value);
        Ok(Some(stacked))
    }

    fn node(&mut self, position: usize) -> Result<(), Reason> {
        let node = &self.first().nodes[position];
        let inputs = operands(&node.op);
        for graph in self.graphs {
            let other = &graph.nodes[position];
            if other.op.row().name != node.op.row().name || operands(&other.op) != inputs || other.outputs != node.outputs {
                return Err("other nodes for other lengths".into());
            }
        }
        let is_same = self.graphs.iter().all(|graph| graph.nodes[position].op == node.op);
        let mut are_common = is_same;
        for &id in &inputs {
            are_common &= self.value(id)?.common.is_some();
        }
        if are_common {
            let op = self.renamed(&node.op, |join, id| join.of_graph(id, 0))?;
            let described: Vec<Descriptor> = node.outputs.iter().map(|id| self.first().descriptor(*id).clone()).collect();
            let made = self.push(op, &node.label, described);
            for (&id, common) in node.outputs.iter().zip(made) {
                self.values[id.0 as usize] = Some(Value { common: Some(common), ..Value::default() });
            }
            return Ok(());
        }
        if is_same && self.stack(node, &inputs)? {
            return Ok(());
        }
        self.apart(position)
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

    /// A node for each sequence.
    fn apart(&mut self, position: usize) -> Result<(), Reason> {
        let outputs = &self.first().nodes[position].outputs;
        let mut own: Vec<Vec<OperandId>> = outputs.iter().map(|_| Vec::new()).collect();
        for number in 0..self.graphs.len() {
            let graph = self.graphs[number];
            let node = &graph.nodes[position];
            let op = self.renamed(&node.op, |join, id| join.of_graph(id, number))?;
            let described: Vec<Descriptor> = node.outputs.iter().map(|id| graph.descriptor(*id).clone()).collect();
            for (made, own) in self.push(op, &node.label, described).into_iter().zip(&mut own) {
                own.push(made);
            }
        }
        for (&id, own) in outputs.iter().zip(own) {
            self.values[id.0 as usize] = Some(Value { by_graph: Some(own), ..Value::default() });
        }
        Ok(())
    }

    /// A node for all sequences at once, if it pays and is allowed; whether that is so.
    fn stack(&mut self, node: &Node, inputs: &[OperandId]) -> Result<bool, Reason> {
        let Some((rank, axis_from_end)) = self.axis(node, inputs)? else { return Ok(false) };
        // What is only made for the attempt goes with it.
        let (operands_before, nodes_before) = (self.graph.operands.len(), self.graph.nodes.len());
        let values_before: Vec<_> = inputs.iter().map(|&id| (id, self.values[id.0 as usize].clone())).collect();
        if self.stack_along(node, inputs, rank, axis_from_end)? {
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
    fn axis(&mut self, node: &Node, inputs: &[OperandId]) -> Result<Option<(usize, usize)>, Reason> {
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
        Ok((reads_weights && rank >= 2).then_some((rank, rank)))
    }

    fn stack_along(&mut self, node: &Node, inputs: &[OperandId], rank: usize, from_end: usize) -> Result<bool, Reason> {
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
            let Some(stacked) = self.stacked(id, axis)? else { return Ok(false) };
            names.push(stacked);
            pairs.insert(stacked, (id, Some(axis)));
        }
        let (mut op, mut next) = (node.op.clone(), names.iter());
        op.visit_mut(&mut |id| *id = next.next().copied().unwrap_or(*id));
        let shape = &self.first().descriptor(node.outputs[0]).shape;
        for axis in 0..shape.len() {
            if let Some(rows) = self.attempt(node, &op, &names, &mut pairs, axis) {
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

    /// Pushes an operator for all sequences, if its outputs then have their values along that axis.
    fn attempt(
        &mut self,
        node: &Node,
        op: &Op,
        names: &[OperandId],
        pairs: &mut HashMap<OperandId, (OperandId, Rows)>,
        axis: usize,
    ) -> Option<Vec<(OperandId, usize)>> {
        let factor = self.graphs.len() as u32;
        let many = widened(op, axis, factor)?;
        let described = self.graph.infer(&many).ok()?;
        let is_wide = |(id, found): (&OperandId, &Descriptor)| {
            let mut wanted = self.first().descriptor(*id).clone();
            wanted.shape.get_mut(axis).is_some_and(|size| {
                *size *= factor;
                true
            }) && wanted == *found
        };
        if described.len() != node.outputs.len() || !node.outputs.iter().zip(&described).all(is_wide) {
            return None;
        }
        let (operands_before, nodes_before) = (self.graph.operands.len(), self.graph.nodes.len());
        let made = self.push(many, &node.label, described);
        let expected: Vec<Rows> = made.iter().map(|_| Some(axis)).collect();
        let analysis = RowAnalysis { one: self.first(), many: &self.graph, factor, pairs: std::mem::take(pairs) };
        let found = analysis.rule(&analysis.many.nodes[nodes_before], op, names, &expected);
        *pairs = analysis.pairs;
        if found.is_ok_and(|found| found == expected) {
            return Some(made.into_iter().map(|id| (id, axis)).collect());
        }
        self.graph.nodes.truncate(nodes_before);
        self.graph.operands.truncate(operands_before);
        None
    }
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
fn is_same_constant(one: &Operand, other: &Operand) -> bool {
    let (Source::Constant(a), Source::Constant(b)) = (&one.source, &other.source) else { return false };
    one.descriptor == other.descriptor && (a.place() == b.place() || a.briefly().as_slice() == b.briefly().as_slice())
}
