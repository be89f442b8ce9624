//! Inputs that only a concatenation reads, which makes an output of the graph, as those of a cache of keys and values: where they
//! are copied anyway, they can be copied to their places in that output, and the concatenation leaves them out.

use super::step::{Memory, Step};
use crate::graph::Op;
use crate::host_memory::{Placement, Placements};
use crate::memory::Runs;
use std::collections::HashSet;

/// By input.
pub fn find(steps: &[Step], inputs: usize) -> Placements {
    let mut readers = vec![0; inputs];
    for operand in steps.iter().flat_map(|step| &step.inputs) {
        if let Memory::Input(position) = operand.memory {
            readers[position] += 1;
        }
    }
    let mut placements = vec![None; inputs];
    // Memory that something else was in before.
    let mut used = HashSet::new();
    for step in steps {
        for (position, placement) in of_step(step, &used).into_iter().flatten() {
            if readers[position] == 1 {
                placements[position] = Some(placement);
            }
        }
        used.extend(step.inputs.iter().chain(&step.outputs).filter_map(|operand| operand.written().map(|(region, _)| region)));
    }
    placements
}

/// The inputs of the graph that are parts of an output, if that is what the step makes.
fn of_step(step: &Step, used: &HashSet<usize>) -> Option<Vec<(usize, Placement)>> {
    let Op::Concat(op) = &step.op else { return None };
    let output = &step.outputs[0];
    let Memory::Written { region, offset: 0 } = output.memory else { return None };
    // The kernel alone leaves out what is there, and nothing else is done to it.
    let is_plain = step.kernel.is_some() && step.followers.is_empty() && step.order.is_none();
    if region == 0 || used.contains(&region) || !is_plain {
        return None;
    }
    let bytes = |shape: &[usize]| shape[op.axis as usize..].iter().product::<usize>() * output.data_type.bits() / 8;
    let (stride, mut end) = (bytes(&output.shape), 0);
    let mut parts = Vec::new();
    for id in &op.inputs {
        let operand = &step.inputs[id.0 as usize];
        let (first, run) = (end, bytes(&operand.shape));
        end += run;
        let is_once = op.inputs.iter().filter(|other| *other == id).count() == 1;
        if let Memory::Input(position) = operand.memory
            && is_once
            && operand.order.is_none()
        {
            parts.push((position, Placement { output: region - 1, first, runs: Runs { run, stride } }));
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::Backend;
    use crate::backend::cpu::Cpu;
    use crate::compiler::compile;
    use crate::graph::ops::elementwise::{Unary, UnaryKind};
    use crate::graph::ops::movement::Concat;
    use crate::graph::{DataType, Descriptor, GraphBuilder, OperandId};

    type Outputs = Vec<(String, OperandId)>;

    /// The placements of two inputs of 2 x 3 and 2 x 4 elements, of which `make` makes the outputs.
    fn placements(data_type: DataType, make: impl Fn(&mut GraphBuilder, [OperandId; 2]) -> Outputs) -> Placements {
        let cpu = Cpu::new(1);
        let mut builder = GraphBuilder::new(cpu.limits().clone());
        let inputs =
            [("a", [2, 3]), ("b", [2, 4])].map(|(name, shape)| builder.input(name, Descriptor::new(data_type, shape)).unwrap());
        let outputs = make(&mut builder, inputs);
        let graph = builder.build(outputs).unwrap();
        let schedule = compile(graph, cpu.capabilities()).unwrap();
        cpu.placements(&cpu.compile(schedule).unwrap())
    }

    fn concat(builder: &mut GraphBuilder, inputs: &[OperandId]) -> OperandId {
        builder.push_op(Concat { inputs: inputs.to_vec(), axis: 1 }, "").unwrap()[0]
    }

    fn negative(builder: &mut GraphBuilder, input: OperandId) -> OperandId {
        builder.push_op(Unary { kind: UnaryKind::Neg, input }, "").unwrap()[0]
    }

    #[test]
    fn inputs_lie_in_the_output_that_only_a_concatenation_makes_of_them() {
        let found = placements(DataType::Int32, |builder, [a, b]| {
            let other = negative(builder, b);
            vec![("other".into(), other), ("y".into(), concat(builder, &[a, other]))]
        });
        assert_eq!(found, [Some(Placement { output: 1, first: 0, runs: Runs { run: 12, stride: 28 } }), None]);
        let found = placements(DataType::Uint8, |builder, [a, b]| vec![("y".into(), concat(builder, &[b, a]))]);
        let placement = |first, run| Some(Placement { output: 0, first, runs: Runs { run, stride: 7 } });
        assert_eq!(found, [placement(4, 3), placement(0, 4)]);
    }

    #[test]
    fn others_do_not() {
        // Read by somebody else, or twice; what is made is not an output.
        let read = |builder: &mut GraphBuilder, [a, b]: [OperandId; 2]| {
            let other = negative(builder, a);
            vec![("y".into(), concat(builder, &[a, other])), ("z".into(), concat(builder, &[b, b]))]
        };
        assert_eq!(placements(DataType::Int32, read), [None, None]);
        let inside = |builder: &mut GraphBuilder, [a, b]: [OperandId; 2]| {
            let joined = concat(builder, &[a, b]);
            vec![("y".into(), negative(builder, joined))]
        };
        assert_eq!(placements(DataType::Float32, inside), [None, None]);
        // An output that somebody reads later is none of them.
        let twice = |builder: &mut GraphBuilder, [a, b]: [OperandId; 2]| {
            let joined = concat(builder, &[a, b]);
            vec![("y".into(), joined), ("z".into(), negative(builder, joined))]
        };
        assert!(placements(DataType::Float32, twice).iter().all(Option::is_some));
    }
}
