//! A context's timeline: the thread on which everything that a script asked for happens, in an order that respects what
//! each task reads and writes.
//!
//! A script's methods only send [`Task`]s. The timeline turns each into a *job* that waits for the jobs before it that
//! touch the same tensors: a writer for all earlier users, a reader for the last writer. Jobs that wait for nothing start
//! at once and may run at the same time; the backend reports each one's end through its [`Done`]. While it has nothing else to do,
//! the loop is lent to whoever asks for something short ([`here`]).
//!
//! # Invariants
//!
//! * The timeline's thread never runs a kernel that takes long and never waits for one: it only starts work and hears of
//!   its end.
//! * A job owns references to the storage that it uses, so destroying a tensor or graph never pulls memory from under it.
//! * Every task with a [`Done`] is reported exactly once, whatever happens.
//! * A failure stays where it belongs: a dispatch or write that fails makes the tensors errored that it was to write
//!   ([`tensor_state`]); whoever reads them hears of it; the next successful write clears it.
//!
//! It is generic over the backend inside and a channel of tasks outside, and knows nothing of JavaScript.

mod builds;
mod compiled_graph;
mod ids;
pub mod inline;
mod job;
mod reports;
mod run;
mod shared_loop;
mod spin_wait;
mod task;
mod tensor_state;
#[cfg(test)]
mod tests;
mod waiting;

pub use crate::done::{Done, from_panic};
pub use crate::watch::{PASSED, Priority, StepTime, Watch, WatchOptions};
pub use builds::{BUILDS, Urgency, failed_build};
pub use compiled_graph::{CompiledGraph, Description};
pub use task::{Built, Command, Compute, GraphId, Operand, Part, Task, TensorCopy, TensorId, TensorIds};

use crate::backend::{Backend, HostThread};
use crate::done::because;
use crate::error::Result;
use crate::graph::Limits;
use crate::memory::{self, Usage, UsageNumbers};
use crate::thread;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use inline::Budget;
use shared_loop::SharedLoop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use waiting::Waiting;

/// So often whoever waits for the thread looks whether it is busy with a run.
const LOOK: Duration = Duration::from_millis(1);

/// A timeline. Dropping it stops the timeline without waiting; [`Timeline::join`] waits.
#[derive(Debug)]
pub struct Timeline {
    way: Way,
    limits: Arc<Limits>,
    usage: Arc<Usage>,
    /// Taken when it is used: it holds the backend, whose threads are to end with the timeline.
    cancel: Mutex<Option<Cancel>>,
    thread: Option<JoinHandle<()>>,
    /// A run may have the thread.
    is_running: Arc<AtomicBool>,
    /// Nothing is ever sent here; it is disconnected when the thread has let go of everything.
    ended: Receiver<()>,
}

/// The way to a timeline, for any thread.
#[derive(Clone)]
pub struct Way(Arc<Inner>);

struct Inner {
    tasks: Sender<Task>,
    host_thread: Option<Arc<HostThread>>,
    waiting: Arc<Waiting>,
    attempt: Attempt,
}

/// Carries a task out on the calling thread, or gives it back.
type Attempt = Box<dyn Fn(Task, Budget, &Sender<Task>) -> Result<(), Task> + Send + Sync>;

impl std::fmt::Debug for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Way")
    }
}

impl Way {
    /// Sends a task, or carries it out where it is short and the timeline has nothing else to do. When the timeline has ended the
    /// task is dropped, which reports it.
    ///
    /// # Errors
    /// `OperationError` for a task that nobody waits for, when too many wait.
    pub fn send(&self, task: Task) -> Result<()> {
        let count = task.count();
        if let Err(error) = self.0.waiting.admit(count) {
            return task.refuse(error);
        }
        if let Err(task) = self.carry_out(task) {
            because(task::ENDED, || drop(self.0.tasks.send(task)));
        }
        Ok(())
    }

    /// Carries a task out on the calling thread, if that may be.
    ///
    /// # Errors
    /// The task, where it would have to be sent, or too many wait.
    pub fn attempt(&self, task: Task) -> Result<(), Task> {
        let count = task.count();
        if self.0.waiting.admit(count).is_err() {
            return Err(task);
        }
        self.carry_out(task).inspect_err(|_| self.0.waiting.seen(count))
    }

    /// The same for a task that was admitted.
    fn carry_out(&self, task: Task) -> Result<(), Task> {
        let Inner { tasks, host_thread, attempt, .. } = &*self.0;
        if let Some(host_thread) = host_thread {
            host_thread.notes_core();
        }
        match inline::budget() {
            Budget::Nothing => Err(task),
            budget => attempt(task, budget, tasks),
        }
    }
}

struct Cancel(Box<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for Cancel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cancel")
    }
}

impl Timeline {
    /// Starts the thread. `lost` is called, from any thread and at most once, when the timeline ends without having been
    /// asked to: its thread panicked, or the device was lost.
    ///
    /// # Errors
    /// `UnknownError` when the system has no thread to give, or hardly any memory.
    pub fn start<B: Backend>(backend: B, lost: impl FnOnce(String) + Send + 'static) -> Result<Timeline> {
        memory::check()?;
        let (tasks, receiver) = crossbeam_channel::unbounded();
        let limits = backend.limits().clone();
        let usage = backend.usage().clone();
        let host_thread = backend.host_thread().cloned();
        let cancel = {
            let backend = backend.clone();
            Mutex::new(Some(Cancel(Box::new(move || backend.cancel()))))
        };
        // Told by whoever is first: the backend, of its device, or the thread, of a panic.
        let lost = Arc::new(Mutex::new(Some(lost)));
        let tell = move |message: String| {
            let lost = lost.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(lost) = lost {
                lost(message);
            }
        };
        {
            let (tell, tasks) = (tell.clone(), tasks.clone());
            backend.on_lost(Box::new(move |message| {
                tell(message);
                let _ = tasks.send(Task::Stop);
            }));
        }
        let (ending, ended) = crossbeam_channel::bounded(0);
        let is_running = Arc::<AtomicBool>::default();
        let runs = is_running.clone();
        let waiting = Arc::<Waiting>::default();
        let (shared, woken) = {
            let waits = waiting.clone();
            SharedLoop::new(backend, |backend, reports| run::Loop::new(backend, runs, waits, reports))
        };
        let shared = Arc::new(shared);
        let lent = shared.clone();
        let thread = thread::start("webnn timeline", move || {
            use std::panic::{AssertUnwindSafe, catch_unwind};
            let mut receiver = Some(receiver);
            // Nothing in the loop is expected to panic; if it does, the context is lost. What is left is dropped, and thereby
            // reported.
            let panicked = catch_unwind(AssertUnwindSafe(|| shared.run(&mut receiver, &woken)));
            let panicked = panicked.err().map(|panic| from_panic(&*panic).message().to_owned());
            let why = panicked.as_ref().map_or(task::ENDED.into(), |what| format!("the context's thread {what}"));
            let _ = catch_unwind(AssertUnwindSafe(|| {
                because(why, || {
                    shared.end();
                    drop(receiver);
                });
            }));
            panicked.into_iter().for_each(tell);
            drop(ending);
        })?;
        let attempt: Attempt = Box::new(move |task, budget, tasks| lent.attempt(task, budget, tasks));
        let way = Way(Arc::new(Inner { tasks, host_thread, waiting, attempt }));
        Ok(Timeline { way, limits, usage, cancel, thread: Some(thread), is_running, ended })
    }

    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// What sends it tasks. It is kept no longer than that: it does not end the timeline.
    pub fn way(&self) -> Way {
        self.way.clone()
    }

    /// As [`Way::send`].
    ///
    /// # Errors
    /// Likewise.
    pub fn send(&self, task: Task) -> Result<()> {
        self.way.send(task)
    }

    /// How much memory the context holds, once everything sent before has been looked at; how much it holds now, if the thread
    /// is in the middle of a run.
    pub fn usage(&self) -> UsageNumbers {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let done = Done::new(move |numbers: Result<UsageNumbers>| drop(sender.send(numbers)));
        let _ = self.send(Task::Usage { done });
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(Ok(numbers)) => return numbers,
                Err(RecvTimeoutError::Timeout) if self.is_running.load(Ordering::Relaxed) => return self.usage.numbers(),
                Err(RecvTimeoutError::Timeout) => {}
                // The timeline ends, and its memory goes with it.
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {
                    let _ = self.ended.recv();
                    return self.usage.numbers();
                }
            }
        }
    }

    /// Asks the timeline to end, soon: kernels that are under way stop at the next step.
    pub fn stop(&self) {
        let cancel = self.cancel.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Cancel(cancel)) = cancel {
            cancel();
        }
        let _ = self.send(Task::Stop);
    }

    /// Whether it was asked to end.
    pub fn is_stopped(&self) -> bool {
        self.cancel.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }

    /// Whether the thread has ended, so that [`Timeline::join`] does not wait.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(|thread| thread.is_finished())
    }

    /// Waits for the thread of a timeline that was stopped, but not longer than until then; tells whether it has ended.
    pub fn has_ended_by(&self, moment: Instant) -> bool {
        self.ended.recv_deadline(moment) == Err(RecvTimeoutError::Disconnected)
    }

    /// Stops the timeline and waits for its thread.
    pub fn join(mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Timeline {
    fn drop(&mut self) {
        self.stop();
    }
}
