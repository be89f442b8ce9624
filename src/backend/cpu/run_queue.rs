//! Where runs wait for their turn: in a lane the more urgent start first, of equal ones in the order in which they were asked for.
//! One that has started has its thread to itself until it ends, but between two of its steps it gives way to a more urgent one.
//!
//! None is put off for ever. When a run ends, the next is a less urgent one if [`PASSED`] others have gone before it. One that has
//! started and gives way still has a share of the time, one part of `PASSED + 1`.
//!
//! Whole runs are never jobs of a pool: a thread of a pool that waits for the pieces of one run takes up another run meanwhile,
//! and the first is put aside until that one has ended. Nor does a lane yield before it sleeps, as threads of pools do: where
//! the thread pool computes on all cores each of these turns takes a core away from it.
//!
//! A context has two lanes. Long runs start one after the other with the whole thread pool's help, or, when there are enough of them
//! to keep all threads busy, side by side on a thread each, which needs no agreement between threads. Short runs have a thread
//! of their own, so that they never wait for long ones.

use super::cancel::Cancel;
use crate::memory::{THREAD, Usage, Use};
use crate::thread;
use crate::watch::{PASSED, Priority, Watch};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Who does the pieces of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// All threads: no other run of the lane is under way.
    Pool,
    /// Only the thread that it runs on.
    Nobody,
}

const CLASSES: usize = Priority::ALL.len();

type Work = Box<dyn FnOnce(Help, &Place) + Send>;

/// By the number of the request, and by when they came where that is the same.
type Key = (u64, u64);

/// A run that is under way, in its lane.
pub struct Place {
    shared: Arc<Shared>,
    turn: Arc<Started>,
    help: Help,
    began: Instant,
    paused: Cell<Duration>,
}

/// What others can see of it.
struct Started {
    number: u64,
    /// How urgent it is now.
    class: AtomicUsize,
}

impl Place {
    /// How long others were let pass.
    pub fn paused(&self) -> Duration {
        self.paused.get()
    }

    /// Between two steps: whatever is more urgent and waits is done now, on this thread and with this run's help. Its memory is its own.
    pub fn give_way(&self) {
        while self.shared.most_urgent.load(Ordering::Relaxed) < self.turn.class.load(Ordering::Relaxed) {
            let paused = self.paused.get();
            if paused > PASSED * self.began.elapsed().saturating_sub(paused) {
                return;
            }
            let Some((work, turn)) = self.shared.lock().start_more_urgent_than(self.turn.class.load(Ordering::Relaxed)) else {
                return;
            };
            let began = Instant::now();
            self.shared.run(work, turn, self.help);
            self.paused.set(self.paused.get() + began.elapsed());
        }
    }
}

/// Does what it is given in order, and ends when it is dropped and everything is done.
#[derive(Debug)]
pub struct Lane {
    shared: Arc<Shared>,
    name: &'static str,
    cancel: Cancel,
    /// Where its threads are counted.
    usage: Arc<Usage>,
}

struct Shared {
    state: Mutex<State>,
    /// The class of the most urgent run that waits: for a look without the lock.
    most_urgent: Arc<AtomicUsize>,
    /// Something can start, or the lane ends.
    changed: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

struct State {
    /// By class.
    waiting: [BTreeMap<Key, Work>; CLASSES],
    /// By class: how many more urgent runs have started since one of these has, while some waited.
    passed: [u32; CLASSES],
    most_urgent: Arc<AtomicUsize>,
    started: Vec<Arc<Started>>,
    pushed: u64,
    /// How many may run at once.
    most: usize,
    has_pool: bool,
    /// Threads that there are.
    threads: usize,
    /// Runs that have started and not ended.
    running: usize,
    /// The one that runs has everybody's help.
    is_shared: bool,
    has_ended: bool,
}

impl State {
    /// How the next run would start, if it may start now.
    fn next(&self) -> Option<Help> {
        let waiting = self.waiting();
        if waiting == 0 || self.is_shared || self.running >= self.most {
            return None;
        }
        let keeps_all_busy = self.running + waiting >= self.most;
        if !self.has_pool || (keeps_all_busy && self.most > 1) {
            return Some(Help::Nobody);
        }
        // Too few to be side by side: each has everybody, one after the other.
        (self.running == 0).then_some(Help::Pool)
    }

    fn start(&mut self) -> Option<(Work, Arc<Started>, Help)> {
        let help = self.next()?;
        let waits_enough = |class: &usize| self.passed[*class] >= PASSED && !self.waiting[*class].is_empty();
        let class = (0..CLASSES).rev().find(waits_enough).unwrap_or_else(|| self.find_most_urgent());
        let (work, started) = self.take(class)?;
        self.running += 1;
        self.is_shared = help == Help::Pool;
        Some((work, started, help))
    }

    /// For whoever gives way to it.
    fn start_more_urgent_than(&mut self, class: usize) -> Option<(Work, Arc<Started>)> {
        let most_urgent = self.find_most_urgent();
        if most_urgent < class { self.take(most_urgent) } else { None }
    }

    /// The first run of a class.
    fn take(&mut self, class: usize) -> Option<(Work, Arc<Started>)> {
        let ((number, _), work) = self.waiting.get_mut(class)?.pop_first()?;
        self.passed[class] = 0;
        for (other, passed) in self.passed.iter_mut().enumerate().skip(class + 1) {
            *passed = if self.waiting[other].is_empty() { 0 } else { *passed + 1 };
        }
        self.note();
        let started = Arc::new(Started { number, class: AtomicUsize::new(class) });
        self.started.push(started.clone());
        Some((work, started))
    }

    fn waiting(&self) -> usize {
        self.waiting.iter().map(BTreeMap::len).sum()
    }

    /// The most urgent class of which some wait; none is [`CLASSES`].
    fn find_most_urgent(&self) -> usize {
        self.waiting.iter().position(|waiting| !waiting.is_empty()).unwrap_or(CLASSES)
    }

    /// After each change of what waits.
    fn note(&self) {
        self.most_urgent.store(self.find_most_urgent(), Ordering::Relaxed);
    }

    /// A run is at least so urgent from now on.
    fn lift(&mut self, number: u64, class: usize) {
        for old in class + 1..CLASSES {
            let keys: Vec<Key> = self.waiting[old].range((number, 0)..=(number, u64::MAX)).map(|(key, _)| *key).collect();
            for key in keys {
                if let Some(work) = self.waiting[old].remove(&key) {
                    self.waiting[class].insert(key, work);
                }
            }
        }
        self.started.iter().filter(|started| started.number == number).for_each(|started| {
            started.class.fetch_min(class, Ordering::Relaxed);
        });
        self.note();
    }

    /// A run that has not started and is not wanted any more.
    fn remove(&mut self, key: Key) -> Option<Work> {
        let work = self.waiting.iter_mut().find_map(|waiting| waiting.remove(&key));
        self.note();
        work
    }

    fn end(&mut self) {
        self.running -= 1;
        self.is_shared = false;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does a run that has started.
    fn run(self: &Arc<Self>, work: Work, turn: Arc<Started>, help: Help) {
        let place = Place { shared: self.clone(), turn, help, began: Instant::now(), paused: Cell::default() };
        work(help, &place);
        self.lock().started.retain(|started| !Arc::ptr_eq(started, &place.turn));
    }

    /// Does a run that waits for nobody.
    fn run_here(self: &Arc<Self>, number: u64, class: usize, work: Work) {
        self.run(work, Arc::new(Started { number, class: AtomicUsize::new(class) }), Help::Nobody);
    }

    /// The life of a thread.
    fn serve(self: &Arc<Self>) {
        let mut state = self.lock();
        loop {
            if let Some((work, turn, help)) = state.start() {
                // Another may start beside it.
                if state.next().is_some() {
                    self.changed.notify_one();
                }
                drop(state);
                self.run(work, turn, help);
                state = self.lock();
                state.end();
            } else if state.has_ended && state.waiting() == 0 {
                self.changed.notify_all();
                return;
            } else {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
}

impl Lane {
    /// A lane of the context with this flag; `most` runs at once, each with the help of a thread pool if there is one and it is alone.
    pub fn new(name: &'static str, most: usize, has_pool: bool, cancel: Cancel, usage: Arc<Usage>) -> Lane {
        let most_urgent = Arc::new(AtomicUsize::new(CLASSES));
        let state = State {
            waiting: Default::default(),
            passed: [0; CLASSES],
            most_urgent: most_urgent.clone(),
            started: Vec::new(),
            pushed: 0,
            most: most.max(1),
            has_pool,
            threads: 0,
            running: 0,
            is_shared: false,
            has_ended: false,
        };
        let shared = Shared { state: Mutex::new(state), most_urgent, changed: Condvar::new() };
        Lane { shared: Arc::new(shared), name, cancel, usage }
    }

    /// Whether nothing waits or runs.
    pub fn is_empty(&self) -> bool {
        let state = self.shared.lock();
        state.running == 0 && state.waiting() == 0
    }

    /// A run that was pushed is at least so urgent from now on.
    pub fn lift(&self, number: u64, priority: Priority) {
        self.shared.lock().lift(number, priority as usize);
    }

    /// Has a run done when it is its turn, by the number of its request. Done here when the system gives no thread at all; and when it is
    /// given up before its turn, whoever does that has it done, which then does nothing but report.
    ///
    /// # Panics
    /// Work must not panic.
    pub fn push(&self, number: u64, priority: Priority, watch: &Watch, work: impl FnOnce(Help, &Place) + Send + 'static) {
        let mut state = self.shared.lock();
        if state.threads < state.most && state.threads <= state.running + state.waiting() && self.spawn() {
            state.threads += 1;
        }
        let class = priority as usize;
        if state.threads == 0 {
            drop(state);
            return self.shared.run_here(number, class, Box::new(work));
        }
        state.pushed += 1;
        let key = (number, state.pushed);
        state.waiting[class].insert(key, Box::new(work));
        state.note();
        // Nobody is woken in vain: whoever ends a run looks for the next one.
        if state.next().is_some() {
            self.shared.changed.notify_one();
        }
        drop(state);
        if watch.is_watched() {
            let shared = Arc::downgrade(&self.shared);
            watch.when_over(move |_| {
                let Some(shared) = shared.upgrade() else { return };
                let work = shared.lock().remove(key);
                if let Some(work) = work {
                    shared.run_here(number, class, work);
                }
            });
        }
    }

    /// Whether the system gives a thread.
    fn spawn(&self) -> bool {
        let (shared, cancel) = (self.shared.clone(), self.cancel.clone());
        let overhead = self.usage.charge(Use::Overhead, THREAD);
        let serve = move || {
            let _overhead = overhead;
            cancel.adopt_thread();
            shared.serve();
        };
        // Nobody waits for its end: it may be the one that drops the last reference to the lane.
        thread::start(self.name, serve).is_ok()
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

    /// A lane, and what its runs did.
    struct Harness {
        lane: Lane,
        log: Sender<(&'static str, u64, Help)>,
        logged: Receiver<(&'static str, u64, Help)>,
    }

    impl Harness {
        fn new(most: usize) -> Harness {
            let (log, logged) = unbounded();
            Harness { lane: Lane::new("webnn test", most, most > 1, Cancel::default(), Arc::default()), log, logged }
        }

        /// A run that ends when it is let.
        fn held(&self, number: u64) -> Sender<()> {
            self.held_of(number, Priority::Normal)
        }

        fn held_of(&self, number: u64, priority: Priority) -> Sender<()> {
            let (end, ended) = bounded(1);
            let log = self.log.clone();
            self.lane.push(number, priority, &Watch::default(), move |help, _| {
                log.send(("start", number, help)).unwrap();
                ended.recv().unwrap();
                log.send(("end", number, help)).unwrap();
            });
            end
        }

        fn next(&self) -> (&'static str, u64, Help) {
            self.logged.recv().unwrap()
        }

        fn rest(self) -> Vec<(&'static str, u64, Help)> {
            let Harness { lane, log, logged } = self;
            drop((lane, log));
            logged.iter().collect()
        }
    }

    #[test]
    fn runs_start_in_the_order_in_which_they_were_asked_for() {
        let harness = Harness::new(1);
        let first = harness.held(10);
        assert_eq!(harness.next(), ("start", 10, Help::Nobody));
        // What became ready later may have been asked for earlier.
        let others: Vec<_> = [14, 12, 11, 13].map(|number| harness.held(number)).into();
        for end in others.iter().chain([&first]) {
            end.send(()).unwrap();
        }
        let rest = harness.rest();
        let expected = (10..15).flat_map(|number| [("start", number, Help::Nobody), ("end", number, Help::Nobody)]);
        assert!(rest.iter().copied().eq(expected.skip(1)), "{rest:?}");
    }

    #[test]
    fn a_run_that_has_started_is_not_put_aside() {
        // Sixteen clients, each of whom asks again when a run of its has ended.
        let (clients, rounds, threads) = (16, 20, 2);
        let lane = Arc::new(Lane::new("webnn test", threads, true, Cancel::default(), Arc::default()));
        let (ended, ends) = unbounded();
        let under_way = Arc::new(Mutex::new(Vec::<(std::thread::ThreadId, Help)>::new()));
        let ask = |client: u64, number: u64| {
            let (ended, under_way) = (ended.clone(), under_way.clone());
            lane.push(number, Priority::Normal, &Watch::default(), move |help, _| {
                let thread = std::thread::current().id();
                let mut started = under_way.lock().unwrap();
                // One run at a time on a thread, and nobody beside one that has everybody's help.
                let is_first = started.iter().all(|(other, _)| *other != thread);
                let are_apart = started.iter().all(|(_, other)| [help, *other] == [Help::Nobody; 2]);
                started.push((thread, help));
                drop(started);
                std::thread::yield_now();
                under_way.lock().unwrap().retain(|(other, _)| *other != thread);
                ended.send((client, number, is_first && are_apart)).unwrap();
            });
        };
        (0..clients).for_each(|client| ask(client, client));
        for heard in 1..=clients * rounds {
            let (client, number, is_right) = ends.recv().unwrap();
            assert!(is_right, "{number}");
            // All before it had started, and no more of them than there are other threads had not ended: no client is passed over.
            assert!(number + 1 < heard + threads as u64, "{number} was the end number {heard}");
            ask(client, clients + heard - 1);
        }
    }

    #[test]
    fn a_run_alone_has_the_team_and_many_run_side_by_side() {
        let harness = Harness::new(2);
        let alone = harness.held(0);
        assert_eq!(harness.next(), ("start", 0, Help::Pool));
        let others: Vec<_> = (1..4).map(|number| harness.held(number)).collect();
        alone.send(()).unwrap();
        assert_eq!(harness.next(), ("end", 0, Help::Pool));
        let mut started = [harness.next(), harness.next()];
        started.sort_by_key(|(_, number, _)| *number);
        assert_eq!(started, [("start", 1, Help::Nobody), ("start", 2, Help::Nobody)]);
        // One beside the last keeps both threads busy.
        others[0].send(()).unwrap();
        assert_eq!(harness.next(), ("end", 1, Help::Nobody));
        assert_eq!(harness.next(), ("start", 3, Help::Nobody));
        others[2].send(()).unwrap();
        assert_eq!(harness.next(), ("end", 3, Help::Nobody));
        others[1].send(()).unwrap();
        assert_eq!(harness.rest(), [("end", 2, Help::Nobody)]);
    }

    #[test]
    fn few_runs_go_one_after_the_other() {
        let harness = Harness::new(4);
        let first = harness.held(0);
        assert_eq!(harness.next(), ("start", 0, Help::Pool));
        let others: Vec<_> = (1..4).map(|number| harness.held(number)).collect();
        for end in others.iter().chain([&first]) {
            end.send(()).unwrap();
        }
        let expected = (0..4).flat_map(|number| [("start", number, Help::Pool), ("end", number, Help::Pool)]);
        assert!(harness.rest().into_iter().eq(expected.skip(1)));
    }

    /// The numbers of runs in the order in which they started.
    fn starts(log: &[(&'static str, u64, Help)]) -> Vec<u64> {
        log.iter().filter(|(what, ..)| *what == "start").map(|(_, number, _)| *number).collect()
    }

    #[test]
    fn the_more_urgent_start_first_and_no_other_is_passed_over_for_ever() {
        let harness = Harness::new(1);
        let first = harness.held(0);
        harness.next();
        let ends: Vec<_> = [(1, Priority::Low), (2, Priority::Normal), (3, Priority::Low)]
            .into_iter()
            .chain((4..40).map(|number| (number, Priority::High)))
            .map(|(number, priority)| harness.held_of(number, priority))
            .collect();
        ends.iter().chain([&first]).for_each(|end| end.send(()).unwrap());
        let order = starts(&harness.rest());
        // The normal one passed the low one over, too.
        let expected: Vec<u64> = (4..12).chain([1, 2]).chain(12..19).chain([3]).chain(19..40).collect();
        assert_eq!(PASSED, 8);
        assert_eq!(order, expected);
    }

    #[test]
    fn what_is_lifted_starts_with_the_more_urgent() {
        let harness = Harness::new(1);
        let first = harness.held(0);
        harness.next();
        let ends = [(1, Priority::Low), (2, Priority::Low), (3, Priority::High), (4, Priority::Normal)]
            .map(|(number, priority)| harness.held_of(number, priority));
        harness.lane.lift(2, Priority::High);
        harness.lane.lift(3, Priority::Normal);
        ends.iter().chain([&first]).for_each(|end| end.send(()).unwrap());
        assert_eq!(starts(&harness.rest()), [2, 3, 4, 1]);
    }

    /// A low run of so many steps, which gives way between them, and tells of each.
    fn stepping(harness: &Harness, steps: u64) -> Sender<()> {
        let (go, goes) = unbounded();
        let log = harness.log.clone();
        harness.lane.push(100, Priority::Low, &Watch::default(), move |help, place| {
            // So that its share is no matter.
            std::thread::sleep(Duration::from_millis(50));
            for step in 0..steps {
                goes.recv().unwrap();
                place.give_way();
                log.send(("step", step, help)).unwrap();
            }
        });
        go
    }

    #[test]
    fn a_run_gives_way_between_steps_to_the_more_urgent_on_its_thread_and_with_its_help() {
        for most in [1, 4] {
            let harness = Harness::new(most);
            let go = stepping(&harness, 3);
            go.send(()).unwrap();
            let (_, _, help) = harness.next();
            let (low, normal, high) = (harness.held_of(1, Priority::Low), harness.held(2), harness.held_of(3, Priority::High));
            [low, normal, high].iter().for_each(|end| end.send(()).unwrap());
            go.send(()).unwrap();
            let expected =
                [("start", 3), ("end", 3), ("start", 2), ("end", 2), ("step", 1)].map(|(what, number)| (what, number, help));
            assert_eq!([(); 5].map(|()| harness.next()), expected);
            // It is as urgent now.
            harness.lane.lift(100, Priority::High);
            harness.held_of(4, Priority::High).send(()).unwrap();
            go.send(()).unwrap();
            assert_eq!(harness.next().0, "step");
            assert_eq!(starts(&harness.rest()), [4, 1]);
        }
    }

    #[test]
    fn a_run_that_gives_way_has_its_share_of_the_time() {
        let harness = Harness::new(1);
        let (begun, begins) = bounded(1);
        let (ended, ends) = bounded(1);
        harness.lane.push(0, Priority::Low, &Watch::default(), move |_, place| {
            begins.recv().unwrap();
            let began = Instant::now();
            while began.elapsed() - place.paused() < Duration::from_millis(20) {
                place.give_way();
            }
            ended.send((began.elapsed(), place.paused())).unwrap();
        });
        // There is always something more urgent.
        for number in 1..2000 {
            let spin = move |_: Help, _: &Place| {
                let started = Instant::now();
                while started.elapsed() < Duration::from_micros(200) {
                    std::hint::spin_loop();
                }
            };
            harness.lane.push(number, Priority::High, &Watch::default(), spin);
        }
        begun.send(()).unwrap();
        let (all, paused) = ends.recv().unwrap();
        assert!(paused > Duration::from_millis(20), "it gave way: {paused:?}");
        // And one more than that, which a busy machine may have held up.
        assert!(paused <= PASSED * (all - paused) + Duration::from_millis(200), "{paused:?} of {all:?}");
    }

    #[test]
    fn who_gives_a_run_up_before_its_turn_has_it_done() {
        let harness = Harness::new(1);
        let first = harness.held(0);
        assert_eq!(harness.next(), ("start", 0, Help::Nobody));
        let (watch, (sender, done)) = (Watch::new(false), unbounded());
        harness.lane.push(1, Priority::Normal, &watch, move |help, _| sender.send((help, std::thread::current().id())).unwrap());
        assert!(done.is_empty());
        watch.give_up();
        assert_eq!(done.try_recv().unwrap(), (Help::Nobody, std::thread::current().id()));
        first.send(()).unwrap();
        assert_eq!(harness.rest(), [("end", 0, Help::Nobody)]);
    }

    #[test]
    fn everything_is_done_also_after_the_lane_was_dropped() {
        let (sender, done) = unbounded();
        let lane = Lane::new("webnn test", 1, false, Cancel::default(), Arc::default());
        for number in 0..100 {
            let sender = sender.clone();
            lane.push(number, Priority::Normal, &Watch::default(), move |_, _| {
                sender.send((number, std::thread::current().name().map(String::from))).unwrap()
            });
        }
        drop((lane, sender));
        assert!(done.iter().eq((0..100).map(|number| (number, Some("webnn test".into())))));
    }

    #[test]
    fn its_threads_know_the_context() {
        let cancel = Cancel::default();
        let lane = Lane::new("webnn test", 1, false, cancel.clone(), Arc::default());
        cancel.cancel();
        let (sender, seen) = bounded(1);
        lane.push(0, Priority::Normal, &Watch::default(), move |_, _| {
            sender.send(super::super::cancel::current().unwrap().check().is_err()).unwrap()
        });
        assert!(seen.recv().unwrap());
    }
}
