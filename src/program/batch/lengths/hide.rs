//! The graph for texts that end earlier: softmaxes along the text do not see what is after the end.
//!
//! An input has a number for each place of each text, zero or after the end minus infinity, and is added to the scores. Where these are a sum
//! with a mask already, it is added to the mask, which is smaller.

use crate::graph::ops::elementwise::{Binary, BinaryKind, Cast};
use crate::graph::ops::movement::{Expand, Reshape};
use crate::graph::{DataType, Descriptor, Graph, Node, Op, Operand, OperandId, Source};
use std::collections::HashMap;

/// The name of the input, which no input of a model has.
pub const HIDDEN: &str = "\0hidden";

/// A softmax along the text.
#[derive(Clone, Copy, Debug)]
pub struct Softmax {
    pub position: usize,
    /// Along which axis of the scores the texts are, and along which one the keys.
    pub rows: usize,
    pub keys: usize,
}

struct Hide {
    graph: Graph,
    texts: u32,
    length: u32,
    hidden: OperandId,
    /// Nodes that come first.
    first: Vec<Node>,
    /// By position: nodes that come before it.
    before: HashMap<usize, Vec<Node>>,
    /// By type and shape: the input in that form.
    forms: HashMap<(DataType, Vec<u32>), OperandId>,
    /// By mask: its sum with the input.
    sums: HashMap<OperandId, OperandId>,
}

/// Changes the graph for so many texts of a length. `softmaxes` are all along the text.
pub fn hide(graph: Graph, texts: u32, length: u32, softmaxes: &[Softmax]) -> Result<Graph, String> {
    if softmaxes.is_empty() {
        return Ok(graph);
    }
    let mut hide = Hide {
        graph,
        texts,
        length,
        hidden: OperandId(0),
        first: Vec::new(),
        before: HashMap::new(),
        forms: HashMap::new(),
        sums: HashMap::new(),
    };
    let source = Source::Input { name: HIDDEN.to_owned() };
    hide.hidden = hide.operand(DataType::Float32, &[texts, length], source);
    hide.graph.inputs.push((HIDDEN.to_owned(), hide.hidden));
    let mut uses = vec![0; hide.graph.operands.len()];
    hide.graph.nodes.iter().for_each(|node| node.op.visit(&mut |_, id| uses[id.0 as usize] += 1));
    hide.graph.outputs.iter().for_each(|(_, id)| uses[id.0 as usize] += 1);
    for softmax in softmaxes {
        hide.softmax(softmax, &uses)?;
    }
    Ok(hide.finish())
}

impl Hide {
    fn operand(&mut self, data_type: DataType, shape: &[u32], source: Source) -> OperandId {
        let id = OperandId(self.graph.operands.len() as u32);
        self.graph.operands.push(Operand { descriptor: Descriptor::new(data_type, shape.iter().copied()), source });
        id
    }

    /// A node whose place is known when all are there.
    fn node(&mut self, op: Op, label: &str, data_type: DataType, shape: &[u32]) -> (Node, OperandId) {
        let output = self.operand(data_type, shape, Source::Node { node: 0, output: 0 });
        (Node { op, label: label.to_owned(), outputs: vec![output] }, output)
    }

    fn put_first(&mut self, op: Op, data_type: DataType, shape: &[u32]) -> OperandId {
        let (node, output) = self.node(op, "", data_type, shape);
        self.first.push(node);
        output
    }

    /// The input in a shape that is broadcast to scores.
    fn form(&mut self, data_type: DataType, shape: Vec<u32>, softmax: &Softmax) -> OperandId {
        let key = (data_type, shape);
        if let Some(&form) = self.forms.get(&key) {
            return form;
        }
        let (texts, length, shape) = (self.texts, self.length, &key.1);
        let mut input = self.hidden;
        if data_type != DataType::Float32 {
            input = self.put_first(Cast { input, data_type }.into(), data_type, &[texts, length]);
        }
        let share = shape[softmax.rows] / texts;
        if share > 1 {
            // Each text has several places of the axis, such as heads.
            let one = vec![texts, 1, length];
            input = self.put_first(Reshape { input, new_shape: one.clone() }.into(), data_type, &one);
            let all = vec![texts, share, length];
            input = self.put_first(Expand { input, new_shape: all.clone() }.into(), data_type, &all);
        }
        let form = self.put_first(Reshape { input, new_shape: shape.clone() }.into(), data_type, shape);
        self.forms.insert(key, form);
        form
    }

    fn softmax(&mut self, softmax: &Softmax, uses: &[usize]) -> Result<(), String> {
        let Op::Softmax(op) = &self.graph.nodes[softmax.position].op else { return Err("no softmax where one was".into()) };
        let scores = op.input;
        let Descriptor { data_type, shape } = self.graph.descriptor(scores).clone();
        let fits =
            softmax.rows < softmax.keys && shape[softmax.keys] == self.length && shape[softmax.rows].is_multiple_of(self.texts);
        if !fits {
            return Err("the keys of its scores are not the positions of the texts".into());
        }
        let of_axis = |(axis, &size): (usize, &u32)| if axis == softmax.rows || axis == softmax.keys { size } else { 1 };
        let small: Vec<u32> = shape.iter().enumerate().map(of_axis).collect();
        let form = self.form(data_type, small.clone(), softmax);
        let label = self.graph.nodes[softmax.position].label.clone();
        // A sum that nobody else needs, with something as small.
        if let Source::Node { node: maker, .. } = self.graph.operands[scores.0 as usize].source
            && uses[scores.0 as usize] == 1
            && let Op::Binary(sum) = &self.graph.nodes[maker as usize].op
            && sum.kind == BinaryKind::Add
            && let Some(mask) = [sum.b, sum.a].into_iter().find(|&id| self.is_broadcast_to(id, &small))
        {
            let with_hidden = match self.sums.get(&mask) {
                Some(&sum) => sum,
                None => {
                    let op = Binary { kind: BinaryKind::Add, a: mask, b: form };
                    let (node, output) = self.node(op.into(), &label, data_type, &small);
                    // As soon as the mask is there: others may use the sum earlier.
                    match self.graph.operands[mask.0 as usize].source {
                        Source::Node { node: maker, .. } => self.before.entry(maker as usize + 1).or_default().push(node),
                        _ => self.first.push(node),
                    }
                    self.sums.insert(mask, output);
                    output
                }
            };
            self.graph.nodes[maker as usize].op.visit_mut(&mut |id| {
                if *id == mask {
                    *id = with_hidden;
                }
            });
            return Ok(());
        }
        let op = Binary { kind: BinaryKind::Add, a: scores, b: form };
        let (node, output) = self.node(op.into(), &label, data_type, &shape);
        self.before.entry(softmax.position).or_default().push(node);
        self.graph.nodes[softmax.position].op.visit_mut(&mut |id| *id = output);
        Ok(())
    }

    fn is_broadcast_to(&self, id: OperandId, shape: &[u32]) -> bool {
        let own = &self.graph.descriptor(id).shape;
        own.len() <= shape.len() && own.iter().rev().zip(shape.iter().rev()).all(|(&own, &size)| own == 1 || own == size)
    }

    fn finish(self) -> Graph {
        let Hide { mut graph, first, mut before, .. } = self;
        let mut nodes = first;
        for (position, node) in std::mem::take(&mut graph.nodes).into_iter().enumerate() {
            nodes.extend(before.remove(&position).into_iter().flatten());
            nodes.push(node);
        }
        for (number, node) in nodes.iter().enumerate() {
            for (output, id) in node.outputs.iter().enumerate() {
                graph.operands[id.0 as usize].source = Source::Node { node: number as u32, output: output as u32 };
            }
        }
        graph.nodes = nodes;
        graph
    }
}
