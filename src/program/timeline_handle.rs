//! The timeline, as runs of programs use it: tensors and graphs that go when nobody has them, and waits for its answers.
#![allow(unsafe_code)]

use crate::error::{Error, Kind, Result};
use crate::graph::{DataType, Descriptor};
use crate::host_memory::HostBuffer;
use crate::memory::{self, Bytes};
use crate::timeline::{Done, GraphId, Part, Task, TensorCopy, TensorId, Watch};
use crossbeam_channel::bounded;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Sends = Box<dyn Fn(Task) -> Result<()> + Send + Sync>;
type Attempts = Box<dyn Fn(Task) -> Result<(), Task> + Send + Sync>;
type Numbers = Box<dyn Fn() -> u64 + Send + Sync>;

/// Sends tasks to a timeline.
pub struct TimelineHandle {
    send: Sends,
    attempt: Attempts,
    next: Numbers,
    /// Its memory is not the host's.
    has_own_memory: bool,
    /// See [`crate::timeline::Description::Compiled`].
    compiles_for: Option<String>,
}

impl std::fmt::Debug for TimelineHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TimelineHandle")
    }
}

impl TimelineHandle {
    /// `send` sends a task, `attempt` carries one out on the calling thread or gives it back, `next` gives numbers that no other tensor or graph
    /// of the context has; whether its memory is not the host's, and what its graphs are compiled for, if others can run them.
    pub fn new(
        send: impl Fn(Task) -> Result<()> + Send + Sync + 'static,
        attempt: impl Fn(Task) -> Result<(), Task> + Send + Sync + 'static,
        next: impl Fn() -> u64 + Send + Sync + 'static,
        has_own_memory: bool,
        compiles_for: Option<String>,
    ) -> TimelineHandle {
        let (send, attempt, next) = (Box::new(send), Box::new(attempt), Box::new(next));
        TimelineHandle { send, attempt, next, has_own_memory, compiles_for }
    }

    /// What its graphs are compiled for: contexts of which this is the same can have graphs in common.
    pub fn compiles_for(&self) -> Option<&str> {
        self.compiles_for.as_deref()
    }

    /// Whether runs had better work on parts of tensors than on memory of the host's.
    pub fn has_own_memory(&self) -> bool {
        self.has_own_memory
    }

    pub fn send(&self, task: Task) -> Result<()> {
        (self.send)(task)
    }

    /// Carries a task out on the calling thread; tells whether that could be.
    pub fn attempt(&self, task: Task) -> bool {
        (self.attempt)(task).is_ok()
    }

    pub fn next_graph(&self) -> GraphId {
        GraphId((self.next)())
    }

    /// Sends a task and waits for its end.
    pub fn wait_for<T: Send + 'static>(&self, task: impl FnOnce(Done<T>) -> Task) -> Result<T> {
        let (sender, end) = bounded(1);
        self.send(task(Done::new(move |result: Result<T>| drop(sender.send(result)))))?;
        // A duty that is dropped reports, so something comes.
        end.recv().unwrap_or_else(|_| Err(Error::new(Kind::Operation, "the timeline has ended")))
    }
}

/// A graph that goes with its plan.
#[derive(Debug)]
pub struct OwnedGraph {
    timeline: Arc<TimelineHandle>,
    id: GraphId,
}

impl OwnedGraph {
    pub fn new(timeline: Arc<TimelineHandle>, id: GraphId) -> OwnedGraph {
        OwnedGraph { timeline, id }
    }
}

impl Drop for OwnedGraph {
    fn drop(&mut self) {
        let _ = self.timeline.send(Task::DestroyGraph { graph: self.id });
    }
}

/// A tensor that goes when no value is in it any more.
#[derive(Debug)]
pub struct OwnedTensor {
    timeline: Arc<TimelineHandle>,
    pub id: TensorId,
    pub descriptor: Descriptor,
    /// Somebody else destroys it.
    is_given: AtomicBool,
}

impl OwnedTensor {
    /// Gives the tensor to somebody who destroys it.
    pub fn give(&self) -> TensorId {
        self.is_given.store(true, Ordering::Relaxed);
        self.id
    }
}

impl OwnedTensor {
    /// The contents. Waits for all that was asked for before.
    ///
    /// # Errors
    /// Those of the timeline, and where there is no memory for them.
    pub fn read(&self) -> Result<Vec<u8>> {
        self.timeline.read(&[self])?.pop().ok_or_else(|| Error::new(Kind::Operation, "nothing was read (internal error)"))
    }

    /// So many bytes from that one on, both in words. Waits as [`OwnedTensor::read`] does.
    ///
    /// # Errors
    /// As [`OwnedTensor::read`].
    pub fn read_part(&self, first: usize, length: usize) -> Result<Vec<u8>> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let failures = Failures::default();
        let part = self.timeline.tensor(&words(length), &failures)?;
        let copy = TensorCopy { from: Part { tensor: self.id, first }, to: Part { tensor: part.id, first: 0 }, length };
        let copied = self.timeline.wait_for(|done| Task::Copy { copies: vec![copy], done });
        // Why there is no tensor is worth more than that there is none.
        failures.check().and(copied)?;
        part.read()
    }

    /// Writes bytes from that one on, in words. Waits for that.
    ///
    /// # Errors
    /// Those of the timeline, and where there is no memory for a copy.
    pub fn write_part(&self, first: usize, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let failures = Failures::default();
        let part = self.timeline.upload(&words(bytes.len()), bytes, &failures)?;
        let copy =
            TensorCopy { from: Part { tensor: part.id, first: 0 }, to: Part { tensor: self.id, first }, length: bytes.len() };
        let copied = self.timeline.wait_for(|done| Task::Copy { copies: vec![copy], done });
        failures.check().and(copied)
    }
}

/// What a part of a tensor is by itself.
fn words(length: usize) -> Descriptor {
    Descriptor::new(DataType::Uint32, [(length / 4) as u32])
}

impl Drop for OwnedTensor {
    fn drop(&mut self) {
        if *self.is_given.get_mut() {
            return;
        }
        let _ = self.timeline.send(Task::DestroyTensor { tensor: self.id });
    }
}

/// What went wrong with tasks of a run that nobody waited for.
#[derive(Clone, Debug, Default)]
pub struct Failures(Arc<Mutex<Option<Error>>>);

impl Failures {
    fn done(&self) -> Done<()> {
        let slot = self.0.clone();
        Done::new(move |result: Result<()>| {
            if let Err(error) = result {
                slot.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        })
    }

    /// # Errors
    /// The first failure. The timeline works in order, so after an answer all that was asked before is known.
    pub fn check(&self) -> Result<()> {
        match &*self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }
}

impl TimelineHandle {
    /// A tensor of zeros.
    pub fn tensor(self: &Arc<Self>, descriptor: &Descriptor, failures: &Failures) -> Result<Arc<OwnedTensor>> {
        let id = TensorId((self.next)());
        let (descriptor, done) = (descriptor.clone(), failures.done());
        self.send(Task::CreateTensor { tensor: id, descriptor: descriptor.clone(), label: String::new(), done })?;
        Ok(Arc::new(OwnedTensor { timeline: self.clone(), id, descriptor, is_given: AtomicBool::new(false) }))
    }

    /// Another name for what a tensor has now.
    pub fn share(self: &Arc<Self>, tensor: TensorId, descriptor: &Descriptor, failures: &Failures) -> Result<Arc<OwnedTensor>> {
        let id = TensorId((self.next)());
        self.send(Task::Share { tensor, to: id, done: failures.done() })?;
        let (timeline, descriptor) = (self.clone(), descriptor.clone());
        Ok(Arc::new(OwnedTensor { timeline, id, descriptor, is_given: AtomicBool::new(false) }))
    }

    /// Waits until the timeline has looked at all that was asked for.
    pub fn catch_up(&self) -> Result<()> {
        self.wait_for(|done| Task::Usage { done }).map(drop)
    }

    pub fn upload(self: &Arc<Self>, descriptor: &Descriptor, bytes: &[u8], failures: &Failures) -> Result<Arc<OwnedTensor>> {
        let tensor = self.tensor(descriptor, failures)?;
        self.send(Task::Write { tensor: tensor.id, bytes: Bytes::copy_of(bytes)?, label: String::new(), charge: None })?;
        Ok(tensor)
    }

    /// The contents of tensors, when all that was asked for before has been done.
    pub fn read(&self, tensors: &[&OwnedTensor]) -> Result<Vec<Vec<u8>>> {
        self.read_by(tensors, |task| self.send(task))
    }

    /// The same on the calling thread.
    ///
    /// # Errors
    /// Also where it would have to wait.
    pub fn read_on_this_thread(&self, tensors: &[&OwnedTensor]) -> Result<Vec<Vec<u8>>> {
        self.read_by(tensors, |task| if self.attempt(task) { Ok(()) } else { Err(needs_another_thread()) })
    }

    fn read_by(&self, tensors: &[&OwnedTensor], send: impl Fn(Task) -> Result<()>) -> Result<Vec<Vec<u8>>> {
        let mut contents: Vec<Vec<u8>> = Vec::new();
        for tensor in tensors {
            let length = tensor.descriptor.byte_length();
            memory::require(length)?;
            let mut bytes = Vec::new();
            bytes.try_reserve_exact(length).map_err(|_| Error::new(Kind::Unknown, format!("no memory for {length} bytes")))?;
            bytes.resize(length, 0);
            contents.push(bytes);
        }
        let (sender, ends) = bounded(tensors.len());
        let mut asked = 0;
        let mut result = Ok(());
        for (tensor, bytes) in tensors.iter().zip(&mut contents) {
            // SAFETY: the memory is ours alone until this returns, which waits below for the end of every read that was asked
            // for; a read that is not accepted has dropped its buffer.
            let into = unsafe { HostBuffer::new(bytes.as_mut_ptr(), bytes.len()) };
            let sender = sender.clone();
            let done = Done::new(move |result: Result<()>| drop(sender.send(result)));
            asked += 1;
            if let Err(error) = send(Task::Read { tensor: tensor.id, into, watch: Watch::default(), done }) {
                result = Err(error);
                break;
            }
        }
        drop(sender);
        for _ in 0..asked {
            // A duty that is dropped reports, so as many come as were asked for.
            if let Ok(Err(error)) = ends.recv() {
                result = result.and(Err(error));
            }
        }
        result.map(|()| contents)
    }
}

/// The error of what was to be done on the calling thread and could not be. Nobody hears of it.
pub fn needs_another_thread() -> Error {
    Error::new(Kind::Operation, "it is to be done on another thread (internal error)")
}
