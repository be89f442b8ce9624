//! Script's thread: where it is, for backends whose own threads had better be elsewhere, and how it is woken shortly before
//! there is something for it to hear.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// No core.
const NONE: usize = usize::MAX;

/// The thread that sends a timeline its tasks.
pub struct Caller {
    is_wanted: AtomicBool,
    core: AtomicUsize,
    /// Runs of graphs that it has asked for and that have not begun.
    asked: AtomicUsize,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

/// A run that the caller has asked for, until it begins or is given up.
pub struct Asked(Arc<Caller>);

impl Drop for Asked {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Default for Caller {
    fn default() -> Self {
        let (is_wanted, core) = (AtomicBool::new(false), AtomicUsize::new(NONE));
        Caller { is_wanted, core, asked: AtomicUsize::new(0), wake: OnceLock::new() }
    }
}

impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Caller on {:?}", self.core())
    }
}

impl Caller {
    /// From now on somebody wants to know: to find it out takes a tenth of a microsecond for each task.
    pub fn want(&self) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// The calling thread is about to send a task.
    pub fn is_here(&self) {
        if self.is_wanted.load(Ordering::Relaxed) {
            self.is_on(here());
        }
    }

    /// It is on this core.
    pub fn is_on(&self, core: usize) {
        // What others read is written when it is new only.
        if self.core.load(Ordering::Relaxed) != core {
            self.core.store(core, Ordering::Relaxed);
        }
    }

    /// The core from which it sent its last task, if that is known.
    pub fn core(&self) -> Option<usize> {
        Some(self.core.load(Ordering::Relaxed)).filter(|&core| core != NONE)
    }

    /// What wakes it early, if it waits for something. The first counts.
    pub fn is_woken_by(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    /// It is about to send a task with so many runs.
    pub fn asks_for(&self, runs: usize) {
        if runs > 0 {
            self.asked.fetch_add(runs, Ordering::Relaxed);
        }
    }

    /// One of the runs that it asked for.
    pub fn asked(self: &Arc<Self>) -> Asked {
        Asked(self.clone())
    }

    /// A run is about to end. Wakes it, unless other runs are to begin first: it is the last one's result that it waits for.
    pub fn hears_soon(&self) {
        if self.asked.load(Ordering::Relaxed) == 0
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }
}

#[cfg(target_os = "linux")]
fn here() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(not(target_os = "linux"))]
fn here() -> usize {
    NONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_out_when_somebody_wants_to_know() {
        let caller = Caller::default();
        caller.is_here();
        assert_eq!(caller.core(), None);
        caller.want();
        caller.is_here();
        assert_eq!(caller.core().is_some(), cfg!(target_os = "linux"));
    }

    #[test]
    fn it_is_woken_when_no_run_is_to_begin() {
        let caller = Arc::new(Caller::default());
        caller.hears_soon();
        let woken = Arc::new(AtomicUsize::new(0));
        let count = woken.clone();
        caller.is_woken_by(move || _ = count.fetch_add(1, Ordering::Relaxed));
        caller.asks_for(0);
        caller.hears_soon();
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        caller.asks_for(2);
        let first = caller.asked();
        caller.hears_soon();
        drop(first);
        caller.hears_soon();
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        drop(caller.asked());
        caller.hears_soon();
        assert_eq!(woken.load(Ordering::Relaxed), 2);
    }
}
