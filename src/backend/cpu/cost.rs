//! A rough estimate of how long a node takes, to decide where it runs.

use crate::compiler::{element_count as count, multiplications};
use crate::graph::ops::layout::InputOperandLayout;
use crate::graph::{Op, OperandId};

/// Nanoseconds on one thread, within a factor of a few. Fast kernels pass over memory and multiply some ten times faster than
/// reference kernels: some 30 GB/s, and 50 multiplications a nanosecond. `taken` is how many multiplications of float32 such a kernel
/// takes as long as, if there is one.
pub fn nanoseconds(op: &Op, taken: Option<usize>, inputs: &[&[usize]], outputs: &[&[usize]]) -> usize {
    let written: usize = outputs.iter().map(|shape| count(shape)).sum();
    let read: usize = inputs.iter().map(|shape| count(shape)).sum();
    100 + match taken {
        Some(taken) => (written + read) / 8 + taken / 50,
        None => written + read / 4 + multiplications(op, inputs, outputs) / 4,
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
    use crate::backend::cpu::dispatch::Target;
    use crate::backend::cpu::kernels::bf16;
    use crate::compiler::testing::Preferring;
    use crate::compiler::{Fusing, Preferences, compile};
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::layout::Conv2dFilterOperandLayout;
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::{ConstantBytes, DataType, Descriptor, FpMath, Graph, GraphBuilder, Limits};
    use std::sync::Arc;

    fn conv(input: OperandId, filter: OperandId, groups: u32, padding: u32) -> Conv2d {
        Conv2d {
            padding: [padding; 4],
            groups,
            ..Conv2d::new(input, filter, InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Oihw)
        }
    }

    /// The convolution of an image, and what it is estimated to take directly, in float32.
    fn convolution() -> (Graph, usize) {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let input = builder.input("x", Descriptor::new(DataType::Float32, [1, 56, 56, 64])).unwrap();
        let filter = Descriptor::new(DataType::Float32, [64, 64, 3, 3]);
        let filter = builder.constant(filter.clone(), ConstantBytes::new(vec![0; filter.byte_length()])).unwrap();
        let op = conv(input, filter, 1, 1).into();
        let image: &[usize] = &[1, 56, 56, 64];
        let operands: [&[usize]; 2] = [image, &[64, 64, 3, 3]];
        let directly = nanoseconds(&op, Some(multiplications(&op, &operands, &[image])), &operands, &[image]);
        let output = builder.push_op(op, "").unwrap()[0];
        (builder.build(vec![("y".into(), output)]).unwrap(), directly)
    }

    fn product() -> Graph {
        let mut builder = GraphBuilder::new(Arc::new(Limits::everything()));
        let a = builder.input("a", Descriptor::new(DataType::Float32, [256, 256])).unwrap();
        let b = Descriptor::new(DataType::Float32, [256, 256]);
        let b = builder.constant(b.clone(), ConstantBytes::new(vec![0; b.byte_length()])).unwrap();
        let output = builder.push_op(Matmul { a, b }, "").unwrap()[0];
        builder.build(vec![("y".into(), output)]).unwrap()
    }

    fn estimate(mut graph: Graph, fp_math: FpMath) -> usize {
        let cpu = Cpu::new(1);
        graph.fp_math = fp_math;
        let preferences = Preferences { fusing: Fusing::Quick, patterns: true, orders: true, ..Preferences::default() };
        let schedule = compile(graph, &Preferring { of: cpu.capabilities(), preferences }).unwrap();
        cpu.compile(schedule).unwrap().estimate()
    }

    #[test]
    fn what_a_kernel_saves_is_not_counted() {
        let (graph, directly) = convolution();
        let estimate = estimate(graph, FpMath::Strict);
        assert!(estimate < directly / 2, "{estimate} of {directly}");
    }

    #[test]
    fn the_same_kernels_take_as_long_with_the_permission() {
        let target = Target { fp_math: FpMath::Bf16, ..Cpu::new(1).0.target };
        let [strict, rounded] = [FpMath::Strict, FpMath::Bf16].map(|fp_math| estimate(convolution().0, fp_math));
        match bf16::speed(&target) {
            ..=2 => assert_eq!(rounded, strict),
            // Other ones: tiles of bfloat16 are faster than Winograd's algorithm.
            _ => assert!(rounded <= strict, "{rounded} and {strict}"),
        }
    }

    #[test]
    fn products_take_less_where_instructions_for_bfloat16_are_faster() {
        let target = Target { fp_math: FpMath::Bf16, ..Cpu::new(1).0.target };
        let [strict, rounded] = [FpMath::Strict, FpMath::Bf16].map(|fp_math| estimate(product(), fp_math));
        assert_eq!(rounded < strict, bf16::speed(&target) > 1, "{rounded} and {strict}");
    }
}
