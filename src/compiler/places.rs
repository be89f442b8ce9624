//! The second half of scheduling: where the values of steps lie. The graph's inputs and outputs are bound tensors; every other value is a
//! constant, or has an offset in one arena by its lifetime.

use super::arena::Lifetime;
use super::compilation::Compilation;
use super::schedule::{Check, Place, Schedule, Step, Value, ValueId};
use super::steps::{Pending, Steps};
use crate::error::Result;
use crate::graph::ops::elementwise::{Unary, UnaryKind};
use crate::graph::{ConstantBytes, Graph, Op, OperandId, Source};
use std::collections::HashMap;

/// Lays out the steps of a graph. An output is a copy, after all other steps, where its memory is an input, a constant or another
/// output already.
///
/// # Errors
/// When nobody wants the graph any more.
pub fn place(graph: &Graph, steps: Steps, compilation: &Compilation<'_>) -> Result<Schedule> {
    let Steps { list, root, orders } = steps;
    let mut bound = Bound::find(graph, &root);
    let (arena, lifetimes) = lifetimes(graph, &list, &root, &bound, compilation)?;
    let mut life_of = vec![None; graph.operands.len()];
    for (number, id) in arena.iter().enumerate() {
        bound.places[id.0 as usize] = Some(Place::Arena(0));
        life_of[id.0 as usize] = Some(number);
    }
    let checks = Checks::find(graph, &root);
    let mut values = Values::new(graph, &root, &orders, &bound.places, &life_of);
    let mut finished: Vec<Step> = list.into_iter().map(|step| values.step(step, &checks)).collect();
    let sources: Vec<ValueId> = bound.copies.iter().map(|(_, id)| values.of(*id)).collect();
    for (&(position, id), source) in bound.copies.iter().zip(sources) {
        finished.push(values.copy(position, id, source, &checks));
    }
    let Values { list, lives, .. } = values;
    let describe = |names: &[(String, OperandId)]| {
        names.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect::<Vec<_>>()
    };
    let mut schedule = Schedule {
        values: list,
        constants: bound.constants,
        steps: finished,
        inputs: describe(&graph.inputs),
        outputs: describe(&graph.outputs),
        arena_length: 0,
        lifetimes,
        lives,
        shared: graph.shared.clone(),
        fp_math: graph.fp_math,
        hiding: graph.hiding.clone(),
    };
    schedule.place();
    // Only constants that a step reads are worth keeping.
    schedule.drop_unused_constants();
    Ok(schedule)
}

/// Which operands lie in tensors or are constants.
struct Bound {
    /// By operand.
    places: Vec<Option<Place>>,
    constants: Vec<ConstantBytes>,
    /// Outputs of the graph that are copies of an operand.
    copies: Vec<(usize, OperandId)>,
}

impl Bound {
    fn find(graph: &Graph, root: &[OperandId]) -> Bound {
        let mut constants = Vec::new();
        let mut places: Vec<Option<Place>> = vec![None; graph.operands.len()];
        for (position, (_, id)) in graph.inputs.iter().enumerate() {
            places[id.0 as usize] = Some(Place::Input(position));
        }
        for (position, operand) in graph.operands.iter().enumerate() {
            if let Source::Constant(bytes) = &operand.source {
                constants.push(bytes.clone());
                places[position] = Some(Place::Constant(constants.len() - 1));
            }
        }
        // The first output over some memory owns it; the others, and those over inputs and constants, are copies.
        let mut copies = Vec::new();
        for (position, (_, id)) in graph.outputs.iter().enumerate() {
            let place = &mut places[root[id.0 as usize].0 as usize];
            match place {
                None => *place = Some(Place::Output(position)),
                Some(_) => copies.push((position, *id)),
            }
        }
        Bound { places, constants, copies }
    }
}

/// The operands that are neither, and in which steps they live.
fn lifetimes(
    graph: &Graph,
    steps: &[Pending],
    root: &[OperandId],
    bound: &Bound,
    compilation: &Compilation<'_>,
) -> Result<(Vec<OperandId>, Vec<Lifetime>)> {
    let mut lifetimes: HashMap<OperandId, Lifetime> = HashMap::new();
    for step in compilation.each(steps.iter().enumerate()) {
        let (number, step) = step?;
        for &id in &step.operators.outputs {
            if bound.places[id.0 as usize].is_none() {
                lifetimes.insert(id, Lifetime { bytes: graph.descriptor(id).byte_length(), first: number, last: number });
            }
        }
        for id in &step.operators.operands {
            if let Some(lifetime) = lifetimes.get_mut(&root[id.0 as usize]) {
                lifetime.last = number;
            }
        }
    }
    // Copies run after all other steps, and keep what they read until then.
    for (_, id) in &bound.copies {
        if let Some(lifetime) = lifetimes.get_mut(&root[id.0 as usize]) {
            lifetime.last = steps.len();
        }
    }
    let mut arena: Vec<(OperandId, Lifetime)> = lifetimes.into_iter().collect();
    arena.sort_by_key(|(id, _)| *id);
    Ok(arena.into_iter().unzip())
}

/// The values of a schedule, made of operands when a step has them.
struct Values<'a> {
    graph: &'a Graph,
    /// By operand: what [`Steps`] says of it, where it lies, and which of the lifetimes it has.
    root: &'a [OperandId],
    orders: &'a [Option<Vec<u32>>],
    places: &'a [Option<Place>],
    life_of: &'a [Option<usize>],
    numbers: Vec<Option<ValueId>>,
    list: Vec<Value>,
    /// See [`Schedule`].
    lives: Vec<Option<usize>>,
}

impl<'a> Values<'a> {
    fn new(
        graph: &'a Graph,
        root: &'a [OperandId],
        orders: &'a [Option<Vec<u32>>],
        places: &'a [Option<Place>],
        life_of: &'a [Option<usize>],
    ) -> Values<'a> {
        let (numbers, list, lives) = (vec![None; places.len()], Vec::new(), Vec::new());
        Values { graph, root, orders, places, life_of, numbers, list, lives }
    }

    /// The value of an operand. Operands that nobody places are not used by any step either.
    fn of(&mut self, id: OperandId) -> ValueId {
        if let Some(value) = self.numbers[id.0 as usize] {
            return value;
        }
        let root = self.root[id.0 as usize].0 as usize;
        let place = self.places[root].expect("a step's operands have places");
        let value = self.add(id, place, self.life_of[root], self.orders[id.0 as usize].clone());
        self.numbers[id.0 as usize] = Some(value);
        value
    }

    fn add(&mut self, id: OperandId, place: Place, life: Option<usize>, order: Option<Vec<u32>>) -> ValueId {
        self.list.push(Value { descriptor: self.graph.descriptor(id).clone(), place, order });
        self.lives.push(life);
        ValueId(self.list.len() - 1)
    }

    fn step(&mut self, step: Pending, checks: &Checks) -> Step {
        let operators = step.operators;
        Step {
            prologue: operators.prologue,
            dequantized: operators.dequantized,
            op: operators.op,
            fused: operators.fused,
            label: self.graph.nodes[step.node].label.clone(),
            checks: checks.of(self.graph, &operators.operands),
            inputs: operators.operands.into_iter().map(|id| self.of(id)).collect(),
            outputs: operators.outputs.into_iter().map(|id| self.of(id)).collect(),
            order: step.order,
        }
    }

    /// The step that copies a value to an output of the graph.
    fn copy(&mut self, position: usize, id: OperandId, source: ValueId, checks: &Checks) -> Step {
        let output = self.add(id, Place::Output(position), None, None);
        Step {
            prologue: Vec::new(),
            dequantized: Vec::new(),
            op: Unary { kind: UnaryKind::Identity, input: OperandId(0) }.into(),
            fused: Vec::new(),
            label: String::new(),
            inputs: vec![source],
            outputs: vec![output],
            order: None,
            checks: checks.of(self.graph, &[id]),
        }
    }
}

/// By operand, the nodes that check it under one of its names.
struct Checks(HashMap<OperandId, Vec<usize>>);

impl Checks {
    fn find(graph: &Graph, root: &[OperandId]) -> Checks {
        let mut checks: HashMap<OperandId, Vec<usize>> = HashMap::new();
        for (position, node) in graph.nodes.iter().enumerate() {
            let output = node.outputs[0];
            let is_check = matches!(node.op, Op::CheckIndices(_));
            if !is_check && (checks.is_empty() || root[output.0 as usize] == output) {
                continue;
            }
            let mut own = Vec::new();
            node.op.visit(&mut |_, id| own.extend(checks.get(&id).into_iter().flatten().copied()));
            own.extend(is_check.then_some(position));
            if !own.is_empty() {
                checks.insert(output, own);
            }
        }
        Checks(checks)
    }

    /// Those of the operands of a step.
    fn of(&self, graph: &Graph, operands: &[OperandId]) -> Vec<Check> {
        let found = operands
            .iter()
            .enumerate()
            .flat_map(|(input, id)| self.0.get(id).into_iter().flatten().map(move |node| (input, *node)));
        let check = |(input, node): (usize, usize)| {
            let Op::CheckIndices(op) = &graph.nodes[node].op else { return None };
            let shape = graph.descriptor(op.indices).shape.iter().map(|&size| size as usize).collect();
            Some(Check { input, op: op.clone(), shape, label: graph.nodes[node].label.clone() })
        };
        found.filter_map(check).collect()
    }
}
