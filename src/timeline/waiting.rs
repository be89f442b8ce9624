//! How many tasks of a context are not done.

use crate::error::{Error, Kind, Result};
use crate::memory;
use std::sync::atomic::{AtomicUsize, Ordering};

/// So many may wait. Each takes some hundred bytes, and a caller that never waits for any would ask for more without end.
pub const MOST_WAITING: usize = 1 << 20;

/// Tasks that were sent, and the jobs that they have become.
#[derive(Debug, Default)]
pub struct Waiting {
    sent: AtomicUsize,
    jobs: AtomicUsize,
}

impl Waiting {
    /// Counts tasks that are to be sent.
    ///
    /// # Errors
    /// `OperationError` when there would be too many, `UnknownError` when there is hardly any memory left.
    pub fn admit(&self, count: usize) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let now = self.sent.load(Ordering::Relaxed) + self.jobs.load(Ordering::Relaxed);
        if count > MOST_WAITING.saturating_sub(now) {
            let message = format!(
                "found {now} unfinished tasks of the context, and {count} more, allowed at most {MOST_WAITING}: wait for \
                 some, for example with readTensor()"
            );
            return Err(Error::new(Kind::Operation, message));
        }
        memory::check()?;
        self.sent.fetch_add(count, Ordering::Relaxed);
        Ok(())
    }

    /// The timeline has looked at tasks, or will never.
    pub fn seen(&self, count: usize) {
        self.sent.fetch_sub(count, Ordering::Relaxed);
    }

    pub fn job_begins(&self) {
        self.jobs.fetch_add(1, Ordering::Relaxed);
    }

    pub fn job_ends(&self) {
        self.jobs.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_an_end_to_what_waits() {
        let waiting = Waiting::default();
        waiting.admit(MOST_WAITING - 1).unwrap();
        // Of a task that has become two jobs, and is not waiting itself any more.
        waiting.seen(2);
        (0..2).for_each(|_| waiting.job_begins());
        assert_eq!(waiting.admit(2).unwrap_err().kind(), Kind::Operation);
        waiting.admit(1).unwrap();
        let error = waiting.admit(1).unwrap_err();
        assert!(error.message().contains("1048576 unfinished tasks") && error.message().contains("at most 1048576"), "{error}");
        waiting.admit(0).unwrap();
        waiting.job_ends();
        waiting.admit(1).unwrap();
        assert!(waiting.admit(usize::MAX).is_err());
    }
}
