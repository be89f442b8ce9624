//! How the end of a context, and of the wish for a run, reaches kernels that are under way.
//!
//! Kernels know no context, but the threads that they run on do: each has the flag of the one that it works for, and
//! `for_each_piece` leaves the pieces that it has not begun. What was computed is then worthless, so whoever ran the
//! kernel asks [`Cancel::check`] before using it.

use crate::error::{Error, Kind, Result};
use crate::watch::Watch;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// What this thread works for.
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// The flag of one context, and that of the run at hand.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>, Watch);

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// With the flag of a run of the context.
    pub fn of_run(&self, run: Watch) -> Cancel {
        Cancel(self.0.clone(), run)
    }

    /// How the run is watched.
    pub fn watch(&self) -> &Watch {
        &self.1
    }

    /// # Errors
    /// `InvalidStateError` when the context has ended, `AbortError` when nobody wants the run any more.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) {
            return Err(Error::new(Kind::InvalidState, "the context was destroyed"));
        }
        self.1.check()
    }

    /// From now on this thread works for the context.
    pub fn adopt_thread(&self) {
        CURRENT.set(Some(self.clone()));
    }

    /// While `work` runs this thread works for the context. After a panic the thread keeps it until the next work.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        let before = CURRENT.replace(Some(self.clone()));
        let result = work();
        CURRENT.set(before);
        result
    }
}

/// Whether what this thread works for, if anything, is still wanted.
pub fn is_wanted() -> bool {
    CURRENT.with_borrow(|current| current.as_ref().is_none_or(|cancel| cancel.check().is_ok()))
}

/// The flag of the context that this thread works for.
pub fn current() -> Option<Cancel> {
    CURRENT.with_borrow(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::{Description, StepNumber};

    #[test]
    fn a_run_that_is_given_up_ends_alone() {
        let context = Cancel::default();
        let watch = Watch::new(false);
        let (run, other) = (context.of_run(watch.clone()), context.of_run(Watch::default()));
        assert!(run.during(is_wanted));
        watch.give_up();
        assert_eq!(run.check().unwrap_err().kind(), Kind::Aborted);
        assert!(!run.during(is_wanted) && other.during(is_wanted) && context.during(is_wanted));
        // The end of the context is that of all its runs.
        context.cancel();
        assert_eq!(other.check().unwrap_err().kind(), Kind::InvalidState);
    }

    #[test]
    fn steps_are_noted_for_whom_wants_them() {
        let watch = Watch::new(true);
        for watch in [&watch, &Watch::new(false), &Watch::default()] {
            watch.step("relu", "r", StepNumber { graph: watch.graph(), step: 3 }, std::time::Instant::now(), || Description {
                implementation: "elementwise.chain".into(),
                ..Description::default()
            });
        }
        let steps = watch.take_steps();
        assert_eq!(steps.iter().map(|step| (&*step.operator, &*step.label)).collect::<Vec<_>>(), [("relu", "r")]);
        assert_eq!(steps[0].description.implementation, "elementwise.chain");
        assert_eq!((steps[0].number, watch.graph()), (StepNumber { graph: 0, step: 3 }, 1));
        assert!(steps[0].began <= steps[0].ended && watch.take_steps().is_empty());
    }
}
