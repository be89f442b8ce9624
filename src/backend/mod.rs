//! The trait that backends implement, and the types of its methods.
//!
//! # The contract
//!
//! The caller (the timeline) has validated everything: descriptors, the fit of bindings to a graph, the order of accesses
//! to a tensor. It calls [`Backend::write`], [`Backend::read`] and [`Backend::execute`] only when no unfinished work of its
//! own conflicts with them: a tensor is written by one at a time, and by nobody while it is read. A check below this line
//! is an assertion. A backend reports only what nobody could foresee: memory, a lost device, a kernel that failed. Work
//! may finish later and on any thread; its [`Done`] is the duty to say so.

pub mod cpu;
mod host_thread;
mod strided;
pub mod wgpu;
mod window;

pub use host_thread::HostThread;

use crate::compiler::{Capabilities, Schedule};
use crate::done::Done;
use crate::error::{Error, Kind, Result};
use crate::graph::{Descriptor, Limits, Shared};
use crate::host_memory::{HostBuffer, Placements};
use crate::memory::{Bytes, Usage};
use crate::watch::{Priority, Watch};
use smallvec::SmallVec;
use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

/// A device and what it can do.
pub trait Backend: Clone + Send + Sync + 'static {
    /// A tensor's storage. Its memory is released when the last reference goes.
    type Tensor: Send + Sync + 'static;
    /// A compiled graph. It may be executed by several dispatches at once.
    type Executable: Send + Sync + 'static;

    fn limits(&self) -> &Arc<Limits>;

    /// Where the backend counts what it holds.
    fn usage(&self) -> &Arc<Usage>;

    /// Whom the timeline is to tell where tasks are sent from and which runs are to begin, if the backend has threads that had
    /// better be elsewhere, and that know when a run is about to end.
    fn host_thread(&self) -> Option<&Arc<HostThread>> {
        None
    }

    /// Whether a core is left for the timeline while runs are under way.
    fn leaves_a_core(&self) -> bool {
        true
    }

    /// Whether any thread may do what the timeline's would, one at a time.
    fn runs_inline(&self) -> bool {
        false
    }

    /// What a run is expected to take on one thread, for a backend whose runs any thread may do.
    fn inline_time(&self, _graph: &Self::Executable) -> Duration {
        Duration::MAX
    }

    /// Storage of zeros.
    ///
    /// # Errors
    /// `UnknownError` when the memory cannot be had.
    fn allocate(&self, descriptor: &Descriptor) -> Result<Self::Tensor>;

    /// Storage over memory of the host's, as long as the descriptor says, used in place: what the graph writes is there when
    /// the execution has reported. A backend that cannot, because its memory is elsewhere or the address does not suit, gives
    /// the memory back, and the caller copies.
    fn adopt(&self, memory: HostBuffer, descriptor: &Descriptor) -> Result<Self::Tensor, HostBuffer>;

    /// Whether the memory of tensors is not the host's, so that nothing is adopted, and there are parts and copies.
    fn has_own_memory(&self) -> bool {
        false
    }

    /// A part of a tensor's memory, which begins at a multiple of [`ALIGNMENT`](crate::compiler::ALIGNMENT) bytes and is as long as the
    /// descriptor says: what graphs do with it they do with the tensor. Nothing where the memory is the host's.
    fn part(&self, _of: &Arc<Self::Tensor>, _first: usize, _descriptor: &Descriptor) -> Option<Self::Tensor> {
        None
    }

    /// Copies ranges of tensors to others, on a device whose memory is elsewhere.
    fn copy(&self, _copies: Vec<CopyRange<Self::Tensor>>, done: Done<()>) {
        done.report(Err(Error::new(Kind::NotSupported, "memory of the host is copied on the host (internal error)")));
    }

    /// Turns a validated graph into something executable. Called on a thread of its own; may take long.
    ///
    /// # Errors
    /// `OperationError` when the device cannot run the graph.
    fn compile(&self, schedule: Schedule) -> Result<Self::Executable>;

    /// What its graphs are compiled for: contexts of which this is the same can run each other's graphs. Nothing if a graph belongs to its context.
    fn compiles_for(&self) -> Option<String> {
        None
    }

    /// What other contexts may have of a graph ([`Backend::compiles_for`]).
    fn common_part(&self, _graph: &Self::Executable) -> Option<CommonPart> {
        None
    }

    /// A graph of what a context that compiles for the same has compiled, for a model that shares that.
    ///
    /// # Errors
    /// Where graphs belong to their context.
    fn with_common_part(&self, _part: &CommonPart, _shared: &Shared) -> Result<Self::Executable> {
        Err(Error::new(Kind::NotSupported, "a graph belongs to its context (internal error)"))
    }

    /// By input: where in which output it may be from the beginning, in the caller's memory, so that no step needs to copy it
    /// there. Empty where there is no such input.
    fn placements(&self, _graph: &Self::Executable) -> Placements {
        Placements::new()
    }

    /// By input: where in which output it may be from the beginning, where both are parts of one tensor's memory.
    fn placements_in_tensors(&self, _graph: &Self::Executable) -> Placements {
        Placements::new()
    }

    /// The bytes that a graph keeps for itself beside weights, about: its steps, and what kernels know of their shapes.
    fn plan_bytes(&self, _graph: &Self::Executable) -> usize {
        0
    }

    /// What it answers the compiler.
    fn capabilities(&self) -> &dyn Capabilities;

    /// Replaces a tensor's contents by as many bytes.
    fn write(&self, to: &Arc<Self::Tensor>, bytes: Bytes, done: Done<()>);

    /// Copies a tensor's contents to a buffer of the same length.
    ///
    /// # Errors
    /// With a cause when it turns out now that a run which they were computed by has failed; others are about the read.
    fn read(&self, from: &Arc<Self::Tensor>, into: HostBuffer, done: Done<()>);

    /// Runs a graph. When the end is reported nothing touches the bound tensors any more.
    ///
    /// # Errors
    /// `UnknownError` when the graph can never run again (its memory cannot be had, its device code failed); any other
    /// error is about this run.
    fn execute(&self, graph: &Arc<Self::Executable>, bindings: Bindings<Self::Tensor>, options: RunOptions, done: Done<()>);

    /// Calls back, at most once and from any thread, when the device is lost: nothing more can be done with it.
    fn on_lost(&self, _tell: Box<dyn FnOnce(String) + Send>) {}

    /// A run that was asked for before, and may wait for its turn or be under way, is urgent now: a more urgent one waits for it.
    fn lift(&self, _number: u64, _priority: Priority) {}

    /// Called when the context ends: work that has not begun may be left, work that is under way may stop early. Both
    /// report an error.
    fn cancel(&self);
}

/// What contexts have in common of a graph. What it is only the backend knows.
pub type CommonPart = Arc<dyn Any + Send + Sync>;

/// Bytes that are copied from a tensor to another one. Positions and lengths are multiples of 4, but for a length up to the end of both.
#[derive(Debug)]
pub struct CopyRange<T> {
    pub from: Arc<T>,
    pub first: usize,
    pub to: Arc<T>,
    pub at: usize,
    pub length: usize,
}

/// Which threads a run may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The calling thread alone, which has little time.
    Here,
    /// The calling thread as well, for a while: nothing else waits for its turn.
    Alone,
    /// The calling thread as well, if the run takes hardly any time.
    InTurn,
    /// Others than the calling thread, which has something else to do.
    Elsewhere,
}

/// When and where a run may start.
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// Of all runs of the context that are ready, the one with the lowest number was asked for first.
    pub number: u64,
    pub place: Place,
    /// A run that is under way when it is given up may stop early, and reports an error then.
    pub watch: Watch,
    /// Of runs that wait the more urgent ones go first.
    pub priority: Priority,
}

/// The tensors of one execution, in the order of the graph's inputs and outputs. An output without a tensor is not wanted,
/// and only what the others need is computed.
#[derive(Debug)]
pub struct Bindings<T> {
    pub inputs: SmallVec<[Arc<T>; 2]>,
    pub outputs: SmallVec<[Option<Arc<T>>; 2]>,
}
