//! Tells the kernels which of their operands hide keys that need not be looked at ([`Graph::hiding`](crate::graph::Graph::hiding)).

use super::step::Step;
use crate::compiler::{Place, Schedule};
use crate::graph::Op;

/// Finds these values: inputs of the graph, and what is a cast of one.
pub fn mark(steps: &mut [Step], schedule: &Schedule) {
    if schedule.hiding.is_empty() {
        return;
    }
    let is_hiding = |place: &Place| matches!(place, Place::Input(input) if schedule.hiding.contains(&schedule.inputs[*input].0));
    let mut hides: Vec<bool> = schedule.values.iter().map(|value| is_hiding(&value.place)).collect();
    for step in steps {
        if let (Op::Cast(_), [input]) = (&step.op, &step.inputs[..])
            && step.followers.is_empty()
            && step.fused_names.is_empty()
        {
            hides[step.outputs[0].value.0] |= hides[input.value.0];
        }
        if let Some(kernel) = &mut step.kernel {
            let inputs = &step.inputs;
            kernel.hide(&|id| inputs.get(id.0 as usize).is_some_and(|input| hides[input.value.0]));
        }
    }
}
