//! The graph of a bucket, changed as the proof asks for it.

use crate::graph::ops::elementwise::{Binary, BinaryKind};
use crate::graph::{DataType, Graph, Node, Op, Operand, OperandId, Source};
use crate::program::caches::padding::PaddingInput;
use std::collections::HashMap;

/// A graph with inputs that say how many rows are padding.
struct Rewrite<'a> {
    /// What the names of the new inputs begin with.
    what: &'a str,
    graph: Graph,
    /// The new inputs.
    inputs: Vec<(String, PaddingInput)>,
    /// The masks of softmaxes, by their type and shape.
    masks: HashMap<(DataType, Vec<u32>), OperandId>,
}

/// Makes constants inputs, and has softmaxes see an addend. Nodes that find rows by `places` keep the constant.
pub fn with_padding_inputs(
    what: &str,
    graph: Graph,
    constants: Vec<(OperandId, PaddingInput)>,
    softmaxes: &[(usize, usize)],
    places: &[(usize, OperandId)],
) -> (Graph, Vec<(String, PaddingInput)>) {
    let mut rewrite = Rewrite { what, graph, inputs: Vec::new(), masks: HashMap::new() };
    for &(position, id) in places {
        rewrite.keep_constant(position, id);
    }
    rewrite.make_inputs(constants);
    let sums = softmaxes.iter().filter_map(|&(position, axis)| Some((position, rewrite.mask_softmax(position, axis)?)));
    let sums: HashMap<usize, Node> = sums.collect();
    rewrite.insert(sums);
    (rewrite.graph, rewrite.inputs)
}

impl Rewrite<'_> {
    fn operand(&mut self, operand: Operand) -> OperandId {
        let id = OperandId(self.graph.operands.len() as u32);
        self.graph.operands.push(operand);
        id
    }

    /// A name that no input of a model has.
    fn new_name(&self) -> String {
        format!("\0{} {}", self.what, self.inputs.len())
    }

    /// Gives a node a constant of its own.
    fn keep_constant(&mut self, position: usize, id: OperandId) {
        let copy = self.operand(self.graph.operands[id.0 as usize].clone());
        self.graph.nodes[position].op.visit_mut(&mut |operand| {
            if *operand == id {
                *operand = copy;
            }
        });
    }

    /// Makes inputs of the constants that are used. Those that always have the same value, as the positions of each layer, are one input:
    /// then what layers compute of it is common, too.
    fn make_inputs(&mut self, constants: Vec<(OperandId, PaddingInput)>) {
        let mut used: Vec<bool> = self.graph.operands.iter().map(|_| false).collect();
        for node in &self.graph.nodes {
            node.op.visit(&mut |_, id| used[id.0 as usize] = true);
        }
        let mut same: HashMap<OperandId, OperandId> = HashMap::new();
        for (id, input) in constants.into_iter().filter(|(id, _)| used[id.0 as usize]) {
            let shape = &self.graph.descriptor(id).shape;
            let is_like = |((_, other), (_, known)): &(&(String, OperandId), &(String, PaddingInput))| {
                *known == input && self.graph.descriptor(*other).shape == *shape
            };
            let new = self.graph.inputs.len() - self.inputs.len();
            let known = self.graph.inputs[new..].iter().zip(&self.inputs).find(is_like);
            match known.map(|((_, first), _)| *first) {
                Some(first) if self.graph.outputs.iter().all(|(_, output)| *output != id) => _ = same.insert(id, first),
                _ => self.add_input(id, input),
            }
        }
        for node in &mut self.graph.nodes {
            node.op.visit_mut(&mut |id| *id = same.get(id).copied().unwrap_or(*id));
        }
    }

    fn add_input(&mut self, id: OperandId, input: PaddingInput) {
        let name = self.new_name();
        self.graph.operands[id.0 as usize].source = Source::Input { name: name.clone() };
        self.graph.inputs.push((name.clone(), id));
        self.inputs.push((name, input));
    }

    /// An input that is added to scores of a type, along an axis of this length; those of equal shapes share it.
    fn mask(&mut self, data_type: DataType, shape: Vec<u32>, length: u32) -> OperandId {
        if let Some(&id) = self.masks.get(&(data_type, shape.clone())) {
            return id;
        }
        let input = PaddingInput::Mask { data_type, length: length as usize };
        let name = self.new_name();
        let id = self.operand(Operand { descriptor: input.descriptor(&shape), source: Source::Input { name: name.clone() } });
        self.graph.inputs.push((name.clone(), id));
        self.inputs.push((name, input));
        self.masks.insert((data_type, shape), id);
        id
    }

    /// Has a softmax along an axis see the sum of its scores and a mask; gives the node of the sum, which is to stand before it.
    fn mask_softmax(&mut self, position: usize, axis: usize) -> Option<Node> {
        let Op::Softmax(softmax) = &self.graph.nodes[position].op else { return None };
        let scores = softmax.input;
        let descriptor = self.graph.descriptor(scores).clone();
        let length = descriptor.shape[axis];
        // From the rows on.
        let shape = descriptor.shape[axis..].iter().enumerate().map(|(i, _)| if i == 0 { length } else { 1 }).collect();
        let mask = self.mask(descriptor.data_type, shape, length);
        // Its node is known when all are inserted.
        let sum = self.operand(Operand { descriptor, source: Source::Node { node: 0, output: 0 } });
        let node = &mut self.graph.nodes[position];
        node.op.visit_mut(&mut |id| *id = sum);
        let op = Binary { kind: BinaryKind::Add, a: scores, b: mask }.into();
        Some(Node { op, label: node.label.clone(), outputs: vec![sum] })
    }

    /// Inserts nodes before those at their positions.
    fn insert(&mut self, mut before: HashMap<usize, Node>) {
        let mut nodes = Vec::with_capacity(self.graph.nodes.len() + before.len());
        for (position, node) in std::mem::take(&mut self.graph.nodes).into_iter().enumerate() {
            nodes.extend(before.remove(&position));
            nodes.push(node);
        }
        for (number, node) in nodes.iter().enumerate() {
            for (output, id) in node.outputs.iter().enumerate() {
                self.graph.operands[id.0 as usize].source = Source::Node { node: number as u32, output: output as u32 };
            }
        }
        self.graph.nodes = nodes;
    }
}
