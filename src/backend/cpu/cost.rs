//! A rough estimate of how long a node takes, to decide where it runs.

use crate::graph::Op;

/// Nanoseconds on one thread, within a factor of a few. Fast kernels pass over memory and multiply some ten times faster than
/// reference kernels: some 30 GB/s, and 50 multiplications a nanosecond. `saved` is how many multiplications such a kernel
/// does without, if there is one.
pub fn nanoseconds(op: &Op, saved: Option<usize>, inputs: &[&[usize]], outputs: &[&[usize]]) -> usize {
    let written: usize = outputs.iter().map(|shape| count(shape)).sum();
    let read: usize = inputs.iter().map(|shape| count(shape)).sum();
    let multiplications = multiplications(op, inputs, [read, written]);
    100 + match saved {
        Some(saved) => (written + read) / 8 + multiplications.saturating_sub(saved) / 50,
        None => written + read / 4 + multiplications / 4,
    }
}

fn count(shape: &[usize]) -> usize {
    shape.iter().product()
}

/// Of the operators that do many for each element; so many are read and written.
fn multiplications(op: &Op, inputs: &[&[usize]], [read, written]: [usize; 2]) -> usize {
    match op {
        // Each output element sums over a filter's window and channels.
        Op::Conv2d(op) => {
            let [_, channels, height, width] = op.filter_layout.to_oihw(inputs[op.filter.0 as usize]);
            written.saturating_mul(channels * height * width)
        }
        // Each input element is multiplied with a filter's window, for each channel of the output.
        Op::ConvTranspose2d(op) => {
            let [_, channels, height, width] = op.filter_layout.to_iohw(inputs[op.filter.0 as usize]);
            count(inputs[op.input.0 as usize]).saturating_mul(channels * height * width)
        }
        Op::Matmul(_) | Op::Gemm(_) | Op::IntegerMatmul(_) => {
            written.saturating_mul(inputs[0].iter().rev().take(2).copied().max().unwrap_or(1))
        }
        // Every step of every sequence multiplies with all weights.
        Op::Gru(_) | Op::Lstm(_) | Op::GruCell(_) | Op::LstmCell(_) => {
            read.saturating_mul(inputs[0].iter().rev().skip(1).product())
        }
        // A node of a tree takes as long as sixteen, since it is somewhere else in memory than the one before.
        Op::TreeEnsemble(op) => {
            let walks = inputs[op.input.0 as usize][0].saturating_mul(count(inputs[op.roots.0 as usize]));
            walks.saturating_mul(op.depth as usize + 1).saturating_mul(16)
        }
        Op::PairwiseCoupling(op) => written.saturating_mul(op.classes as usize).saturating_mul(20),
        Op::Determinant(op) => {
            let input = inputs[op.input.0 as usize];
            count(input).saturating_mul(input[input.len() - 1])
        }
        // A region may be the whole image.
        Op::RoiMaxPool(op) => {
            let [_, channels, height, width] = *inputs[op.input.0 as usize] else { return 0 };
            inputs[op.regions.0 as usize][0].saturating_mul(channels * height * width)
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
    use crate::graph::ops::conv::{Conv2d, ConvTranspose2d};
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout, ConvTranspose2dFilterOperandLayout, InputOperandLayout};
    use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits, OperandId};
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
    fn multiplications_of_convolutions() {
        let (input, filter) = (OperandId(0), OperandId(1));
        // With more channels of the input than of the output, and the other way round.
        for [channels, outputs] in [[1024, 256], [256, 1024]] {
            let op = Op::from(conv(input, filter, 1, 0));
            let shapes: [&[usize]; 2] = [&[1, 7, 7, channels], &[outputs, channels, 1, 1]];
            assert_eq!(multiplications(&op, &shapes, [0, 49 * outputs]), 49 << 18);
        }
        let op = Op::from(conv(input, filter, 96, 1));
        assert_eq!(multiplications(&op, &[&[1, 7, 7, 96], &[96, 1, 3, 3]], [0, 49 * 96]), 49 * 96 * 9);
        let op = Op::from(ConvTranspose2d {
            input,
            filter,
            padding: [0; 4],
            strides: [2; 2],
            dilations: [1; 2],
            output_padding: [0; 2],
            output_sizes: None,
            groups: 1,
            input_layout: InputOperandLayout::Nhwc,
            filter_layout: ConvTranspose2dFilterOperandLayout::Iohw,
            bias: None,
        });
        assert_eq!(multiplications(&op, &[&[1, 7, 7, 64], &[64, 32, 2, 2]], [0, 14 * 14 * 32]), 49 * 64 * 32 * 4);
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
