//! Where every thread is made. A system may have none to give (`RLIMIT_NPROC`, a control group's `pids.max`), so that is an error
//! like others, and whoever waits for the thread's work hears of it.

use crate::error::{Error, Kind, Result};
use crossbeam_channel::bounded;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// Starts a thread.
///
/// # Errors
/// `UnknownError` when the system has no thread to give.
pub fn start<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new()
        .name(name.into())
        .spawn(work)
        .map_err(|error| Error::new(Kind::Unknown, format!("no thread can be had for '{name}': {error}")))
}

/// Starts a thread with a duty, which stays the caller's where there is no thread.
///
/// # Errors
/// As [`start`], with the duty.
pub fn start_with<D: Send + 'static>(name: &str, duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
    let (sender, receiver) = bounded(1);
    let run = move || {
        if let Ok(duty) = receiver.recv() {
            work(duty);
        }
    };
    match start(name, run) {
        // The thread waits for it.
        Ok(_) => drop(sender.send(duty)),
        Err(error) => return Err((error, duty)),
    }
    Ok(())
}

/// Gives the calling thread the lowest priority, for good. Elsewhere than on Linux nothing happens.
fn yield_to_others() {
    // A system may refuse it; then the thread is like the others.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), 19);
}

type Work = Box<dyn FnOnce() + Send>;

/// A few threads of the process's own for work that may take long. They are made when they are needed, and end when they have had
/// nothing to do for some time.
pub struct Pool {
    name: &'static str,
    /// As many work at the same time; what is more waits its turn.
    at_once: usize,
    kept: Duration,
    /// Its threads get what the others leave of the processors.
    yields: bool,
    state: Mutex<PoolState>,
    /// There is work.
    call: Condvar,
}

struct PoolState {
    waiting: VecDeque<Work>,
    threads: usize,
    /// Those of them that look for work.
    idle: usize,
}

impl Pool {
    pub const fn new(name: &'static str, at_once: usize, kept: Duration) -> Pool {
        let state = Mutex::new(PoolState { waiting: VecDeque::new(), threads: 0, idle: 0 });
        Pool { name, at_once, kept, yields: false, state, call: Condvar::new() }
    }

    /// A pool for what nobody waits for: where the system has priorities of threads (on Linux), its threads have the lowest.
    pub const fn that_yields(name: &'static str, at_once: usize, kept: Duration) -> Pool {
        let mut pool = Pool::new(name, at_once, kept);
        pool.yields = true;
        pool
    }

    fn lock(&self) -> MutexGuard<'_, PoolState> {
        // No work runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        if self.yields {
            yield_to_others();
        }
        let mut state = self.lock();
        loop {
            if let Some(work) = state.waiting.pop_front() {
                drop(state);
                // It reports its own panics.
                let _ = catch_unwind(AssertUnwindSafe(work));
                state = self.lock();
                continue;
            }
            state.idle += 1;
            let (woken, timeout) = self.call.wait_timeout(state, self.kept).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }

    /// Runs work on one of the threads.
    ///
    /// # Errors
    /// Where there is none and none can be had; the duty is given back.
    pub fn spawn<D: Send + 'static>(&'static self, duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
        let mut state = self.lock();
        if state.idle <= state.waiting.len() && state.threads < self.at_once {
            match start(self.name, || self.run()) {
                Ok(_) => state.threads += 1,
                // One of the others will do it.
                Err(_) if state.threads > 0 => {}
                Err(error) => return Err((error, duty)),
            }
        }
        state.waiting.push_back(Box::new(move || work(duty)));
        drop(state);
        self.call.notify_one();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn all_work_is_done_also_after_a_panic() {
        static POOL: Pool = Pool::new("test", 4, Duration::from_secs(10));
        let (sender, done) = unbounded();
        for number in 0..50 {
            let work = |(number, sender): (usize, crossbeam_channel::Sender<usize>)| {
                sender.send(number).unwrap();
                assert!(number % 7 > 0, "on purpose");
            };
            assert!(POOL.spawn((number, sender.clone()), work).is_ok());
        }
        drop(sender);
        let mut numbers: Vec<_> = done.iter().collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..50));
        assert!(POOL.lock().threads <= 4);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn what_nobody_waits_for_has_the_lowest_priority() {
        static POOL: Pool = Pool::new("test", 1, Duration::from_secs(10));
        static YIELDS: Pool = Pool::that_yields("test ahead", 1, Duration::from_secs(10));
        let own = || rustix::process::getpriority_process(Some(rustix::thread::gettid())).unwrap();
        let of = |pool: &'static Pool| {
            let (sender, found) = bounded(1);
            assert!(pool.spawn(sender, move |sender| sender.send(own()).unwrap()).is_ok());
            found.recv().unwrap()
        };
        assert_eq!([of(&YIELDS), of(&POOL)], [19, own()]);
    }
}
