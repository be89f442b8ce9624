//! A rough estimate of how long a node takes, to decide where it runs.

use crate::compiler::{element_count as count, multiplications};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};

/// Nanoseconds on one thread, within a factor of a few. Fast kernels pass over memory and multiply some ten times faster than
/// reference kernels: some 30 GB/s, and 50 multiplications a nanosecond. `saved` is how many multiplications such a kernel
/// does without, if there is one.
pub fn nanoseconds(op: &Op, saved: Option<usize>, inputs: &[&[usize]], outputs: &[&[usize]]) -> usize {
    let written: usize = outputs.iter().map(|shape| count(shape)).sum();
    let read: usize = inputs.iter().map(|shape| count(shape)).sum();
    let multiplications = multiplications(op, inputs, outputs);
    100 + match saved {
        Some(saved) => (written + read) / 8 + multiplications.saturating_sub(saved) / 50,
        None => written + read / 4 + multiplications / 4,
    }
}

/// Of an operator whose result stays within the step (see [`Step::prologue`](crate::compiler::Step)): a product of queries and keys,
/// or a convolution that makes as many pixels as it reads.
pub fn multiplications_before(op: &Op, inputs: &[&[usize]]) -> usize {
    let shape = |id: OperandId| inputs.get(id.0 as usize).copied().unwrap_or_default();
    match op {
        Op::Matmul(op) => count(shape(op.a)).saturating_mul(shape(op.b).last().copied().unwrap_or(0)),
        Op::Conv2d(op) => {
            let &[batches, a, b, c] = shape(op.input) else { return 0 };
            let pixels = match op.input_layout {
                InputOperandLayout::Nhwc => a * b,
                InputOperandLayout::Nchw => b * c,
            };
            (batches * pixels).saturating_mul(count(shape(op.filter)))
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::cpu::Cpu;
    use crate::compiler::{Fusing, Preferences, compile};
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::layout::Conv2dFilterOperandLayout;
    use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits};
    use std::sync::Arc;

    fn conv(input: OperandId, filter: OperandId, groups: u32, padding: u32) -> Conv2d {
        Conv2d {
            input,
            filter,
            padding: [padding; 4],
            strides: [1; 2],
            dilations: [1; 2],
            groups,
            input_layout: InputOperandLayout::Nhwc,
            filter_layout: Conv2dFilterOperandLayout::Oihw,
            bias: None,
        }
    }

    #[test]
    fn what_a_kernel_saves_is_not_counted() {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let input = builder.input("x", Descriptor::new(DataType::Float32, [1, 56, 56, 64])).unwrap();
        let filter = Descriptor::new(DataType::Float32, [64, 64, 3, 3]);
        let filter = builder.constant(filter.clone(), ConstantBytes::new(vec![0; filter.byte_length()])).unwrap();
        let op = conv(input, filter, 1, 1);
        let output = builder.push_op(op.clone(), "").unwrap()[0];
        let graph = builder.build(vec![("y".into(), output)]).unwrap();
        let cpu = Cpu::new(1);
        let plan = compile(graph, cpu.evaluator(), Fusing::Quick, Preferences::default()).unwrap();
        let estimate = cpu.compile(plan).unwrap().estimate();
        let image: &[usize] = &[1, 56, 56, 64];
        let directly = nanoseconds(&op.into(), Some(0), &[image, &[64, 64, 3, 3]], &[image]);
        assert!(estimate < directly / 2, "{estimate} of {directly}");
    }
}
