//! Finds what becomes one step with the depthwise convolution that reads it, so that what lies between the two need not visit
//! memory: a convolution of single pixels that expands an image, where what it makes is large; and, where the channels are first,
//! another depthwise convolution, with whatever is before that ([`Before`]).

use super::before::Before;
use super::fuse::Fusion;
use super::planes;
use crate::graph::ops::conv::Conv2d;
use crate::graph::ops::elementwise::ActivationKind;
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{DataType, Descriptor, Graph, Op};

/// Bytes between an expansion and the next convolution from which on this is worthwhile: less stays in a core's second-level
/// cache anyway.
const LARGE: usize = 768 << 10;
/// Fewer channels are read in other ways.
const LEAST_CHANNELS: u32 = 8;
/// Bytes of a plane up to which two of them stay in that cache, and how many planes are enough for all threads.
const LARGEST_PLANE: usize = 128 << 10;
const LEAST_PLANES: usize = 16;

pub fn find(graph: &Graph, fusion: &Fusion, found: &mut Before) {
    let uses = graph.uses();
    for (first, node) in graph.nodes.iter().enumerate() {
        let Op::Conv2d(op) = &node.op else { continue };
        let then = &fusion.then[first];
        let is_simple = then.iter().all(|&then| is_simple(&graph.nodes[then].op));
        let is_swish = matches!(**then, [then] if matches!(graph.nodes[then].op, Op::Swish(_)));
        if !is_simple && !is_swish {
            continue;
        }
        let last = fusion.then[first].last().map_or(first, |&last| last);
        let made = graph.nodes[last].outputs[0];
        let is_expansion = expands(graph, op) && graph.descriptor(made).byte_length() >= LARGE;
        let is_plane = is_simple && keeps_planes(graph, op, graph.descriptor(made));
        if uses[made.0 as usize] != 1 || !is_expansion && !is_plane {
            continue;
        }
        let reads = |op: &Op| match op {
            Op::Conv2d(op) if op.input != made => false,
            Op::Conv2d(op) if is_plane => planes::suits(graph, op),
            Op::Conv2d(op) => is_depthwise(graph, op),
            _ => false,
        };
        if let Some(depthwise) = graph.nodes[last..].iter().position(|node| reads(&node.op)) {
            // What is before it goes with it.
            let mut before = std::mem::take(&mut found.nodes[first]);
            before.extend(std::iter::once(first).chain(fusion.then[first].iter().copied()));
            found.put(last + depthwise, before);
        }
    }
}

/// Whether a convolution goes plane by plane, and makes such planes as it reads, which are small.
fn keeps_planes(graph: &Graph, op: &Conv2d, made: &Descriptor) -> bool {
    let [batches, channels, height, width] = *made.shape.as_slice() else { return false };
    planes::suits(graph, op)
        && graph.descriptor(op.input).shape == made.shape
        && height as usize * width as usize * size_of::<f32>() <= LARGEST_PLANE
        && batches as usize * channels as usize >= LEAST_PLANES
}

/// Whether a convolution has its channels last, is of float32 and knows its filter and bias.
fn suits(graph: &Graph, op: &Conv2d) -> bool {
    op.input_layout == InputOperandLayout::Nhwc
        && graph.descriptor(op.input).data_type == DataType::Float32
        && graph.is_constant(op.filter)
        && op.bias.is_none_or(|bias| graph.is_constant(bias))
}

/// Whether every pixel of the output is made from the one at the same place of the input.
pub fn expands(graph: &Graph, op: &Conv2d) -> bool {
    let [_, channels, height, width] = op.filter_layout.to_oihw(&graph.descriptor(op.filter).shape);
    suits(graph, op)
        && (op.groups, height, width, op.strides, op.padding) == (1, 1, 1, [1; 2], [0; 4])
        && channels >= LEAST_CHANNELS
}

fn is_depthwise(graph: &Graph, op: &Conv2d) -> bool {
    let [outputs, of_group, ..] = op.filter_layout.to_oihw(&graph.descriptor(op.filter).shape);
    suits(graph, op) && (of_group, op.groups) == (1, outputs) && graph.descriptor(op.input).shape[3] == outputs
}

/// What the backend does to each number on its way.
fn is_simple(op: &Op) -> bool {
    match op {
        Op::Clamp(_) | Op::LeakyRelu(_) => true,
        Op::Activation(op) => matches!(op.kind, ActivationKind::Relu | ActivationKind::HardSwish),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compiler::Fusing;
    use crate::compiler::plan::plan;
    use crate::graph::ops::elementwise::{Activation, Swish};
    use crate::graph::ops::layout::Conv2dFilterOperandLayout::Oihw;
    use crate::graph::{ConstantBytes, GraphBuilder, Limits, OperandId};
    use std::sync::Arc;

    /// What is done to the value of an expansion.
    type Then = fn(&mut GraphBuilder, OperandId) -> OperandId;

    fn activation(builder: &mut GraphBuilder, kind: ActivationKind, input: OperandId) -> OperandId {
        builder.push_op(Activation { kind, input }, "").unwrap()[0]
    }

    /// The steps of an expansion to so many channels, of what is done to it then, and of what else reads it.
    fn steps(channels: u32, then: Then, strides: [u32; 2], is_read_otherwise: bool) -> Vec<usize> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, [1, 40, 40, 10])).unwrap();
        let conv = |builder: &mut GraphBuilder, input: OperandId, filter: [u32; 4], groups: u32, strides: [u32; 2]| {
            let filter = Descriptor::new(DataType::Float32, filter);
            let bytes = ConstantBytes::new(vec![0; filter.byte_length()]);
            let filter = builder.constant(filter, bytes).unwrap();
            let padding = [filter_padding(groups); 4];
            let (input_layout, filter_layout, dilations) = (InputOperandLayout::Nhwc, Oihw, [1; 2]);
            let conv = Conv2d { input, filter, padding, strides, dilations, groups, input_layout, filter_layout, bias: None };
            builder.push_op(conv, "").unwrap()[0]
        };
        let made = conv(&mut builder, x, [channels, 10, 1, 1], 1, strides);
        let active = then(&mut builder, made);
        let y = conv(&mut builder, active, [channels, 1, 3, 3], channels, [1; 2]);
        let mut outputs = vec![("y".into(), y)];
        if is_read_otherwise {
            outputs.push(("z".into(), active));
        }
        plan(builder.build(outputs).unwrap(), Fusing::Quick, false).steps.iter().map(|step| step.before.len()).collect()
    }

    fn filter_padding(groups: u32) -> u32 {
        u32::from(groups > 1)
    }

    #[test]
    fn what_is_large_and_read_once_is_part_of_a_step() {
        use ActivationKind::{HardSwish, Relu, Softsign};
        let relu: Then = |builder, x| activation(builder, Relu, x);
        assert_eq!(steps(130, relu, [1; 2], false), [2]);
        assert_eq!(steps(130, |builder, x| activation(builder, HardSwish, x), [1; 2], false), [2]);
        assert_eq!(steps(110, relu, [1; 2], false), [0, 0]);
        assert_eq!(steps(130, relu, [2; 2], false), [0, 0]);
        assert_eq!(steps(130, relu, [1; 2], true), [0, 0]);
        assert_eq!(steps(130, |builder, x| activation(builder, Softsign, x), [1; 2], false), [0, 0, 0]);
        let swish: Then = |builder, input| builder.push_op(Swish { input, alpha: 1.0 }, "").unwrap()[0];
        assert_eq!(steps(130, swish, [1; 2], false), [2]);
        assert_eq!(steps(130, swish, [1; 2], true), [0, 0]);
    }
}
