//! What profiles say of the steps of a schedule.

use crate::compiler::{Place, Schedule, Step, ValueId, Written, bytes_moved, describe, multiplications, sources};
use crate::watch::Description;

/// Of each step, but for the name of what computes it.
pub fn steps(schedule: &Schedule) -> Vec<Description> {
    let list = |ids: &[ValueId]| ids.iter().filter_map(|&id| written(schedule, id)).collect();
    let memory: Vec<[Vec<Written>; 2]> = schedule.steps.iter().map(|step| [list(&step.inputs), list(&step.outputs)]).collect();
    let described = |(step, sources)| Description { sources, ..of(schedule, step) };
    schedule.steps.iter().zip(sources(&memory)).map(described).collect()
}

/// Memory that a run writes.
fn written(schedule: &Schedule, id: ValueId) -> Option<Written> {
    let value = &schedule.values[id.0];
    let length = value.descriptor.byte_length();
    match value.place {
        Place::Arena(offset) => Some((0, offset..offset + length)),
        Place::Output(position) => Some((1 + position, 0..length)),
        _ => None,
    }
}

fn of(schedule: &Schedule, step: &Step) -> Description {
    let shape = |id: &ValueId| schedule.values[id.0].descriptor.shape.iter().map(|&size| size as usize).collect::<Vec<_>>();
    let [inputs, outputs] = [&step.inputs, &step.outputs].map(|ids| ids.iter().map(shape).collect::<Vec<_>>());
    let [inputs, outputs] = [&inputs, &outputs].map(|shapes| shapes.iter().map(Vec::as_slice).collect::<Vec<_>>());
    let operators = std::iter::once(&step.op).chain(&step.fused).map(|op| op.row().name);
    let text = describe(operators, inputs.iter().copied(), outputs.iter().copied());
    let length = |id: &ValueId| schedule.values[id.0].descriptor.byte_length();
    let [read, written] = [&step.inputs, &step.outputs].map(|ids| ids.iter().map(length).collect::<Vec<_>>());
    Description {
        text: if step.label.is_empty() { text } else { format!("{text} \"{}\"", step.label) },
        implementation: "".into(),
        multiplications: multiplications(&step.op, &inputs, &outputs),
        bytes: bytes_moved(&step.op, &read, &written),
        data_type: step.inputs.first().map_or("", |id| schedule.values[id.0].descriptor.data_type.name()).into(),
        sources: Vec::new(),
    }
}
