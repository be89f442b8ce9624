//! Lets what is done to signals of one dimension between convolutions be done to the images of one row that convolutions see them
//! as.
//!
//! A convolution of signals `[batch, channels, length]` is a reshape to `[batch, channels, 1, length]`, a `conv2d` and a reshape
//! back. These reshapes stand between the convolution and what could become part of it, and between two convolutions that agree
//! on the order of the channels. So what is element-wise, joins signals or pads them moves in front of the reshape.

use super::compilation::Compilation;
use crate::error::Result;
use crate::graph::ops::Elementwise;
use crate::graph::ops::movement::Reshape;
use crate::graph::{Descriptor, Graph, Node, Op, Operand, OperandId, Source};

/// The dimension of an image that its signal does not have.
const ROWS: usize = 2;

pub fn signals(graph: &mut Graph, compilation: &Compilation<'_>) -> Result<()> {
    if !graph.nodes.iter().any(makes_image) {
        return Ok(());
    }
    let nodes = std::mem::take(&mut graph.nodes);
    let known = vec![Known::default(); graph.operands.len()];
    let mut moving = Moving { graph, known };
    for node in compilation.each(nodes) {
        moving.node(node?);
    }
    Ok(())
}

fn makes_image(node: &Node) -> bool {
    matches!(node.op, Op::Conv2d(_) | Op::ConvTranspose2d(_) | Op::Pool2d(_))
}

/// What is known of an operand.
#[derive(Clone, Copy, Default)]
struct Known {
    /// An operator of images makes it, or one that has moved after such.
    is_image: bool,
    /// The image that it is the signal of.
    image: Option<OperandId>,
    /// The image that it is once more.
    same: Option<OperandId>,
}

struct Moving<'a> {
    graph: &'a mut Graph,
    known: Vec<Known>,
}

impl Moving<'_> {
    fn known(&mut self, id: OperandId) -> &mut Known {
        &mut self.known[id.0 as usize]
    }

    fn node(&mut self, mut node: Node) {
        node.op.visit_mut(&mut |id| *id = self.known(*id).same.unwrap_or(*id));
        if makes_image(&node) {
            node.outputs.iter().for_each(|&id| self.known(id).is_image = true);
        } else if let Op::Reshape(Reshape { input, new_shape }) = &node.op {
            let shape = &self.graph.descriptor(*input).shape;
            let known = self.known[input.0 as usize];
            if known.is_image && shape.len() == 4 && shape[ROWS] == 1 && signal_of(shape) == *new_shape {
                self.known(node.outputs[0]).image = Some(*input);
            } else if let Some(image) = known.image
                && self.graph.descriptor(image).shape.as_slice() == new_shape
            {
                self.known(node.outputs[0]).same = Some(image);
            }
        } else if self.becomes_image(&mut node) {
            let signal = node.outputs[0];
            let Descriptor { data_type, shape, .. } = self.graph.descriptor(signal).clone();
            let new_shape = shape.to_vec();
            let image = self.graph.operand(Descriptor::new(data_type, image_of(&new_shape)));
            self.known.push(Known { is_image: true, ..Known::default() });
            self.known(signal).image = Some(image);
            node.outputs[0] = image;
            self.graph.push(node);
            node = Node { op: Reshape { input: image, new_shape }.into(), label: String::new(), outputs: vec![signal] };
        }
        self.graph.push(node);
    }

    /// Lets an operator of signals be one of images, if that is what it reads and it can.
    fn becomes_image(&mut self, node: &mut Node) -> bool {
        let [output] = node.outputs[..] else { return false };
        let mut reads_image = false;
        let mut all_fit = self.graph.descriptor(output).shape.len() == 3;
        node.op.visit(&mut |_, id| {
            reads_image |= self.known[id.0 as usize].image.is_some();
            all_fit &= self.graph.descriptor(id).shape.len() <= 3;
        });
        if !reads_image || !all_fit {
            return false;
        }
        match &mut node.op {
            op if op.elementwise().is_some_and(Elementwise::takes_any_order) => {}
            Op::Cast(_) => {}
            // Its other operands have a number for each channel.
            Op::BatchNormalization(op) if op.axis == 1 => {
                op.input = self.image(op.input);
                return true;
            }
            Op::Concat(op) => op.axis += u32::from(op.axis as usize >= ROWS),
            Op::Pad(op) => {
                op.beginning_padding.insert(ROWS, 0);
                op.ending_padding.insert(ROWS, 0);
            }
            _ => return false,
        }
        node.op.visit_mut(&mut |id| *id = self.image(*id));
        true
    }

    /// The image of a signal, or of what is broadcast to one.
    fn image(&mut self, id: OperandId) -> OperandId {
        if let Some(image) = self.known(id).image {
            return image;
        }
        let Operand { descriptor, source } = self.graph.operands[id.0 as usize].clone();
        if descriptor.shape.len() < ROWS {
            return id;
        }
        let shape = image_of(&descriptor.shape);
        let of_image = descriptor.shaped(&shape);
        self.known.push(Known::default());
        match source {
            Source::Constant(bytes) => self.graph.constant(of_image, bytes),
            _ => self.graph.insert(Reshape { input: id, new_shape: shape }, of_image),
        }
    }
}

fn signal_of(image: &[u32]) -> Vec<u32> {
    [&image[..ROWS], &image[ROWS + 1..]].concat()
}

/// The shape with rows before the last dimension.
fn image_of(shape: &[u32]) -> Vec<u32> {
    let (front, length) = shape.split_at(shape.len() - 1);
    [front, &[1], length].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::prune::prune;
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
    use crate::graph::ops::layout::Conv2dFilterOperandLayout;
    use crate::graph::ops::layout::InputOperandLayout::Nchw;
    use crate::graph::ops::movement::{Concat, Pad, PaddingMode, Slice};
    use crate::graph::ops::normalization::BatchNormalization;
    use crate::graph::testing::check_graph;
    use crate::graph::{ConstantBytes, DataType, GraphBuilder, Limits};
    use std::sync::Arc;

    struct Signals {
        builder: GraphBuilder,
        x: OperandId,
    }

    impl Signals {
        fn constant(&mut self, shape: &[u32]) -> OperandId {
            let descriptor = Descriptor::new(DataType::Float32, shape.iter().copied());
            let bytes = ConstantBytes::new(vec![0; descriptor.byte_length()]);
            self.builder.constant(descriptor, bytes).unwrap()
        }

        fn push(&mut self, op: impl Into<Op>) -> OperandId {
            self.builder.push_op(op, "").unwrap()[0]
        }

        fn shape(&self, id: OperandId) -> Vec<u32> {
            self.builder.operands().descriptor(id).shape.to_vec()
        }

        /// A convolution of one dimension, as importers write it.
        fn conv(&mut self, input: OperandId) -> OperandId {
            let shape = self.shape(input);
            let filter = self.constant(&[4, shape[1], 1, 1]);
            let input = self.push(Reshape { input, new_shape: image_of(&shape) });
            let conv = self.push(Conv2d::new(input, filter, Nchw, Conv2dFilterOperandLayout::Oihw));
            let new_shape = signal_of(&self.shape(conv));
            self.push(Reshape { input: conv, new_shape })
        }
    }

    /// The operators of a graph of a convolution and what follows it, with the shapes of their outputs.
    fn moved(follow: impl Fn(&mut Signals, OperandId) -> OperandId) -> Vec<(&'static str, Vec<u32>)> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, [2, 4, 7])).unwrap();
        let mut all = Signals { builder, x };
        let conv = all.conv(x);
        let y = follow(&mut all, conv);
        let mut graph = all.builder.build(vec![("y".into(), y)]).unwrap();
        let before = graph.descriptor(y).clone();
        let compilation = &Compilation::unasked();
        signals(&mut graph, compilation).unwrap();
        prune(&mut graph, compilation).unwrap();
        assert_eq!(*graph.descriptor(graph.outputs[0].1), before);
        check_graph(&graph);
        graph.nodes.iter().map(|node| (node.op.row().name, graph.descriptor(node.outputs[0]).shape.to_vec())).collect()
    }

    fn names(found: &[(&'static str, Vec<u32>)]) -> Vec<&'static str> {
        found.iter().map(|(name, _)| *name).collect()
    }

    fn relu(all: &mut Signals, input: OperandId) -> OperandId {
        all.push(Activation { kind: ActivationKind::Relu, input })
    }

    #[test]
    fn element_wise_operators_move_in_front_of_the_reshape() {
        let found = moved(relu);
        assert_eq!(names(&found), ["reshape", "conv2d", "relu", "reshape"]);
        assert_eq!((&found[2].1[..], &found[3].1[..]), (&[2, 4, 1, 7][..], &[2, 4, 7][..]));
    }

    #[test]
    fn nothing_is_left_between_two_convolutions() {
        let found = moved(|all, conv| {
            let relu = relu(all, conv);
            all.conv(relu)
        });
        assert_eq!(names(&found), ["reshape", "conv2d", "relu", "conv2d", "reshape"]);
    }

    #[test]
    fn other_operands_get_the_shape_that_is_broadcast_to_the_image() {
        let shapes: [&[u32]; 5] = [&[], &[7], &[4, 1], &[1, 4, 7], &[2, 1, 1]];
        for shape in shapes {
            let found = moved(|all, a| {
                let b = all.constant(shape);
                let sum = all.push(Binary { kind: BinaryKind::Add, a, b });
                relu(all, sum)
            });
            assert_eq!(names(&found), ["reshape", "conv2d", "add", "relu", "reshape"], "{shape:?}");
        }
        // What is not constant is reshaped.
        let found = moved(|all, a| all.push(Binary { kind: BinaryKind::Mul, a, b: all.x }));
        assert_eq!(names(&found), ["reshape", "conv2d", "reshape", "mul", "reshape"]);
    }

    #[test]
    fn channels_are_normalized_joined_and_padded() {
        let found = moved(|all, input| {
            let (mean, variance) = (all.constant(&[4]), all.constant(&[4]));
            let normalization = BatchNormalization { input, mean, variance, scale: None, bias: None, axis: 1, epsilon: 1e-5 };
            let normal = all.push(normalization);
            let joined = all.push(Concat { inputs: vec![normal, input], axis: 1 });
            let long = all.push(Concat { inputs: vec![joined, joined], axis: 2 });
            let padding = [vec![0, 0, 3], vec![0, 1, 2]];
            let [beginning_padding, ending_padding] = padding;
            let value = crate::graph::Number::Double(0.0);
            all.push(Pad { input: long, beginning_padding, ending_padding, mode: PaddingMode::Constant, value })
        });
        assert_eq!(names(&found), ["reshape", "conv2d", "batchNormalization", "concat", "concat", "pad", "reshape"]);
        assert_eq!(found[5].1, [2, 9, 1, 19]);
    }

    #[test]
    fn what_is_no_signal_and_what_cannot_move_stays() {
        let slice =
            |all: &mut Signals, input| all.push(Slice { input, starts: vec![0, 1, 2], sizes: vec![2, 3, 4], strides: None });
        assert_eq!(names(&moved(slice)), ["reshape", "conv2d", "reshape", "slice"]);
        let flat = |all: &mut Signals, input| {
            let input = all.push(Reshape { input, new_shape: vec![2, 28] });
            relu(all, input)
        };
        assert_eq!(names(&moved(flat)), ["reshape", "conv2d", "reshape", "reshape", "relu"]);
        // Of more dimensions than the signal has.
        let wide = |all: &mut Signals, a| {
            let b = all.constant(&[3, 1, 1, 1]);
            all.push(Binary { kind: BinaryKind::Add, a, b })
        };
        assert_eq!(names(&moved(wide)), ["reshape", "conv2d", "reshape", "add"]);
    }
}
