//! Values that lie in memory as bfloat16 from the step that makes them to those that read them, where the graph allows it: half of the
//! bytes are written and read, and what products would round while they pack it is rounded once.
//!
//! Only what a product rounds anyway does. So no function of a position and no sum before a normalization has fewer bits than it would
//! have without. Of these it does where no more is paid than saved, counted in passes over the numbers: a product that need not round
//! them saves one, a kernel that rounds or widens to other memory, beside what it does anyway, pays one; in registers nothing is paid.
//! Where the second-level cache does not hold them, half of the bytes save one whenever they are written or read.
//!
//! Float16 is decided on before the steps are made ([`half_promotion`](crate::compiler)): there values have that type, and operators
//! say as what they compute. Here the type of a value is float32 and stays so for whoever sees it; whether it may lie in memory in fewer
//! bits follows from the kernels that have been chosen, which are not known before.

use super::step::{Operand, Step};
use crate::backend::cpu::dispatch::Target;
use crate::backend::cpu::kernels::{Bf16Support, bf16};
use crate::backend::cpu::view::NARROW;
use crate::compiler::{Read, Schedule, ValueId};
use crate::graph::{DataType, OperandId};

/// Asks the kernels what they load and store so, and the schedule what follows from it, on a CPU with instructions for bfloat16. Places of
/// operands are others afterwards, and are looked up by [`overwriting::place`](super::overwriting::place).
pub fn place(steps: &mut [Step], schedule: &mut Schedule, target: &Target) {
    if bf16::microkernels(target).is_err() {
        return;
    }
    let storages: Vec<Bf16Support> = steps.iter().map(of_step).collect();
    let of_bytes = |operand: &Operand| isize::from(operand.length > target.caches.second);
    let stored = |(step, storage): (&Step, &Bf16Support)| {
        let output = &step.outputs[0];
        (output.value, of_bytes(output) - isize::from(storage.rounds_output))
    };
    let stores = steps.iter().zip(&storages).filter(|(_, storage)| storage.stores).map(stored);
    let stores: Vec<(ValueId, isize)> = stores.collect();
    let reads = steps.iter().zip(&storages).flat_map(|(step, storage)| {
        let read = move |(position, operand): (usize, &Operand)| {
            let id = OperandId(position as u32);
            if !storage.loads.contains(&id) {
                return (operand.value, Read::Float32);
            }
            let rounds = storage.rounds.contains(&id);
            let gain = of_bytes(operand) + isize::from(rounds) - isize::from(storage.widens.contains(&id));
            (operand.value, Read::Either { rounds, gain })
        };
        step.inputs.iter().enumerate().map(read)
    });
    let reads: Vec<(ValueId, Read)> = reads.collect();
    let is_narrow = schedule.narrow(&stores, &reads);
    for operand in steps.iter_mut().flat_map(|step| step.inputs.iter_mut().chain(&mut step.outputs)) {
        if is_narrow[operand.value.0] {
            operand.length = operand.length / size_of::<f32>() * NARROW;
        }
    }
}

/// What the kernel of a step says, if it does all of the step.
fn of_step(step: &Step) -> Bf16Support {
    let Some(kernel) = step.kernel.as_ref().filter(|_| step.followers.is_empty()) else { return Bf16Support::default() };
    let mut storage = kernel.bf16_support();
    storage.stores &= step.outputs.len() == 1 && step.outputs[0].data_type == DataType::Float32;
    storage.loads.retain(|id| step.inputs.get(id.0 as usize).is_some_and(|operand| operand.data_type == DataType::Float32));
    storage
}

#[cfg(test)]
mod tests {
    use super::super::Executable;
    use crate::backend::cpu::Cpu;
    use crate::backend::cpu::kernels::tests::numbers;
    use crate::backend::cpu::testing::{run, scheduled};
    use crate::graph::ops::elementwise::{Activation, ActivationKind, Binary, BinaryKind};
    use crate::graph::ops::matmul::Matmul;
    use crate::graph::ops::movement::{Reshape, Reverse};
    use crate::graph::ops::normalization::LayerNormalization;
    use crate::graph::{ConstantBytes, DataType, Descriptor, FpMath, GraphBuilder, Limits, OperandId};
    use std::sync::Arc;

    const ROWS: u32 = 20;
    const COLUMNS: u32 = 64;
    const BYTES: usize = (ROWS * COLUMNS) as usize * size_of::<f32>();

    struct Sketch(GraphBuilder);

    impl Sketch {
        fn product(&mut self, a: OperandId) -> OperandId {
            let weights =
                numbers((COLUMNS * COLUMNS) as usize, 9).iter().flat_map(|x| (x / 5.0).to_le_bytes()).collect::<Vec<u8>>();
            let b = self.0.constant(Descriptor::new(DataType::Float32, [COLUMNS; 2]), ConstantBytes::new(weights)).unwrap();
            self.0.push_op(Matmul { a, b }, "").unwrap()[0]
        }

        fn function(&mut self, input: OperandId) -> OperandId {
            self.0.push_op(Activation { kind: ActivationKind::Softplus, input }, "").unwrap()[0]
        }

        fn normalized(&mut self, input: OperandId) -> OperandId {
            let op = LayerNormalization { input, scale: None, bias: None, axes: Some(vec![1]), epsilon: 1e-5 };
            self.0.push_op(op, "").unwrap()[0]
        }

        /// What no kernel reads as bfloat16.
        fn transposed(&mut self, input: OperandId) -> OperandId {
            self.0.push_op(Reverse { input, axes: None }, "").unwrap()[0]
        }

        fn add(&mut self, a: OperandId, b: OperandId) -> OperandId {
            self.0.push_op(Binary { kind: BinaryKind::Add, a, b }, "").unwrap()[0]
        }

        fn reshaped(&mut self, input: OperandId, shape: &[u32]) -> OperandId {
            self.0.push_op(Reshape { input, new_shape: shape.to_vec() }, "").unwrap()[0]
        }
    }

    /// For each step, whether its output lies as bfloat16; and the results are near what they are in float32.
    fn narrow(make: impl Fn(&mut Sketch, OperandId) -> Vec<OperandId>) -> Vec<bool> {
        let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())));
        let input = sketch.0.input("x", Descriptor::new(DataType::Float32, [ROWS, COLUMNS])).unwrap();
        let outputs = make(&mut sketch, input);
        let outputs = outputs.iter().enumerate().map(|(i, id)| (format!("y{i}"), *id)).collect();
        let mut graph = sketch.0.build(outputs).unwrap();
        let x = numbers((ROWS * COLUMNS) as usize, 3);
        let strict = run(&graph, &[bytemuck::cast_slice(&x)]);
        graph.fp_math = FpMath::Bf16;
        for (found, expected) in run(&graph, &[bytemuck::cast_slice(&x)]).iter().zip(&strict) {
            let (found, expected): (&[f32], &[f32]) = (bytemuck::cast_slice(found), bytemuck::cast_slice(expected));
            assert!(found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 0.05), "{found:?}, not {expected:?}");
        }
        let cpu = Cpu::of_any_size(1);
        let executable = Executable::new(scheduled(&graph, &cpu), &cpu.0.usage, &cpu.0.target, &cpu.0.cancel).unwrap();
        executable.steps.iter().map(|step| step.outputs[0].length < BYTES).collect()
    }

    #[test]
    fn what_products_hand_on_to_products_lies_as_bfloat16() {
        if !Cpu::new(1).0.target.has_kernels() {
            return;
        }
        // Not what is an output of the graph, or is read by something else, under whatever name.
        let chain = |sketch: &mut Sketch, x| {
            let first = sketch.product(x);
            let flat = sketch.reshaped(first, &[1, ROWS, COLUMNS]);
            let second = sketch.product(flat);
            vec![sketch.product(second)]
        };
        assert_eq!(narrow(chain), [true, true, false]);
        let seen = |sketch: &mut Sketch, x| {
            let first = sketch.product(x);
            let second = sketch.product(first);
            vec![sketch.product(second), second]
        };
        assert_eq!(narrow(seen), [true, false, false]);
        let read = |sketch: &mut Sketch, x| {
            let first = sketch.product(x);
            let name = sketch.reshaped(first, &[COLUMNS, ROWS]);
            let other = sketch.transposed(name);
            let (second, other) = (sketch.product(first), sketch.reshaped(other, &[ROWS, COLUMNS]));
            let sum = sketch.add(second, other);
            vec![sketch.product(sum)]
        };
        assert!(!narrow(read)[0]);
        // What a function reads beside a product does, and nothing that no product rounds.
        let read = |sketch: &mut Sketch, x| {
            let first = sketch.product(x);
            let name = sketch.reshaped(first, &[COLUMNS, ROWS]);
            let other = sketch.function(name);
            let (second, other) = (sketch.product(first), sketch.reshaped(other, &[ROWS, COLUMNS]));
            vec![second, other]
        };
        assert!(narrow(read)[0]);
        let read = |sketch: &mut Sketch, x| {
            let first = sketch.product(x);
            let name = sketch.reshaped(first, &[COLUMNS, ROWS]);
            vec![sketch.function(name)]
        };
        assert!(!narrow(read)[0]);
    }

    #[test]
    fn no_more_is_paid_than_saved() {
        if !Cpu::new(1).0.target.has_kernels() {
            return;
        }
        // The product rounds its output from other memory, and the normalization widens to other memory: two passes.
        for products in [1, 2] {
            let read = |sketch: &mut Sketch, x| {
                let first = sketch.product(x);
                let mut outputs = vec![sketch.normalized(first)];
                outputs.extend((0..products).map(|_| sketch.product(first)));
                outputs
            };
            assert_eq!(narrow(read)[0], products == 2, "{products} passes saved");
        }
    }

    #[test]
    fn nothing_does_without_the_permission() {
        let mut sketch = Sketch(GraphBuilder::new(Arc::new(Limits::everything())));
        let input = sketch.0.input("x", Descriptor::new(DataType::Float32, [ROWS, COLUMNS])).unwrap();
        let first = sketch.product(input);
        let second = sketch.product(first);
        let graph = sketch.0.build(vec![("y".into(), second)]).unwrap();
        let cpu = Cpu::of_any_size(1);
        let executable = Executable::new(scheduled(&graph, &cpu), &cpu.0.usage, &cpu.0.target, &cpu.0.cancel).unwrap();
        assert!(executable.steps.iter().flat_map(|step| &step.outputs).all(|output| output.length == BYTES));
    }
}
