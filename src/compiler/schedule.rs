//! The schedule: steps in order, and a place for every value.

use super::arena::{Lifetime, assign};
use crate::graph::ops::check::CheckIndices;
use crate::graph::{ConstantBytes, Descriptor, FpMath, Op, Shared};
use std::collections::HashMap;
use std::fmt;
use std::ops::Range;

/// A value, by its position in the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueId(pub usize);

/// What the steps compute with, and where it lies.
#[derive(Clone, Debug)]
pub struct Value {
    pub descriptor: Descriptor,
    pub place: Place,
    /// Where the dimensions of the descriptor lie in memory: dimension i is dimension `order[i]` there. In the order of the
    /// descriptor when absent, and always unless the backend asked for [`Preferences::orders`](super::Preferences).
    pub order: Option<Vec<u32>>,
}

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The tensor bound to an input of the graph.
    Input(usize),
    /// The tensor bound to an output of the graph.
    Output(usize),
    /// A constant of the schedule.
    Constant(usize),
    /// An offset in the arena, in bytes.
    Arena(usize),
}

/// One node, and those that are done to its output in place. The ids in the operators are positions in `inputs`.
#[derive(Clone, Debug)]
pub struct Step {
    /// What makes the left operand of `op`: of a matrix product another one, what scales and masks it, and softmax; of a
    /// depthwise convolution one of single pixels, or other depthwise ones, and what is done to their outputs; of one of single
    /// pixels the product with factors for its channels. Each is done to the value of the one before it. Only where the backend asked for
    /// [`Preferences::patterns`](super::Preferences).
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
    /// `order[i]` of the operator's. Only where the backend asked for [`Preferences::orders`](super::Preferences).
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
pub struct Schedule {
    pub values: Vec<Value>,
    pub constants: Vec<ConstantBytes>,
    pub steps: Vec<Step>,
    pub inputs: Vec<(String, Descriptor)>,
    pub outputs: Vec<(String, Descriptor)>,
    /// Bytes of the arena; offsets are multiples of [`super::ALIGNMENT`].
    pub arena_length: usize,
    /// Of what lies in the arena, and by value which of these it is.
    pub(super) lifetimes: Vec<Lifetime>,
    pub(super) lives: Vec<Option<usize>>,
    /// See [`Graph::shared`].
    pub shared: Shared,
    /// See [`Graph::fp_math`].
    pub fp_math: FpMath,
    /// See [`Graph::hiding`].
    pub hiding: Vec<String>,
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

impl Schedule {
    /// Gives what lies in the arena its offset.
    pub(super) fn place(&mut self) {
        let (offsets, length) = assign(&self.lifetimes);
        for (value, life) in self.values.iter_mut().zip(&self.lives) {
            if let Some(life) = life {
                value.place = Place::Arena(offsets[*life]);
            }
        }
        self.arena_length = length;
    }

    /// Whether two values are the same memory, whatever else lies there at other times.
    pub fn are_one(&self, a: ValueId, b: ValueId) -> bool {
        match (self.lives[a.0], self.lives[b.0]) {
            (None, None) => self.values[a.0].place == self.values[b.0].place,
            (a, b) => a == b,
        }
    }

    /// Keeps what the steps of a range read and write for as long as any of them runs. Places are others once values are placed again.
    pub fn run_at_once(&mut self, steps: &Range<usize>) {
        for Lifetime { first, last, .. } in &mut self.lifetimes {
            if steps.contains(first) {
                *first = steps.start;
            }
            if steps.contains(last) {
                *last = steps.end - 1;
            }
        }
    }

    /// Lets outputs of steps lie where operands of theirs do, if nobody needs these afterwards; for each output and operand,
    /// whether they do. The requests are in the order of the steps, and nothing else that a step reads may lie there. Places are
    /// others afterwards.
    pub fn overwrite(&mut self, requested: &[(ValueId, ValueId)]) -> Vec<bool> {
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
        let overwritten = requested.iter().map(&mut overwrite).collect();
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

    pub(super) fn drop_unused_constants(&mut self) {
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

impl fmt::Display for Schedule {
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
