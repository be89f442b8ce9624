//! Which depthwise convolutions keep their channels first: those that the backend computes as fast so. Where an image meets
//! nothing but these, and what treats all elements alike, it need not be reordered.

use super::pattern::Pattern;
use super::progress::Progress;
use crate::error::Result;
use crate::graph::ops::layout::InputOperandLayout::Nchw;
use crate::graph::{Graph, Op, OperandId};

/// By operand: whether it is what such a convolution makes.
pub fn on_planes(graph: &Graph, progress: &Progress<'_>) -> Result<Vec<bool>> {
    let mut regions = Regions { of: (0..graph.operands.len()).collect() };
    let is_image = |id: OperandId| graph.descriptor(id).shape.len() == 4 && !graph.is_constant(id);
    for node in progress.each(&graph.nodes) {
        let node = node?;
        // These have an order of their own.
        if matches!(node.op, Op::Transpose(_) | Op::Reshape(_)) {
            continue;
        }
        let join = |regions: &mut Regions, id: OperandId| {
            if is_image(id) {
                regions.join(id.0 as usize, node.outputs[0].0 as usize);
            }
        };
        node.op.visit(&mut |_, id| join(&mut regions, id));
        node.outputs.iter().for_each(|&id| join(&mut regions, id));
    }
    let mut wants_last = vec![false; graph.operands.len()];
    let is_any = |op: &Op| matches!(op, Op::Conv2d(_) | Op::ConvTranspose2d(_) | Op::Pool2d(_));
    let is_quick = |position: usize| match &graph.nodes[position].op {
        Op::Conv2d(op) => {
            op.input_layout == Nchw && op.groups > 1 && progress.evaluator.accepts(&Pattern::of(graph, &[], position))
        }
        _ => false,
    };
    let is_quick = progress.each(0..graph.nodes.len()).map(|position| position.map(is_quick)).collect::<Result<Vec<bool>>>()?;
    for node in progress.each(graph.nodes.iter().zip(&is_quick)) {
        let (node, &is_quick) = node?;
        // Numbers for the channels stand beside their elements only if these are last.
        let mut broadcasts = false;
        node.op.visit(&mut |_, id| {
            let (operand, output) = (graph.descriptor(id), graph.descriptor(node.outputs[0]));
            broadcasts |= node.op.is_elementwise() && operand.shape != output.shape && operand.element_count() != 1;
        });
        if is_any(&node.op) && !is_quick || broadcasts {
            wants_last[regions.find(node.outputs[0].0 as usize)] = true;
        }
    }
    let mut found = vec![false; graph.operands.len()];
    for (node, _) in graph.nodes.iter().zip(is_quick).filter(|(_, is_quick)| *is_quick) {
        let output = node.outputs[0].0 as usize;
        found[output] = !wants_last[regions.find(output)];
    }
    Ok(found)
}

/// Operands that are in the same order as others.
struct Regions {
    of: Vec<usize>,
}

impl Regions {
    /// What stands for all of a region.
    fn find(&mut self, mut operand: usize) -> usize {
        while self.of[operand] != operand {
            self.of[operand] = self.of[self.of[operand]];
            operand = self.of[operand];
        }
        operand
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.find(a), self.find(b));
        self.of[a] = b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::cpu::Cpu;
    use crate::compiler::channels_last;
    use crate::compiler::fuse::Fusing;
    use crate::compiler::plan::plan;
    use crate::graph::DataType;
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Prelu};
    use crate::graph::ops::layout::Conv2dFilterOperandLayout::Oihw;
    use crate::graph::ops::layout::InputOperandLayout;
    use crate::graph::ops::movement::Reshape;
    use crate::graph::ops::pool::{Pool2d, Pool2dKind, RoundingType};
    use crate::graph::{ConstantBytes, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    fn constant(builder: &mut GraphBuilder, shape: &[u32]) -> OperandId {
        let descriptor = Descriptor::new(DataType::Float32, shape.to_vec());
        let bytes = ConstantBytes::new(vec![0; descriptor.byte_length()]);
        builder.constant(descriptor, bytes).unwrap()
    }

    /// A 3 x 3 convolution with an activation, of an input with so many channels.
    fn conv(builder: &mut GraphBuilder, input: OperandId, channels: u32, groups: u32, stride: u32) -> OperandId {
        let filter = constant(builder, &[channels, channels / groups, 3, 3]);
        let (input_layout, filter_layout, strides, dilations) = (InputOperandLayout::Nchw, Oihw, [stride; 2], [1; 2]);
        let conv = Conv2d { input, filter, padding: [1; 4], strides, dilations, groups, input_layout, filter_layout, bias: None };
        let made = builder.push_op(conv, "").unwrap()[0];
        builder.push_op(Activation { kind: ActivationKind::Relu, input: made }, "").unwrap()[0]
    }

    /// The steps of two depthwise convolutions of such an image and what follows, with how much is before the operator.
    fn steps(image: [u32; 4], follow: impl Fn(&mut GraphBuilder, OperandId) -> OperandId) -> Vec<(&'static str, usize)> {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let x = builder.input("x", Descriptor::new(DataType::Float32, image)).unwrap();
        let first = conv(&mut builder, x, image[1], image[1], 1);
        let then = conv(&mut builder, first, image[1], image[1], 1);
        let y = follow(&mut builder, then);
        let mut graph = builder.build(vec![("y".into(), y)]).unwrap();
        let cpu = Cpu::new(1);
        let progress = &Progress::new(cpu.evaluator());
        channels_last::channels_last(&mut graph, progress).unwrap();
        let plan = plan(graph, progress, Fusing::Quick, false).unwrap();
        plan.steps.iter().map(|step| (step.op.row().name, step.before.len())).collect()
    }

    #[test]
    fn depthwise_convolutions_alone_go_by_planes() {
        let nothing = |_: &mut GraphBuilder, y| y;
        assert_eq!(steps([1, 16, 14, 24], nothing), [("conv2d", 2)]);
        assert_eq!(steps([1, 16, 14, 24], |builder, y| conv(builder, y, 16, 16, 1)), [("conv2d", 4)]);
        assert_eq!(steps([2, 15, 14, 12], nothing), [("conv2d", 2)]);
        // Few planes, and large ones.
        assert_eq!(steps([1, 15, 14, 12], nothing), [("conv2d", 0); 2]);
        assert_eq!(steps([1, 16, 200, 200], nothing), [("conv2d", 0); 2]);
        let last = [("transpose", 0), ("conv2d", 0), ("conv2d", 0), ("transpose", 0)];
        assert_eq!(steps([1, 16, 14, 23], nothing), last);
        assert_eq!(steps([1, 16, 10, 24], nothing), last);
        assert_eq!(steps([1, 15, 14, 11], nothing), last);
    }

    #[test]
    fn what_wants_the_channels_last_has_them() {
        let image = [1, 16, 14, 24];
        let last = |other: &'static str| vec![("transpose", 0), ("conv2d", 0), ("conv2d", 0), (other, 0), ("transpose", 0)];
        assert_eq!(steps(image, |builder, y| conv(builder, y, 16, 16, 2)), last("conv2d"));
        assert_eq!(steps(image, |builder, y| conv(builder, y, 16, 1, 1)), last("conv2d"));
        let pool = |builder: &mut GraphBuilder, input| {
            let pool = Pool2d {
                kind: Pool2dKind::Max,
                input,
                window_dimensions: Some([2; 2]),
                padding: [0; 4],
                strides: [1; 2],
                dilations: [1; 2],
                layout: InputOperandLayout::Nchw,
                output_shape_rounding: RoundingType::Floor,
                output_sizes: None,
            };
            builder.push_op(pool, "").unwrap()[0]
        };
        assert_eq!(steps(image, pool), last("maxPool2d"));
        // A slope for each channel.
        let prelu = |builder: &mut GraphBuilder, input| {
            let slope = constant(builder, &[16, 1, 1]);
            builder.push_op(Prelu { input, slope }, "").unwrap()[0]
        };
        assert_eq!(steps(image, prelu), last("prelu"));
        // An image that is seen in another way is another one.
        let other = |builder: &mut GraphBuilder, input| {
            let other = builder.push_op(Reshape { input, new_shape: vec![1, 32, 7, 24] }, "").unwrap()[0];
            pool(builder, other)
        };
        let reordered = [("conv2d", 2), ("transpose", 0), ("maxPool2d", 0), ("transpose", 0)];
        assert_eq!(steps(image, other), reordered);
    }
}
