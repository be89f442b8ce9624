//! Puts the channels of images last, for backends whose convolutions are faster so.
//!
//! Convolutions and pools in nchw become ones in nhwc. Their values stay so through element-wise operators and whatever
//! else can follow; where something needs the order that the graph has, a transpose is inserted, and where an image has one
//! pixel or one channel, a reshape, which costs nothing. An image has as many bytes either way.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::Elementwise;
use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
use crate::graph::ops::elementwise::DequantizeLinear;
use crate::graph::ops::layout::InputOperandLayout::{Nchw, Nhwc};
use crate::graph::ops::movement::{Reshape, Transpose};
use crate::graph::ops::reduce::{Reduce, ReduceKind};
use crate::graph::{DataType, Graph, Node, Op, OperandId};

/// For each dimension of an image with the channels last, where it is among `[batch, channels, height, width]`. The channels
/// may be several dimensions, as where they are shuffled.
fn to_last(rank: usize) -> Vec<u32> {
    let rank = rank as u32;
    [0, rank - 2, rank - 1].into_iter().chain(1..rank - 2).collect()
}

/// The way back.
fn to_first(rank: usize) -> Vec<u32> {
    [0].into_iter().chain(3..rank as u32).chain([1, 2]).collect()
}

/// Moves an axis of an image to where it is with the channels last.
fn place(axis: &mut u32) {
    *axis = to_first(4)[*axis as usize];
}

fn ordered(shape: &[u32], order: &[u32]) -> Vec<u32> {
    order.iter().map(|&i| shape[i as usize]).collect()
}

pub fn channels_last(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    let transposed_outputs = compilation.preferences.transposed_outputs;
    let is_candidate = |node: &Node| match &node.op {
        Op::Conv2d(op) => suits(graph, op),
        Op::ConvTranspose2d(op) => transposed_suits(graph, op, transposed_outputs),
        Op::Pool2d(_) => true,
        _ => false,
    };
    if !graph.nodes.iter().any(is_candidate) {
        return Ok(());
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let count = graph.operands.len();
    let orders = (0..count).map(|i| Orders { first: Some(OperandId(i as u32)), last: None, shape: shape_of(graph, i) }).collect();
    let mut rewrite = Rewrite { graph, orders, transposed_outputs };
    for node in compilation.each(nodes) {
        rewrite.node(node?);
    }
    for i in 0..rewrite.graph.outputs.len() {
        let id = rewrite.graph.outputs[i].1;
        rewrite.graph.outputs[i].1 = rewrite.first(id);
    }
    Ok(())
}

fn shape_of(graph: &Graph, position: usize) -> Vec<u32> {
    graph.operands[position].descriptor.shape.to_vec()
}

/// Whether a convolution is one that backends have fast kernels for.
fn suits(graph: &Graph, op: &Conv2d) -> bool {
    // Of a product of integers the filter is one that will be dequantized.
    let is_known =
        graph.is_constant(op.filter) || dequantizes(graph, op.filter).is_some_and(|filter| graph.is_constant(filter.input));
    graph.descriptor(op.input).data_type == DataType::Float32 && is_known
}

/// What dequantizes integers with one scale for all, if that makes an operand.
fn dequantizes(graph: &Graph, id: OperandId) -> Option<&DequantizeLinear> {
    match &graph.maker(id)?.1.op {
        Op::DequantizeLinear(op) => Some(op),
        _ => None,
    }
}

/// The same for a transposed convolution with so many output channels at least.
fn transposed_suits(graph: &Graph, op: &ConvTranspose2d, least: u32) -> bool {
    let [_, outputs, ..] = op.filter_layout.to_iohw(&graph.descriptor(op.filter).shape);
    graph.descriptor(op.input).data_type == DataType::Float32 && outputs >= least && graph.is_constant(op.filter)
}

/// Whether what is left of an image without the dimensions that are reduced is in the same order with the channels last, as the
/// mean of each channel is: of the channels and the rows and columns only the ones or the others are left.
fn keeps_order(op: &Reduce, rank: usize) -> bool {
    let is_left = |axis: u32| op.axes.as_ref().is_some_and(|axes| !axes.contains(&axis));
    let (channels, pixels) = (is_left(1), is_left(2) || is_left(3));
    // Sums of both would be made in another order.
    let is_exact = matches!(op.kind, ReduceKind::Max | ReduceKind::Min);
    rank == 4 && !op.keep_dimensions && !(channels && pixels) && (is_exact || channels || pixels)
}

/// The operands that hold a value of the graph: with the channels first, as the graph has it, and last.
struct Orders {
    first: Option<OperandId>,
    last: Option<OperandId>,
    /// As the graph has it.
    shape: Vec<u32>,
}

struct Rewrite<'a> {
    graph: &'a mut Graph,
    /// By operand of the graph as it was.
    orders: Vec<Orders>,
    /// See [`Preferences`](super::Preferences).
    transposed_outputs: u32,
}

impl Rewrite<'_> {
    fn orders(&mut self, id: OperandId) -> &mut Orders {
        &mut self.orders[id.0 as usize]
    }

    /// Whether a value has its channels last, and only so.
    fn is_last(&self, id: OperandId) -> bool {
        self.orders[id.0 as usize].first.is_none()
    }

    /// The operand of a value in the order that the graph has.
    fn first(&mut self, id: OperandId) -> OperandId {
        if let Some(first) = self.orders(id).first {
            return first;
        }
        let last = self.orders(id).last.expect("a value has an order");
        let first = self.reorder(last, to_first);
        self.orders(id).first = Some(first);
        first
    }

    /// The operand of a value with the channels last. What has less than four dimensions is seen as one with all, as
    /// broadcasting does.
    fn last(&mut self, id: OperandId) -> OperandId {
        if let Some(last) = self.orders(id).last {
            return last;
        }
        let mut first = self.orders(id).first.expect("a value has an order");
        // Integers are moved rather than what they are dequantized to.
        let of_one = |op: &&DequantizeLinear| self.graph.descriptor(op.scale).shape.as_slice() == [1; 4];
        if let Some(op) = dequantizes(self.graph, first).filter(of_one).cloned()
            && self.graph.descriptor(op.input).data_type.bits() == 8
            && !self.graph.is_constant(op.input)
        {
            let (input, like) = (self.reorder(op.input, to_last), first);
            let shape = self.graph.descriptor(input).shape.to_vec();
            let last = self.graph.insert_shaped(DequantizeLinear { input, ..op }, like, &shape);
            self.orders(id).last = Some(last);
            return last;
        }
        let shape = &self.orders(id).shape;
        if shape.len() < 4 {
            let full: Vec<u32> = std::iter::repeat_n(1, 4 - shape.len()).chain(shape.iter().copied()).collect();
            first = self.graph.insert_shaped(Reshape { input: first, new_shape: full.clone() }, first, &full);
        }
        let last = self.reorder(first, to_last);
        self.orders(id).last = Some(last);
        last
    }

    fn reorder(&mut self, id: OperandId, order: fn(usize) -> Vec<u32>) -> OperandId {
        let shape = self.graph.descriptor(id).shape.clone();
        let order = order(shape.len());
        let ordered = ordered(&shape, &order);
        // What moves past dimensions of size 1 only stays where it is in memory.
        let moves = !order.iter().filter(|&&i| shape[i as usize] != 1).is_sorted();
        let op: Op = match moves {
            true => Transpose { input: id, permutation: Some(order) }.into(),
            false => Reshape { input: id, new_shape: ordered.clone() }.into(),
        };
        self.graph.insert_shaped(op, id, &ordered)
    }

    fn node(&mut self, mut node: Node) {
        if let Op::Reduce(op) = &mut node.op
            && keeps_order(op, self.orders(op.input).shape.len())
            && self.is_last(op.input)
        {
            op.input = self.last(op.input);
            op.axes.iter_mut().flatten().for_each(place);
        } else if self.takes_channels_last(&mut node) {
            // The outputs have their channels last from here on.
            for &id in &node.outputs {
                let shape = &self.orders(id).shape;
                self.graph.operands[id.0 as usize].descriptor.shape = ordered(shape, &to_last(shape.len())).into_iter().collect();
                *self.orders(id) = Orders { first: None, last: Some(id), shape: std::mem::take(&mut self.orders(id).shape) };
            }
        } else {
            node.op.visit_mut(&mut |id| *id = self.first(*id));
        }
        self.graph.push(node);
    }

    /// Lets a node compute with the channels last, if that is worthwhile and possible.
    fn takes_channels_last(&mut self, node: &mut Node) -> bool {
        match &mut node.op {
            Op::Conv2d(op) => {
                if op.input_layout != Nchw || !suits(self.graph, op) {
                    return false;
                }
                op.input_layout = Nhwc;
                op.input = self.last(op.input);
                // The filter is a constant; its own layout stays. Nothing reorders a constant of rank 1.
                return true;
            }
            Op::ConvTranspose2d(op) => {
                if op.input_layout != Nchw || !transposed_suits(self.graph, op, self.transposed_outputs) {
                    return false;
                }
                op.input_layout = Nhwc;
                op.input = self.last(op.input);
                return true;
            }
            Op::Pool2d(op) => {
                let is_float = self.graph.descriptor(op.input).data_type == DataType::Float32;
                if op.layout != Nchw || !(is_float || self.is_last(op.input)) {
                    return false;
                }
                // Whole planes are quicker to reduce than to reorder.
                let &[.., height, width] = self.orders(op.input).shape.as_slice() else { return false };
                if op.is_global([height, width]) && !self.is_last(op.input) {
                    return false;
                }
                op.layout = Nhwc;
                op.input = self.last(op.input);
                return true;
            }
            _ => {}
        }
        if self.shuffles(node) {
            node.op.visit_mut(&mut |id| *id = self.last(*id));
            return true;
        }
        // Everything else follows its operands.
        let mut any_last = false;
        let mut whole_bytes = self.graph.descriptor(node.outputs[0]).data_type.bits() >= 8;
        let mut all_images = self.orders(node.outputs[0]).shape.len() == 4;
        node.op.visit(&mut |_, id| {
            any_last |= self.is_last(id);
            whole_bytes &= self.graph.descriptor(id).data_type.bits() >= 8;
            all_images &= self.orders[id.0 as usize].shape.len() <= 4;
        });
        if !any_last || !all_images {
            return false;
        }
        match &mut node.op {
            op if op.elementwise().is_some_and(Elementwise::takes_any_order) => {}
            Op::Cast(_) | Op::QuantizeLinear(_) | Op::DequantizeLinear(_) if whole_bytes => {}
            Op::Concat(op) => place(&mut op.axis),
            Op::Split(op) => place(&mut op.axis),
            Op::Resample2d(op) => op.axes.iter_mut().for_each(place),
            Op::Reduce(op) if op.keep_dimensions => op.axes.iter_mut().flatten().for_each(place),
            Op::Pad(op) => {
                let [beginning, ending] = [&mut op.beginning_padding, &mut op.ending_padding];
                [beginning, ending].into_iter().for_each(|list| *list = ordered(list, &to_last(4)));
            }
            _ => return false,
        }
        node.op.visit_mut(&mut |id| *id = self.last(*id));
        true
    }

    /// Turns what divides or joins the channels of an image that has them last, or orders them anew: of a shuffle in three
    /// steps the second is all that is left to do.
    fn shuffles(&self, node: &mut Node) -> bool {
        let result = &self.orders[node.outputs[0].0 as usize].shape;
        match &mut node.op {
            Op::Reshape(op) if self.is_last(op.input) && result.len() >= 4 => {
                let given = &self.orders[op.input.0 as usize].shape;
                let kept = |shape: &[u32]| [shape[0], shape[shape.len() - 2], shape[shape.len() - 1]];
                if kept(given) != kept(result) {
                    return false;
                }
                op.new_shape = ordered(result, &to_last(result.len()));
                true
            }
            Op::Transpose(op) if self.is_last(op.input) => {
                let Some(permutation) = &mut op.permutation else { return false };
                let rank = permutation.len() as u32;
                if ![0, rank - 2, rank - 1].into_iter().all(|axis| permutation[axis as usize] == axis) {
                    return false;
                }
                let (last, place) = (to_last(permutation.len()), to_first(permutation.len()));
                *permutation = last.iter().map(|&axis| place[permutation[axis as usize] as usize]).collect();
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout};
    use crate::graph::ops::movement::{Concat, Pad, PaddingMode};
    use crate::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
    use crate::graph::testing::check_graph;
    use crate::graph::{ConstantBytes, Descriptor, GraphBuilder, Limits, Number};
    use std::sync::Arc;

    /// The operators of a graph of a convolution of `input` with 4 output channels and what follows it, and the shape of the
    /// output.
    fn rewritten(
        input: [u32; 4],
        follow: impl Fn(&mut GraphBuilder, OperandId, OperandId) -> OperandId,
    ) -> (Vec<&'static str>, Vec<u32>) {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, input)).unwrap();
        let filter = Descriptor::new(DataType::Float32, [4, input[1], 1, 1]);
        let bytes = ConstantBytes::new(vec![0; filter.byte_length()]);
        let filter = builder.constant(filter, bytes).unwrap();
        let conv = Conv2d::new(x, filter, Nchw, Conv2dFilterOperandLayout::Oihw);
        let conv = builder.push_op(conv, "").unwrap()[0];
        let output = follow(&mut builder, x, conv);
        let mut graph = builder.build(vec![("y".into(), output)]).unwrap();
        let expected = graph.descriptor(graph.outputs[0].1).clone();
        channels_last(&mut graph, &Compilation::unasked()).unwrap();
        assert_eq!(*graph.descriptor(graph.outputs[0].1), expected);
        check_graph(&graph);
        (graph.nodes.iter().map(|node| node.op.row().name).collect(), expected.shape.to_vec())
    }

    fn add(builder: &mut GraphBuilder, a: OperandId, b: OperandId) -> OperandId {
        builder.push_op(Binary { kind: BinaryKind::Add, a, b }, "").unwrap()[0]
    }

    #[test]
    fn transposed_convolutions_have_them_last_without_others() {
        for (outputs, names) in [(8, &["transpose", "convTranspose2d", "transpose"][..]), (7, &["convTranspose2d"])] {
            let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
            let x = builder.input("x", Descriptor::new(DataType::Float32, [1, 3, 5, 5])).unwrap();
            let filter = Descriptor::new(DataType::Float32, [3, outputs, 2, 2]);
            let bytes = ConstantBytes::new(vec![0; filter.byte_length()]);
            let filter = builder.constant(filter, bytes).unwrap();
            let conv = ConvTranspose2d::new(x, filter, Nchw, ConvTranspose2dFilterOperandLayout::Iohw);
            let conv = builder.push_op(ConvTranspose2d { strides: [2; 2], ..conv }, "").unwrap()[0];
            let mut graph = builder.build(vec![("y".into(), conv)]).unwrap();
            channels_last(&mut graph, &Compilation::unasked()).unwrap();
            assert_eq!(graph.nodes.iter().map(|node| node.op.row().name).collect::<Vec<_>>(), names);
        }
    }

    #[test]
    fn whole_images_are_pooled_where_they_are() {
        let mean = |builder: &mut GraphBuilder, input| {
            let pool = Pool2d {
                kind: Pool2dKind::Average,
                input,
                window_dimensions: None,
                padding: [0; 4],
                strides: [1; 2],
                dilations: [1; 2],
                layout: Nchw,
                output_shape_rounding: RoundingType::Floor,
                output_sizes: None,
            };
            builder.push_op(pool, "").unwrap()[0]
        };
        assert_eq!(rewritten([1, 3, 5, 5], |builder, x, _| mean(builder, x)).0, ["averagePool2d"]);
        let follows = rewritten([1, 3, 5, 5], |builder, _, conv| mean(builder, conv)).0;
        assert_eq!(follows, ["transpose", "conv2d", "averagePool2d", "reshape"]);
    }

    #[test]
    fn element_wise_operators_follow() {
        let relu = |builder: &mut GraphBuilder, _, input| {
            builder.push_op(Activation { kind: ActivationKind::Relu, input }, "").unwrap()[0]
        };
        assert_eq!(rewritten([1, 3, 5, 6], relu).0, ["transpose", "conv2d", "relu", "transpose"]);
        // The order of an image with one pixel is both.
        assert_eq!(rewritten([2, 3, 1, 1], relu).0, ["reshape", "conv2d", "relu", "reshape"]);
        // The input, which is there in both orders, is read in the one that is needed.
        let operators = rewritten([1, 4, 5, 6], add).0;
        assert_eq!(operators, ["transpose", "conv2d", "add", "transpose"]);
    }

    #[test]
    fn what_is_broadcast_is_seen_with_four_dimensions() {
        for shape in [&[][..], &[6], &[4, 1, 1], &[1, 4, 5, 1]] {
            let (operators, _) = rewritten([1, 3, 5, 6], |builder, _, conv| {
                let other = Descriptor::new(DataType::Float32, shape.iter().copied());
                let bytes = ConstantBytes::new(vec![0; other.byte_length()]);
                let other = builder.constant(other, bytes).unwrap();
                add(builder, conv, other)
            });
            assert_eq!(operators.iter().filter(|&&name| name == "add").count(), 1, "{operators:?}");
            assert_eq!(operators.last(), Some(&"transpose"));
        }
    }

    #[test]
    fn axes_move_with_the_channels() {
        let (operators, shape) = rewritten([1, 3, 5, 6], |builder, x, conv| {
            let joined = builder.push_op(Concat { inputs: vec![conv, x], axis: 1 }, "").unwrap()[0];
            let pad = Pad {
                input: joined,
                beginning_padding: vec![0, 1, 2, 0],
                ending_padding: vec![0, 0, 0, 3],
                mode: PaddingMode::Constant,
                value: Number::Double(0.0),
            };
            builder.push_op(pad, "").unwrap()[0]
        });
        assert_eq!(operators, ["transpose", "conv2d", "concat", "pad", "transpose"]);
        assert_eq!(shape, [1, 8, 7, 9]);
    }

    #[test]
    fn channels_are_shuffled_where_they_are() {
        let reshape = |builder: &mut GraphBuilder, input, shape: &[u32]| {
            builder.push_op(Reshape { input, new_shape: shape.to_vec() }, "").unwrap()[0]
        };
        let transpose = |builder: &mut GraphBuilder, input, permutation: &[u32]| {
            builder.push_op(Transpose { input, permutation: Some(permutation.to_vec()) }, "").unwrap()[0]
        };
        let (operators, _) = rewritten([1, 3, 5, 6], |builder, _, conv| {
            let divided = reshape(builder, conv, &[1, 2, 2, 5, 6]);
            let shuffled = transpose(builder, divided, &[0, 2, 1, 3, 4]);
            reshape(builder, shuffled, &[1, 4, 5, 6])
        });
        assert_eq!(operators, ["transpose", "conv2d", "reshape", "transpose", "reshape", "transpose"]);
        // Not what also divides rows, or moves them.
        let (operators, _) = rewritten([1, 3, 6, 6], |builder, _, conv| reshape(builder, conv, &[1, 8, 3, 6]));
        assert_eq!(operators, ["transpose", "conv2d", "transpose", "reshape"]);
        let (operators, _) = rewritten([1, 3, 6, 6], |builder, _, conv| transpose(builder, conv, &[0, 2, 1, 3]));
        assert_eq!(operators, ["transpose", "conv2d", "transpose", "transpose"]);
    }

    #[test]
    fn what_is_left_of_an_image_may_have_one_order() {
        let reduced = |kind, axes: Option<&[u32]>| {
            let rewritten = rewritten([1, 3, 5, 6], |builder, _, input| {
                let op = Reduce { kind, input, axes: axes.map(<[u32]>::to_vec), keep_dimensions: false };
                builder.push_op(op, "").unwrap()[0]
            });
            (rewritten.0.len() == 3, rewritten.1)
        };
        for kind in [ReduceKind::Mean, ReduceKind::Max] {
            assert_eq!(reduced(kind, Some(&[2, 3])), (true, vec![1, 4]));
            assert_eq!(reduced(kind, Some(&[3, 2, 0])), (true, vec![4]));
            assert_eq!(reduced(kind, Some(&[1])), (true, vec![1, 5, 6]));
            assert_eq!(reduced(kind, Some(&[1, 0])), (true, vec![5, 6]));
            for axes in [&[2][..], &[3], &[0], &[0, 2]] {
                assert!(!reduced(kind, Some(axes)).0, "{axes:?}");
            }
            // In another order sums are rounded in another way.
            for axes in [None, Some(&[1, 2, 3][..])] {
                assert_eq!(reduced(kind, axes).0, kind == ReduceKind::Max, "{axes:?}");
            }
        }
    }

    #[test]
    fn what_cannot_follow_has_the_channels_first() {
        let (operators, _) = rewritten([1, 3, 5, 6], |builder, _, conv| {
            builder.push_op(Reshape { input: conv, new_shape: vec![120] }, "").unwrap()[0]
        });
        assert_eq!(operators, ["transpose", "conv2d", "transpose", "reshape"]);
    }
}
