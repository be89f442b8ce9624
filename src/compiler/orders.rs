//! Transpositions that cost nothing: matrix products read operands and write outputs whose dimensions lie in another order,
//! and the first convolutions of a network read pictures that have their channels first.

use super::compilation::Compilation;
use super::fuse::Fusion;
use super::pattern::Pattern;
use super::prologue::Prologues;
use super::quantized::Integers;
use crate::error::Result;
use crate::graph::ops::movement::Transpose;
use crate::graph::{DataType, Graph, Op, OperandId};

/// Which transpositions are no steps of their own.
pub struct Orders {
    /// By operand: the permutation of a transposition whose consumers all read its input instead.
    pub reads: Vec<Option<Vec<u32>>>,
    /// By node: the transposition of its output that it may do itself.
    pub writes: Vec<Option<usize>>,
}

impl Orders {
    pub fn find(graph: &Graph, integers: &Integers, before: &Prologues, compilation: &Compilation<'_>) -> Result<Orders> {
        let mut orders = Orders { reads: vec![None; graph.operands.len()], writes: vec![None; graph.nodes.len()] };
        if !compilation.preferences.orders {
            return Ok(orders);
        }
        // Whether all that is known of an operand's consumers allows it to be read in another order.
        let mut only_products = vec![true; graph.operands.len()];
        let mut only_pictures = vec![true; graph.operands.len()];
        // What attention dequantizes, and by what.
        let mut only_dequantized = vec![true; graph.operands.len()];
        let mut dequantizes = vec![false; graph.nodes.len()];
        before.dequantized.iter().flatten().flatten().for_each(|&node| dequantizes[node] = true);
        let uses = graph.uses();
        let is_stack = |node: usize| integers.of[node].is_none() && is_stack(graph, &graph.nodes[node].op);
        for node in compilation.each(graph.nodes.iter().enumerate()) {
            let (position, node) = node?;
            let is_product = is_stack(position);
            node.op.visit(&mut |_, id| {
                only_products[id.0 as usize] &= is_product;
                only_dequantized[id.0 as usize] &= dequantizes[position];
                only_pictures[id.0 as usize] &= matches!(&node.op, Op::Conv2d(op) if op.input == id)
                    && integers.of[position].is_none()
                    && is_last_moved(graph, id)
                    && compilation.capabilities.accepts(&picture(graph, position));
            });
        }
        for (_, id) in &graph.outputs {
            only_products[id.0 as usize] = false;
            only_pictures[id.0 as usize] = false;
            only_dequantized[id.0 as usize] = false;
        }
        for node in compilation.each(graph.nodes.iter().enumerate()) {
            let (position, node) = node?;
            let Op::Transpose(op) = &node.op else { continue };
            let output = node.outputs[0].0 as usize;
            let is_float = graph.descriptor(node.outputs[0]).data_type == DataType::Float32;
            let is_picture = only_pictures[output] && op.permutation.as_deref() == Some(&LAST);
            let is_readable = is_float && (only_products[output] || is_picture) || only_dequantized[output];
            if is_readable && uses[output] > 0 && !graph.is_constant(op.input) {
                orders.reads[output] = Some(permutation(graph, op));
                continue;
            }
            if !is_float {
                continue;
            }
            let Some((maker, _)) = graph.maker(op.input) else { continue };
            let is_last_kept = permutation(graph, op).last().is_some_and(|&last| last as usize + 1 == rank(graph, op.input));
            if is_last_kept && uses[op.input.0 as usize] == 1 && is_stack(maker) {
                orders.writes[maker] = Some(position);
            }
        }
        Ok(orders)
    }

    /// Whether a node is a transposition that others do.
    pub fn is_absorbed(&self, graph: &Graph, fusion: &Fusion, position: usize) -> bool {
        let Op::Transpose(op) = &graph.nodes[position].op else { return false };
        let is_written =
            |maker: usize| self.writes[maker] == Some(position) && fusion.then[maker].is_empty() && !fusion.is_fused[maker];
        self.reads[graph.nodes[position].outputs[0].0 as usize].is_some()
            || graph.maker(op.input).is_some_and(|(maker, _)| is_written(maker))
    }

    /// The order in which a step writes its output, when that is a transposition of what the node makes.
    pub fn written(&self, graph: &Graph, node: usize, outputs: &[OperandId]) -> Option<Vec<u32>> {
        let transpose = self.writes[node].filter(|&transpose| graph.nodes[transpose].outputs.as_slice() == outputs)?;
        match &graph.nodes[transpose].op {
            Op::Transpose(op) => Some(permutation(graph, op)),
            _ => None,
        }
    }
}

/// The permutation that puts the channels of an image last.
const LAST: [u32; 4] = [0, 2, 3, 1];

/// A convolution that reads its image with the channels first.
fn picture(graph: &Graph, position: usize) -> Pattern<'_> {
    let pattern = Pattern::of(graph, &[], position);
    let Op::Conv2d(op) = &pattern.op else { return pattern };
    let input = op.input;
    pattern.ordered(input, &LAST)
}

/// Whether an operand is a transposition that puts channels last.
fn is_last_moved(graph: &Graph, id: OperandId) -> bool {
    let Some((_, node)) = graph.maker(id) else { return false };
    matches!(&node.op, Op::Transpose(op) if op.permutation.as_deref() == Some(&LAST))
}

fn rank(graph: &Graph, id: OperandId) -> usize {
    graph.descriptor(id).shape.len()
}

fn permutation(graph: &Graph, op: &Transpose) -> Vec<u32> {
    op.permutation.clone().unwrap_or_else(|| (0..rank(graph, op.input) as u32).rev().collect())
}

/// Whether an operator is a product of float32 matrices that are both computed.
fn is_stack(graph: &Graph, op: &Op) -> bool {
    let Op::Matmul(op) = op else { return false };
    let is_computed = |id: OperandId| !graph.is_constant(id);
    graph.descriptor(op.a).data_type == DataType::Float32 && is_computed(op.a) && is_computed(op.b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Cpu;
    use crate::compiler::schedule;
    use crate::compiler::testing::everything_of;
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::elementwise::{Binary, BinaryKind};
    use crate::graph::ops::layout::Conv2dFilterOperandLayout::Oihw;
    use crate::graph::ops::layout::InputOperandLayout;
    use crate::graph::{ConstantBytes, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    /// The steps of a convolution of an image that has its channels first, and of what else reads that image.
    fn steps(image: [u32; 4], outputs: u32, window: u32, is_read_otherwise: bool) -> Vec<&'static str> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, image)).unwrap();
        let filter = Descriptor::new(DataType::Float32, [outputs, image[1], window, window]);
        let bytes = ConstantBytes::new(vec![0; filter.byte_length()]);
        let filter = builder.constant(filter, bytes).unwrap();
        let last = builder.push_op(Transpose { input: x, permutation: Some(LAST.to_vec()) }, "").unwrap()[0];
        let conv = Conv2d { padding: [1; 4], strides: [2; 2], ..Conv2d::new(last, filter, InputOperandLayout::Nhwc, Oihw) };
        let conv = builder.push_op(conv, "").unwrap()[0];
        let mut outputs = vec![("y".into(), conv)];
        if is_read_otherwise {
            outputs.push(("z".into(), builder.push_op(Binary { kind: BinaryKind::Add, a: last, b: last }, "").unwrap()[0]));
        }
        let cpu = Cpu::new(1);
        let schedule = schedule(&builder.build(outputs).unwrap(), &Compilation::new(&everything_of(&cpu))).unwrap();
        schedule.steps.iter().map(|step| step.op.row().name).collect()
    }

    #[test]
    fn pictures_are_read_where_they_are() {
        assert_eq!(steps([1, 3, 20, 18], 16, 3, false), ["conv2d"]);
        assert_eq!(steps([1, 3, 20, 18], 16, 3, true), ["transpose", "conv2d", "add"]);
        for (image, outputs, window) in
            [([1, 5, 20, 18], 16, 3), ([1, 3, 20, 18], 4, 3), ([1, 3, 3, 100], 16, 3), ([1, 3, 70, 70], 90, 16)]
        {
            assert_eq!(steps(image, outputs, window, false), ["transpose", "conv2d"], "{image:?}");
        }
    }
}
