//! The graph editor: how passes look around in a graph, and change it.
//!
//! Most passes take the nodes out of a graph and push them again, each after what it needs now ([`Graph::rewrite`]). Until an
//! operand's node is pushed again, its number is that of the graph before: passes ask only for the makers of a node's own operands.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, Node, Op, Operand, OperandId, Source};

impl Graph {
    /// The node that makes an operand, and its number.
    pub(super) fn maker(&self, id: OperandId) -> Option<(usize, &Node)> {
        match self.operands[id.0 as usize].source {
            Source::Node { node, .. } => Some((node as usize, self.nodes.get(node as usize)?)),
            _ => None,
        }
    }

    /// The bytes of an operand that is a constant.
    pub(super) fn bytes(&self, id: OperandId) -> Option<&ConstantBytes> {
        match &self.operands[id.0 as usize].source {
            Source::Constant(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Whether an operand is one number.
    pub(super) fn is_single(&self, id: OperandId) -> bool {
        self.descriptor(id).shape.iter().all(|&size| size == 1)
    }

    /// How often each operand is used, by nodes and as an output.
    pub(super) fn uses(&self) -> Vec<usize> {
        let mut uses = vec![0; self.operands.len()];
        let mut count = |id: OperandId| uses[id.0 as usize] += 1;
        self.nodes.iter().for_each(|node| node.op.visit(&mut |_, id| count(id)));
        self.outputs.iter().for_each(|(_, id)| count(*id));
        uses
    }

    /// Takes the nodes out and pushes what a pass makes of each, with what it inserts before.
    ///
    /// # Errors
    /// Those of the pass; and when nobody wants the graph any more.
    pub(super) fn rewrite(
        &mut self,
        compilation: &Compilation<'_>,
        mut pass: impl FnMut(&mut Graph, Node) -> Result<Node>,
    ) -> Result<()> {
        for node in compilation.each(std::mem::take(&mut self.nodes)) {
            let node = pass(self, node?)?;
            self.push(node);
        }
        Ok(())
    }

    /// Appends a node.
    pub(super) fn push(&mut self, node: Node) {
        self.nodes.push(node);
        self.number(self.nodes.len() - 1);
    }

    /// Appends a node that makes a new operand of another one's data type.
    pub(super) fn insert_shaped(&mut self, op: impl Into<Op>, of: OperandId, shape: &[u32]) -> OperandId {
        let descriptor = self.descriptor(of).shaped(shape);
        self.insert(op, descriptor)
    }

    /// Appends a node that makes a new operand.
    pub(super) fn insert(&mut self, op: impl Into<Op>, descriptor: Descriptor) -> OperandId {
        let output = self.operand(descriptor);
        self.push(Node { op: op.into(), label: String::new(), outputs: vec![output] });
        output
    }

    /// A new operand, for the output of a node that is yet to be pushed.
    pub(super) fn operand(&mut self, descriptor: Descriptor) -> OperandId {
        self.add(descriptor, Source::Node { node: 0, output: 0 })
    }

    /// A new constant.
    pub(super) fn constant(&mut self, descriptor: Descriptor, bytes: ConstantBytes) -> OperandId {
        self.add(descriptor, Source::Constant(bytes))
    }

    /// A new constant of float32 numbers.
    pub(super) fn numbers_constant(&mut self, numbers: &[f32], shape: &[u32]) -> OperandId {
        let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        self.constant(Descriptor::new(DataType::Float32, shape.iter().copied()), ConstantBytes::new(bytes))
    }

    /// A new constant of one float32 number.
    pub(super) fn number_constant(&mut self, number: f32) -> OperandId {
        self.numbers_constant(&[number], &[])
    }

    fn add(&mut self, descriptor: Descriptor, source: Source) -> OperandId {
        self.operands.push(Operand { descriptor, source });
        OperandId(self.operands.len() as u32 - 1)
    }

    /// Tells operands which nodes make them, after nodes have been removed or inserted.
    pub(super) fn renumber(&mut self) {
        (0..self.nodes.len()).for_each(|number| self.number(number));
    }

    /// Tells the outputs of a node its number. Those that have become constants stay that.
    fn number(&mut self, number: usize) {
        for (position, id) in self.nodes[number].outputs.iter().enumerate() {
            if let source @ Source::Node { .. } = &mut self.operands[id.0 as usize].source {
                *source = Source::Node { node: number as u32, output: position as u32 };
            }
        }
    }
}

impl Descriptor {
    /// The same data type in another shape.
    pub(super) fn shaped(&self, shape: &[u32]) -> Descriptor {
        Descriptor::new(self.data_type, shape.iter().copied())
    }
}
