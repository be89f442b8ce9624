//! Keeps the threads of a team off each other's cores, and off that of script's thread, where there are none to spare.
//!
//! The system wakes a thread where it ran before, or where the one runs that wakes it. While script's thread has a helper's core
//! for a moment, both can be the leader's, and the helper waits there for its turns, beside a core that has nothing to do any
//! more: for up to a quarter of a second, in which two threads are no faster than one. And script's thread, once it is on the
//! leader's core, stays there: it is woken by the leader, which then waits for it before it can begin with the next dispatch,
//! while helpers fall asleep. On a helper's core it is in nobody's way.

#[cfg(target_os = "linux")]
pub use linux::Apart;

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Apart;

#[cfg(not(target_os = "linux"))]
impl Apart {
    pub fn new(_helpers: usize, _caller: std::sync::Arc<crate::backend::Caller>) -> Apart {
        Apart
    }

    pub fn enlist(&self, _helper: usize) {}

    pub fn keep(&self) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::backend::Caller;
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, OnceLock};

    /// No core.
    const NONE: usize = usize::MAX;

    /// So many times in a row the caller is on the leader's core before the leader leaves it: it may be there by chance.
    const OFTEN: usize = 3;

    #[derive(Debug)]
    pub struct Apart {
        helpers: Box<[OnceLock<Pid>]>,
        caller: Arc<Caller>,
        /// Where the leader was when the helpers were last told.
        core: AtomicUsize,
        /// How many times in a row the caller was there too.
        met: AtomicUsize,
    }

    impl Apart {
        pub fn new(helpers: usize, caller: Arc<Caller>) -> Apart {
            let helpers = (0..helpers).map(|_| OnceLock::new()).collect();
            Apart { helpers, caller, core: AtomicUsize::new(NONE), met: AtomicUsize::new(0) }
        }

        /// The calling thread is this helper.
        pub fn enlist(&self, helper: usize) {
            // A thread begins once.
            let _ = self.helpers[helper].set(gettid());
        }

        /// The calling thread leads. To ask where it is takes a tenth of a microsecond.
        pub fn keep(&self) {
            let core = sched_getcpu();
            let leaves = self.meets(core) >= OFTEN;
            if (leaves || self.core.load(Ordering::Relaxed) != core)
                && let Ok(allowed) = sched_getaffinity(None)
            {
                self.keep_on(allowed, core, leaves);
            }
        }

        /// How many times in a row the caller has been on the leader's core, now that it is this one.
        fn meets(&self, core: usize) -> usize {
            let met = if self.caller.core() == Some(core) { self.met.load(Ordering::Relaxed) + 1 } else { 0 };
            self.met.store(met, Ordering::Relaxed);
            met
        }

        /// Has the threads run on these cores, where there are no more of them than threads: else they find others by themselves.
        /// The leader is on one of them, which it may be about to leave.
        fn keep_on(&self, allowed: CpuSet, mut core: usize, leaves: bool) {
            let count = allowed.count() as usize;
            // Those that have not begun yet are told the next time.
            if count < 2 || count > self.helpers.len() + 1 || self.helpers.iter().any(|helper| helper.get().is_none()) {
                return;
            }
            let without = |core: usize| {
                let mut others = allowed;
                others.unset(core);
                others
            };
            self.caller.want();
            // What is forbidden is left: then they run as they did.
            if leaves && sched_setaffinity(None, &without(core)).is_ok() {
                core = sched_getcpu();
                self.met.store(0, Ordering::Relaxed);
                // It stays there. Threads that it begins are to run anywhere.
                let _ = sched_setaffinity(None, &allowed);
            }
            if self.core.swap(core, Ordering::Relaxed) != core {
                for helper in self.helpers.iter().flat_map(OnceLock::get) {
                    let _ = sched_setaffinity(Some(*helper), &without(core));
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use std::sync::Barrier;

        fn cores_of(allowed: &CpuSet) -> Vec<usize> {
            (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect()
        }

        /// Calls `body` with as many helpers as there are other cores.
        fn with_helpers(body: impl FnOnce(&Apart)) {
            let helpers = cores_of(&sched_getaffinity(None).unwrap()).len().max(2) - 1;
            let apart = Apart::new(helpers, Arc::default());
            let (begun, told) = (Barrier::new(helpers + 1), Barrier::new(helpers + 1));
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
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&apart)));
                told.wait();
                result.unwrap();
            });
        }

        fn core_of(apart: &Apart) -> usize {
            apart.core.load(Ordering::Relaxed)
        }

        #[test]
        fn helpers_run_on_the_other_cores() {
            let allowed = sched_getaffinity(None).unwrap();
            let cores = cores_of(&allowed);
            with_helpers(|apart| {
                for &core in &cores {
                    apart.keep_on(allowed, core, false);
                    for helper in &apart.helpers {
                        let found = sched_getaffinity(helper.get().copied()).unwrap();
                        assert_eq!(found.is_set(core), cores.len() == 1, "core {core} of {cores:?}");
                        assert_eq!(found.count() as usize, (cores.len() - 1).max(1));
                    }
                }
            });
        }

        #[test]
        fn helpers_that_have_not_begun_are_told_later() {
            let allowed = sched_getaffinity(None).unwrap();
            let apart = Apart::new(cores_of(&allowed).len().max(2) - 1, Arc::default());
            apart.keep_on(allowed, cores_of(&allowed)[0], true);
            assert_eq!(core_of(&apart), NONE);
        }

        #[test]
        fn a_leader_leaves_the_core_of_its_caller() {
            let allowed = sched_getaffinity(None).unwrap();
            let cores = cores_of(&allowed);
            with_helpers(|apart| {
                let mut one = CpuSet::new();
                one.set(cores[0]);
                sched_setaffinity(None, &one).unwrap();
                apart.keep_on(allowed, cores[0], false);
                assert_eq!(sched_getaffinity(None).unwrap(), one);
                apart.keep_on(allowed, cores[0], true);
                if cores.len() > 1 {
                    assert_eq!(sched_getaffinity(None).unwrap(), allowed);
                    let core = core_of(apart);
                    assert!(core != cores[0] && cores.contains(&core), "{core} of {cores:?}");
                    assert!(!sched_getaffinity(apart.helpers[0].get().copied()).unwrap().is_set(core));
                }
                sched_setaffinity(None, &allowed).unwrap();
            });
        }

        #[test]
        fn it_does_so_when_they_have_met_often() {
            let apart = Apart::new(1, Arc::default());
            assert_eq!(apart.meets(5), 0, "nothing is known of the caller");
            apart.caller.is_on(5);
            assert_eq!([5, 5, 4, 5, 5, 5].map(|core| apart.meets(core)), [1, 2, 0, 1, 2, OFTEN]);
        }

        #[test]
        fn with_cores_to_spare_they_run_anywhere() {
            let allowed = sched_getaffinity(None).unwrap();
            let apart = Apart::new(1, Arc::default());
            apart.enlist(0);
            let mut more = allowed;
            (0..3).for_each(|core| more.set(core));
            apart.keep_on(more, 0, true);
            assert_eq!(core_of(&apart), NONE);
            assert_eq!(sched_getaffinity(None).unwrap(), allowed);
        }
    }
}
