//! How a run is watched by whoever asked for it, from the queue of tasks down to the steps of the backend.

use crate::error::{Error, Kind, Result};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// Gives a run up, or collects the time of its steps. The default does neither.
#[derive(Clone, Debug, Default)]
pub struct Watch(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    is_given_up: AtomicBool,
    /// Where they are wanted.
    steps: Option<Mutex<Vec<StepTime>>>,
    graphs: AtomicUsize,
    began: Instant,
}

/// A step, for people.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// Operators, shapes and the label.
    pub text: String,
    /// The name of the implementation.
    pub implementation: &'static str,
    /// Multiplications that the operators ask for, whatever the implementation does without.
    pub multiplications: usize,
    /// Bytes that are read and written, each once.
    pub bytes: usize,
    /// Of its first input.
    pub data_type: &'static str,
    /// The numbers of the steps of its graph whose results it reads.
    pub sources: Vec<usize>,
}

/// Which step of a run it is. A model in parts runs several graphs, which are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepNumber {
    pub graph: usize,
    pub step: usize,
}

/// When a step of a run was done, in nanoseconds since the watch began.
#[derive(Clone, Debug)]
pub struct StepTime {
    pub operator: &'static str,
    pub label: String,
    pub number: StepNumber,
    pub began: u64,
    pub ended: u64,
    /// The name of the thread that ran it, or was the first of several; none for JavaScript's.
    pub thread: String,
    pub description: Description,
}

impl Watch {
    /// One that can be given up, with or without the time of steps.
    pub fn new(with_steps: bool) -> Watch {
        let steps = with_steps.then(Mutex::default);
        Watch(Some(Arc::new(Watched {
            is_given_up: AtomicBool::new(false),
            steps,
            graphs: AtomicUsize::new(0),
            began: Instant::now(),
        })))
    }

    pub fn give_up(&self) {
        if let Some(watched) = &self.0 {
            watched.is_given_up.store(true, Ordering::Relaxed);
        }
    }

    /// # Errors
    /// `OperationError` when the run was given up.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(watched) if watched.is_given_up.load(Ordering::Relaxed) => {
                Err(Error::new(Kind::Operation, "the run was given up"))
            }
            _ => Ok(()),
        }
    }

    /// Whether somebody wants the time of steps.
    pub fn wants_steps(&self) -> bool {
        self.0.as_ref().is_some_and(|watched| watched.steps.is_some())
    }

    /// The number of a graph that begins.
    pub fn graph(&self) -> usize {
        self.0.as_ref().map_or(0, |watched| watched.graphs.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes a step that is done, if that is wanted.
    pub fn step(
        &self,
        operator: &'static str,
        label: &str,
        number: StepNumber,
        began: Instant,
        describe: impl FnOnce() -> Description,
    ) {
        let Some(watched) = &self.0 else { return };
        let Some(steps) = &watched.steps else { return };
        let ended = Instant::now();
        let since = |time: Instant| time.saturating_duration_since(watched.began).as_nanos() as u64;
        let (began, ended) = (since(began), since(ended));
        let thread = std::thread::current().name().unwrap_or_default().to_owned();
        let step = StepTime { operator, label: label.to_owned(), number, began, ended, thread, description: describe() };
        steps.lock().unwrap_or_else(PoisonError::into_inner).push(step);
    }

    /// The steps so far.
    pub fn take_steps(&self) -> Vec<StepTime> {
        let steps = self.0.as_ref().and_then(|watched| watched.steps.as_ref());
        steps.map_or_else(Vec::new, |steps| std::mem::take(&mut *steps.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
