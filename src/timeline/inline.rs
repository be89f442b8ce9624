//! What the calling thread does itself of what it asks a timeline for.
//!
//! To wake a thread takes longer than many a small network, on a virtual machine 60 to 150 microseconds, and a result has to wake
//! script in its turn. So while a timeline has nothing else to do, whoever sends it a task that ends soon carries it out,
//! with the timeline's own loop ([`SharedLoop::attempt`](super::shared_loop::SharedLoop::attempt)): order, errors and numbers of runs are those of the loop.
//!
//! Script's thread does runs of up to [`LONGEST_RUN`], and of [`PER_ITERATION`] in all until results are next settled, which is in a later iteration
//! of the event loop: input and timers wait no longer than that. Of runs that could be side by side it does one, unless they take less than [`WORTH_A_THREAD`],
//! and hands the others over to the backend's threads: the timeline's would have to wait for a core while those compute on all of them.
//! Threads that runs of models have to themselves do what the timeline's thread
//! would. Any other thread does nothing itself.

use std::cell::Cell;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// What a run on script's thread may be expected to take.
const LONGEST_RUN: Duration = Duration::from_micros(200);
/// What all of them may take until results are settled.
const PER_ITERATION: Duration = Duration::from_millis(1);

/// A run that takes so long is worth another thread while script's has done something else in the iteration.
const WORTH_A_THREAD: Duration = Duration::from_micros(50);

/// For tests: `always` has script's thread do every run while the timeline is idle, `never` has no thread but the timeline's do any.
const VARIABLE: &str = "WEBNN_INLINE";

/// What a thread does itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    Nothing,
    /// Runs that take no longer, on this thread alone; what copies little.
    For(Duration),
    /// What the timeline's thread would do.
    All,
}

#[derive(Clone, Copy)]
enum Thread {
    Other,
    /// Script's, with what is left of an iteration of the event loop.
    Script(Duration),
    Own,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Usual,
    Always,
    Never,
}

thread_local!(static THREAD: Cell<Thread> = const { Cell::new(Thread::Other) });

fn mode() -> Mode {
    static MODE: OnceLock<Mode> = OnceLock::new();
    *MODE.get_or_init(|| match std::env::var(VARIABLE).as_deref() {
        Ok("always") => Mode::Always,
        Ok("never") => Mode::Never,
        _ => Mode::Usual,
    })
}

/// The calling thread is script's, and an iteration of its event loop begins.
pub fn begin_loop_iteration() {
    THREAD.set(Thread::Script(PER_ITERATION));
}

/// While `work` runs the calling thread may do what a timeline's thread would: nobody waits for it but for the work's end.
pub fn as_timeline<R>(work: impl FnOnce() -> R) -> R {
    /// Ends the role again, also when the work panics.
    struct Before(Thread);
    impl Drop for Before {
        fn drop(&mut self) {
            THREAD.set(self.0);
        }
    }
    let _before = Before(THREAD.replace(Thread::Own));
    work()
}

/// What the calling thread may do now.
pub fn budget() -> Budget {
    match (mode(), THREAD.get()) {
        (Mode::Never, _) | (_, Thread::Other) => Budget::Nothing,
        (Mode::Always, Thread::Script(_)) => Budget::For(Duration::MAX),
        (Mode::Usual, Thread::Script(left)) => Budget::For(left.min(LONGEST_RUN)),
        (_, Thread::Own) => Budget::All,
    }
}

/// Whether a run that needs nothing of what was asked for before had better be done by others: script's thread has done a run in this iteration,
/// so several wait, and there may be cores for them.
pub fn is_better_in_parallel(time: Duration) -> bool {
    let has_worked = matches!(THREAD.get(), Thread::Script(left) if left + WORTH_A_THREAD < PER_ITERATION);
    mode() == Mode::Usual && has_worked && time >= WORTH_A_THREAD
}

/// Whether the calling thread is script's and a run is one of several that others had better do: some are under way, or it has done one.
pub fn is_worth_a_thread(time: Duration, some_are_under_way: bool) -> bool {
    let is_one_of_several = some_are_under_way && matches!(THREAD.get(), Thread::Script(_)) && time >= WORTH_A_THREAD;
    (mode() == Mode::Usual && is_one_of_several) || is_better_in_parallel(time)
}

/// Takes what work takes from what is left of script's iteration.
pub fn timed<R>(work: impl FnOnce() -> R) -> R {
    let Thread::Script(_) = THREAD.get() else { return work() };
    let begin = Instant::now();
    let result = work();
    if let Thread::Script(left) = THREAD.get() {
        THREAD.set(Thread::Script(left.saturating_sub(begin.elapsed())));
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn script_has_a_budget_until_its_iteration_is_used_up() {
        if mode() != Mode::Usual {
            return;
        }
        assert_eq!(budget(), Budget::Nothing);
        begin_loop_iteration();
        assert_eq!(budget(), Budget::For(LONGEST_RUN));
        THREAD.set(Thread::Script(LONGEST_RUN / 2));
        assert_eq!(budget(), Budget::For(LONGEST_RUN / 2));
        timed(|| while THREAD.get().left() > Duration::ZERO && !spent(LONGEST_RUN) {});
        assert_eq!(budget(), Budget::For(Duration::ZERO));
        assert_eq!(as_timeline(budget), Budget::All);
        assert!(std::panic::catch_unwind(|| as_timeline(|| panic!("on purpose"))).is_err());
        assert_eq!(budget(), Budget::For(Duration::ZERO));
        begin_loop_iteration();
        assert_eq!(budget(), Budget::For(LONGEST_RUN));
    }

    #[test]
    fn of_several_runs_others_do_those_that_take_some_time() {
        if mode() != Mode::Usual {
            return;
        }
        let short = WORTH_A_THREAD - Duration::from_micros(1);
        assert!(!is_better_in_parallel(LONGEST_RUN));
        begin_loop_iteration();
        assert!(!is_better_in_parallel(LONGEST_RUN));
        // Writing an input is no run.
        THREAD.set(Thread::Script(PER_ITERATION - short));
        assert!(!is_better_in_parallel(LONGEST_RUN));
        THREAD.set(Thread::Script(PER_ITERATION - LONGEST_RUN));
        assert!(is_better_in_parallel(WORTH_A_THREAD) && !is_better_in_parallel(short));
        assert!(!as_timeline(|| is_better_in_parallel(LONGEST_RUN)));
    }

    impl Thread {
        fn left(self) -> Duration {
            if let Thread::Script(left) = self { left } else { Duration::ZERO }
        }
    }

    /// Lets so much time go by.
    fn spent(time: Duration) -> bool {
        let begin = Instant::now();
        while begin.elapsed() < time {
            std::hint::spin_loop();
        }
        true
    }
}
