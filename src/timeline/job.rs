//! Jobs: tasks that wait for each other.

use super::compiled_graph::CompiledGraph;
use super::ids::JobId;
use super::tensor_state::TensorRef;
use crate::backend::Backend;
use crate::done::Done;
use crate::error::{Error, Result};
use crate::graph::Descriptor;
use crate::host_memory::HostBuffer;
use crate::memory::{Bytes, Charge};
use crate::watch::{Priority, Watch};
use smallvec::SmallVec;
use std::sync::{Arc, OnceLock};

/// What a job does, with everything that it needs.
pub enum Work<B: Backend> {
    Write {
        tensor: TensorRef<B::Tensor>,
        bytes: Bytes,
        label: String,
        charge: Option<Charge>,
    },
    Read {
        tensor: TensorRef<B::Tensor>,
        into: HostBuffer,
        watch: Watch,
        done: Done<()>,
        of: Reader,
    },
    Dispatch {
        graph: Arc<GraphEntry<B>>,
        inputs: Tensors<B>,
        outputs: Tensors<B>,
        label: String,
        run: Run,
        done: Done<()>,
    },
    /// What is left of work that was given up before its turn: in its turn these tensors become errored.
    GivenUp {
        outputs: Tensors<B>,
        error: Error,
    },
    /// Ranges of tensors to others.
    Copy {
        copies: Vec<Copy<B>>,
        done: Done<()>,
    },
    /// Like a dispatch, on tensors that nobody else knows or on parts of some; an output that is absent is not wanted.
    Compute {
        graph: Arc<GraphEntry<B>>,
        inputs: Tensors<B>,
        outputs: Vec<Option<TensorRef<B::Tensor>>>,
        end: Computed<B>,
        run: Run,
    },
}

impl<B: Backend> Work<B> {
    /// How it is watched.
    pub fn watch(&self) -> Option<&Watch> {
        match self {
            Work::Read { watch, .. } => Some(watch),
            Work::Dispatch { run, .. } | Work::Compute { run, .. } => Some(&run.watch),
            Work::Write { .. } | Work::Copy { .. } | Work::GivenUp { .. } => None,
        }
    }

    /// How urgent it is by itself. What is no run is short, and hurries nobody unless script says so.
    pub fn urgency(&self) -> Urgency {
        match self {
            Work::Dispatch { run, .. } | Work::Compute { run, .. } => {
                Urgency { priority: run.watch.priority(), number: Some(run.number) }
            }
            Work::Read { watch, .. } if watch.is_watched() => Urgency { priority: watch.priority(), number: None },
            _ => Urgency { priority: Priority::Low, number: None },
        }
    }

    /// What is left of it when it is given up with an error before it has begun: whoever waits hears of that at once.
    pub fn give_up(self, error: Error) -> Work<B> {
        let outputs = match self {
            Work::Read { done, of, .. } => {
                let method = of.as_deref().map_or(("readTensor", ""), |(method, label)| (*method, label.as_str()));
                done.report(Err(error.clone().of(method.0, method.1)));
                Tensors::<B>::new()
            }
            Work::Dispatch { graph, outputs, label, done, .. } => {
                let error = error.of("dispatch", if label.is_empty() { &graph.label } else { &label });
                done.report(Err(error.clone()));
                return Work::GivenUp { outputs, error };
            }
            Work::Compute { graph, end: Computed { method, label, done, .. }, .. } => {
                let label = if label.is_empty() { &graph.label } else { &label };
                done.report(Err(error.clone().of(method, label)));
                Tensors::<B>::new()
            }
            other => return other,
        };
        Work::GivenUp { outputs, error }
    }
}

/// A range that is copied.
pub struct Copy<B: Backend> {
    pub from: TensorRef<B::Tensor>,
    pub first: usize,
    pub to: TensorRef<B::Tensor>,
    pub at: usize,
    pub length: usize,
}

/// A run of a graph that was asked for.
pub struct Run {
    /// How many had been asked for by then, with it.
    pub number: u64,
    pub watch: Watch,
}

/// How urgent a job is.
#[derive(Clone, Copy)]
pub struct Urgency {
    pub priority: Priority,
    /// Of a run.
    pub number: Option<u64>,
}

pub type Tensors<B> = SmallVec<[TensorRef<<B as Backend>::Tensor>; 2]>;

/// What is left to do when a job's work has ended.
pub enum End<B: Backend> {
    /// The tensors that the work wrote become errored or are cleared.
    Wrote {
        outputs: Tensors<B>,
        what: &'static str,
        label: String,
        graph: Option<Arc<GraphEntry<B>>>,
        /// What counted the bytes of a write while it was pending.
        _pending: Option<Charge>,
        done: Done<()>,
    },
    /// The outputs go to the caller's memory, and the caller hears of the result.
    Computed {
        graph: Arc<GraphEntry<B>>,
        end: Computed<B>,
    },
    /// The caller hears of the result.
    Read {
        done: Done<()>,
        of: Reader,
    },
    Copied {
        done: Done<()>,
    },
}

/// Who reads: the method and the label of a run that gives its outputs, or nobody but the caller of `readTensor()`.
pub type Reader = Option<Arc<(&'static str, String)>>;

/// The end of a `compute()`.
pub struct Computed<B: Backend> {
    pub method: &'static str,
    pub label: String,
    /// Outputs that the backend could not compute in the caller's memory.
    pub copies: Vec<(TensorRef<B::Tensor>, HostBuffer)>,
    pub done: Done<()>,
}

/// A compiled graph.
pub struct GraphEntry<B: Backend> {
    pub executable: Arc<B::Executable>,
    pub inputs: Arc<[Descriptor]>,
    pub outputs: Arc<[Descriptor]>,
    /// Where other contexts can have it, too: it is theirs as long as one has it.
    pub compiled: Option<Arc<CompiledGraph>>,
    /// What a run takes beside the weights.
    pub bytes: usize,
    pub label: String,
    /// Why it can never run again.
    pub error: OnceLock<Error>,
}

struct Slot<B: Backend> {
    generation: u32,
    job: Option<Job<B>>,
}

struct Job<B: Backend> {
    /// Taken when the job starts.
    work: Option<Work<B>>,
    /// Taken when it ends.
    end: Option<End<B>>,
    /// How many jobs it still waits for.
    waits_for: u32,
    /// Who waits for it.
    dependents: SmallVec<[JobId; 2]>,
    /// Whom it waits for, or has waited.
    after: SmallVec<[JobId; 2]>,
    urgency: Urgency,
}

/// All unfinished jobs.
pub struct Jobs<B: Backend> {
    slots: Slots<B>,
    free: Vec<u32>,
}

/// Slots in pieces, so that one more never asks for much memory at once.
struct Slots<B: Backend>(Vec<Vec<Slot<B>>>);

impl<B: Backend> Slots<B> {
    const PIECE: usize = 1024;

    fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * Self::PIECE + last.len())
    }

    fn get(&self, slot: u32) -> Option<&Slot<B>> {
        self.0.get(slot as usize / Self::PIECE)?.get(slot as usize % Self::PIECE)
    }

    /// One that is there.
    fn of(&mut self, slot: u32) -> &mut Slot<B> {
        &mut self.0[slot as usize / Self::PIECE][slot as usize % Self::PIECE]
    }

    fn push(&mut self, slot: Slot<B>) {
        match self.0.last_mut() {
            Some(last) if last.len() < Self::PIECE => last.push(slot),
            _ => self.0.push(vec![slot]),
        }
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = &mut Slot<B>> {
        self.0.iter_mut().flatten()
    }
}

impl<B: Backend> Jobs<B> {
    pub fn new() -> Self {
        Jobs { slots: Slots(Vec::new()), free: Vec::new() }
    }

    /// The id that the next [`Jobs::add`] gives.
    pub fn next(&self) -> JobId {
        match self.free.last() {
            Some(&slot) => JobId { slot, generation: self.slots.get(slot).map_or(0, |slot| slot.generation) },
            None => JobId { slot: self.slots.len() as u32, generation: 0 },
        }
    }

    pub fn is_unfinished(&self, id: JobId) -> bool {
        self.slots.get(id.slot).is_some_and(|slot| slot.generation == id.generation && slot.job.is_some())
    }

    /// Adds a job that waits for others; tells whether it can start at once.
    pub fn add(&mut self, work: Work<B>, wait: &[JobId]) -> (JobId, bool) {
        let id = self.next();
        let (waits_for, urgency) = (wait.len() as u32, work.urgency());
        let (dependents, after) = (SmallVec::new(), SmallVec::from_slice(wait));
        let job = Job { work: Some(work), end: None, waits_for, dependents, after, urgency };
        match self.free.pop() {
            Some(slot) => self.slots.of(slot).job = Some(job),
            None => self.slots.push(Slot { generation: 0, job: Some(job) }),
        }
        for &earlier in wait {
            self.job(earlier).dependents.push(id);
        }
        (id, wait.is_empty())
    }

    fn job(&mut self, id: JobId) -> &mut Job<B> {
        debug_assert!(self.is_unfinished(id));
        self.slots.of(id.slot).job.as_mut().expect("an unfinished job")
    }

    /// Takes the work of a job that starts.
    pub fn start(&mut self, id: JobId) -> Work<B> {
        self.job(id).work.take().expect("a job starts once")
    }

    pub fn urgency(&mut self, id: JobId) -> Urgency {
        self.job(id).urgency
    }

    /// A job, and what it waits for, is at least so urgent from now on. Calls back with the runs of which that is new.
    pub fn lift(&mut self, first: &[JobId], priority: Priority, mut lifted: impl FnMut(u64)) {
        let mut left = first.to_vec();
        while let Some(id) = left.pop() {
            if !self.is_unfinished(id) {
                continue;
            }
            let job = self.job(id);
            if job.urgency.priority <= priority {
                continue;
            }
            job.urgency.priority = priority;
            left.extend_from_slice(&job.after);
            if let (Some(number), None) = (job.urgency.number, &job.work) {
                lifted(number);
            }
        }
    }

    /// Changes the work of a job that has not started.
    pub fn change(&mut self, id: JobId, change: impl FnOnce(Work<B>) -> Work<B>) {
        if self.is_unfinished(id) {
            let job = self.job(id);
            job.work = job.work.take().map(change);
        }
    }

    /// Leaves what is to be done when the work of a started job ends.
    pub fn set_end(&mut self, id: JobId, end: End<B>) {
        self.job(id).end = Some(end);
    }

    /// Drops every job that has not started, and with it the duty to report; the others have nobody to wait for them.
    pub fn abandon(&mut self) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            match &mut slot.job {
                Some(job) if job.work.is_some() => {
                    slot.job = None;
                    slot.generation = slot.generation.wrapping_add(1);
                    self.free.push(number as u32);
                }
                Some(job) => job.dependents.clear(),
                None => {}
            }
        }
    }

    /// Whether every job is finished.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Removes a job; those that waited for it alone go to `ready`.
    pub fn finish(&mut self, id: JobId, ready: &mut impl FnMut(JobId)) -> Option<End<B>> {
        let slot = self.slots.of(id.slot);
        debug_assert_eq!(slot.generation, id.generation);
        let job = slot.job.take().expect("a job finishes once");
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(id.slot);
        for dependent in job.dependents {
            let waiting = self.job(dependent);
            waiting.waits_for -= 1;
            if waiting.waits_for == 0 {
                ready(dependent);
            }
        }
        job.end
    }
}

/// How a job's work ended.
pub type Finished = (JobId, Result<()>);
