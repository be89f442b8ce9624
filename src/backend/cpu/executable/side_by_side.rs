//! Steps that run side by side, each on one thread: the attentions of several sequences. Each alone is short, for which threads are handed work
//! and waited for, and its stacks that share keys and values would be divided among them, so that several threads read these.
//!
//! 8 sequences of a decoder of 135 million weights (Zen 5, two threads): see "sequences side by side" in benches/RESULTS.md.

use super::regions::Regions;
use super::run::Watching;
use super::step::{Step, shapes};
use super::{Compiled, Executable};
use crate::backend::cpu::threads::for_each_job;
use crate::cancel::Cancel;
use crate::compiler::Schedule;
use crate::error::Result;
use crate::graph::Op;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Consecutive steps that do not need each other.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    pub steps: Range<usize>,
    /// Nanoseconds that all of them take on one thread, about.
    cost: usize,
}

/// Groups of as many steps as threads, or a multiple of that: so none is without any. The kernels of their steps are to be made for one thread.
pub fn find(steps: &[Step], schedule: &Schedule, threads: usize) -> Vec<Range<usize>> {
    let mut groups = Vec::new();
    let mut begin = 0;
    while begin < steps.len() {
        let mut end = begin + 1;
        while end < steps.len() && is_another(&steps[begin..end], &steps[end], schedule) {
            end += 1;
        }
        let count = (end - begin) / threads.max(1) * threads.max(1);
        if threads > 1 && count >= threads && is_attention(&steps[begin]) {
            groups.push(begin..begin + count);
        }
        begin = end;
    }
    groups
}

fn is_attention(step: &Step) -> bool {
    step.prologue.iter().any(|op| matches!(op, Op::Softmax(_))) && step.checks.is_empty()
}

/// Whether a step does the same as others to other values, and neither reads what they write nor writes what they read.
fn is_another(others: &[Step], step: &Step, schedule: &Schedule) -> bool {
    let is_alike = is_attention(step)
        && is_attention(&others[0])
        && shapes(&step.inputs) == shapes(&others[0].inputs)
        && shapes(&step.outputs) == shapes(&others[0].outputs);
    let are_apart = |writing: &Step, reading: &Step| {
        let mut read = reading.inputs.iter().chain(&reading.outputs);
        !read.any(|operand| writing.outputs.iter().any(|output| schedule.are_one(output.value, operand.value)))
    };
    is_alike && others.iter().all(|other| are_apart(other, step) && are_apart(step, other))
}

impl Group {
    /// Those whose memory is apart, now that all has its place.
    pub fn checked(groups: Vec<Range<usize>>, steps: &[Step]) -> Vec<Group> {
        let cost = |group: &Range<usize>| steps[group.clone()].iter().map(Step::estimate).fold(0, usize::saturating_add);
        let checked = groups.into_iter().filter(|group| are_apart(&steps[group.clone()]));
        checked.map(|steps| Group { cost: cost(&steps), steps }).collect()
    }
}

/// Whether no step writes what another one reads or writes.
fn are_apart(steps: &[Step]) -> bool {
    let is_apart = |(one, step): (usize, &Step)| {
        let written = step.outputs.iter().filter_map(|operand| operand.written());
        written.into_iter().all(|(region, range)| {
            let others = steps.iter().enumerate().filter(|(other, _)| *other != one);
            let mut operands = others.flat_map(|(_, other)| other.inputs.iter().chain(&other.outputs));
            operands.all(|operand| {
                operand.written().is_none_or(|(of, other)| of != region || other.end <= range.start || range.end <= other.start)
            })
        })
    };
    steps.iter().enumerate().all(is_apart)
}

impl Compiled {
    /// What [`Regions::all_operands`] relies on.
    pub fn assert_groups_are_apart(&self) {
        assert!(self.groups.iter().all(|group| are_apart(&self.steps[group.steps.clone()])));
    }

    /// The group that begins with a step.
    pub fn group_at(&self, step: usize) -> Option<&Group> {
        let number = self.groups.binary_search_by_key(&step, |group| group.steps.start).ok()?;
        Some(&self.groups[number])
    }
}

impl Executable {
    /// Runs the steps of a group.
    ///
    /// # Errors
    /// The first of those of its steps.
    pub(super) fn run_group(
        &self,
        group: &Group,
        regions: &mut Regions<'_>,
        cancel: &Cancel,
        watching: &Watching<'_>,
    ) -> Result<()> {
        let steps = &self.steps[group.steps.clone()];
        let operands: Vec<_> = regions.all_operands(group).into_iter().map(Mutex::new).collect();
        let results: Vec<Mutex<Result<bool>>> = steps.iter().map(|_| Mutex::new(Ok(true))).collect();
        for_each_job(steps.len(), group.cost, |job| {
            let began = watching.now();
            // Each is one thread's, so nobody waits and nobody sees what a panic left.
            let mut operands = operands[job].lock().unwrap_or_else(PoisonError::into_inner);
            let (views, written) = &mut *operands;
            *results[job].lock().unwrap_or_else(PoisonError::into_inner) = steps[job].caught(views, written, cancel);
            watching.step(self, group.steps.start + job, began);
        });
        cancel.check()?;
        results.into_iter().try_for_each(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner).map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::Cpu;
    use crate::backend::cpu::kernels::tests::numbers;
    use crate::backend::cpu::reference::interpret;
    use crate::backend::cpu::testing::{run_scheduled, scheduled};
    use crate::graph::ops::elementwise::{Binary, BinaryKind};
    use crate::graph::ops::softmax::Softmax;
    use crate::graph::testing::GraphSketch;
    use crate::graph::{Graph, OperandId};
    use std::collections::HashSet;

    const HEADS: u32 = 3;
    const DEPTH: u32 = 16;

    /// The result of one query of a sequence.
    fn attention(sketch: &mut GraphSketch, query: OperandId, sequence: usize, keys: u32) -> OperandId {
        let rows = sketch.input(&format!("rows {sequence}"), &[HEADS, keys, DEPTH]);
        let turned = sketch.transpose(rows, &[0, 2, 1]);
        let scores = sketch.product(query, turned);
        let weights = sketch.push(Softmax { input: scores, axis: 2 });
        sketch.product(weights, rows)
    }

    /// Attentions of sequences with so many keys, whose queries and results lie in the arena.
    fn sequences(keys: &[u32]) -> Graph {
        let mut sketch = GraphSketch::default();
        let queries: Vec<OperandId> = (0..keys.len())
            .map(|number| {
                let query = sketch.input(&format!("query {number}"), &[HEADS, 1, DEPTH]);
                sketch.push(Binary { kind: BinaryKind::Add, a: query, b: query })
            })
            .collect();
        let mut results: Vec<OperandId> = Vec::new();
        for (number, (query, &keys)) in queries.into_iter().zip(keys).enumerate() {
            results.push(attention(&mut sketch, query, number, keys));
        }
        let ends = results.into_iter().map(|result| sketch.push(Binary { kind: BinaryKind::Mul, a: result, b: result }));
        let outputs = ends.collect::<Vec<_>>().into_iter().enumerate().map(|(number, id)| (format!("{number}"), id)).collect();
        sketch.builder.build(outputs).unwrap()
    }

    /// Three, each of which asks with the result of the one before it.
    fn one_after_the_other() -> Graph {
        let mut sketch = GraphSketch::default();
        let query = sketch.input("query", &[HEADS, 1, DEPTH]);
        let last = (0..4).fold(query, |query, number| attention(&mut sketch, query, number, 40));
        sketch.builder.build(vec![("y".into(), last)]).unwrap()
    }

    /// How many steps each group has. The results are those of the operators one after the other, and the same to the bit in every run.
    fn groups(graph: &Graph, threads: usize) -> Vec<usize> {
        let cpu = Cpu::new(threads);
        let inputs: Vec<Vec<f32>> =
            graph.inputs.iter().zip(1..).map(|((_, id), seed)| numbers(graph.descriptor(*id).byte_length() / 4, seed)).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(|input| bytemuck::cast_slice(input)).collect();
        let wanted = interpret(graph, &inputs);
        let mut found: HashSet<Vec<Vec<u8>>> = HashSet::new();
        for _ in 0..20 {
            found.insert(run_scheduled(&cpu, graph, scheduled(graph, &cpu), &inputs));
        }
        assert_eq!(found.len(), 1, "runs differ");
        for (found, wanted) in found.iter().flatten().zip(&wanted) {
            let (found, wanted): (&[f32], &[f32]) = (bytemuck::cast_slice(found), bytemuck::cast_slice(wanted));
            assert!(found.iter().zip(wanted).all(|(x, y)| (x - y).abs() < 1e-5), "{found:?}, not {wanted:?}");
        }
        let executable = Executable::new(scheduled(graph, &cpu), &cpu.0.usage, &cpu.0.target, &cpu.0.cancel).unwrap();
        executable.groups.iter().map(|group| group.steps.len()).collect()
    }

    #[test]
    fn attentions_of_sequences_run_side_by_side() {
        if !Cpu::new(1).0.target.has_kernels() {
            return;
        }
        assert_eq!(groups(&sequences(&[40; 8]), 2), [8]);
        assert_eq!(groups(&sequences(&[40; 8]), 4), [8]);
        // One is left, with all threads.
        assert_eq!(groups(&sequences(&[40; 5]), 2), [4]);
        assert_eq!(groups(&sequences(&[40; 3]), 3), [3]);
        // Fewer than threads; one thread; others.
        assert_eq!(groups(&sequences(&[40; 3]), 4), [0; 0]);
        assert_eq!(groups(&sequences(&[40; 8]), 1), [0; 0]);
        assert_eq!(groups(&sequences(&[40, 40, 70, 70, 70]), 2), [2, 2]);
        assert_eq!(groups(&one_after_the_other(), 2), [0; 0]);
    }
}
