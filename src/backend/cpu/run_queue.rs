//! Where runs wait for their turn: in a queue the more urgent start first, of equal ones of a context in the order in which they were asked
//! for. Of equal ones of several contexts that context has its turn whose last run started longest ago.
//! One that has started has its thread to itself until it ends, but between two of its steps it gives way to a more urgent one.
//!
//! None is put off for ever. When a run ends, the next is a less urgent one if [`PASSED`] others have gone before it. One that has
//! started and gives way still has a share of the time, one part of `PASSED + 1`.
//!
//! Whole runs are never jobs of a pool: a thread of a pool that waits for the pieces of one run takes up another run meanwhile,
//! and the first is put aside until that one has ended. Nor does a queue yield before it sleeps, as threads of pools do: where
//! the thread pool computes on all cores each of these turns takes a core away from it. It yields once behind each run while few others wait:
//! whoever hears of the end and asks for more may need the core.
//!
//! All contexts of a process share two queues ([`Crew`](super::crew::Crew)). Long runs start one after the other with all threads, or side by
//! side with a part of them each ([`Streams`]), which needs less agreement between threads. Short runs have threads of their own, one each,
//! so that they never wait for long ones.

#[cfg(test)]
mod tests;

use super::streams::{Streams, Surroundings};
use crate::thread;
use crate::watch::{PASSED, Priority, Watch};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const CLASSES: usize = Priority::ALL.len();

/// So many runs that started alone have waited for another one: there are several callers, each of whom waits for its own.
const COMPANY: u32 = 4;

/// Fewer runs than so many for each core are few: they may be done before the thread that asks for more has had a core, for systems give one to a
/// thread for milliseconds. Measured on two cores of a Zen 5 with runs of 90 us: 16 clients have 1.1 of the runs without yielding, 4 have 1.2;
/// with yields behind all runs 64 clients have 0.9.
const FEW: usize = 4;

/// Done with so many threads.
type Work = Box<dyn FnOnce(usize, &ActiveRun) + Send>;

/// By the number of the request, and by when they came where that is the same.
type Key = (u64, u64);

/// A run that is under way, in its queue.
pub struct ActiveRun {
    shared: Arc<Queue>,
    started: Arc<Started>,
    threads: usize,
    began: Instant,
    paused: Cell<Duration>,
    /// It uses cores of its own, which it has not let go yet.
    has_cores: Cell<bool>,
}

/// What others can see of it.
struct Started {
    context: u64,
    number: u64,
    /// How urgent it is now.
    class: AtomicUsize,
}

impl ActiveRun {
    /// How long others were let pass.
    pub fn paused(&self) -> Duration {
        self.paused.get()
    }

    /// The run needs its cores no more, though its thread still has to tell of its end.
    pub fn end(&self) {
        if self.has_cores.take() {
            self.shared.lock().end(self.started.context, self.threads);
        }
    }

    /// Between two steps: whatever is more urgent and waits is done now, on this thread and with this run's help. Its memory is its own.
    pub fn give_way(&self) {
        while self.shared.most_urgent.load(Ordering::Relaxed) < self.started.class.load(Ordering::Relaxed) {
            let paused = self.paused.get();
            if paused > PASSED * self.began.elapsed().saturating_sub(paused) {
                return;
            }
            let Some((work, started)) = self.shared.lock().start_more_urgent_than(self.started.class.load(Ordering::Relaxed))
            else {
                return;
            };
            let began = Instant::now();
            self.shared.run(work, started, self.threads, false);
            self.paused.set(self.paused.get() + began.elapsed());
        }
    }
}

/// Does what it is given in order, and ends when it is dropped and everything is done.
#[derive(Debug)]
pub struct RunQueue {
    shared: Arc<Queue>,
}

/// The runs of a context in a queue.
#[derive(Debug)]
pub struct Runs {
    shared: Arc<Queue>,
    context: u64,
}

/// A run that its caller does, which nobody was before: it uses cores for as long as this lives.
pub struct Alone<'a> {
    shared: &'a Arc<Queue>,
    context: u64,
    pub threads: usize,
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.end(self.context, self.threads);
        self.shared.call(&mut state);
    }
}

struct Queue {
    name: &'static str,
    state: Mutex<State>,
    /// The class of the most urgent run that waits: for a look without the lock.
    most_urgent: Arc<AtomicUsize>,
    /// Something can start, or the queue ends.
    changed: Condvar,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What a queue knows of a context.
struct Context {
    streams: Streams,
    /// By class.
    waiting: [BTreeMap<Key, Work>; CLASSES],
    /// Runs that have started and not ended, and the threads that they have.
    running: usize,
    used: usize,
    /// The number of the start of its last run.
    last: u64,
    /// What waits only tells that it is not done.
    is_given_up: bool,
    /// Nobody asks for more.
    has_ended: bool,
}

impl Context {
    fn waiting(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    /// How many of those that wait could be under way now, as far as it is this context's matter.
    fn could_start(&self) -> usize {
        let room = self.streams.most().saturating_sub(self.running).min(self.streams.threads.saturating_sub(self.used));
        self.waiting().min(room)
    }
}

struct State {
    contexts: BTreeMap<u64, Context>,
    /// Contexts that there have been, runs that have come, and runs that have started.
    entered: u64,
    pushed: u64,
    starts: u64,
    /// By class: how many more urgent runs have started since one of these has, while some waited.
    passed: [u32; CLASSES],
    most_urgent: Arc<AtomicUsize>,
    started: Vec<Arc<Started>>,
    /// What all runs share, and what they use of it.
    cores: usize,
    used: usize,
    /// Each run has one thread.
    is_for_short: bool,
    /// How many runs lately have waited for the one before and then started alone.
    company: u32,
    /// Some run came while another one was under way, since the last start.
    has_met: bool,
    /// Threads that there are, and those of them that have nothing to do.
    threads: usize,
    idle: usize,
    has_ended: bool,
}

impl State {
    /// The next run that may start now: its context, its class and its threads.
    fn next(&self) -> Option<(u64, usize, usize)> {
        let free = self.cores.saturating_sub(self.used);
        if free == 0 {
            return None;
        }
        let can_start = || self.contexts.iter().filter(|(_, context)| context.could_start() > 0);
        let has = |class: usize| can_start().any(|(_, context)| !context.waiting[class].is_empty());
        let waits_enough = (0..CLASSES).rev().find(|&class| self.passed[class] >= PASSED && has(class));
        let class = waits_enough.or_else(|| (0..CLASSES).find(|&class| has(class)))?;
        let of_class = can_start().filter(|(_, context)| !context.waiting[class].is_empty());
        let (id, context) = of_class.min_by_key(|(_, context)| context.last)?;
        if self.is_for_short {
            return Some((*id, class, 1));
        }
        let now = Surroundings {
            free,
            used: context.used,
            running: context.running,
            waiting: can_start().map(|(_, context)| context.could_start()).sum(),
            is_alone: self.used == 0,
            has_company: self.has_met && self.company >= COMPANY,
        };
        context.streams.width(now).map(|threads| (*id, class, threads))
    }

    fn start(&mut self) -> Option<(Work, Arc<Started>, usize)> {
        let (id, class, threads) = self.next()?;
        let is_alone = self.used == 0 && self.contexts.values().map(Context::waiting).sum::<usize>() == 1;
        let (work, started) = self.take(id, class)?;
        self.begin(id, threads, is_alone);
        Some((work, started, threads))
    }

    fn begin(&mut self, id: u64, threads: usize, is_alone: bool) {
        self.starts += 1;
        self.used += threads;
        if let Some(context) = self.contexts.get_mut(&id) {
            context.running += 1;
            context.used += threads;
            context.last = self.starts;
        }
        let has_met = std::mem::replace(&mut self.has_met, false);
        if is_alone {
            // Callers that end together do not meet each other once.
            self.company = if has_met { (self.company + 1).min(2 * COMPANY) } else { self.company / 2 };
        }
    }

    fn end(&mut self, id: u64, threads: usize) {
        self.used -= threads;
        if let Some(context) = self.contexts.get_mut(&id) {
            context.running -= 1;
            context.used -= threads;
        }
        self.forget(id);
    }

    /// What has ended and has nothing to do any more is not known any more.
    fn forget(&mut self, id: u64) {
        if self.contexts.get(&id).is_some_and(|context| context.has_ended && context.running == 0 && context.waiting() == 0) {
            self.contexts.remove(&id);
        }
    }

    /// For whoever gives way to it.
    fn start_more_urgent_than(&mut self, class: usize) -> Option<(Work, Arc<Started>)> {
        let most_urgent = self.find_most_urgent();
        if most_urgent >= class {
            return None;
        }
        let of_class = self.contexts.iter().filter(|(_, context)| !context.waiting[most_urgent].is_empty());
        let id = *of_class.min_by_key(|(_, context)| context.last)?.0;
        self.starts += 1;
        let (work, started) = self.take(id, most_urgent)?;
        if let Some(context) = self.contexts.get_mut(&id) {
            context.last = self.starts;
        }
        Some((work, started))
    }

    /// The first run of a class of a context.
    fn take(&mut self, id: u64, class: usize) -> Option<(Work, Arc<Started>)> {
        let ((number, _), work) = self.contexts.get_mut(&id)?.waiting.get_mut(class)?.pop_first()?;
        self.passed[class] = 0;
        for other in class + 1..CLASSES {
            self.passed[other] = if self.has(other) { self.passed[other] + 1 } else { 0 };
        }
        self.note();
        let started = Arc::new(Started { context: id, number, class: AtomicUsize::new(class) });
        self.started.push(started.clone());
        Some((work, started))
    }

    fn has(&self, class: usize) -> bool {
        self.contexts.values().any(|context| !context.waiting[class].is_empty())
    }

    fn has_few(&self) -> bool {
        self.contexts.values().map(Context::waiting).sum::<usize>() < FEW * self.cores
    }

    fn is_waiting(&self) -> bool {
        (0..CLASSES).any(|class| self.has(class))
    }

    /// The most urgent class of which some wait; none is [`CLASSES`].
    fn find_most_urgent(&self) -> usize {
        (0..CLASSES).find(|&class| self.has(class)).unwrap_or(CLASSES)
    }

    /// After each change of what waits.
    fn note(&self) {
        self.most_urgent.store(self.find_most_urgent(), Ordering::Relaxed);
    }

    /// A run is at least so urgent from now on.
    fn lift(&mut self, id: u64, number: u64, class: usize) {
        let Some(context) = self.contexts.get_mut(&id) else { return };
        for old in class + 1..CLASSES {
            let keys: Vec<Key> = context.waiting[old].range((number, 0)..=(number, u64::MAX)).map(|(key, _)| *key).collect();
            for key in keys {
                if let Some(work) = context.waiting[old].remove(&key) {
                    context.waiting[class].insert(key, work);
                }
            }
        }
        self.started.iter().filter(|started| (started.context, started.number) == (id, number)).for_each(|started| {
            started.class.fetch_min(class, Ordering::Relaxed);
        });
        self.note();
    }

    /// A run that has not started and is not wanted any more.
    fn remove(&mut self, id: u64, key: Key) -> Option<Work> {
        let work = self.contexts.get_mut(&id)?.waiting.iter_mut().find_map(|waiting| waiting.remove(&key));
        self.note();
        self.forget(id);
        work
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a run that has started, with cores of its own or with those that another one has.
    fn run(self: &Arc<Self>, work: Work, started: Arc<Started>, threads: usize, has_cores: bool) {
        let (paused, has_cores) = (Cell::default(), Cell::new(has_cores));
        let active = ActiveRun { shared: self.clone(), started, threads, began: Instant::now(), paused, has_cores };
        work(threads, &active);
        active.end();
        self.lock().started.retain(|started| !Arc::ptr_eq(started, &active.started));
    }

    /// Does a run that waits for nobody.
    fn run_at_once(self: &Arc<Self>, context: u64, number: u64, class: usize, work: Work) {
        self.run(work, Arc::new(Started { context, number, class: AtomicUsize::new(class) }), 1, false);
    }

    /// Has a thread come, if something can start. Nobody is woken in vain: whoever ends a run looks for the next one.
    fn call(self: &Arc<Self>, state: &mut State) {
        // One is there for what waits for the cores of a run that no thread of the queue does.
        let is_needed = state.next().is_some() || (state.threads == 0 && state.is_waiting());
        if !is_needed {
            return;
        }
        if state.idle > 0 {
            self.changed.notify_one();
        } else if state.threads < state.cores && self.spawn() {
            state.threads += 1;
        }
    }

    /// The life of a thread.
    fn serve(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((work, started, threads)) = state.start() {
                // Another may start beside it.
                self.call(&mut state);
                drop(state);
                self.run(work, started, threads, true);
                state = self.lock();
                if state.has_few() {
                    drop(state);
                    std::thread::yield_now();
                    state = self.lock();
                }
            } else if state.has_ended && !state.is_waiting() {
                self.changed.notify_all();
                return;
            } else {
                state.idle += 1;
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
            }
        }
    }

    /// Whether the system gives a thread.
    fn spawn(self: &Arc<Self>) -> bool {
        let shared = self.clone();
        // Nobody waits for its end: it may be the one that drops the last reference to the queue.
        thread::start(self.name, move || shared.serve()).is_ok()
    }
}

impl RunQueue {
    /// A queue for runs that share so many cores; in one for short runs each has one thread.
    pub fn new(name: &'static str, cores: usize, is_for_short: bool) -> RunQueue {
        let most_urgent = Arc::new(AtomicUsize::new(CLASSES));
        let state = State {
            contexts: BTreeMap::new(),
            entered: 0,
            pushed: 0,
            starts: 0,
            passed: [0; CLASSES],
            most_urgent: most_urgent.clone(),
            started: Vec::new(),
            cores: cores.max(1),
            used: 0,
            is_for_short,
            company: 0,
            has_met: false,
            threads: 0,
            idle: 0,
            has_ended: false,
        };
        RunQueue { shared: Arc::new(Queue { name, state: Mutex::new(state), most_urgent, changed: Condvar::new() }) }
    }

    /// The runs of another context. Who asks for more threads than there are cores gets them, and they take turns.
    pub fn enter(&self, streams: Streams) -> Runs {
        let mut state = self.shared.lock();
        state.cores = state.cores.max(streams.threads);
        state.entered += 1;
        let (context, last) = (state.entered, state.starts);
        let waiting = Default::default();
        state
            .contexts
            .insert(context, Context { streams, waiting, running: 0, used: 0, last, is_given_up: false, has_ended: false });
        Runs { shared: self.shared.clone(), context }
    }
}

impl Drop for RunQueue {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_all();
    }
}

impl Runs {
    /// Whether no run of the context waits or is under way.
    pub fn is_empty(&self) -> bool {
        let state = self.shared.lock();
        state.contexts.get(&self.context).is_none_or(|context| context.running == 0 && context.waiting() == 0)
    }

    /// For a run that the caller does now, with at most so many threads: nothing where another is under way or waits, of any context.
    pub fn begin_alone(&self, most: usize) -> Option<Alone<'_>> {
        let mut state = self.shared.lock();
        if state.used > 0 || state.is_waiting() {
            return None;
        }
        let streams = state.contexts.get(&self.context)?.streams;
        let free = state.cores;
        let now = Surroundings { free, used: 0, running: 0, waiting: 1, is_alone: true, has_company: false };
        let threads = streams.width(now)?.min(most).max(1);
        state.begin(self.context, threads, true);
        Some(Alone { shared: &self.shared, context: self.context, threads })
    }

    /// The context has ended: its runs do nothing any more but tell so, and wait for nobody's cores to do that.
    pub fn give_up(&self) {
        let mut state = self.shared.lock();
        let Some(context) = state.contexts.get_mut(&self.context) else { return };
        context.is_given_up = true;
        let waiting = std::mem::take(&mut context.waiting);
        state.note();
        drop(state);
        let runs: Vec<_> =
            waiting.into_iter().enumerate().flat_map(|(class, runs)| runs.into_iter().map(move |run| (class, run))).collect();
        if runs.is_empty() {
            return;
        }
        let (shared, id) = (self.shared.clone(), self.context);
        let tell = move |runs: Vec<(usize, (Key, Work))>| {
            runs.into_iter().for_each(|(class, ((number, _), work))| shared.run_at_once(id, number, class, work));
        };
        if let Err((_, runs)) = thread::start_with("webnn end", runs, tell.clone()) {
            tell(runs);
        }
    }

    /// A run that was pushed is at least so urgent from now on.
    pub fn lift(&self, number: u64, priority: Priority) {
        self.shared.lock().lift(self.context, number, priority as usize);
    }

    /// Has a run done when it is its turn, by the number of its request. Done here when the system gives no thread at all; and when it is
    /// given up before its turn, whoever does that has it done, which then does nothing but report.
    ///
    /// # Panics
    /// Work must not panic.
    pub fn push(&self, number: u64, priority: Priority, watch: &Watch, work: impl FnOnce(usize, &ActiveRun) + Send + 'static) {
        let (id, class) = (self.context, priority as usize);
        let mut state = self.shared.lock();
        if state.contexts.get(&id).is_none_or(|context| context.is_given_up) {
            drop(state);
            return self.shared.run_at_once(id, number, class, Box::new(work));
        }
        state.pushed += 1;
        let key = (number, state.pushed);
        state.has_met |= state.used > 0;
        if let Some(context) = state.contexts.get_mut(&id) {
            context.waiting[class].insert(key, Box::new(work));
        }
        state.note();
        self.shared.call(&mut state);
        if state.threads == 0 {
            let work = state.remove(id, key);
            drop(state);
            work.into_iter().for_each(|work| self.shared.run_at_once(id, number, class, work));
            return;
        }
        drop(state);
        if watch.is_watched() {
            let shared = Arc::downgrade(&self.shared);
            watch.when_over(move |_| {
                let Some(shared) = shared.upgrade() else { return };
                let work = shared.lock().remove(id, key);
                if let Some(work) = work {
                    shared.run_at_once(id, number, class, work);
                }
            });
        }
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if let Some(context) = state.contexts.get_mut(&self.context) {
            context.has_ended = true;
        }
        state.forget(self.context);
    }
}
