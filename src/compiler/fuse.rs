//! Fuses element-wise operators into the operator that makes their data, so that these are finished while they are in the
//! cache: biases, activations, residual additions; on backends that make code for it, whole chains.

use super::capabilities::{Filter, Fusing};
use super::compilation::Compilation;
use super::quantized::Integers;
use crate::error::Result;
use crate::graph::ops::elementwise::{BinaryKind, UnaryKind};
use crate::graph::{DataType, Graph, Node, Op, OperandId, Source};

/// Which nodes run as part of which.
pub struct Fusion {
    /// By node: the nodes that are done to its output, in order.
    pub then: Vec<Vec<usize>>,
    /// By node: whether it runs as part of another.
    pub is_fused: Vec<bool>,
}

impl Fusion {
    /// By node: the one whose step it runs in, if that is another's.
    pub fn heads(&self) -> Vec<Option<usize>> {
        let mut heads = vec![None; self.then.len()];
        for (head, then) in self.then.iter().enumerate() {
            then.iter().for_each(|&node| heads[node] = Some(head));
        }
        heads
    }

    /// Takes a node out of the step that it runs in, and with it those that follow it there.
    pub fn part(&mut self, head: usize, node: usize) {
        if let Some(at) = self.then[head].iter().position(|&follower| follower == node) {
            for parted in self.then[head].drain(at..) {
                self.is_fused[parted] = false;
            }
        }
    }
}

/// Finds the chains. A node joins when it is the only consumer of the chain's value so far, leaves its shape alone, and
/// everything else that it reads is there before the chain begins.
/// A product of integers is quantized again in the end, if that follows.
pub fn fuse(graph: &Graph, integers: &Integers, compilation: &Compilation<'_>) -> Result<Fusion> {
    let fusing = compilation.preferences.fusing;
    let mut fusion = Fusion { then: vec![Vec::new(); graph.nodes.len()], is_fused: vec![false; graph.nodes.len()] };
    let consumers = consumers(graph);
    'heads: for node in compilation.each(graph.nodes.iter().enumerate()) {
        let (head, node) = node?;
        let leads = match (&node.op, fusing) {
            (Op::Conv2d(_) | Op::Matmul(_) | Op::Gemm(_) | Op::BlockQuantizedMatmul(_), _) => true,
            (Op::QuantizedMatmul(_), Fusing::Quick) => true,
            // One that has joined another leads nothing itself.
            (op, Fusing::Chains) => is_elementwise(op) && !fusion.is_fused[head],
            (op, Fusing::Quick) => {
                let rounds = rounding_by(graph, &consumers, head).is_some();
                !fusion.is_fused[head] && (rounds || leads_quick(graph, op, node.outputs[0], compilation))
            }
            (_, Fusing::Products) => false,
        };
        if !leads {
            continue;
        }
        let mut value = node.outputs[0];
        let mut join = |next: usize| {
            compilation.count();
            fusion.then[head].push(next);
            fusion.is_fused[next] = true;
            graph.nodes[next].outputs[0]
        };
        if fusing == Fusing::Quick
            && let Some(back) = rounding_by(graph, &consumers, head)
        {
            value = join(back);
        }
        let is_of_bytes = matches!(node.op, Op::QuantizedMatmul(_));
        if fusing == Fusing::Quick && (integers.is_whole[head] || is_of_bytes) {
            for (next, is_last) in whole_numbers(graph, &consumers, value, head) {
                value = join(next);
                if is_last {
                    continue 'heads;
                }
            }
            // Sums that stay integers.
            if graph.descriptor(value).data_type == DataType::Int32 {
                continue;
            }
        }
        while let Consumers::One(next) = consumers[value.0 as usize] {
            if fusing == Fusing::Quick
                && !is_slow_convolution(graph, &node.op, compilation)
                && let Some(back) = rounding_by(graph, &consumers, next)
            {
                join(next);
                value = join(back);
                continue;
            }
            let follower = &graph.nodes[next];
            let (before, after) = (graph.descriptor(value), graph.descriptor(follower.outputs[0]));
            let fits = match fusing {
                Fusing::Products => before == after && matches!(follower.op, Op::Activation(_) | Op::Clamp(_) | Op::Binary(_)),
                Fusing::Quick if integers.of[head].is_some() || is_of_bytes => {
                    quantizes(graph, &follower.op)
                        || before == after && follows_quick(graph, &follower.op, value, None, compilation)
                }
                Fusing::Quick => before == after && follows_quick(graph, &follower.op, value, Some(&node.op), compilation),
                Fusing::Chains => before.shape == after.shape && is_elementwise(&follower.op),
            };
            if !fits || !joins(graph, &follower.op, value, head) {
                break;
            }
            value = join(next);
            if fusing == Fusing::Quick && quantizes(graph, &follower.op) {
                break;
            }
        }
    }
    Ok(fusion)
}

/// Whether an operator does something to each element. (Those that only copy are no steps, or are there to copy.)
fn is_elementwise(op: &Op) -> bool {
    op.elementwise().is_some() && !matches!(op, Op::Unary(unary) if unary.kind == UnaryKind::Identity)
}

/// The cast back to float32, if a node is a cast to float16 that nobody else looks at: the two of them round a value.
fn rounding_by(graph: &Graph, consumers: &[Consumers], position: usize) -> Option<usize> {
    let is_cast = |node: &Node, from, to| {
        let Op::Cast(op) = &node.op else { return false };
        graph.descriptor(op.input).data_type == from && op.data_type == to
    };
    let node = &graph.nodes[position];
    let Consumers::One(back) = consumers[node.outputs[0].0 as usize] else { return None };
    let is_pair =
        is_cast(node, DataType::Float32, DataType::Float16) && is_cast(&graph.nodes[back], DataType::Float16, DataType::Float32);
    is_pair.then_some(back)
}

/// What follows a product whose results are integers, up to where they become float32 again: the cast to int32, unless they are
/// that, sums of those with a line or a number, and the cast back. The last one says so if it is not that cast.
fn whole_numbers(graph: &Graph, consumers: &[Consumers], mut value: OperandId, head: usize) -> Vec<(usize, bool)> {
    let mut found = Vec::new();
    let mut is_int32 = graph.descriptor(value).data_type == DataType::Int32;
    let cast_to = |node: usize, to: DataType| matches!(&graph.nodes[node].op, Op::Cast(cast) if cast.data_type == to);
    while let Consumers::One(next) = consumers[value.0 as usize] {
        let op = &graph.nodes[next].op;
        let is_back = is_int32 && cast_to(next, DataType::Float32);
        let is_sum = matches!(op, Op::Binary(op) if op.kind == BinaryKind::Add);
        let adds = || is_sum && is_line(graph, op, value) && joins(graph, op, value, head);
        if !(is_back || if is_int32 { adds() } else { cast_to(next, DataType::Int32) }) {
            break;
        }
        is_int32 = true;
        found.push((next, false));
        if is_back {
            return found;
        }
        value = graph.nodes[next].outputs[0];
    }
    found.iter_mut().last().into_iter().for_each(|(_, is_last)| *is_last = true);
    found
}

/// Whether the backend has a fast kernel for a convolution.
fn is_fast_convolution(graph: &Graph, op: &Op, compilation: &Compilation<'_>) -> bool {
    let filter = |id: OperandId| Filter { descriptor: graph.descriptor(id), is_constant: graph.is_constant(id) };
    match op {
        Op::Conv2d(conv) => compilation.capabilities.is_fast_convolution(op, filter(conv.filter)),
        Op::ConvTranspose2d(conv) => compilation.capabilities.is_fast_convolution(op, filter(conv.filter)),
        _ => false,
    }
}

/// Whether an operator is a convolution without a fast kernel, which does only simple operators to what it has computed.
fn is_slow_convolution(graph: &Graph, op: &Op, compilation: &Compilation<'_>) -> bool {
    matches!(op, Op::Conv2d(_)) && !is_fast_convolution(graph, op, compilation)
}

/// Whether the backend does an operator in a few vector instructions.
fn is_quick(graph: &Graph, op: &Op, compilation: &Compilation<'_>) -> bool {
    compilation.capabilities.is_quick(op, &|id| number(graph, id))
}

/// Whether an element-wise operator begins a quick chain, or a transposed convolution for which there is a fast kernel.
fn leads_quick(graph: &Graph, op: &Op, output: OperandId, compilation: &Compilation<'_>) -> bool {
    if let Op::ConvTranspose2d(_) = op {
        return is_fast_convolution(graph, op, compilation);
    }
    let is_whole = |id: &OperandId| graph.descriptor(*id) == graph.descriptor(output);
    let begins = match op {
        // The value so far has the output's shape from the beginning.
        Op::Binary(binary) if binary.a != binary.b => {
            [binary.a, binary.b].into_iter().find(is_whole).is_some_and(|value| broadcasts_simply(graph, op, value))
        }
        Op::Binary(_) => false,
        Op::Prelu(prelu) => is_whole(&prelu.input) && broadcasts_simply(graph, op, prelu.input),
        _ => true,
    };
    begins
        && graph.descriptor(output).data_type == DataType::Float32
        && (compilation.capabilities.is_always_fused(op) || is_quick(graph, op, compilation))
}

/// Whether an operator is done quickly to a value that the first one of a chain has made.
fn follows_quick(graph: &Graph, op: &Op, value: OperandId, first: Option<&Op>, compilation: &Compilation<'_>) -> bool {
    let is_always = compilation.capabilities.is_always_fused(op);
    if first.is_some_and(|first| is_slow_convolution(graph, first, compilation)) {
        return is_always;
    }
    let is_float = graph.descriptor(value).data_type == DataType::Float32;
    (is_always || is_float && is_quick(graph, op, compilation)) && broadcasts_simply(graph, op, value)
}

/// Whether an operator makes 8-bit integers of float32, with one scale for all.
fn quantizes(graph: &Graph, op: &Op) -> bool {
    let Op::QuantizeLinear(op) = op else { return false };
    let is_byte = matches!(graph.descriptor(op.zero_point).data_type, DataType::Int8 | DataType::Uint8);
    let is_one = graph.descriptor(op.scale).shape.iter().all(|&size| size == 1);
    is_byte && is_one && graph.descriptor(op.input).data_type == DataType::Float32
}

/// A constant of one float32 number.
fn number(graph: &Graph, id: OperandId) -> Option<f32> {
    let bytes = graph.bytes(id).filter(|_| graph.descriptor(id).data_type == DataType::Float32)?;
    bytes.as_slice().try_into().ok().map(f32::from_le_bytes)
}

/// Whether the other operand has the value's shape, or is one number or one line.
fn broadcasts_simply(graph: &Graph, op: &Op, value: OperandId) -> bool {
    let other = match op {
        Op::Binary(op) if op.a == value => op.b,
        // A power is one of the value so far.
        Op::Binary(op) if op.kind == BinaryKind::Pow => return false,
        Op::Binary(op) => op.a,
        Op::Prelu(op) if op.input == value => op.slope,
        Op::Prelu(_) => return false,
        _ => return true,
    };
    is_beside(graph, other, value) || graph.descriptor(other).shape == graph.descriptor(value).shape
}

/// Whether a sum is that of a value and one number or one line.
fn is_line(graph: &Graph, op: &Op, value: OperandId) -> bool {
    let Op::Binary(op) = op else { return false };
    let is_same = |id: OperandId| graph.descriptor(id).shape == graph.descriptor(value).shape;
    let other = if op.a == value { op.b } else { op.a };
    is_beside(graph, other, value) && (other != value) && (is_same(op.a) || is_same(op.b))
}

/// Whether an operand is one number, or one line of a value.
fn is_beside(graph: &Graph, other: OperandId, value: OperandId) -> bool {
    let (shape, full) = (&graph.descriptor(other).shape, &graph.descriptor(value).shape);
    let count = shape.iter().map(|&size| size as usize).product::<usize>();
    let is_line = full.last().is_some_and(|&last| shape.last() == Some(&last) && count == last as usize);
    shape.len() <= full.len() && (count == 1 || is_line)
}

fn joins(graph: &Graph, op: &Op, value: OperandId, head: usize) -> bool {
    let mut there = true;
    let mut uses = 0;
    op.visit(&mut |_, id| match graph.operands[id.0 as usize].source {
        _ if id == value => uses += 1,
        Source::Node { node, .. } => there &= (node as usize) < head,
        Source::Input { .. } | Source::Constant(_) => {}
    });
    there && uses == 1
}

/// Who reads an operand.
#[derive(Clone, Copy, PartialEq)]
enum Consumers {
    Nobody,
    One(usize),
    /// Several, one that reads it several times, or the caller of the graph.
    More,
}

fn consumers(graph: &Graph) -> Vec<Consumers> {
    let mut consumers = vec![Consumers::Nobody; graph.operands.len()];
    for (position, node) in graph.nodes.iter().enumerate() {
        node.op.visit(&mut |_, id| {
            let consumer = &mut consumers[id.0 as usize];
            *consumer = match consumer {
                Consumers::Nobody => Consumers::One(position),
                _ => Consumers::More,
            };
        });
    }
    for (_, id) in &graph.outputs {
        consumers[id.0 as usize] = Consumers::More;
    }
    consumers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Cpu;
    use crate::compiler::testing::everything_of;
    use crate::graph::ops::conv::ConvTranspose2d;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind, Swish};
    use crate::graph::ops::layout::{ConvTranspose2dFilterOperandLayout, InputOperandLayout};
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::softmax::Softmax;
    use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    /// A product with `follow` done to it; how many nodes are fused.
    fn fused(follow: impl Fn(&mut GraphBuilder, OperandId, OperandId) -> Vec<OperandId>) -> usize {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, [4, 4])).unwrap();
        let product = builder.push_op(Matmul { a: x, b: x }, "").unwrap()[0];
        let outputs = follow(&mut builder, x, product);
        let outputs = outputs.into_iter().enumerate().map(|(i, id)| (format!("{i}"), id)).collect();
        let graph = builder.build(outputs).unwrap();
        let cpu = Cpu::new(1);
        let of_everything = everything_of(&cpu);
        let compilation = Compilation::new(&of_everything);
        fuse(&graph, &Integers::none(&graph), &compilation).unwrap().then.iter().map(Vec::len).sum()
    }

    fn relu(builder: &mut GraphBuilder, input: OperandId) -> OperandId {
        builder.push_op(Activation { kind: ActivationKind::Relu, input }, "").unwrap()[0]
    }

    fn add(builder: &mut GraphBuilder, a: OperandId, b: OperandId) -> OperandId {
        builder.push_op(Binary { kind: BinaryKind::Add, a, b }, "").unwrap()[0]
    }

    #[test]
    fn chains_join_what_makes_their_data() {
        assert_eq!(
            fused(|builder, x, product| {
                let sum = add(builder, x, product);
                vec![relu(builder, sum)]
            }),
            2
        );
    }

    #[test]
    fn transposed_convolutions_with_fast_kernels_lead() {
        let count = |groups: u32, outputs: usize| {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let x = builder.input("x", Descriptor::new(DataType::Float32, [1, 4, 4, 8])).unwrap();
            let filter = Descriptor::new(DataType::Float32, [2, 2, outputs as u32, 8]);
            let filter = builder.constant(filter, ConstantBytes::new(vec![0; 4 * outputs * 8 * 4])).unwrap();
            let (input_layout, filter_layout) = (InputOperandLayout::Nhwc, ConvTranspose2dFilterOperandLayout::Hwoi);
            let op = ConvTranspose2d::new(x, filter, input_layout, filter_layout);
            let made = builder.push_op(ConvTranspose2d { strides: [2; 2], groups, ..op }, "").unwrap()[0];
            let output = relu(&mut builder, made);
            let graph = builder.build(vec![("y".to_owned(), output)]).unwrap();
            let cpu = Cpu::new(1);
            fuse(&graph, &Integers::none(&graph), &Compilation::new(&everything_of(&cpu))).unwrap().then[0].len()
        };
        assert_eq!([count(1, 3), count(2, 8), count(8, 1)], [1, 1, 0]);
    }

    #[test]
    fn element_wise_operators_are_one_chain() {
        let chain = fused(|builder, x, product| {
            let first = relu(builder, x);
            let sum = add(builder, first, product);
            vec![relu(builder, sum), product]
        });
        assert_eq!(chain, 2);
    }

    #[test]
    fn a_factor_of_itself_joins() {
        let chain = fused(|builder, _, product| {
            let gated = builder.push_op(Swish { input: product, alpha: 1.702 }, "").unwrap()[0];
            vec![relu(builder, gated)]
        });
        assert_eq!(chain, 2);
    }

    #[test]
    fn a_value_that_others_need_is_kept() {
        assert_eq!(fused(|builder, _, product| vec![relu(builder, product), product]), 0);
        assert_eq!(fused(|builder, _, product| vec![add(builder, product, product)]), 0);
        // The other operand is made after the product.
        assert_eq!(
            fused(|builder, x, product| {
                let late = builder.push_op(Softmax { input: x, axis: 1 }, "").unwrap()[0];
                vec![add(builder, product, late)]
            }),
            0
        );
    }
}
