//! A rough estimate of how long a node takes, to decide where it runs.

use crate::compiler::{element_count as count, multiplications};
use crate::graph::Op;

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::cpu::Cpu;
    use crate::compiler::{Fusing, Preferences, compile};
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
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
