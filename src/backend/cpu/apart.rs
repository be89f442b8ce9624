//! Keeps the helpers of a team off the core of their leader.
//!
//! The system wakes a thread where it ran before, or where the one runs that wakes it. While script's thread has a helper's core
//! for a moment, both can be the leader's, and the helper waits there for its turns, beside a core that has nothing to do any
//! more: for up to a quarter of a second, in which two threads are no faster than one.

#[cfg(target_os = "linux")]
pub use linux::Apart;

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Apart;

#[cfg(not(target_os = "linux"))]
impl Apart {
    pub fn new(_helpers: usize) -> Apart {
        Apart
    }

    pub fn enlist(&self, _helper: usize) {}

    pub fn keep(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// No core.
    const NONE: usize = usize::MAX;

    #[derive(Debug)]
    pub struct Apart {
        helpers: Box<[OnceLock<Pid>]>,
        /// Where the leader was when the helpers were last told.
        core: AtomicUsize,
    }

    impl Apart {
        pub fn new(helpers: usize) -> Apart {
            Apart { helpers: (0..helpers).map(|_| OnceLock::new()).collect(), core: AtomicUsize::new(NONE) }
        }

        /// The calling thread is this helper.
        pub fn enlist(&self, helper: usize) {
            // A thread begins once.
            let _ = self.helpers[helper].set(gettid());
        }

        /// The calling thread leads. To ask where it is takes a tenth of a microsecond.
        pub fn keep(&self) {
            let core = sched_getcpu();
            if self.core.load(Ordering::Relaxed) != core
                && let Ok(allowed) = sched_getaffinity(None)
            {
                self.keep_off(core, allowed);
            }
        }

        /// Has the helpers run on the allowed cores but one, where there are no more cores than threads: else they find others
        /// by themselves.
        fn keep_off(&self, core: usize, allowed: CpuSet) {
            let mut others = allowed;
            others.unset(core);
            let count = allowed.count() as usize;
            // Those that have not begun yet are told the next time.
            if count >= 2 && count <= self.helpers.len() + 1 && self.helpers.iter().all(|helper| helper.get().is_some()) {
                for helper in self.helpers.iter().flat_map(OnceLock::get) {
                    // Where that is forbidden they run as they did.
                    let _ = sched_setaffinity(Some(*helper), &others);
                }
                self.core.store(core, Ordering::Relaxed);
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::sync::Barrier;

        #[test]
        fn helpers_run_on_the_other_cores() {
            let allowed = sched_getaffinity(None).unwrap();
            let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
            let helpers = cores.len().max(2) - 1;
            let apart = Apart::new(helpers);
            let (begun, told) = (Barrier::new(helpers + 1), Barrier::new(helpers + 1));
            apart.keep_off(cores[0], allowed);
            assert_eq!(apart.core.load(Ordering::Relaxed), NONE, "they have not begun");
            std::thread::scope(|scope| {
                for helper in 0..helpers {
                    let (apart, begun, told) = (&apart, &begun, &told);
                    scope.spawn(move || {
                        apart.enlist(helper);
                        begun.wait();
                        told.wait();
                    });
                }
                begun.wait();
                for &core in &cores {
                    apart.keep_off(core, allowed);
                    for helper in &apart.helpers {
                        let found = sched_getaffinity(helper.get().copied()).unwrap();
                        assert_eq!(found.is_set(core), cores.len() == 1, "core {core} of {cores:?}");
                        assert_eq!(found.count() as usize, (cores.len() - 1).max(1));
                    }
                }
                told.wait();
            });
        }

        #[test]
        fn with_cores_to_spare_they_run_anywhere() {
            let allowed = sched_getaffinity(None).unwrap();
            let apart = Apart::new(1);
            apart.enlist(0);
            let mut more = allowed;
            (0..3).for_each(|core| more.set(core));
            apart.keep_off(0, more);
            assert_eq!(apart.core.load(Ordering::Relaxed), NONE);
            assert_eq!(sched_getaffinity(None).unwrap(), allowed);
        }
    }
}
