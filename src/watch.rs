//! How work is watched by whoever asked for it, from the queue of tasks down to the steps of the backend.

use crate::error::{Error, Reason, Result};
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

thread_local! {
    /// What this thread works for.
    static CURRENT: RefCell<Watch> = const { RefCell::new(Watch(None)) };
}

/// Gives work up, or collects the time of its steps. The default does neither.
#[derive(Clone, Debug, Default)]
pub struct Watch(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    is_given_up: AtomicBool,
    reason: Arc<Reason>,
    waiting: Mutex<Calls>,
    /// Where they are wanted.
    steps: Option<Mutex<Vec<StepTime>>>,
    graphs: AtomicUsize,
    began: Instant,
}

/// Whom to tell when the work is given up.
#[derive(Default)]
struct Calls(Vec<Box<dyn FnOnce() + Send>>);

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} calls", self.0.len())
    }
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
        static LAST: AtomicU64 = AtomicU64::new(0);
        let steps = with_steps.then(Mutex::default);
        let reason = Arc::new(Reason(LAST.fetch_add(1, Ordering::Relaxed) + 1));
        let (is_given_up, waiting) = (AtomicBool::new(false), Mutex::default());
        let graphs = AtomicUsize::new(0);
        Watch(Some(Arc::new(Watched { is_given_up, reason, waiting, steps, graphs, began: Instant::now() })))
    }

    /// What this thread works for.
    pub fn current() -> Watch {
        CURRENT.with_borrow(Clone::clone)
    }

    /// While `work` runs this thread works for whom it watches. After a panic the thread keeps it until the next work.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = CURRENT.replace(self.clone());
        let result = work();
        CURRENT.set(before);
        result
    }

    pub fn give_up(&self) {
        if let Some(watched) = &self.0 {
            watched.is_given_up.store(true, Ordering::SeqCst);
            let calls = std::mem::take(&mut *watched.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            calls.0.into_iter().for_each(|call| call());
        }
    }

    /// Calls back when the work is given up, on the thread that does so; at once, if that was before.
    pub fn when_given_up(&self, call: impl FnOnce() + Send + 'static) {
        let Some(watched) = &self.0 else { return };
        let mut waiting = watched.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        // Who gives up says so before taking the calls.
        if watched.is_given_up.load(Ordering::SeqCst) {
            drop(waiting);
            return call();
        }
        waiting.0.push(Box::new(call));
    }

    /// Whether anybody can give the work up.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// The reason that script has, if it gives the work up.
    pub fn reason(&self) -> Option<&Arc<Reason>> {
        self.0.as_ref().map(|watched| &watched.reason)
    }

    /// # Errors
    /// `AbortError` when the work was given up.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(watched) if watched.is_given_up.load(Ordering::Relaxed) => Err(Error::given_up(watched.reason.clone())),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn whoever_waits_is_told_once_also_afterwards() {
        let (watch, told) = (Watch::new(false), Arc::<AtomicUsize>::default());
        let tell = || {
            let told = told.clone();
            move || _ = told.fetch_add(1, Ordering::Relaxed)
        };
        watch.when_given_up(tell());
        assert!(watch.check().is_ok() && told.load(Ordering::Relaxed) == 0);
        watch.give_up();
        watch.give_up();
        assert_eq!(told.load(Ordering::Relaxed), 1);
        watch.when_given_up(tell());
        assert_eq!(told.load(Ordering::Relaxed), 2);
        let error = watch.check().unwrap_err();
        assert_eq!(error.kind(), Kind::Aborted);
        assert!(Arc::ptr_eq(error.reason().unwrap(), watch.reason().unwrap()));
        Watch::default().when_given_up(tell());
        assert!(told.load(Ordering::Relaxed) == 2 && Watch::default().check().is_ok());
    }

    #[test]
    fn a_thread_knows_what_it_works_for() {
        let watch = Watch::new(false);
        watch.give_up();
        assert!(Watch::current().check().is_ok());
        assert!(watch.during(|| Watch::current().check().is_err()));
        assert!(Watch::current().check().is_ok());
    }
}
