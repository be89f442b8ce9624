//! Memory for the values in between of runs: as many arenas as runs have been under way at once. The graphs of one model share them, and
//! each has grown to the largest graph that it was used for.
//!
//! A large arena that no run has is lent to other models, too: sessions that run one after the other need one. It is counted with whoever had it
//! last, and goes when nobody has used it for a while, or when that model does.

use crate::error::Result;
use crate::memory::{Bytes, Charge, Usage, Use};
use crate::runtime;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Smaller arenas stay with their model: they cost less than looking for others.
const WORTH_LENDING: usize = 256 << 10;

#[derive(Debug)]
pub struct Arena {
    pub bytes: Bytes,
    charge: Charge,
    /// How long it stays where nobody uses it.
    kept: Option<Duration>,
}

/// Those of a model.
#[derive(Debug)]
pub struct Arenas {
    owner: u64,
    small: Mutex<Vec<Arena>>,
}

/// Large ones that no run has, of all models.
static IDLE: Mutex<Idle> = Mutex::new(Idle { arenas: Vec::new(), wakes: None, watcher: 0 });

#[derive(Debug)]
struct IdleArena {
    arena: Arena,
    owner: u64,
    since: Instant,
}

#[derive(Debug)]
struct Idle {
    /// The one that was given back last is the last.
    arenas: Vec<IdleArena>,
    /// When the watcher looks next.
    wakes: Option<Instant>,
    /// The number of the watcher; earlier ones end.
    watcher: u64,
}

fn idle() -> MutexGuard<'static, Idle> {
    IDLE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Arenas {
    fn default() -> Arenas {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Arenas { owner: LAST.fetch_add(1, Ordering::Relaxed), small: Mutex::default() }
    }
}

impl Arenas {
    fn small(&self) -> MutexGuard<'_, Vec<Arena>> {
        self.small.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The smallest of the small ones that has so many bytes, or the largest of all.
    fn take_small(&self, least: Option<usize>) -> Option<Arena> {
        let mut small = self.small();
        let all = small.iter().enumerate().map(|(position, arena)| (arena.bytes.len(), position));
        let found = match least {
            Some(least) => all.filter(|(found, _)| *found >= least).min(),
            None => all.max(),
        };
        let (_, position) = found?;
        Some(small.swap_remove(position))
    }

    /// One of at least so many bytes; what is in it is left from other runs.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it, `QuotaExceededError` where the context or the model may not hold it.
    pub fn take(&self, length: usize, usage: &Arc<Usage>) -> Result<Arena> {
        let is_small = length < WORTH_LENDING;
        let own = if is_small { self.take_small(Some(length)) } else { None };
        let own = own.or_else(|| idle().take(self.owner, length));
        match own {
            Some(arena) if arena.bytes.len() >= length => return Ok(arena),
            // The largest is too small for any other graph of the model, too. It goes before there is memory for the larger one.
            None if is_small => drop(self.take_small(None)),
            small => drop(small),
        }
        let lent = if is_small { None } else { idle().borrow(length) };
        if let Some(Arena { bytes, charge, .. }) = lent {
            drop(charge);
            if let Ok(charge) = usage.reserve(Use::Scratch, bytes.len()) {
                return Ok(Arena { bytes, charge, kept: usage.idle() });
            }
        }
        let charge = usage.reserve(Use::Scratch, length)?;
        Ok(Arena { bytes: Bytes::zeroed(length)?, charge, kept: usage.idle() })
    }

    pub fn give_back(&self, arena: Arena) {
        if arena.bytes.len() < WORTH_LENDING {
            self.small().push(arena);
            return;
        }
        let Some(watcher) = idle().keep(arena, self.owner, Instant::now()) else { return };
        // Where nobody can watch, nothing is kept.
        if runtime::spawn(watch(watcher)).is_err() {
            let gone = idle().remove(|_| true);
            drop(gone);
        }
    }
}

impl Drop for Arenas {
    fn drop(&mut self) {
        let gone = idle().remove(|idle| idle.owner == self.owner);
        drop(gone);
    }
}

/// Has each arena go when its time has come, until there is none.
async fn watch(watcher: u64) {
    loop {
        let (gone, next) = {
            let mut idle = idle();
            if idle.watcher != watcher {
                return;
            }
            idle.expire(Instant::now())
        };
        drop(gone);
        match next {
            Some(next) => tokio::time::sleep_until(next.into()).await,
            None => return,
        }
    }
}

impl Idle {
    /// The smallest of a model's own that is large enough, or else the largest.
    fn take(&mut self, owner: u64, length: usize) -> Option<Arena> {
        let own = |(position, idle): (usize, &IdleArena)| (idle.owner == owner).then(|| (idle.arena.bytes.len(), position));
        let own = self.arenas.iter().enumerate().filter_map(own);
        let fits = own.clone().filter(|(found, _)| *found >= length).min();
        let (_, position) = fits.or_else(|| own.max())?;
        Some(self.arenas.remove(position).arena)
    }

    /// The smallest of any model that is large enough, and not much too large.
    fn borrow(&mut self, length: usize) -> Option<Arena> {
        let fits = |(position, idle): (usize, &IdleArena)| {
            let found = idle.arena.bytes.len();
            (found >= length && found / 2 <= length).then_some((found, position))
        };
        let (_, position) = self.arenas.iter().enumerate().filter_map(fits).min()?;
        Some(self.arenas.remove(position).arena)
    }

    /// Keeps one until its time has come. A number for a new watcher, where the present one would look too late, or there is none.
    fn keep(&mut self, arena: Arena, owner: u64, now: Instant) -> Option<u64> {
        let goes = arena.kept.and_then(|kept| now.checked_add(kept));
        self.arenas.push(IdleArena { arena, owner, since: now });
        let goes = goes.filter(|goes| self.wakes.is_none_or(|wakes| *goes < wakes))?;
        self.wakes = Some(goes);
        self.watcher += 1;
        Some(self.watcher)
    }

    fn remove(&mut self, is_gone: impl Fn(&IdleArena) -> bool) -> Vec<IdleArena> {
        self.arenas.extract_if(.., |idle| is_gone(idle)).collect()
    }

    /// Those whose time has come, and when that of the next one does.
    fn expire(&mut self, now: Instant) -> (Vec<IdleArena>, Option<Instant>) {
        let goes = |idle: &IdleArena| idle.arena.kept.and_then(|kept| idle.since.checked_add(kept));
        let gone = self.remove(|idle| goes(idle).is_some_and(|goes| goes <= now));
        self.wakes = self.arenas.iter().filter_map(goes).min();
        (gone, self.wakes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_grow_to_the_largest_graph() {
        for unit in [1, WORTH_LENDING] {
            let (arenas, usage) = (Arenas::default(), Arc::new(Usage::default()));
            let small = arenas.take(64 * unit, &usage).unwrap();
            let large = arenas.take(4096 * unit, &usage).unwrap();
            assert!(small.bytes.len() >= 64 * unit && large.bytes.len() >= 4096 * unit);
            let lengths = [&small, &large].map(|arena| arena.bytes.len());
            arenas.give_back(large);
            arenas.give_back(small);
            // The smallest that is enough.
            let again = arenas.take(60 * unit, &usage).unwrap();
            assert_eq!(again.bytes.len(), lengths[0]);
            arenas.give_back(again);
            // One grows, and there are no more than were in use at once.
            let larger = arenas.take(8192 * unit, &usage).unwrap();
            assert!(larger.bytes.len() >= 8192 * unit);
            let bytes = larger.bytes.len() + lengths[0];
            arenas.give_back(larger);
            assert_eq!(usage.numbers().scratch, bytes);
            drop(arenas);
            assert_eq!(usage.numbers().scratch, 0);
        }
    }

    fn arena(length: usize, kept: Option<Duration>, usage: &Arc<Usage>) -> Arena {
        Arena { bytes: Bytes::zeroed(length).unwrap(), charge: usage.charge(Use::Scratch, length), kept }
    }

    #[test]
    fn what_nobody_uses_for_a_while_goes() {
        let usage = Arc::new(Usage::default());
        let mut idle = Idle { arenas: Vec::new(), wakes: None, watcher: 0 };
        let (now, second) = (Instant::now(), Duration::from_secs(1));
        assert_eq!(idle.keep(arena(1000, None, &usage), 1, now), None, "one that stays needs no watcher");
        assert_eq!(idle.keep(arena(2000, Some(60 * second), &usage), 1, now), Some(1));
        assert_eq!(idle.keep(arena(3000, Some(70 * second), &usage), 2, now), None, "the watcher will look before");
        assert_eq!(idle.keep(arena(4000, Some(10 * second), &usage), 2, now), Some(2), "the watcher would look too late");
        let lengths = |gone: Vec<IdleArena>| gone.iter().map(|idle| idle.arena.bytes.len()).collect::<Vec<_>>();
        let (gone, next) = idle.expire(now + 10 * second);
        assert_eq!((lengths(gone), next), (vec![4000], Some(now + 60 * second)));
        // What is used meanwhile counts from then on.
        let used = idle.take(1, 1500).unwrap();
        idle.keep(used, 1, now + 30 * second);
        let (gone, next) = idle.expire(now + 65 * second);
        assert_eq!((lengths(gone), next), (vec![], Some(now + 70 * second)));
        let (gone, next) = idle.expire(now + 1000 * second);
        assert_eq!((lengths(gone), next), (vec![3000, 2000], None));
        assert_eq!(usage.numbers().scratch, 1000);
        assert_eq!(idle.keep(arena(2000, Some(second), &usage), 1, now), Some(3), "the last watcher has ended");
    }

    #[test]
    fn one_model_has_what_another_leaves() {
        let usages = [(); 2].map(|()| Arc::new(Usage::default()));
        let mut idle = Idle { arenas: Vec::new(), wakes: None, watcher: 0 };
        let now = Instant::now();
        for (length, owner) in [(1000, 1), (3000, 1), (2000, 2)] {
            idle.keep(arena(length, None, &usages[0]), owner, now);
        }
        assert!(idle.borrow(499).is_none(), "much too large");
        assert!(idle.borrow(3001).is_none());
        assert_eq!(idle.borrow(1001).unwrap().bytes.len(), 2000);
        assert_eq!(idle.take(1, 900).unwrap().bytes.len(), 1000);
        assert_eq!(idle.take(1, 5000).unwrap().bytes.len(), 3000, "its own that is too small, to go");
        assert!(idle.take(1, 1).is_none());
        // It is counted with whoever has it. No other test has arenas of this length.
        let length = 77 * WORTH_LENDING + 64;
        let [first, second] = [(); 2].map(|()| Arenas::default());
        first.give_back(first.take(length, &usages[0]).unwrap());
        second.give_back(second.take(length, &usages[1]).unwrap());
        assert_eq!(usages.each_ref().map(|usage| usage.numbers().scratch), [0, length]);
        drop(first);
        assert_eq!(usages[1].numbers().scratch, length);
        drop(second);
        assert_eq!(usages[1].numbers().scratch, 0);
    }
}
