//! A value that is dequantized as it was quantized has been rounded, and nothing else: with arithmetic that joins the operators
//! around it. Models that were quantized statically have such a pair between any two operators. Compilers of shaders may take what is
//! added and subtracted again for nothing: this is for CPUs.

use super::products::Integers;
use crate::compiler::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::elementwise::{Binary, BinaryKind, Clamp, DequantizeLinear, QuantizeLinear, ReplaceNan};
use crate::graph::{ConstantBytes, DataType, Graph, Node, Number, Op, OperandId};

/// Replaces the pairs that no product of integers needs.
pub fn rounding(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let integers = Integers::find(graph, compilation)?;
    // By operand: whether such a product reads it.
    let mut multiplied = vec![false; graph.operands.len()];
    for &node in integers.of.iter().flatten().flatten() {
        if let Op::DequantizeLinear(op) = &graph.nodes[node].op {
            multiplied[op.input.0 as usize] = true;
        }
    }
    if !graph.nodes.iter().any(|node| pair(graph, &multiplied, node).is_some()) {
        return Ok(());
    }
    graph.rewrite(compilation, |graph, mut node| {
        if let Some(pair) = pair(graph, &multiplied, &node) {
            node.op = pair.rounded(graph, node.outputs[0]);
        }
        Ok(node)
    })
}

/// What is rounded, and how.
struct Pair {
    input: OperandId,
    scale: f32,
    /// The least and the greatest number of steps.
    bounds: [i32; 2],
    /// The steps from the zero point to the integer 0, which NaN is quantized to.
    of_nan: i32,
}

/// The bytes of a constant of one element.
fn known(graph: &Graph, id: OperandId) -> Option<&[u8]> {
    graph.bytes(id).filter(|_| graph.is_single(id)).map(ConstantBytes::as_slice)
}

/// The pair whose second node this is.
fn pair(graph: &Graph, multiplied: &[bool], node: &Node) -> Option<Pair> {
    let Op::DequantizeLinear(DequantizeLinear { input, scale, zero_point }) = &node.op else { return None };
    // The nodes before this one are in their new places.
    let (_, Node { op: Op::QuantizeLinear(quantize), .. }) = graph.maker(*input)? else { return None };
    let QuantizeLinear { input: original, scale: first_scale, zero_point: first_point } = quantize;
    let is_float = graph.descriptor(*original).data_type == DataType::Float32;
    let is_same =
        known(graph, *scale)? == known(graph, *first_scale)? && known(graph, *zero_point)? == known(graph, *first_point)?;
    let number = f32::from_le_bytes(known(graph, *scale).filter(|_| is_float)?.try_into().ok()?);
    let &[point] = known(graph, *zero_point)? else { return None };
    let (range, point) = match graph.descriptor(*input).data_type {
        DataType::Uint8 => ([0, 255], i32::from(point)),
        DataType::Int8 => ([-128, 127], i32::from(point as i8)),
        _ => return None,
    };
    let fits = is_same && number.is_normal() && !multiplied[input.0 as usize];
    fits.then_some(Pair { input: *original, scale: number, bounds: range.map(|bound| bound - point), of_nan: -point })
}

impl Pair {
    /// Nodes that round, and the last operator of them.
    fn rounded(&self, graph: &mut Graph, output: OperandId) -> Op {
        // Added to a number of a smaller size, this leaves no place for a fraction: what it is added to is rounded, halves to even.
        const NO_FRACTION: f32 = 12_582_912.0;
        let of_output = graph.descriptor(output).clone();
        let insert = |graph: &mut Graph, op: Op| graph.insert(op, of_output.clone());
        let (scale, raise) = (graph.number_constant(self.scale), graph.number_constant(NO_FRACTION));
        let steps = insert(graph, binary(BinaryKind::Div, self.input, scale));
        let [low, high] = self.bounds.map(|bound| Some(Number::Double(bound.into())));
        let steps = insert(graph, ReplaceNan { input: steps, number: self.of_nan.into() }.into());
        let bounded = insert(graph, Clamp { input: steps, min_value: low, max_value: high }.into());
        let raised = insert(graph, binary(BinaryKind::Add, bounded, raise));
        let whole = insert(graph, binary(BinaryKind::Sub, raised, raise));
        binary(BinaryKind::Mul, whole, scale)
    }
}

fn binary(kind: BinaryKind, a: OperandId, b: OperandId) -> Op {
    Binary { kind, a, b }.into()
}
