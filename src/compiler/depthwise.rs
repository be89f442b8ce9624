//! Finds what becomes one step with the depthwise convolution that reads it, so that what lies between the two need not visit
//! memory: a convolution of single pixels that expands an image, where what it makes is large; and, where the channels are first,
//! another depthwise convolution, with whatever is before that ([`Prologues`]).

use super::compilation::Compilation;
use super::fuse::Fusion;
use super::pattern::Pattern;
use super::prologue::Prologues;
use crate::error::Result;
use crate::graph::{Graph, Op};

pub fn find(graph: &Graph, fusion: &Fusion, found: &mut Prologues, compilation: &Compilation<'_>) -> Result<()> {
    let uses = graph.uses();
    // By operand: the last depthwise convolution of it.
    let mut readers = vec![None; graph.operands.len()];
    for (position, node) in graph.nodes.iter().enumerate() {
        if let Op::Conv2d(op) = &node.op
            && op.groups > 1
        {
            readers[op.input.0 as usize] = Some(position);
        }
    }
    for node in compilation.each(graph.nodes.iter().enumerate()) {
        let (first, node) = node?;
        if !matches!(node.op, Op::Conv2d(_)) {
            continue;
        }
        let last = fusion.then[first].last().map_or(first, |&last| last);
        let result = graph.nodes[last].outputs[0];
        if uses[result.0 as usize] != 1 {
            continue;
        }
        let Some(reader) = readers[result.0 as usize] else { continue };
        // What is before it goes with it.
        let before: Vec<usize> = found.nodes[first].iter().chain([&first]).chain(&fusion.then[first]).copied().collect();
        if compilation.capabilities.accepts(&Pattern::of(graph, &before, reader)) {
            found.nodes[first].clear();
            found.put(reader, before);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::backend::cpu::Cpu;
    use crate::compiler::compilation::Compilation;
    use crate::compiler::schedule;
    use crate::compiler::testing::everything_of;
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Swish};
    use crate::graph::ops::layout::Conv2dFilterOperandLayout::Oihw;
    use crate::graph::ops::layout::InputOperandLayout;
    use crate::graph::{ConstantBytes, GraphBuilder, Limits, OperandId};
    use crate::graph::{DataType, Descriptor};
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
        let result = conv(&mut builder, x, [channels, 10, 1, 1], 1, strides);
        let active = then(&mut builder, result);
        let y = conv(&mut builder, active, [channels, 1, 3, 3], channels, [1; 2]);
        let mut outputs = vec![("y".into(), y)];
        if is_read_otherwise {
            outputs.push(("z".into(), active));
        }
        let cpu = Cpu::new(1);
        let schedule = schedule(&builder.build(outputs).unwrap(), &Compilation::new(&everything_of(&cpu))).unwrap();
        schedule.steps.iter().map(|step| step.prologue.len()).collect()
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
