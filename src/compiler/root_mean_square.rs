//! RMS normalizations of float16 that are written out: `x / sqrt(mean(x²) + epsilon)`. The squares soon exceed the range of
//! float16, or vanish, so all of it is computed in float32 and rounded once, at its end.

use super::progress::Progress;
use super::recognise::Values;
use crate::error::Result;
use crate::graph::ops::elementwise::{Binary, BinaryKind, Cast, UnaryKind};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{ConstantBytes, DataType, Descriptor, Graph, Node, Op, Operand, OperandId, Source};
use std::collections::HashMap;

/// The normalization that ends in a node.
struct Found {
    /// What is normalized.
    input: OperandId,
    /// The values in between, which nobody else needs.
    inner: Vec<OperandId>,
}

impl Values<'_> {
    fn root_mean_square(&self, op: &Binary) -> Option<Found> {
        match op.kind {
            BinaryKind::Div => self.divided(op.a, op.b, vec![op.b]),
            BinaryKind::Mul => [(op.a, op.b), (op.b, op.a)].into_iter().find_map(|(input, factor)| {
                let inner = vec![factor];
                if let Some(root) = self.own_unary(factor, UnaryKind::Reciprocal) {
                    return self.divided(input, root, [inner, vec![root]].concat());
                }
                if let Some(quotient) = self.own_binary(factor, BinaryKind::Div).filter(|op| self.is_number(op.a, 1.0)) {
                    return self.divided(input, quotient.b, [inner, vec![quotient.b]].concat());
                }
                let power = self.own_binary(factor, BinaryKind::Pow).filter(|op| self.is_number(op.b, -0.5))?;
                self.mean_of_squares(input, power.a, inner)
            }),
            _ => None,
        }
    }

    /// An input that is divided by a root.
    fn divided(&self, input: OperandId, root: OperandId, inner: Vec<OperandId>) -> Option<Found> {
        self.mean_of_squares(input, self.own_unary(root, UnaryKind::Sqrt)?, inner)
    }

    /// Whether a value is the mean of the input's squares and a number.
    fn mean_of_squares(&self, input: OperandId, sum: OperandId, mut inner: Vec<OperandId>) -> Option<Found> {
        let op = self.own_binary(sum, BinaryKind::Add)?;
        let mean = match (self.number(op.a), self.number(op.b)) {
            (None, Some(_)) => op.a,
            (Some(_), None) => op.b,
            _ => return None,
        };
        let Op::Reduce(Reduce { kind: ReduceKind::Mean, input: square, .. }) = self.own_maker(mean)? else { return None };
        let Op::Binary(op) = self.own_maker(*square)? else { return None };
        let is_square = match op.kind {
            BinaryKind::Mul => op.a == input && op.b == input,
            BinaryKind::Pow => op.a == input && self.is_number(op.b, 2.0),
            _ => false,
        };
        inner.extend([sum, mean, *square]);
        is_square.then_some(Found { input, inner })
    }
}

/// Computes such normalizations in float32.
pub fn root_mean_square(graph: &mut Graph, progress: &Progress<'_>) -> Result<()> {
    let is_half = |graph: &Graph, id: OperandId| graph.descriptor(id).data_type == DataType::Float16;
    let uses = graph.uses();
    let view = Values { graph: &*graph, uses: &uses, progress };
    let mut found: HashMap<usize, Found> = HashMap::new();
    for node in progress.each(graph.nodes.iter().enumerate()) {
        let (position, node) = node?;
        if let Op::Binary(op) = &node.op
            && is_half(view.graph, node.outputs[0])
            && let Some(normalization) = view.root_mean_square(op)
        {
            found.insert(position, normalization);
        }
    }
    if found.is_empty() {
        return Ok(());
    }
    // The input of the normalization that a value is inside of.
    let inside: HashMap<OperandId, OperandId> =
        found.values().flat_map(|found| found.inner.iter().map(|&id| (id, found.input))).collect();
    for id in inside.keys() {
        graph.operands[id.0 as usize].descriptor.data_type = DataType::Float32;
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let mut wide: HashMap<OperandId, OperandId> = HashMap::new();
    for node in progress.each(nodes.into_iter().enumerate()) {
        let (position, mut node) = node?;
        let last = found.contains_key(&position);
        if !last && !inside.contains_key(&node.outputs[0]) {
            graph.nodes.push(node);
            continue;
        }
        node.op.visit_mut(&mut |id| {
            if is_half(graph, *id) {
                *id = *wide.entry(*id).or_insert_with(|| widened(graph, *id));
            }
        });
        if !last {
            graph.nodes.push(node);
            continue;
        }
        let output = node.outputs[0];
        let single = Descriptor::new(DataType::Float32, graph.descriptor(output).shape.iter().copied());
        node.outputs[0] = made(graph, single);
        let input = node.outputs[0];
        graph.nodes.push(node);
        let op = Cast { input, data_type: DataType::Float16 }.into();
        graph.nodes.push(Node { op, label: String::new(), outputs: vec![output] });
    }
    graph.renumber();
    Ok(())
}

/// A value that the next node makes.
fn made(graph: &mut Graph, descriptor: Descriptor) -> OperandId {
    graph.operands.push(Operand { descriptor, source: Source::Node { node: graph.nodes.len() as u32, output: 0 } });
    OperandId(graph.operands.len() as u32 - 1)
}

/// A value of float16 as float32.
fn widened(graph: &mut Graph, id: OperandId) -> OperandId {
    let operand = &graph.operands[id.0 as usize];
    let descriptor = Descriptor::new(DataType::Float32, operand.descriptor.shape.iter().copied());
    if let Source::Constant(bytes) = &operand.source {
        let halves = bytes.as_slice().as_chunks::<2>().0.iter();
        let singles: Vec<u8> = halves.flat_map(|&half| half::f16::from_le_bytes(half).to_f32().to_le_bytes()).collect();
        graph.operands.push(Operand { descriptor, source: Source::Constant(ConstantBytes::new(singles)) });
        return OperandId(graph.operands.len() as u32 - 1);
    }
    let wide = made(graph, descriptor);
    let op = Cast { input: id, data_type: DataType::Float32 }.into();
    graph.nodes.push(Node { op, label: String::new(), outputs: vec![wide] });
    wide
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::reference::interpret;
    use crate::compiler::prune::prune;
    use crate::graph::ops::elementwise::Unary;
    use crate::graph::{GraphBuilder, Limits, Number};
    use half::f16;
    use std::sync::Arc;

    /// How the inverse of the root is written.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Written {
        Divided,
        Reciprocal,
        Quotient,
        Power,
        /// Something else that is like it.
        Cubes,
    }

    fn graph(of: DataType, written: Written) -> Graph {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(of, [2, 2])).unwrap();
        let mut number = |number: f64| builder.scalar(of, Number::Double(number)).unwrap();
        let (two, three, epsilon, one, half) = (number(2.0), number(3.0), number(1e-5), number(1.0), number(-0.5));
        let mut push = |op: Op| builder.push_op(op, "").unwrap()[0];
        let binary = |kind, a, b| Op::from(Binary { kind, a, b });
        let square = match written {
            Written::Divided => push(binary(BinaryKind::Mul, x, x)),
            Written::Cubes => push(binary(BinaryKind::Pow, x, three)),
            _ => push(binary(BinaryKind::Pow, x, two)),
        };
        let mean = push(Reduce { kind: ReduceKind::Mean, input: square, axes: Some(vec![1]), keep_dimensions: true }.into());
        let sum = push(binary(BinaryKind::Add, epsilon, mean));
        let y = if written == Written::Power {
            let power = push(binary(BinaryKind::Pow, sum, half));
            push(binary(BinaryKind::Mul, x, power))
        } else {
            let root = push(Unary { kind: UnaryKind::Sqrt, input: sum }.into());
            match written {
                Written::Reciprocal => {
                    let inverse = push(Unary { kind: UnaryKind::Reciprocal, input: root }.into());
                    push(binary(BinaryKind::Mul, inverse, x))
                }
                Written::Quotient => {
                    let inverse = push(binary(BinaryKind::Div, one, root));
                    push(binary(BinaryKind::Mul, x, inverse))
                }
                _ => push(binary(BinaryKind::Div, x, root)),
            }
        };
        let mut graph = builder.build(vec![("y".to_owned(), y)]).unwrap();
        let progress = &Progress::unasked();
        root_mean_square(&mut graph, progress).unwrap();
        prune(&mut graph, progress).unwrap();
        graph
    }

    #[test]
    fn squares_may_exceed_float16() {
        for written in [Written::Divided, Written::Reciprocal, Written::Quotient, Written::Power] {
            let graph = graph(DataType::Float16, written);
            let x = [900.0, -300.0, 32_000.0, 0.0].map(f16::from_f64);
            let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            let found = interpret(&graph, &[&bytes]).remove(0);
            for (i, found) in found.as_chunks::<2>().0.iter().enumerate() {
                let row = &x[i / 2 * 2..][..2];
                let mean = row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>() / 2.0;
                let exact = x[i].to_f64() / (mean + 1e-5).sqrt();
                let found = f16::from_le_bytes(*found).to_f64();
                // One rounding to 11 bits, and some to 24.
                assert!((found - exact).abs() <= exact.abs() * 2f64.powi(-11) * 1.01, "{written:?}: {found}, not {exact}");
            }
        }
    }

    #[test]
    fn others_stay_as_they_are() {
        let casts = |of, written| graph(of, written).nodes.iter().filter(|node| node.op.row().name == "cast").count();
        assert_eq!(casts(DataType::Float16, Written::Divided), 2);
        assert_eq!(casts(DataType::Float16, Written::Cubes), 0);
        assert_eq!(casts(DataType::Float32, Written::Divided), 0);
    }
}
