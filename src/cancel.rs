//! How the end of a context, and of the wish for a run, reaches kernels and other loops that are under way.
//!
//! They know no context, but the threads that they run on do: each has the flag of the one that it works for. `for_each_piece` of the CPU
//! backend leaves the pieces that it has not begun, and long loops unwind (`looks.rs`). What was computed is then worthless, so whoever ran
//! them asks [`Cancel::check`] before using it.

use crate::error::{Error, Kind, Result};
use crate::watch::Watch;
use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    /// What this thread works for.
    static CURRENT: RefCell<Option<Cancel>> = const { RefCell::new(None) };
}

/// The flag of one context, that of the run at hand, and who else says whether its work is wanted.
#[derive(Clone, Default)]
pub struct Cancel(Arc<AtomicBool>, Watch, Option<IsWanted>);

/// Says whether work is wanted.
pub type IsWanted = Arc<dyn Fn() -> bool + Send + Sync>;

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cancel({:?}, {:?})", self.0, self.1)
    }
}

impl Cancel {
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// With the flag of a run of the context.
    pub fn of_run(&self, run: Watch) -> Cancel {
        Cancel(self.0.clone(), run, None)
    }

    /// Of work whose context somebody else knows.
    pub fn of_work(is_wanted: IsWanted) -> Cancel {
        Cancel(Arc::default(), Watch::default(), Some(is_wanted))
    }

    /// How the run is watched.
    pub fn watch(&self) -> &Watch {
        &self.1
    }

    /// # Errors
    /// `InvalidStateError` when the context has ended, `AbortError` when nobody wants the run any more.
    pub fn check(&self) -> Result<()> {
        if self.0.load(Ordering::Relaxed) || self.2.as_ref().is_some_and(|is_wanted| !is_wanted()) {
            return Err(Error::new(Kind::InvalidState, "the context was destroyed"));
        }
        self.1.check()
    }

    /// From now on this thread works for the context.
    pub fn adopt_thread(&self) {
        CURRENT.set(Some(self.clone()));
    }

    /// While `work` runs this thread works for the context.
    pub fn during<R>(&self, work: impl FnOnce() -> R) -> R {
        /// Puts what was before back, also when the work panics: others have the thread next.
        struct Before(Option<Cancel>);
        impl Drop for Before {
            fn drop(&mut self) {
                CURRENT.set(self.0.take());
            }
        }
        let _before = Before(CURRENT.replace(Some(self.clone())));
        work()
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
