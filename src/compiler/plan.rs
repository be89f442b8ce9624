//! The plan: steps in order, and a place for every value.

use super::arena::{Lifetime, assign};
use super::fuse::{Fusing, fuse};
use super::orders::Orders;
use super::progress::Progress;
use super::prologue::Prologues;
use super::quantized::{self, Integers};
use crate::error::Result;
use crate::graph::ops::check::CheckIndices;
use crate::graph::ops::elementwise::{Unary, UnaryKind};
use crate::graph::{ConstantBytes, Descriptor, FpMath, Graph, Node, Op, OperandId, Shared, Source};
use std::collections::HashMap;
use std::fmt;

/// A value, by its position in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueId(pub usize);

/// What the steps compute with, and where it lies.
#[derive(Clone, Debug)]
pub struct Value {
    pub descriptor: Descriptor,
    pub place: Place,
    /// Where the dimensions of the descriptor lie in memory: dimension i is dimension `order[i]` there. In the order of the
    /// descriptor when absent, and always unless the backend asked for [`Fusing::Quick`].
    pub order: Option<Vec<u32>>,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The tensor bound to an input of the graph.
    Input(usize),
    /// The tensor bound to an output of the graph.
    Output(usize),
    /// A constant of the plan.
    Constant(usize),
    /// An offset in the arena, in bytes.
    Arena(usize),
}

/// Stands in an operator of a step for the value that the one before it makes.
pub const RUNNING: OperandId = OperandId(u32::MAX);

/// Lets fused operators find the value that they are done to behind the step's inputs.
pub fn behind_inputs(mut fused: Vec<Op>, inputs: usize) -> Vec<Op> {
    for op in &mut fused {
        op.visit_mut(&mut |id| {
            if *id == RUNNING {
                *id = OperandId(inputs as u32);
            }
        });
    }
    fused
}

/// One node, and those that are done to its output in place. The ids in the operators are positions in `inputs`.
#[derive(Clone, Debug)]
pub struct Step {
    /// What makes the left operand of `op`: of a matrix product another one, what scales and masks it, and softmax; of a
    /// depthwise convolution one of single pixels, or other depthwise ones, and what is done to their outputs; of one of single
    /// pixels the product with factors for its channels. Each is done to the value of the one before it. Only where the backend asked for [`Fusing::Quick`].
    pub prologue: Vec<Op>,
    /// What dequantizes the left and the right operand of `op`, a product, whose operands are the integers then; empty
    /// elsewhere. Only where the backend asked for [`Preferences::integers`](super::Preferences).
    pub dequantized: Vec<Op>,
    pub op: Op,
    pub fused: Vec<Op>,
    pub label: String,
    pub inputs: Vec<ValueId>,
    pub outputs: Vec<ValueId>,
    /// The output is what the operator makes with its dimensions in another order: dimension i of the output is dimension
    /// `order[i]` of the operator's. Only where the backend asked for [`Fusing::Quick`].
    pub order: Option<Vec<u32>>,
    /// What some of the inputs must be for the step to run.
    pub checks: Vec<Check>,
}

/// Indices that a step reads, under whatever name, and that must lie within sizes.
#[derive(Clone, Debug)]
pub struct Check {
    /// The position among the step's inputs.
    pub input: usize,
    pub op: CheckIndices,
    /// The shape that the indices were checked in.
    pub shape: Vec<usize>,
    /// That of the node, which the error names.
    pub label: String,
}

/// What a backend compiles.
#[derive(Clone, Debug)]
pub struct Plan {
    pub values: Vec<Value>,
    pub constants: Vec<ConstantBytes>,
    pub steps: Vec<Step>,
    pub inputs: Vec<(String, Descriptor)>,
    pub outputs: Vec<(String, Descriptor)>,
    /// Bytes of the arena; offsets are multiples of [`super::ALIGNMENT`].
    pub arena_length: usize,
    /// Of what lies in the arena, and by value which of these it is.
    lifetimes: Vec<Lifetime>,
    lives: Vec<Option<usize>>,
    /// See [`Graph::shared`].
    pub shared: Shared,
    /// See [`Graph::fp_math`].
    pub fp_math: FpMath,
}

/// Whether a node gives other names to memory: its output has the very bytes of its operand. Whoever reads it checks what is to be checked.
pub fn renames(op: &Op) -> bool {
    matches!(op, Op::CheckIndices(_) | Op::Reshape(_)) || matches!(op, Op::Unary(unary) if unary.kind == UnaryKind::Identity)
}

/// A node that copies its operand.
fn copy() -> Op {
    Unary { kind: UnaryKind::Identity, input: OperandId(0) }.into()
}

/// The operators of a node and of those whose results become part of its step, their operands numbered, and which operand of the
/// graph each number is.
pub fn operators_of_step(
    graph: &Graph,
    before: &[usize],
    position: usize,
    integers: &Integers,
) -> (Vec<Op>, Vec<Op>, Op, Vec<OperandId>) {
    let node = &graph.nodes[position];
    let mut operands = Vec::new();
    // What dequantizes, and for what it makes the integers that it is made from.
    let (mut dequantized, mut integer) = (Vec::new(), HashMap::new());
    for number in integers.of[position].into_iter().flatten() {
        let mut op = graph.nodes[number].op.clone();
        integer.insert(graph.nodes[number].outputs[0], OperandId(operands.len() as u32));
        op.visit_mut(&mut |id| *id = add(&mut operands, *id));
        dequantized.push(op);
    }
    // What the node before has made.
    let mut made: Option<OperandId> = None;
    let mut numbered = |node: &Node| {
        let mut op = node.op.clone();
        op.visit_mut(&mut |id| {
            *id = match integer.get(id) {
                _ if made == Some(*id) => RUNNING,
                Some(integer) => *integer,
                None => add(&mut operands, *id),
            };
        });
        made = Some(node.outputs[0]);
        op
    };
    let prologue: Vec<Op> = before.iter().map(|&position| numbered(&graph.nodes[position])).collect();
    let op = numbered(node);
    (prologue, dequantized, op, operands)
}

/// An operand more: its position among them.
fn add(operands: &mut Vec<OperandId>, id: OperandId) -> OperandId {
    operands.push(id);
    OperandId(operands.len() as u32 - 1)
}

/// A step whose operands have no places yet.
struct Pending {
    position: usize,
    prologue: Vec<Op>,
    dequantized: Vec<Op>,
    op: Op,
    operands: Vec<OperandId>,
    fused: Vec<Op>,
    outputs: Vec<OperandId>,
}

impl Pending {
    fn new(graph: &Graph, position: usize, before: Vec<usize>, integers: &Integers) -> Pending {
        let (prologue, dequantized, op, operands) = operators_of_step(graph, &before, position, integers);
        let node = &graph.nodes[position];
        Pending { position, prologue, dequantized, op, operands, fused: Vec::new(), outputs: node.outputs.clone() }
    }

    /// Does another node to the output.
    fn follow(&mut self, node: &Node) {
        let mut op = node.op.clone();
        let before = std::mem::replace(&mut self.outputs, node.outputs.clone());
        op.visit_mut(&mut |id| {
            *id = if *id == before[0] { RUNNING } else { add(&mut self.operands, *id) };
        });
        self.fused.push(op);
    }
}

/// Lays out a graph. Nodes that rename memory become no step, unless an output of the graph must be filled.
///
/// # Errors
/// When nobody wants the graph any more.
pub fn plan(graph: Graph, progress: &Progress<'_>, fusing: Fusing, integers: bool) -> Result<Plan> {
    let count = graph.operands.len();
    let integers = quantized::integers(&graph, integers, progress)?;
    let orders = Orders::find(&graph, fusing, &integers, progress)?;
    // The operand whose memory each operand shares.
    let mut root: Vec<OperandId> = (0..count).map(|position| OperandId(position as u32)).collect();
    for node in &graph.nodes {
        if renames(&node.op) || orders.reads[node.outputs[0].0 as usize].is_some() {
            node.op.visit(&mut |_, id| root[node.outputs[0].0 as usize] = root[id.0 as usize]);
        }
    }

    let checks = Checks::find(&graph, &root);

    let mut constants = Vec::new();
    let mut places: Vec<Option<Place>> = vec![None; count];
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
        let root = root[id.0 as usize];
        match places[root.0 as usize] {
            None => places[root.0 as usize] = Some(Place::Output(position)),
            Some(_) => copies.push((position, *id)),
        }
    }

    let mut fusion = fuse(&graph, fusing, &integers, progress)?;
    let mut before = Prologues::find(&graph, fusing, &mut fusion, &integers, progress)?;
    let is_absorbed = |position: usize| orders.is_absorbed(&graph, &fusion, position);
    let mut steps: Vec<Pending> = Vec::new();
    for node in progress.each(graph.nodes.iter().enumerate()) {
        let (position, node) = node?;
        let is_inside = before.is_inside[position] || integers.is_inside[position];
        if !renames(&node.op) && !fusion.is_fused[position] && !is_absorbed(position) && !is_inside {
            let mut step = Pending::new(&graph, position, std::mem::take(&mut before.nodes[position]), &integers);
            for &follower in &fusion.then[position] {
                step.follow(&graph.nodes[follower]);
            }
            if let Some(transpose) = orders.writes[position].filter(|_| fusion.then[position].is_empty()) {
                step.outputs = graph.nodes[transpose].outputs.clone();
            }
            steps.push(step);
        }
    }

    // Lifetimes of what is left, in numbers of steps.
    let mut lifetimes: HashMap<OperandId, Lifetime> = HashMap::new();
    for step in progress.each(steps.iter().enumerate()) {
        let (number, step) = step?;
        for &id in &step.outputs {
            if places[id.0 as usize].is_none() {
                lifetimes.insert(id, Lifetime { bytes: graph.descriptor(id).byte_length(), first: number, last: number });
            }
        }
        for id in &step.operands {
            if let Some(lifetime) = lifetimes.get_mut(&root[id.0 as usize]) {
                lifetime.last = number;
            }
        }
    }
    // Copies run after all other steps, and keep what they read until then.
    for (_, id) in &copies {
        if let Some(lifetime) = lifetimes.get_mut(&root[id.0 as usize]) {
            lifetime.last = steps.len();
        }
    }
    let mut arena: Vec<(OperandId, Lifetime)> = lifetimes.into_iter().collect();
    arena.sort_by_key(|(id, _)| *id);
    let (arena, lifetimes): (Vec<OperandId>, Vec<Lifetime>) = arena.into_iter().unzip();
    let mut life_of: Vec<Option<usize>> = vec![None; count];
    for (number, id) in arena.iter().enumerate() {
        places[id.0 as usize] = Some(Place::Arena(0));
        life_of[id.0 as usize] = Some(number);
    }

    // Operands that nobody places are not used by any step either.
    let (mut values, mut lives) = (Vec::new(), Vec::new());
    let mut value_of = vec![None; count];
    let mut value = |id: OperandId| {
        *value_of[id.0 as usize].get_or_insert_with(|| {
            let root = root[id.0 as usize].0 as usize;
            let place = places[root].expect("a step's operands have places");
            lives.push(life_of[root]);
            values.push(Value { descriptor: graph.descriptor(id).clone(), place, order: orders.reads[id.0 as usize].clone() });
            ValueId(values.len() - 1)
        })
    };
    let mut finished: Vec<Step> = steps
        .into_iter()
        .map(|step| Step {
            prologue: step.prologue,
            dequantized: step.dequantized,
            op: step.op,
            fused: step.fused,
            label: graph.nodes[step.position].label.clone(),
            checks: checks.of(&graph, &step.operands),
            inputs: step.operands.into_iter().map(&mut value).collect(),
            outputs: step.outputs.iter().map(|&id| value(id)).collect(),
            order: orders.written(&graph, step.position, &step.outputs),
        })
        .collect();
    let sources: Vec<ValueId> = copies.iter().map(|(_, id)| value(*id)).collect();
    for ((position, id), source) in copies.into_iter().zip(sources) {
        values.push(Value { descriptor: graph.descriptor(id).clone(), place: Place::Output(position), order: None });
        lives.push(None);
        finished.push(Step {
            prologue: Vec::new(),
            dequantized: Vec::new(),
            op: copy(),
            fused: Vec::new(),
            label: String::new(),
            inputs: vec![source],
            outputs: vec![ValueId(values.len() - 1)],
            order: None,
            checks: checks.of(&graph, &[id]),
        });
    }
    let describe = |names: &[(String, OperandId)]| {
        names.iter().map(|(name, id)| (name.clone(), graph.descriptor(*id).clone())).collect::<Vec<_>>()
    };
    let (inputs, outputs) = (describe(&graph.inputs), describe(&graph.outputs));
    let (shared, fp_math) = (graph.shared.clone(), graph.fp_math);
    let mut plan =
        Plan { values, constants, steps: finished, inputs, outputs, arena_length: 0, lifetimes, lives, shared, fp_math };
    plan.place();
    // Only constants that a step reads are worth keeping.
    plan.drop_unused_constants();
    Ok(plan)
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

/// How a step reads a value of float32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// As float32 alone.
    Float32,
    /// Also as bfloat16.
    Either {
        /// Whether it would round what is float32.
        rounds: bool,
        /// What it saves, in any unit in which others are.
        gain: isize,
    },
}

impl Plan {
    /// Gives what lies in the arena its offset.
    fn place(&mut self) {
        let (offsets, length) = assign(&self.lifetimes);
        for (value, life) in self.values.iter_mut().zip(&self.lives) {
            if let Some(life) = life {
                value.place = Place::Arena(offsets[*life]);
            }
        }
        self.arena_length = length;
    }

    /// Lets outputs of steps lie where operands of theirs do, if nobody needs these afterwards; for each output and operand,
    /// whether they do. The wishes are in the order of the steps, and nothing else that a step reads may lie there. Places are
    /// others afterwards.
    pub fn overwrite(&mut self, wishes: &[(ValueId, ValueId)]) -> Vec<bool> {
        // What each has become.
        let mut becomes: Vec<usize> = (0..self.lifetimes.len()).collect();
        let mut overwrite = |&(output, operand): &(ValueId, ValueId)| {
            let (Some(written), Some(read)) = (self.lives[output.0], self.lives[operand.0]) else { return false };
            // Of what has been overwritten before, the first.
            let read = becomes[read];
            let [after, before] = [written, read].map(|life| self.lifetimes[life]);
            if before.last != after.first || before.bytes != after.bytes {
                return false;
            }
            self.lifetimes[read].last = after.last;
            self.lifetimes[written] = Lifetime { bytes: 0, ..after };
            becomes[written] = read;
            true
        };
        let overwritten = wishes.iter().map(&mut overwrite).collect();
        self.lives.iter_mut().flatten().for_each(|life| *life = becomes[*life]);
        self.place();
        overwritten
    }

    /// Lets values lie in memory as bfloat16, in half of the bytes, which whatever step makes them can store so, whatever step reads
    /// them, under whatever name, can load, at least one rounds anyway, and where no more is paid than saved; by value, whether they do.
    /// `stores` are what steps make of which that is known, with what storing so saves, and `reads` all that is read. Only what lies in
    /// the arena does: what others see keeps its type. Places are others afterwards.
    pub fn narrow(&mut self, stores: &[(ValueId, isize)], reads: &[(ValueId, Read)]) -> Vec<bool> {
        let mut gains: Vec<Option<isize>> = vec![None; self.lifetimes.len()];
        let mut is_rounded = vec![false; self.lifetimes.len()];
        for (life, gain) in stores.iter().filter_map(|(value, gain)| Some((self.lives[value.0]?, *gain))) {
            gains[life] = Some(gain);
        }
        for (life, read) in reads.iter().filter_map(|(value, read)| Some((self.lives[value.0]?, *read))) {
            match read {
                Read::Float32 => gains[life] = None,
                Read::Either { rounds, gain } => {
                    gains[life] = gains[life].map(|sum| sum + gain);
                    is_rounded[life] |= rounds;
                }
            }
        }
        let is_narrow = |(gain, is_rounded): (&Option<isize>, bool)| is_rounded && gain.is_some_and(|gain| gain >= 0);
        let is_narrow: Vec<bool> = gains.iter().zip(is_rounded).map(is_narrow).collect();
        for (lifetime, _) in self.lifetimes.iter_mut().zip(&is_narrow).filter(|(_, is_narrow)| **is_narrow) {
            lifetime.bytes = lifetime.bytes / size_of::<f32>() * size_of::<half::bf16>();
        }
        self.place();
        self.lives.iter().map(|life| life.is_some_and(|life| is_narrow[life])).collect()
    }

    fn drop_unused_constants(&mut self) {
        let mut numbers: HashMap<usize, usize> = HashMap::new();
        let mut kept = Vec::new();
        for value in &mut self.values {
            if let Place::Constant(position) = &mut value.place {
                *position = *numbers.entry(*position).or_insert_with(|| {
                    kept.push(self.constants[*position].clone());
                    kept.len() - 1
                });
            }
        }
        self.constants = kept;
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "arena {} bytes, {} constants", self.arena_length, self.constants.len())?;
        let value = |id: &ValueId| {
            let value = &self.values[id.0];
            match value.place {
                Place::Input(position) => format!("{} in \"{}\"", value.descriptor, self.inputs[position].0),
                Place::Output(position) => format!("{} out \"{}\"", value.descriptor, self.outputs[position].0),
                Place::Constant(position) => format!("{} constant {position}", value.descriptor),
                Place::Arena(offset) => format!("{} at {offset}", value.descriptor),
            }
        };
        for step in &self.steps {
            let list = |ids: &[ValueId]| ids.iter().map(value).collect::<Vec<_>>().join("; ");
            let names: Vec<&str> = step
                .prologue
                .iter()
                .chain(&step.dequantized)
                .chain([&step.op])
                .chain(&step.fused)
                .map(|op| op.row().name)
                .collect();
            writeln!(f, "{} ({}) -> {}", names.join(" + "), list(&step.inputs), list(&step.outputs))?;
        }
        Ok(())
    }
}
