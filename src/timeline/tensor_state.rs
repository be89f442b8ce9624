//! What the timeline knows of a tensor: its storage, who uses it, and whether its contents are the result of a failure.

use super::ids::JobId;
use crate::error::Error;
use smallvec::SmallVec;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A tensor of the timeline. Jobs hold references to it, so it outlives its destruction by script.
pub struct Tensor<T> {
    pub storage: Arc<T>,
    /// A tensor's parts have its state. Whoever has the timeline's loop uses it, so the lock is never waited for.
    state: Arc<Mutex<State>>,
}

impl<T> Tensor<T> {
    pub fn new(storage: T) -> TensorRef<T> {
        Arc::new(Tensor { storage: Arc::new(storage), state: Arc::default() })
    }

    /// A part of it, of which all is true that is true of the whole.
    pub fn part(&self, storage: T) -> TensorRef<T> {
        Arc::new(Tensor { storage: Arc::new(storage), state: self.state.clone() })
    }

    /// One whose contents are the result of a failure: nobody touches the storage before a write gives it another one.
    pub fn errored(storage: Arc<T>, error: Error) -> TensorRef<T> {
        Arc::new(Tensor { storage, state: Arc::new(Mutex::new(State { error: Some(error), ..State::default() })) })
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Default)]
pub struct State {
    /// Why the contents are not what they should be: the first failure, with those that it led to as its effect.
    pub error: Option<Error>,
    /// The last job that writes, if it is not finished.
    writer: Option<JobId>,
    /// The jobs after the last writer that read. Finished ones are struck out when the list grows.
    readers: SmallVec<[JobId; 4]>,
}

pub type TensorRef<T> = Arc<Tensor<T>>;

impl State {
    /// Notes that a job reads; what it must wait for goes to `wait`.
    pub fn read_by(&mut self, job: JobId, unfinished: impl Fn(JobId) -> bool, wait: &mut impl FnMut(JobId)) {
        if let Some(writer) = self.writer {
            if unfinished(writer) {
                wait(writer);
            } else {
                self.writer = None;
            }
        }
        if self.readers.len() >= 4 {
            self.readers.retain(|reader| unfinished(*reader));
        }
        self.readers.push(job);
    }

    /// Notes that a job writes; what it must wait for goes to `wait`.
    pub fn written_by(&mut self, job: JobId, unfinished: impl Fn(JobId) -> bool, wait: &mut impl FnMut(JobId)) {
        for earlier in self.readers.drain(..).chain(self.writer) {
            if unfinished(earlier) {
                wait(earlier);
            }
        }
        self.writer = Some(job);
    }
}
