//! Where runs wait for their turn: in a lane they start in the order in which they were asked for, and one that has started has
//! its thread to itself until it ends.
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
use crate::watch::Watch;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Who does the pieces of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Help {
    /// All threads: no other run of the lane is under way.
    Pool,
    /// Only the thread that it runs on.
    Nobody,
}

type Work = Box<dyn FnOnce(Help) + Send>;

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
    /// Something can start, or the lane ends.
    changed: Condvar,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Shared")
    }
}

struct State {
    /// By the number of the request, and by when they came where that is the same.
    waiting: BTreeMap<(u64, u64), Work>,
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
        if self.waiting.is_empty() || self.is_shared || self.running >= self.most {
            return None;
        }
        let keeps_all_busy = self.running + self.waiting.len() >= self.most;
        if !self.has_pool || (keeps_all_busy && self.most > 1) {
            return Some(Help::Nobody);
        }
        // Too few to be side by side: each has everybody, one after the other.
        (self.running == 0).then_some(Help::Pool)
    }

    fn start(&mut self) -> Option<(Work, Help)> {
        let help = self.next()?;
        let (_, work) = self.waiting.pop_first()?;
        self.running += 1;
        self.is_shared = help == Help::Pool;
        Some((work, help))
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

    /// The life of a thread.
    fn serve(&self) {
        let mut state = self.lock();
        loop {
            if let Some((work, help)) = state.start() {
                // Another may start beside it.
                if state.next().is_some() {
                    self.changed.notify_one();
                }
                drop(state);
                work(help);
                state = self.lock();
                state.end();
            } else if state.has_ended && state.waiting.is_empty() {
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
        let state = State {
            waiting: BTreeMap::new(),
            pushed: 0,
            most: most.max(1),
            has_pool,
            threads: 0,
            running: 0,
            is_shared: false,
            has_ended: false,
        };
        Lane { shared: Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }), name, cancel, usage }
    }

    /// Whether nothing waits or runs.
    pub fn is_empty(&self) -> bool {
        let state = self.shared.lock();
        state.running == 0 && state.waiting.is_empty()
    }

    /// Has a run done when it is its turn, by the number of its request. Done here when the system gives no thread at all; and when it is
    /// given up before its turn, whoever does that has it done, which then does nothing but report.
    ///
    /// # Panics
    /// Work must not panic.
    pub fn push(&self, number: u64, watch: &Watch, work: impl FnOnce(Help) + Send + 'static) {
        let mut state = self.shared.lock();
        if state.threads < state.most && state.threads <= state.running + state.waiting.len() && self.spawn() {
            state.threads += 1;
        }
        if state.threads == 0 {
            drop(state);
            return work(Help::Nobody);
        }
        state.pushed += 1;
        let key = (number, state.pushed);
        state.waiting.insert(key, Box::new(work));
        // Nobody is woken in vain: whoever ends a run looks for the next one.
        if state.next().is_some() {
            self.shared.changed.notify_one();
        }
        drop(state);
        if watch.is_watched() {
            let shared = Arc::downgrade(&self.shared);
            watch.when_given_up(move || {
                let work = shared.upgrade().and_then(|shared| shared.lock().waiting.remove(&key));
                if let Some(work) = work {
                    work(Help::Nobody);
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
            let (end, ended) = bounded(1);
            let log = self.log.clone();
            self.lane.push(number, &Watch::default(), move |help| {
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
            lane.push(number, &Watch::default(), move |help| {
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

    #[test]
    fn who_gives_a_run_up_before_its_turn_has_it_done() {
        let harness = Harness::new(1);
        let first = harness.held(0);
        assert_eq!(harness.next(), ("start", 0, Help::Nobody));
        let (watch, (sender, done)) = (Watch::new(false), unbounded());
        harness.lane.push(1, &watch, move |help| sender.send((help, std::thread::current().id())).unwrap());
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
            lane.push(number, &Watch::default(), move |_| {
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
        lane.push(0, &Watch::default(), move |_| sender.send(super::super::cancel::current().unwrap().check().is_err()).unwrap());
        assert!(seen.recv().unwrap());
    }
}
