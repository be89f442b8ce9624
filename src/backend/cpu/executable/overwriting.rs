//! Operands that nobody needs any more, in whose memory a kernel writes its output, as residual branches that a convolution is
//! added to: so they are not fetched twice, and less of the cache is spoilt.

use super::step::{Memory, Step};
use crate::compiler::{Schedule, ValueId};

/// Lets such operands and outputs lie together, and gives all that lies in the arena its place.
pub fn place(steps: &mut [Step], schedule: &mut Schedule) {
    let requested: Vec<(usize, usize)> =
        steps.iter().enumerate().filter_map(|(number, step)| Some((number, of_step(step)?))).collect();
    let values = |&(step, input): &(usize, usize)| (steps[step].outputs[0].value, steps[step].inputs[input].value);
    let values: Vec<(ValueId, ValueId)> = requested.iter().map(values).collect();
    let fulfilled = schedule.overwrite(&values);
    for ((step, input), _) in requested.into_iter().zip(fulfilled).filter(|(_, is_fulfilled)| *is_fulfilled) {
        steps[step].overwritten = Some(input);
    }
    for operand in steps.iter_mut().flat_map(|step| step.inputs.iter_mut().chain(&mut step.outputs)) {
        if let Memory::Written { .. } = operand.memory {
            operand.memory = schedule.values[operand.value.0].place.into();
        }
    }
}

/// The input that a step's kernel can overwrite, if no other one lies there.
fn of_step(step: &Step) -> Option<usize> {
    let position = step.kernel.as_ref()?.overwrites()?.0 as usize;
    let input = step.inputs.get(position)?;
    let is_once = step.inputs.iter().filter(|other| other.memory == input.memory).count() == 1;
    // What is to be checked must be there to be looked at.
    let is_checked = step.checks.iter().any(|check| check.input == position);
    let is_plain = step.followers.is_empty() && step.order.is_none() && input.order.is_none() && !is_checked;
    (is_once && is_plain && step.outputs.len() == 1).then_some(position)
}

#[cfg(test)]
mod tests {
    use super::super::Executable;
    use crate::backend::cpu::Cpu;
    use crate::backend::cpu::kernels::tests::numbers;
    use crate::backend::cpu::testing::{both, scheduled};
    use crate::graph::ops::conv::Conv2d;
    use crate::graph::ops::elementwise::{Binary, BinaryKind};
    use crate::graph::ops::layout::{Conv2dFilterOperandLayout, InputOperandLayout};
    use crate::graph::ops::movement::Reshape;
    use crate::graph::{ConstantBytes, DataType, Descriptor, GraphBuilder, Limits, OperandId};
    use std::sync::Arc;

    const SHAPE: [u32; 4] = [1, 5, 7, 40];
    const BYTES: usize = 5 * 7 * 40 * 4;

    /// With the number of its convolutions, which have other weights each: of those that are alike one would be computed.
    struct Sketch(GraphBuilder, u64);

    impl Sketch {
        fn conv(&mut self, input: OperandId) -> OperandId {
            self.1 += 1;
            let weights = numbers(40 * 40, 8 + self.1).iter().flat_map(|x| (x / 4.0).to_le_bytes()).collect::<Vec<u8>>();
            let descriptor = Descriptor::new(DataType::Float32, [40, 1, 1, 40]);
            let filter = self.0.constant(descriptor, ConstantBytes::new(weights)).unwrap();
            let op = Conv2d::new(input, filter, InputOperandLayout::Nhwc, Conv2dFilterOperandLayout::Ohwi);
            self.0.push_op(op, "").unwrap()[0]
        }

        fn add(&mut self, a: OperandId, b: OperandId) -> OperandId {
            self.0.push_op(Binary { kind: BinaryKind::Add, a, b }, "").unwrap()[0]
        }

        /// A convolution, to which its own input's input is added.
        fn block(&mut self, input: OperandId) -> OperandId {
            let inside = self.conv(input);
            let outside = self.conv(inside);
            self.add(outside, input)
        }
    }

    /// How many steps of a graph overwrite an operand, and how many tensors its arena has room for. It computes what it should.
    fn overwritten(make: impl Fn(&mut Sketch, OperandId) -> Vec<OperandId>) -> (usize, usize) {
        let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())), 0);
        let input = sketch.0.input("x", Descriptor::new(DataType::Float32, SHAPE)).unwrap();
        let outputs = make(&mut sketch, input);
        let outputs = outputs.iter().enumerate().map(|(i, id)| (format!("y{i}"), *id)).collect();
        let graph = sketch.0.build(outputs).unwrap();
        let [found, expected] = both(&graph);
        for (found, expected) in found.iter().zip(&expected) {
            let (found, expected): (&[f32], &[f32]) = (bytemuck::cast_slice(found), bytemuck::cast_slice(expected));
            assert!(found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-4), "{found:?}, not {expected:?}");
        }
        let cpu = Cpu::new(1);
        let executable = Executable::new(scheduled(&graph, &cpu), &cpu.0.usage, &cpu.0.target, &cpu.0.cancel).unwrap();
        let count = executable.steps.iter().filter(|step| step.overwritten.is_some()).count();
        (count, executable.arena_length / BYTES)
    }

    #[test]
    fn a_residual_branch_that_ends_is_overwritten() {
        if !Cpu::new(1).0.target.has_kernels() {
            return;
        }
        let chain = |sketch: &mut Sketch, x| {
            let first = sketch.conv(x);
            let last = (0..4).fold(first, |x, _| sketch.block(x));
            vec![sketch.conv(last)]
        };
        assert_eq!(overwritten(chain), (4, 2));
        // Under another name.
        let renamed = |sketch: &mut Sketch, x| {
            let first = sketch.conv(x);
            let flat = sketch.0.push_op(Reshape { input: first, new_shape: vec![5, 280] }, "").unwrap()[0];
            let again = sketch.0.push_op(Reshape { input: flat, new_shape: SHAPE.to_vec() }, "").unwrap()[0];
            let inside = sketch.conv(first);
            let outside = sketch.conv(inside);
            let sum = sketch.add(again, outside);
            vec![sketch.conv(sum)]
        };
        assert_eq!(overwritten(renamed), (1, 2));
    }

    #[test]
    fn others_stay() {
        // Inputs of the graph; what becomes an output of it; what is needed later, if only as an output; what is convolved.
        assert_eq!(overwritten(|sketch, x| vec![sketch.block(x)]).0, 0);
        let last = |sketch: &mut Sketch, x| {
            let first = sketch.conv(x);
            vec![sketch.block(first)]
        };
        assert_eq!(overwritten(last).0, 0);
        let later = |sketch: &mut Sketch, x| {
            let first = sketch.conv(x);
            let sum = sketch.block(first);
            let other = sketch.conv(first);
            let inside = sketch.conv(sum);
            vec![sketch.add(other, inside)]
        };
        assert_eq!(overwritten(later).0, 0);
        let wanted = |sketch: &mut Sketch, x| {
            let first = sketch.conv(x);
            let sum = sketch.block(first);
            vec![sketch.conv(sum), first]
        };
        assert_eq!(overwritten(wanted).0, 0);
        let itself = |sketch: &mut Sketch, x| {
            let first = sketch.conv(x);
            let second = sketch.conv(first);
            let sum = sketch.add(second, first);
            vec![sketch.conv(sum)]
        };
        assert_eq!(overwritten(itself).0, 0);
    }
}
