//! What a run of a graph takes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Nanoseconds of a run on one thread: estimated at first, then as runs have taken.
#[derive(Debug)]
pub struct RunTime(AtomicU64);

impl RunTime {
    pub fn estimated(nanoseconds: usize) -> RunTime {
        RunTime(AtomicU64::new(nanoseconds as u64))
    }

    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// A run has taken so long on so many threads: on one it takes no longer than that on each. Whatever holds up a run makes it
    /// slower, so one that is faster is believed, and of one that is slower a quarter.
    pub fn took(&self, time: Duration, threads: usize) {
        let at_most = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(threads as u64);
        let known = self.0.load(Ordering::Relaxed);
        if at_most < known {
            self.0.store(at_most, Ordering::Relaxed);
        } else if threads == 1 {
            self.0.store(known + (at_most - known) / 4, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_fast_runs_at_once_and_slow_ones_by_and_by() {
        let time = RunTime::estimated(100_000);
        let took = |micros, threads| {
            time.took(Duration::from_micros(micros), threads);
            time.get().as_micros()
        };
        assert_eq!([took(60, 2), took(40, 2), took(70, 1), took(70, 2), took(470, 1), took(70, 1)], [100, 80, 70, 70, 170, 70]);
        // What was estimated too low is found out at once.
        assert!(RunTime::estimated(0).get().is_zero());
        assert!(took(40_000, 1) > 9000);
    }
}
