//! What tests of rules and of graphs share.

use super::attribute::Value;
use super::ops::elementwise::{Binary, BinaryKind, Unary, UnaryKind};
use super::ops::matmul::Matmul;
use super::ops::movement::{Reshape, Transpose};
use super::ops::operator;
use super::ops::reduce::{Reduce, ReduceKind};
use super::{ConstantBytes, DataType, Descriptor, Graph, GraphBuilder, Limits, Number, Op, OperandId, Source};
use std::sync::Arc;

/// The descriptors of an operator's outputs, as text (`float32[2, 3]`), or the message of the error. Values name the
/// operands by their positions; they are in the order of the operator's row, and trailing ones may be left out.
pub fn infer(name: &str, operands: &[(DataType, &[u32])], values: &[Value]) -> Result<Vec<String>, String> {
    let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
    for (i, (data_type, shape)) in operands.iter().enumerate() {
        builder.input(&format!("{i}"), Descriptor::new(*data_type, shape.iter().copied())).unwrap();
    }
    let row = operator(name).expect("the operator is in the table");
    let outputs = builder.apply(row, values.iter().cloned(), "").map_err(|error| error.message().to_owned())?.to_vec();
    let operands = builder.operands();
    Ok(outputs.iter().map(|&id| operands.descriptor(id).to_string()).collect())
}

/// Checks that an operator's outputs are these, or that it refuses that argument: `Err("axis")`.
pub fn check(name: &str, operands: &[(DataType, &[u32])], values: &[Value], expected: Result<&[&str], &str>) {
    let found = infer(name, operands, values);
    let fits = match (&found, expected) {
        (Ok(found), Ok(expected)) => found == expected,
        (Err(message), Err(argument)) => message.starts_with(&format!("{name}: {argument}: found ")),
        _ => false,
    };
    assert!(fits, "{name} of {operands:?} with {values:?}\n   found {found:?}\nexpected {expected:?}");
}

/// Checks that a graph is valid: nodes stand after what they use, operands know the nodes that make them, and what is said of
/// these is what the rules say.
pub fn check_graph(graph: &Graph) {
    let mut checked = GraphBuilder::new(Arc::new(Limits::everything()));
    let mut ids = vec![None; graph.operands.len()];
    for (i, operand) in graph.operands.iter().enumerate() {
        ids[i] = match &operand.source {
            Source::Input { name } => Some(checked.input(name, operand.descriptor.clone()).unwrap()),
            Source::Constant(bytes) => Some(checked.constant(operand.descriptor.clone(), bytes.clone()).unwrap()),
            Source::Node { .. } => None,
        };
    }
    for (number, node) in graph.nodes.iter().enumerate() {
        let mut op = node.op.clone();
        op.visit_mut(&mut |id| *id = ids[id.0 as usize].expect("nodes stand behind what they use"));
        let outputs = checked.push_op(op, "").unwrap().to_vec();
        for (id, output) in node.outputs.iter().zip(outputs) {
            assert_eq!(checked.operands().descriptor(output), graph.descriptor(*id));
            assert!(matches!(graph.operands[id.0 as usize].source, Source::Node { node, .. } if node as usize == number));
            ids[id.0 as usize] = Some(output);
        }
    }
}

/// Numbers between -2 and 2 that look drawn: the same for a seed.
pub fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let number = |at: usize| ((at as u32 + 1).wrapping_mul(2_654_435_761).wrapping_add(seed.wrapping_mul(40_503)) >> 20) as f32;
    (0..count).map(|at| number(at) / 1024.0 - 2.0).collect()
}

/// The bytes of numbers, in the machine's order.
pub fn bytes_of(numbers: impl IntoIterator<Item = f32>) -> Vec<u8> {
    numbers.into_iter().flat_map(f32::to_ne_bytes).collect()
}

/// A graph under construction. Suites of tests keep data of their own with it, and have methods of their own for that type.
pub struct GraphSketch<Data = ()> {
    pub builder: GraphBuilder,
    outputs: Vec<OperandId>,
    pub data: Data,
}

impl Default for GraphSketch {
    fn default() -> Self {
        GraphSketch { builder: GraphBuilder::new(Arc::new(Limits::everything())), outputs: Vec::new(), data: () }
    }
}

impl GraphSketch {
    /// The same graph with data.
    pub fn and<Data>(self, data: Data) -> GraphSketch<Data> {
        GraphSketch { builder: self.builder, outputs: self.outputs, data }
    }
}

impl<Data> GraphSketch<Data> {
    /// An input of float32.
    pub fn input(&mut self, name: &str, shape: &[u32]) -> OperandId {
        self.input_of(name, DataType::Float32, shape)
    }

    pub fn input_of(&mut self, name: &str, data_type: DataType, shape: &[u32]) -> OperandId {
        self.builder.input(name, Descriptor::new(data_type, shape.iter().copied())).unwrap()
    }

    pub fn constant(&mut self, data_type: DataType, shape: &[u32], bytes: Vec<u8>) -> OperandId {
        self.builder.constant(Descriptor::new(data_type, shape.iter().copied()), ConstantBytes::new(bytes)).unwrap()
    }

    pub fn floats(&mut self, shape: &[u32], numbers: impl IntoIterator<Item = f32>) -> OperandId {
        self.constant(DataType::Float32, shape, bytes_of(numbers))
    }

    pub fn integers(&mut self, shape: &[u32], numbers: impl IntoIterator<Item = i32>) -> OperandId {
        self.constant(DataType::Int32, shape, numbers.into_iter().flat_map(i32::to_ne_bytes).collect())
    }

    /// A constant of [`numbers`].
    pub fn weights(&mut self, shape: &[u32], seed: u32) -> OperandId {
        self.floats(shape, numbers(shape.iter().product::<u32>() as usize, seed))
    }

    pub fn scalar(&mut self, number: f32) -> OperandId {
        self.builder.scalar(DataType::Float32, Number::Double(number.into())).unwrap()
    }

    /// The output of an operator that has one, or the first.
    pub fn push(&mut self, op: impl Into<Op>) -> OperandId {
        self.builder.push_op(op, "the node").unwrap()[0]
    }

    pub fn binary(&mut self, kind: BinaryKind, a: OperandId, b: OperandId) -> OperandId {
        self.push(Binary { kind, a, b })
    }

    pub fn add(&mut self, a: OperandId, b: OperandId) -> OperandId {
        self.binary(BinaryKind::Add, a, b)
    }

    pub fn unary(&mut self, kind: UnaryKind, input: OperandId) -> OperandId {
        self.push(Unary { kind, input })
    }

    /// Along one axis, which stays.
    pub fn reduce(&mut self, kind: ReduceKind, input: OperandId, axis: u32) -> OperandId {
        self.push(Reduce { kind, input, axes: Some(vec![axis]), keep_dimensions: true })
    }

    pub fn reshape(&mut self, input: OperandId, shape: &[u32]) -> OperandId {
        self.push(Reshape { input, new_shape: shape.to_vec() })
    }

    pub fn product(&mut self, a: OperandId, b: OperandId) -> OperandId {
        self.push(Matmul { a, b })
    }

    pub fn transpose(&mut self, input: OperandId, permutation: &[u32]) -> OperandId {
        self.push(Transpose { input, permutation: Some(permutation.to_vec()) })
    }

    /// An output of the graph, with the next of the names y0, y1, ….
    pub fn end(&mut self, output: OperandId) {
        self.outputs.push(output);
    }

    /// The graph of the outputs that were named by [`GraphSketch::end`].
    pub fn build(mut self) -> Graph {
        let outputs = self.outputs.iter().enumerate().map(|(at, &id)| (format!("y{at}"), id)).collect();
        self.builder.build(outputs).unwrap()
    }
}
