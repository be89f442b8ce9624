//! Keeps the threads of a pool off each other's cores, and off that of script's thread, where there are none to spare.
//!
//! The system wakes a thread where it ran before, or where the one runs that wakes it. While script's thread has a worker's core
//! for a moment, both can be the dispatch thread's, and the worker waits there for its turns, beside a core that has nothing to do any
//! more: for up to a quarter of a second, in which two threads are no faster than one. And script's thread, once it is on the
//! dispatch thread's core, stays there: it is woken by the dispatch thread, which then waits for it before it can begin with the next dispatch,
//! while workers fall asleep. On a worker's core it is in nobody's way.

#[cfg(target_os = "linux")]
pub use linux::Affinity;

#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Affinity;

#[cfg(not(target_os = "linux"))]
impl Affinity {
    pub fn new(_workers: usize) -> Affinity {
        Affinity
    }

    pub fn enlist(&self, _worker: usize) {}

    pub fn keep(&self, _host_thread: &crate::backend::HostThread) {}
}

#[cfg(target_os = "linux")]
mod linux {
    use crate::backend::HostThread;
    use rustix::thread::{CpuSet, Pid, gettid, sched_getaffinity, sched_getcpu, sched_setaffinity};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// No core.
    const NONE: usize = usize::MAX;

    /// So many times in a row the host thread is on the dispatch thread's core before the dispatch thread leaves it: it may be there by chance.
    const OFTEN: usize = 3;

    #[derive(Debug)]
    pub struct Affinity {
        workers: Box<[OnceLock<Pid>]>,
        /// Where the dispatch thread was when the workers were last told.
        core: AtomicUsize,
        /// How many times in a row the host thread was there too.
        met: AtomicUsize,
    }

    impl Affinity {
        pub fn new(workers: usize) -> Affinity {
            let workers = (0..workers).map(|_| OnceLock::new()).collect();
            Affinity { workers, core: AtomicUsize::new(NONE), met: AtomicUsize::new(0) }
        }

        /// The calling thread is this worker.
        pub fn enlist(&self, worker: usize) {
            // A thread begins once.
            let _ = self.workers[worker].set(gettid());
        }

        /// The calling thread leads, with work from this host thread. To ask where it is takes a tenth of a microsecond.
        pub fn keep(&self, host_thread: &HostThread) {
            let core = sched_getcpu();
            let leaves = self.meets(host_thread, core) >= OFTEN;
            if (leaves || self.core.load(Ordering::Relaxed) != core)
                && let Ok(allowed) = sched_getaffinity(None)
            {
                self.keep_on(host_thread, allowed, core, leaves);
            }
        }

        /// How many times in a row the host thread has been on the dispatch thread's core, now that it is this one.
        fn meets(&self, host_thread: &HostThread, core: usize) -> usize {
            let met = if host_thread.core() == Some(core) { self.met.load(Ordering::Relaxed) + 1 } else { 0 };
            self.met.store(met, Ordering::Relaxed);
            met
        }

        /// Has the threads run on these cores, where there are no more of them than threads: else they find others by themselves.
        /// The dispatch thread is on one of them, which it may be about to leave.
        fn keep_on(&self, host_thread: &HostThread, allowed: CpuSet, mut core: usize, leaves: bool) {
            let count = allowed.count() as usize;
            // Those that have not begun yet are told the next time.
            if count < 2 || count > self.workers.len() + 1 || self.workers.iter().any(|worker| worker.get().is_none()) {
                return;
            }
            let without = |core: usize| {
                let mut others = allowed;
                others.unset(core);
                others
            };
            host_thread.want();
            // What is forbidden is left: then they run as they did.
            if leaves && sched_setaffinity(None, &without(core)).is_ok() {
                core = sched_getcpu();
                self.met.store(0, Ordering::Relaxed);
                // It stays there. Threads that it begins are to run anywhere.
                let _ = sched_setaffinity(None, &allowed);
            }
            if self.core.swap(core, Ordering::Relaxed) != core {
                for worker in self.workers.iter().flat_map(OnceLock::get) {
                    let _ = sched_setaffinity(Some(*worker), &without(core));
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

        /// Calls `body` with as many workers as there are other cores.
        fn with_workers(body: impl FnOnce(&Affinity)) {
            let workers = cores_of(&sched_getaffinity(None).unwrap()).len().max(2) - 1;
            let affinity = Affinity::new(workers);
            let (begun, informed) = (Barrier::new(workers + 1), Barrier::new(workers + 1));
            std::thread::scope(|scope| {
                for worker in 0..workers {
                    let (affinity, begun, informed) = (&affinity, &begun, &informed);
                    scope.spawn(move || {
                        affinity.enlist(worker);
                        begun.wait();
                        informed.wait();
                    });
                }
                begun.wait();
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(&affinity)));
                informed.wait();
                result.unwrap();
            });
        }

        fn core_of(affinity: &Affinity) -> usize {
            affinity.core.load(Ordering::Relaxed)
        }

        #[test]
        fn helpers_run_on_the_other_cores() {
            let allowed = sched_getaffinity(None).unwrap();
            let cores = cores_of(&allowed);
            with_workers(|affinity| {
                for &core in &cores {
                    affinity.keep_on(&HostThread::default(), allowed, core, false);
                    for worker in &affinity.workers {
                        let found = sched_getaffinity(worker.get().copied()).unwrap();
                        assert_eq!(found.is_set(core), cores.len() == 1, "core {core} of {cores:?}");
                        assert_eq!(found.count() as usize, (cores.len() - 1).max(1));
                    }
                }
            });
        }

        #[test]
        fn helpers_that_have_not_begun_are_told_later() {
            let allowed = sched_getaffinity(None).unwrap();
            let affinity = Affinity::new(cores_of(&allowed).len().max(2) - 1);
            affinity.keep_on(&HostThread::default(), allowed, cores_of(&allowed)[0], true);
            assert_eq!(core_of(&affinity), NONE);
        }

        #[test]
        fn a_leader_leaves_the_core_of_its_host_thread() {
            let allowed = sched_getaffinity(None).unwrap();
            let cores = cores_of(&allowed);
            with_workers(|affinity| {
                let mut one = CpuSet::new();
                one.set(cores[0]);
                sched_setaffinity(None, &one).unwrap();
                affinity.keep_on(&HostThread::default(), allowed, cores[0], false);
                assert_eq!(sched_getaffinity(None).unwrap(), one);
                affinity.keep_on(&HostThread::default(), allowed, cores[0], true);
                if cores.len() > 1 {
                    assert_eq!(sched_getaffinity(None).unwrap(), allowed);
                    let core = core_of(affinity);
                    assert!(core != cores[0] && cores.contains(&core), "{core} of {cores:?}");
                    assert!(!sched_getaffinity(affinity.workers[0].get().copied()).unwrap().is_set(core));
                }
                sched_setaffinity(None, &allowed).unwrap();
            });
        }

        #[test]
        fn it_does_so_when_they_have_met_often() {
            let (affinity, host_thread) = (Affinity::new(1), HostThread::default());
            assert_eq!(affinity.meets(&host_thread, 5), 0, "nothing is known of the host_thread");
            host_thread.is_on(5);
            assert_eq!([5, 5, 4, 5, 5, 5].map(|core| affinity.meets(&host_thread, core)), [1, 2, 0, 1, 2, OFTEN]);
        }

        #[test]
        fn with_cores_to_spare_they_run_anywhere() {
            let allowed = sched_getaffinity(None).unwrap();
            let affinity = Affinity::new(1);
            affinity.enlist(0);
            let mut more = allowed;
            (0..3).for_each(|core| more.set(core));
            affinity.keep_on(&HostThread::default(), more, 0, true);
            assert_eq!(core_of(&affinity), NONE);
            assert_eq!(sched_getaffinity(None).unwrap(), allowed);
        }
    }
}
