//! What other threads tell a timeline's loop.

use super::task::ENDED;
use crate::done::because;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Reports that nobody has heard. Whoever has the loop hears them before it lets go of it, so the timeline's thread is woken only where
/// nobody has.
pub struct Reports<R> {
    state: Mutex<State<R>>,
    /// How many there are: for a look without the lock.
    count: AtomicUsize,
    is_attended: AtomicBool,
    wake: Sender<()>,
}

struct State<R> {
    unheard: VecDeque<R>,
    has_ended: bool,
}

impl<R> Reports<R> {
    /// With what wakes the timeline's thread.
    pub fn new() -> (Reports<R>, Receiver<()>) {
        let (wake, woken) = bounded(1);
        let state = Mutex::new(State { unheard: VecDeque::new(), has_ended: false });
        (Reports { state, count: AtomicUsize::new(0), is_attended: AtomicBool::new(false), wake }, woken)
    }

    fn lock(&self) -> MutexGuard<'_, State<R>> {
        // Nothing that runs under the lock leaves the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reports. When the loop is gone nobody is left to hear, and the report is dropped.
    pub fn push(&self, report: R) {
        let mut state = self.lock();
        if state.has_ended {
            drop(state);
            return because(ENDED, || drop(report));
        }
        state.unheard.push_back(report);
        self.count.fetch_add(1, Ordering::SeqCst);
        drop(state);
        // `leave` does the same in the other order, so one of the two sees the other.
        if !self.is_attended.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    /// Wakes the timeline's thread.
    pub fn wake(&self) {
        // It has been woken if there is no room.
        let _ = self.wake.try_send(());
    }

    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    pub fn take(&self) -> Option<R> {
        if self.is_empty() {
            return None;
        }
        let report = self.lock().unheard.pop_front()?;
        self.count.fetch_sub(1, Ordering::SeqCst);
        Some(report)
    }

    /// The calling thread has the loop, and hears what is reported.
    pub fn attend(&self) {
        self.is_attended.store(true, Ordering::SeqCst);
    }

    /// It is about to let go of the loop. Not where something was reported meanwhile: then it still attends.
    pub fn leave(&self) -> bool {
        self.is_attended.store(false, Ordering::SeqCst);
        let leaves = self.is_empty();
        if !leaves {
            self.attend();
        }
        leaves
    }

    /// From now on nobody hears.
    pub fn end(&self) {
        let mut state = self.lock();
        state.has_ended = true;
        let unheard = std::mem::take(&mut state.unheard);
        drop(state);
        because(ENDED, || drop(unheard));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_attends_is_not_woken_and_hears_all() {
        let (reports, woken) = Reports::new();
        reports.push(1);
        assert!(woken.try_recv().is_ok());
        reports.attend();
        reports.push(2);
        assert!(woken.try_recv().is_err());
        assert!(!reports.leave());
        assert_eq!([reports.take(), reports.take(), reports.take()], [Some(1), Some(2), None]);
        assert!(reports.leave());
        reports.push(3);
        reports.push(4);
        assert!(woken.try_recv().is_ok() && woken.try_recv().is_err());
    }

    #[test]
    fn nothing_is_lost_between_leaving_and_reporting() {
        let (reports, woken) = Reports::new();
        let count = 20_000;
        std::thread::scope(|scope| {
            scope.spawn(|| (0..count).for_each(|number| reports.push(number)));
            let mut expected = 0;
            while expected < count {
                woken.recv().unwrap();
                reports.attend();
                loop {
                    while let Some(number) = reports.take() {
                        assert_eq!(number, expected);
                        expected += 1;
                    }
                    if reports.leave() {
                        break;
                    }
                }
            }
        });
    }

    #[test]
    fn what_nobody_hears_is_dropped() {
        let (sender, results) = bounded(2);
        let (reports, _woken) = Reports::new();
        let report = || {
            let sender = sender.clone();
            super::super::Done::new(move |result: crate::error::Result<()>| sender.send(result.unwrap_err()).unwrap())
        };
        reports.push(report());
        assert!(results.is_empty());
        reports.end();
        reports.push(report());
        let expected = "the work was lost: the context was destroyed or lost";
        assert!(results.try_iter().map(|error| error.message().to_owned()).eq([expected, expected]));
    }
}
