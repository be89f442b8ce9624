//! Where script's thread is, for backends whose own threads had better be elsewhere.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// No core.
const NONE: usize = usize::MAX;

/// The thread that sends a timeline its tasks.
pub struct HostThread {
    is_wanted: AtomicBool,
    core: AtomicUsize,
}

impl Default for HostThread {
    fn default() -> Self {
        let (is_wanted, core) = (AtomicBool::new(false), AtomicUsize::new(NONE));
        HostThread { is_wanted, core }
    }
}

impl std::fmt::Debug for HostThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostThread on {:?}", self.core())
    }
}

impl HostThread {
    /// From now on somebody wants to know: to find it out takes a tenth of a microsecond for each task.
    pub fn want(&self) {
        if !self.is_wanted.load(Ordering::Relaxed) {
            self.is_wanted.store(true, Ordering::Relaxed);
        }
    }

    /// The calling thread is about to send a task.
    pub fn notes_core(&self) {
        if self.is_wanted.load(Ordering::Relaxed) {
            self.is_on(current_core());
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
}

#[cfg(target_os = "linux")]
fn current_core() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(not(target_os = "linux"))]
fn current_core() -> usize {
    NONE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_found_out_when_somebody_wants_to_know() {
        let host_thread = HostThread::default();
        host_thread.notes_core();
        assert_eq!(host_thread.core(), None);
        host_thread.want();
        host_thread.notes_core();
        assert_eq!(host_thread.core().is_some(), cfg!(target_os = "linux"));
    }
}
