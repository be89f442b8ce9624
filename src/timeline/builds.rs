//! Where graphs are compiled: on a few threads of the process's own, so that a long build holds up no dispatch.

use crate::error::{Error, Result};
use crate::thread;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Builds that run at the same time in the whole process; others wait their turn.
const AT_ONCE: usize = 4;
/// A thread without work ends after so long.
const KEPT: Duration = Duration::from_secs(10);

type Work = Box<dyn FnOnce() + Send>;

struct Builds {
    state: Mutex<State>,
    /// There is work.
    call: Condvar,
}

struct State {
    waiting: VecDeque<Work>,
    threads: usize,
    /// Those of them that look for work.
    idle: usize,
}

static BUILDS: Builds =
    Builds { state: Mutex::new(State { waiting: VecDeque::new(), threads: 0, idle: 0 }), call: Condvar::new() };

impl Builds {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No work runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
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
            let (woken, timeout) = self.call.wait_timeout(state, KEPT).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            state.idle -= 1;
            if timeout.timed_out() && state.waiting.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

/// Runs work on one of the threads for builds.
///
/// # Errors
/// Where there is none and none can be had; the duty is given back.
pub fn spawn<D: Send + 'static>(duty: D, work: impl FnOnce(D) + Send + 'static) -> Result<(), (Error, D)> {
    let mut state = BUILDS.lock();
    if state.idle <= state.waiting.len() && state.threads < AT_ONCE {
        match thread::start("webnn build", || BUILDS.run()) {
            Ok(_) => state.threads += 1,
            // One of the others will do it.
            Err(_) if state.threads > 0 => {}
            Err(error) => return Err((error, duty)),
        }
    }
    state.waiting.push_back(Box::new(move || work(duty)));
    drop(state);
    BUILDS.call.notify_one();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_channel::unbounded;

    #[test]
    fn all_work_is_done_also_after_a_panic() {
        let (sender, done) = unbounded();
        for number in 0..50 {
            let work = |(number, sender): (usize, crossbeam_channel::Sender<usize>)| {
                sender.send(number).unwrap();
                assert!(number % 7 > 0, "on purpose");
            };
            assert!(spawn((number, sender.clone()), work).is_ok());
        }
        drop(sender);
        let mut numbers: Vec<_> = done.iter().collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..50));
        assert!(BUILDS.lock().threads <= AT_ONCE);
    }
}
