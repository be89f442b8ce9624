//! What can be asked of a timeline.

use super::builds::Urgency;
use super::compiled_graph::{CompiledGraph, Description};
use crate::done::Done;
use crate::error::{Error, Result};
use crate::graph::{Descriptor, Graph};
use crate::host_memory::{HostBuffer, Placements};
use crate::memory::{Bytes, Charge, UsageNumbers};
use crate::watch::Watch;
use smallvec::SmallVec;
use std::sync::Arc;

/// Why what was not begun is not done.
pub const ENDED: &str = "the context was destroyed or lost";

/// A tensor of a context. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TensorId(pub u64);

/// A compiled graph of a context. Numbers are never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GraphId(pub u64);

/// The tensors of a dispatch: the graph's inputs in its order, then its outputs in its order.
pub type TensorIds = SmallVec<[TensorId; 4]>;

/// A recorded dispatch.
#[derive(Clone, Debug)]
pub struct Command {
    pub graph: GraphId,
    pub tensors: TensorIds,
    pub label: String,
}

/// A part of a tensor's memory, as long as whoever uses it wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    pub tensor: TensorId,
    /// In bytes; a multiple of [`Part::ALIGNMENT`] for graphs.
    pub first: usize,
}

impl Part {
    /// What a part that graphs work on begins at a multiple of, in bytes.
    pub const ALIGNMENT: usize = crate::compiler::ALIGNMENT;
}

/// An input or an output of a [`Compute`].
#[derive(Debug)]
pub enum Operand {
    Host(HostBuffer),
    /// Of a device whose memory is elsewhere. An input that is where the graph wants it in an output ([`Built::in_tensors`]) is not copied.
    Part(Part),
}

impl Operand {
    /// The inputs and outputs of a run that has all in memory of the host's.
    pub fn on_host(inputs: Vec<HostBuffer>, outputs: Vec<Option<HostBuffer>>) -> (Vec<Operand>, Vec<Option<Operand>>) {
        let outputs = outputs.into_iter().map(|output| output.map(Operand::Host));
        (inputs.into_iter().map(Operand::Host).collect(), outputs.collect())
    }
}

/// Bytes to copy from a tensor to another one; positions and lengths are multiples of 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorCopy {
    pub from: Part,
    pub to: Part,
    pub length: usize,
}

/// A graph to run on memory of the caller's.
#[derive(Debug)]
pub struct Compute {
    pub graph: GraphId,
    /// In the graph's order.
    pub inputs: Vec<Operand>,
    pub outputs: Vec<Option<Operand>>,
    /// What script called, for errors.
    pub method: &'static str,
    pub label: String,
    pub watch: Watch,
    pub done: Done<()>,
}

/// What is known of a graph when it is compiled.
#[derive(Clone, Debug, Default)]
pub struct Built {
    /// Where inputs of a [`Compute`] may lie in memory of the host's.
    pub placements: Placements,
    /// Where they may lie as parts of tensors.
    pub in_tensors: Placements,
    /// What a run takes beside the weights: inputs, outputs, and values in between.
    pub bytes: usize,
    /// See [`Backend::plan_bytes`](crate::backend::Backend::plan_bytes).
    pub plan_bytes: usize,
    /// For other contexts, where they can run it.
    pub compiled: Option<Arc<CompiledGraph>>,
}

/// Something to do, in the order in which it was sent.
#[derive(Debug)]
pub enum Task {
    /// Makes a tensor of zeros.
    CreateTensor { tensor: TensorId, descriptor: Descriptor, label: String, done: Done<()> },
    /// Replaces a tensor's contents.
    Write {
        tensor: TensorId,
        bytes: Bytes,
        label: String,
        /// What counts the bytes until they are written.
        charge: Option<Charge>,
    },
    /// Copies a tensor's contents to the caller.
    Read { tensor: TensorId, into: HostBuffer, watch: Watch, done: Done<()> },
    /// Gives another tensor what one has, which may be new by that. Nothing is copied: who is written first gets memory of its own, since
    /// writes replace whole contents.
    Share { tensor: TensorId, to: TensorId, done: Done<()> },
    /// Compiles a graph that takes so many bytes at most.
    Build {
        graph: GraphId,
        description: Description,
        label: String,
        most: usize,
        urgency: Urgency,
        watch: Watch,
        done: Done<Built>,
    },
    /// Runs a graph. Its failure shows in the tensors that it was to write; whoever wants to know when it has ended hears of it as well.
    Dispatch { graph: GraphId, tensors: TensorIds, label: String, watch: Watch, done: Done<()> },
    /// Runs a graph on memory of the caller's, or on parts of tensors: where it fails, what they had before is still there but for the
    /// parts that it was to write. Outputs that are absent are not computed.
    Compute(Compute),
    /// Copies parts of tensors, of a device whose memory is elsewhere.
    Copy { copies: Vec<TensorCopy>, done: Done<()> },
    /// Dispatches that were recorded before, in their order.
    Submit { commands: Arc<[Command]> },
    /// Lets go of a tensor. What was asked before still has it.
    DestroyTensor { tensor: TensorId },
    /// Lets go of a graph. What was asked before still has it.
    DestroyGraph { graph: GraphId },
    /// Tells how much memory is held once everything before has been looked at.
    Usage { done: Done<UsageNumbers> },
    /// Ends the timeline. Whatever is unfinished fails.
    Stop,
}

impl Task {
    /// A build that somebody waits for, and that nobody watches.
    pub fn build(graph: GraphId, description: Graph, most: usize, done: Done<Built>) -> Task {
        let (label, urgency, watch) = (String::new(), Urgency::Wanted, Watch::default());
        Task::Build { graph, description: description.into(), label, most, urgency, watch, done }
    }

    /// As how many tasks it waits. What only lets go of something, or is answered at once, is always accepted.
    pub fn count(&self) -> usize {
        match self {
            Task::DestroyTensor { .. } | Task::DestroyGraph { .. } | Task::Usage { .. } | Task::Stop => 0,
            Task::Submit { commands } => commands.len(),
            _ => 1,
        }
    }

    /// Ends a task that is not accepted.
    ///
    /// # Errors
    /// The error, where nobody else hears of it.
    pub fn refuse(self, error: Error) -> Result<()> {
        match self {
            Task::CreateTensor { label, done, .. } => done.report(Err(error.of("createTensor", &label))),
            Task::Read { done, .. } => done.report(Err(error.of("readTensor", ""))),
            Task::Share { done, .. } | Task::Copy { done, .. } => done.report(Err(error.of("run", ""))),
            Task::Build { label, done, .. } => done.report(Err(error.of("build", &label))),
            Task::Compute(Compute { method, label, done, .. }) => done.report(Err(error.of(method, &label))),
            Task::Write { label, .. } => return Err(error.of("writeTensor", &label)),
            Task::Dispatch { label, done, .. } => {
                done.report(Err(error.clone()));
                return Err(error.of("dispatch", &label));
            }
            Task::Submit { .. } => return Err(error.of("submit", "")),
            Task::DestroyTensor { .. } | Task::DestroyGraph { .. } | Task::Usage { .. } | Task::Stop => {}
        }
        Ok(())
    }
}
