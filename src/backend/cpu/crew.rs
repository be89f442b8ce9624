//! The threads that compute, for all contexts of a process: eight contexts have the threads of one.

use super::run_queue::RunQueue;
use super::thread_pool::ThreadPool;
use crate::cores;
use crate::error::Result;
use rayon::ThreadPoolBuilder;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// The members of a pool, at most: beyond, they would be in each other's way.
const MOST_MEMBERS: usize = 256;

/// Threads, started when they are first needed, until the last context has ended.
#[derive(Debug)]
pub struct Crew {
    cores: usize,
    pub long: RunQueue,
    pub short: RunQueue,
    /// Copies what is read.
    copy_pool: OnceLock<Option<rayon::ThreadPool>>,
    /// Help runs: those that help nobody now, by their members.
    pools: Mutex<BTreeMap<usize, Vec<ThreadPool>>>,
}

impl Crew {
    /// One for so many cores.
    pub fn new(cores: usize) -> Arc<Crew> {
        let (long, short) = (RunQueue::new("webnn run", cores, false), RunQueue::new("webnn short run", cores, true));
        Arc::new(Crew { cores, long, short, copy_pool: OnceLock::new(), pools: Mutex::default() })
    }

    /// That of this process, which has its budget of cores, and the threads of a context that asks for so many; 0 for all.
    ///
    /// # Errors
    /// When the environment asks for what is no number of threads.
    pub fn of_process(threads: usize) -> Result<(Arc<Crew>, usize)> {
        static CREW: Mutex<Weak<Crew>> = Mutex::new(Weak::new());
        let budget = cores::of_process()?;
        let mut known = CREW.lock().unwrap_or_else(PoisonError::into_inner);
        let crew = known.upgrade().unwrap_or_else(|| Crew::new(budget.count));
        *known = Arc::downgrade(&crew);
        let most = if budget.is_limit || threads == 0 { budget.count } else { usize::MAX };
        Ok((crew, if threads == 0 { most } else { threads.min(most) }))
    }

    /// A pool for a run with so many threads; nothing for a single one, or when the system gives no others.
    pub fn pool(&self, threads: usize) -> Option<Borrowed<'_>> {
        let members = threads.min(MOST_MEMBERS);
        if members < 2 {
            return None;
        }
        let known = self.pools().get_mut(&members).and_then(Vec::pop);
        let pool = match known {
            Some(pool) => pool,
            None => ThreadPool::new(members)?,
        };
        Some(Borrowed { crew: self, members, pool: Some(pool) })
    }

    fn pools(&self) -> std::sync::MutexGuard<'_, BTreeMap<usize, Vec<ThreadPool>>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The threads that copy; nothing when the system gives none, and then work is done where it is asked for.
    pub fn copy_pool(&self) -> Option<&rayon::ThreadPool> {
        let start = || {
            let builder = ThreadPoolBuilder::new().num_threads(self.cores);
            builder.thread_name(|number| format!("webnn cpu {number}")).build().ok()
        };
        self.copy_pool.get_or_init(start).as_ref()
    }
}

/// A pool that helps one run, and others later.
pub struct Borrowed<'a> {
    crew: &'a Crew,
    members: usize,
    pool: Option<ThreadPool>,
}

impl std::ops::Deref for Borrowed<'_> {
    type Target = ThreadPool;

    fn deref(&self) -> &ThreadPool {
        self.pool.as_ref().expect("it is given back at the end")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            self.crew.pools().entry(self.members).or_default().push(pool);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_is_used_again_and_two_runs_have_two() {
        let crew = Crew::new(4);
        assert!(crew.pool(1).is_none());
        let (one, other) = (crew.pool(2).unwrap(), crew.pool(2).unwrap());
        drop((one, other));
        assert_eq!(crew.pools()[&2].len(), 2);
        drop(crew.pool(2).unwrap());
        assert_eq!(crew.pools()[&2].len(), 2);
    }

    #[test]
    fn all_contexts_of_the_process_have_the_same() {
        let (one, threads) = Crew::of_process(0).unwrap();
        let (other, single) = Crew::of_process(1).unwrap();
        assert!(Arc::ptr_eq(&one, &other));
        assert_eq!((threads, single), (cores::count(), 1));
    }
}
