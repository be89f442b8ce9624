//! Whether a run comes after a pause, when those who could help are asleep and their cores too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// After so long a core has slept deeply enough to be slow for a while.
const PAUSE: Duration = Duration::from_millis(2);

/// What a thread saves another by helping, in nanoseconds, has to be more than this after a pause: it is woken first, reads
/// what it needs from memory, and computes at a lower clock. Measured: with less the run ends sooner alone, and takes a tenth
/// less of the processor.
const WORTH_WAKING: usize = 400_000;

/// When work was last under way.
#[derive(Debug)]
pub struct IdlePolicy {
    start: Instant,
    /// Nanoseconds after `start`.
    last: AtomicU64,
}

impl IdlePolicy {
    pub fn new() -> IdlePolicy {
        IdlePolicy { start: Instant::now(), last: AtomicU64::new(0) }
    }

    /// Work has ended.
    pub fn work_ended(&self) {
        self.last.store(self.nanoseconds(), Ordering::Relaxed);
    }

    /// Whether it is better not to wake anybody for work of so many nanoseconds, which all `threads` could share: nothing was
    /// under way for a while, and it is short.
    pub fn is_done_alone(&self, estimate: usize, threads: usize) -> bool {
        estimate - estimate / threads.max(1) < WORTH_WAKING && self.length() >= PAUSE
    }

    fn length(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds().saturating_sub(self.last.load(Ordering::Relaxed)))
    }

    fn nanoseconds(&self) -> u64 {
        // More than five centuries.
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As if nothing had been under way for so long.
    fn after(pause: Duration) -> IdlePolicy {
        IdlePolicy { start: Instant::now().checked_sub(pause).unwrap(), last: AtomicU64::new(0) }
    }

    #[test]
    fn short_work_after_a_pause_is_done_alone() {
        let policy = after(Duration::from_secs(1));
        assert!(policy.is_done_alone(0, 2));
        assert!(policy.is_done_alone(2 * WORTH_WAKING - 2, 2));
        // The more can help the less they leave to do.
        assert!(!policy.is_done_alone(2 * WORTH_WAKING, 2));
        assert!(!policy.is_done_alone(2 * WORTH_WAKING - 2, 4));
        assert!(policy.is_done_alone(usize::MAX, 1));
    }

    #[test]
    fn what_follows_at_once_is_shared() {
        let policy = after(Duration::from_secs(60));
        policy.work_ended();
        assert!(policy.last.load(Ordering::Relaxed) >= 60_000_000_000);
        // As if it were the moment after.
        policy.last.store(u64::MAX, Ordering::Relaxed);
        assert!(!policy.is_done_alone(0, 2));
    }
}
