//! How work is watched by whoever asked for it, from the queue of tasks down to the steps of the backend.

use crate::error::{Error, Kind, Reason, Result};
use crate::runtime::{self, Timer};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

thread_local! {
    /// What this thread works for.
    static CURRENT: RefCell<Watch> = const { RefCell::new(Watch(None)) };
}

/// Which work goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    High,
    #[default]
    Normal,
    Low,
}

impl Priority {
    /// From the most urgent to the least.
    pub const ALL: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
}

/// So many more urgent pieces of work go before a less urgent one that waits.
pub const PASSED: u32 = 8;

/// How work is to be watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct WatchOptions {
    /// Whether the times of steps are collected.
    pub with_steps: bool,
    pub priority: Priority,
    /// Work that has not begun after so long is dropped.
    pub timeout: Option<Duration>,
}

/// Gives work up, drops it where it does not begin in time, says how urgent it is, or collects the time of its steps. The default does none
/// of that.
#[derive(Clone, Debug, Default)]
pub struct Watch(Option<Arc<Watched>>);

#[derive(Debug)]
struct Watched {
    options: WatchOptions,
    is_given_up: AtomicBool,
    /// [`WAITING`], [`BEGUN`] or [`OVERDUE`].
    state: AtomicU8,
    reason: Arc<Reason>,
    waiting: Mutex<Calls>,
    /// Until the work has begun.
    timer: Mutex<Option<Timer>>,
    /// Where they are wanted.
    steps: Option<Mutex<Vec<StepTime>>>,
    graphs: AtomicUsize,
    created: Instant,
}

const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const OVERDUE: u8 = 2;

impl Watched {
    /// Why the work is not wanted any more.
    fn over(&self) -> Option<Error> {
        if self.is_given_up.load(Ordering::SeqCst) {
            return Some(Error::given_up(self.reason.clone()));
        }
        (self.state.load(Ordering::SeqCst) == OVERDUE).then(|| {
            let time = self.options.timeout.unwrap_or_default().as_millis();
            Error::new(Kind::Timeout, format!("it had not begun after {time} ms (timeout)"))
        })
    }

    /// Tells whoever waits for it that the work is not wanted any more.
    fn notify(&self) {
        let Some(error) = self.over() else { return };
        let calls = std::mem::take(&mut *lock(&self.waiting));
        calls.0.into_iter().for_each(|call| call(error.clone()));
    }

    /// The time is over: work that has not begun is dropped.
    fn expire(&self) {
        if self.state.compare_exchange(WAITING, OVERDUE, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            self.notify();
        }
    }
}

/// Nothing that runs under these locks leaves the contents half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whom to tell when the work is not wanted any more.
#[derive(Default)]
struct Calls(Vec<Call>);

type Call = Box<dyn FnOnce(Error) + Send>;

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
    pub implementation: Cow<'static, str>,
    /// Multiplications that the operators ask for, whatever the implementation does without.
    pub multiplications: usize,
    /// Bytes that are read and written, each once.
    pub bytes: usize,
    /// Of its first input.
    pub data_type: Cow<'static, str>,
    /// The numbers of the steps of its graph whose results it reads.
    pub sources: Vec<usize>,
}

/// Which step of a run it is. A model in parts runs several graphs, which are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepNumber {
    pub graph: usize,
    pub step: usize,
}

/// A step of a run that is done.
#[derive(Debug)]
pub struct DoneStep {
    pub operator: Cow<'static, str>,
    pub label: String,
    pub number: StepNumber,
    pub began: Instant,
    pub ended: Instant,
    /// As that of [`StepTime`].
    pub thread: String,
}

/// When a step of a run was done, in nanoseconds since the watch began.
#[derive(Clone, Debug)]
pub struct StepTime {
    pub operator: Cow<'static, str>,
    pub label: String,
    pub number: StepNumber,
    pub began: u64,
    pub ended: u64,
    /// The name of the thread that ran it, or was the first of several; none for JavaScript's. A device has its own.
    pub thread: String,
    pub description: Description,
}

impl Watch {
    /// One that can be given up, with or without the time of steps.
    pub fn new(with_steps: bool) -> Watch {
        Watch::untimed(WatchOptions { with_steps, ..WatchOptions::default() })
    }

    fn untimed(options: WatchOptions) -> Watch {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Watch(Some(Arc::new(Watched {
            options,
            is_given_up: AtomicBool::new(false),
            state: AtomicU8::new(WAITING),
            reason: Arc::new(Reason(LAST.fetch_add(1, Ordering::Relaxed) + 1)),
            waiting: Mutex::default(),
            timer: Mutex::default(),
            steps: options.with_steps.then(Mutex::default),
            graphs: AtomicUsize::new(0),
            created: Instant::now(),
        })))
    }

    /// # Errors
    /// `UnknownError` when the system has no thread for timers.
    pub fn of(options: WatchOptions) -> Result<Watch> {
        let watch = Watch::untimed(options);
        if let (Some(time), Some(watched)) = (options.timeout, &watch.0) {
            let weak = Arc::downgrade(watched);
            let expire = move || _ = weak.upgrade().inspect(|watched| watched.expire());
            *lock(&watched.timer) = Some(runtime::after(time, expire)?);
        }
        Ok(watch)
    }

    /// What this thread works for.
    pub fn current() -> Watch {
        CURRENT.with_borrow(Clone::clone)
    }

    /// While `work` runs this thread works for whom it watches.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Puts the watch from before back, also when the work panics: others have the thread next.
        struct Before(Watch);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(std::mem::take(&mut self.0));
            }
        }
        let _before = Before(CURRENT.replace(self.clone()));
        work()
    }

    pub fn give_up(&self) {
        if let Some(watched) = &self.0 {
            watched.is_given_up.store(true, Ordering::SeqCst);
            watched.notify();
        }
    }

    /// Calls back when the work is not wanted any more, with the error, on the thread that says so; at once, if that was before.
    pub fn when_over(&self, call: impl FnOnce(Error) + Send + 'static) {
        let Some(watched) = &self.0 else { return };
        let mut waiting = lock(&watched.waiting);
        // Who says so does that before taking the calls.
        match watched.over() {
            Some(error) => {
                drop(waiting);
                call(error);
            }
            None => waiting.0.push(Box::new(call)),
        }
    }

    /// Whether anybody watches.
    pub fn is_watched(&self) -> bool {
        self.0.is_some()
    }

    /// The reason that script has, if it gives the work up.
    pub fn reason(&self) -> Option<&Arc<Reason>> {
        self.0.as_ref().map(|watched| &watched.reason)
    }

    pub fn priority(&self) -> Priority {
        self.0.as_ref().map_or(Priority::Normal, |watched| watched.options.priority)
    }

    /// The work begins, or a part of it: from then on it is not overdue any more.
    ///
    /// # Errors
    /// As [`Watch::check`].
    pub fn begin(&self) -> Result<()> {
        let Some(watched) = &self.0 else { return Ok(()) };
        if let Some(timeout) = watched.options.timeout
            && watched.state.load(Ordering::SeqCst) == WAITING
        {
            // The timer may be late.
            if watched.created.elapsed() >= timeout {
                watched.expire();
            } else if watched.state.compare_exchange(WAITING, BEGUN, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                drop(lock(&watched.timer).take());
            }
        }
        self.check()
    }

    /// # Errors
    /// `AbortError` when the work was given up, `TimeoutError` when it had not begun in time.
    pub fn check(&self) -> Result<()> {
        match &self.0 {
            Some(watched) if watched.is_given_up.load(Ordering::Relaxed) || watched.state.load(Ordering::Relaxed) == OVERDUE => {
                watched.over().map_or(Ok(()), Err)
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
        if self.wants_steps() {
            let thread = std::thread::current().name().unwrap_or_default().to_owned();
            let step =
                DoneStep { operator: operator.into(), label: label.to_owned(), number, began, ended: Instant::now(), thread };
            self.note(step, describe());
        }
    }

    /// Notes a step that was done elsewhere, if that is wanted.
    pub fn note(&self, step: DoneStep, description: Description) {
        let Some(watched) = &self.0 else { return };
        let Some(steps) = &watched.steps else { return };
        let DoneStep { operator, label, number, began, ended, thread } = step;
        let since = |time: Instant| time.saturating_duration_since(watched.created).as_nanos() as u64;
        let (began, ended) = (since(began), since(ended));
        lock(steps).push(StepTime { operator, label, number, began, ended, thread, description });
    }

    /// Takes over the steps of work that was done for several, this among them.
    pub fn take_from(&self, other: &Watch) {
        let (Some(own), Some(theirs)) = (&self.0, &other.0) else { return };
        let Some(steps) = &own.steps else { return };
        let first = own.graphs.fetch_add(theirs.graphs.load(Ordering::Relaxed), Ordering::Relaxed);
        // What is done for this was asked for before.
        let later = theirs.created.saturating_duration_since(own.created).as_nanos() as u64;
        let moved = other.take_steps().into_iter().map(|step| StepTime {
            number: StepNumber { graph: first + step.number.graph, ..step.number },
            began: step.began + later,
            ended: step.ended + later,
            ..step
        });
        lock(steps).extend(moved);
    }

    /// The steps so far.
    pub fn take_steps(&self) -> Vec<StepTime> {
        let steps = self.0.as_ref().and_then(|watched| watched.steps.as_ref());
        steps.map_or_else(Vec::new, |steps| std::mem::take(&mut *lock(steps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn whoever_waits_is_notified_once_also_afterwards() {
        let (watch, notified) = (Watch::new(false), Arc::<AtomicUsize>::default());
        let notify = || {
            let notified = notified.clone();
            move |_| _ = notified.fetch_add(1, Ordering::Relaxed)
        };
        watch.when_over(notify());
        assert!(watch.check().is_ok() && notified.load(Ordering::Relaxed) == 0);
        watch.give_up();
        watch.give_up();
        assert_eq!(notified.load(Ordering::Relaxed), 1);
        watch.when_over(notify());
        assert_eq!(notified.load(Ordering::Relaxed), 2);
        let error = watch.check().unwrap_err();
        assert_eq!(error.kind(), Kind::Aborted);
        assert!(Arc::ptr_eq(error.reason().unwrap(), watch.reason().unwrap()));
        Watch::default().when_over(notify());
        assert!(notified.load(Ordering::Relaxed) == 2 && Watch::default().check().is_ok());
    }

    #[test]
    fn what_has_not_begun_in_time_is_dropped() {
        let of = |milliseconds| {
            Watch::of(WatchOptions { timeout: Some(Duration::from_millis(milliseconds)), ..WatchOptions::default() }).unwrap()
        };
        let (sender, notified) = crossbeam_channel::bounded(1);
        let [late, begun, at_once] = [10, 10, 0].map(of);
        begun.begin().unwrap();
        late.when_over(move |error| sender.send(error).unwrap());
        let error = notified.recv().unwrap();
        assert_eq!((error.kind(), error.message()), (Kind::Timeout, "it had not begun after 10 ms (timeout)"));
        assert_eq!(late.begin().unwrap_err().kind(), Kind::Timeout);
        assert_eq!(at_once.begin().unwrap_err().kind(), Kind::Timeout);
        std::thread::sleep(Duration::from_millis(30));
        assert!(begun.begin().is_ok() && begun.check().is_ok());
        begun.give_up();
        assert_eq!(begun.check().unwrap_err().kind(), Kind::Aborted);
    }

    #[test]
    fn one_of_several_takes_over_the_steps_of_what_was_done_for_all() {
        let step = |watch: &Watch, operator| {
            let number = StepNumber { graph: watch.graph(), step: 3 };
            watch.step(operator, "", number, Instant::now(), Description::default);
        };
        let [own, unwatched, plain] = [Watch::new(true), Watch::default(), Watch::new(false)];
        step(&own, "add");
        let all = Watch::new(true);
        step(&all, "mul");
        unwatched.take_from(&all);
        plain.take_from(&all);
        own.take_from(&all);
        step(&own, "sub");
        let found = own.take_steps();
        let parts: Vec<_> = found.iter().map(|step| (&*step.operator, step.number.graph, step.number.step)).collect();
        assert_eq!(parts, [("add", 0, 3), ("mul", 1, 3), ("sub", 2, 3)]);
        assert!(found.windows(2).all(|two| two[0].ended <= two[1].began), "{found:?}");
        assert!(all.take_steps().is_empty() && plain.take_steps().is_empty());
    }

    #[test]
    fn a_thread_knows_what_it_works_for() {
        let watch = Watch::new(false);
        watch.give_up();
        assert!(Watch::current().check().is_ok());
        assert!(watch.during(|| Watch::current().check().is_err()));
        assert!(Watch::current().check().is_ok());
        assert!(std::panic::catch_unwind(|| watch.during(|| panic!("on purpose"))).is_err());
        assert!(Watch::current().check().is_ok());
    }
}
