//! What all plans of a model keep, counted in one place: when it is too much the least recently used ones go, whoever has them.
//!
//! Script has the plans of first parts, which it finds by shapes. Those of later parts and of the bodies of loops belong to the part that
//! they follow ([`super::plans`]), and go with it. Each use is told here. Which plans of script's are to go, script hears when it next
//! tells of one.
//!
//! This is no [`Table`](super::caches::Table). A table owns the plans of one engine, by their keys, and limits their number; who asks waits while
//! another thread makes a plan. This cache owns no plan and knows no key: it limits the bytes of the plans of several owners, one of which is
//! script, and leaves each owner its last one.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// So many are kept: a plan of a network of some hundred steps takes some hundred kilobytes.
pub const MOST: usize = 512;
/// Another number, for tests.
const MOST_OF_TESTS: &str = "WEBNN_PLANS";
/// What they keep beside the weights, at most, unless it is one.
pub const MOST_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub struct PlanCache(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    entries: HashMap<u64, Entry>,
    /// Counts uses.
    clock: u64,
    last: u64,
    bytes: usize,
    /// Script's that are to go.
    leaving: Vec<u64>,
}

#[derive(Debug)]
struct Entry {
    used: u64,
    since: Instant,
    bytes: usize,
    owner: Owner,
}

/// How many are kept in this process.
fn most() -> usize {
    static MOST_HERE: OnceLock<usize> = OnceLock::new();
    *MOST_HERE.get_or_init(|| std::env::var(MOST_OF_TESTS).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(MOST))
}

/// Who has a plan.
#[derive(Debug)]
pub enum Owner {
    Script,
    Plans(Weak<dyn Forget>),
}

/// Who can let go of plans.
pub trait Forget: std::fmt::Debug + Send + Sync {
    fn forget(&self, plan: u64);
}

impl Owner {
    /// What tells it from others.
    fn address(&self) -> *const () {
        match self {
            Owner::Script => std::ptr::null(),
            Owner::Plans(owner) => owner.as_ptr().cast(),
        }
    }
}

impl State {
    /// An entry that was removed is counted no longer, and its owner is to hear of it.
    fn leave(&mut self, number: u64, entry: Entry, leaving: &mut Vec<(u64, Weak<dyn Forget>)>) {
        self.bytes -= entry.bytes;
        match entry.owner {
            Owner::Script => self.leaving.push(number),
            Owner::Plans(owner) => leaving.push((number, owner)),
        }
    }
}

/// Plans that are to go, of which the owners hear when no lock is held.
#[must_use]
#[derive(Default)]
pub struct Leaving(Vec<(u64, Weak<dyn Forget>)>);

impl Leaving {
    pub fn leave(self) {
        for (plan, owner) in self.0 {
            if let Some(owner) = owner.upgrade() {
                owner.forget(plan);
            }
        }
    }
}

impl PlanCache {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing that runs under the lock leaves the contents half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a plan that was made; its number, and those that go for it.
    pub fn keep(&self, bytes: usize, owner: Owner) -> (u64, Leaving) {
        let mut state = self.lock();
        state.clock += 1;
        state.last += 1;
        let (number, used) = (state.last, state.clock);
        state.bytes += bytes;
        state.entries.insert(number, Entry { used, since: Instant::now(), bytes, owner });
        let mut leaving = Vec::new();
        while state.entries.len() > 1 && (state.entries.len() > most() || state.bytes > MOST_BYTES) {
            let oldest = state.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(number, _)| *number);
            let Some((oldest, entry)) = oldest.and_then(|oldest| state.entries.remove_entry(&oldest)) else { break };
            state.leave(oldest, entry, &mut leaving);
        }
        (number, Leaving(leaving))
    }

    /// Lets plans go that nobody has used for so long. The one that each owner has used last stays: it has the weights, so that others are soon made
    /// again. Beside them how long it is until the next may go.
    pub fn expire(&self, idle: Duration, now: Instant) -> (Option<Duration>, Leaving) {
        let mut state = self.lock();
        let mut last: HashMap<*const (), (u64, u64)> = HashMap::new();
        for (&number, entry) in &state.entries {
            let of_owner = last.entry(entry.owner.address()).or_default();
            *of_owner = (*of_owner).max((entry.used, number));
        }
        let stays: HashSet<u64> = last.into_values().map(|(_, number)| number).collect();
        let left = |entry: &Entry| idle.saturating_sub(now.saturating_duration_since(entry.since));
        let others = state.entries.iter().filter(|(number, _)| !stays.contains(number));
        let all: Vec<(u64, Duration)> = others.map(|(&number, entry)| (number, left(entry))).collect();
        let mut leaving = Vec::new();
        for (number, _) in all.iter().filter(|(_, left)| left.is_zero()) {
            if let Some(entry) = state.entries.remove(number) {
                state.leave(*number, entry, &mut leaving);
            }
        }
        let next = all.iter().map(|(_, left)| *left).filter(|left| !left.is_zero()).min();
        (next, Leaving(leaving))
    }

    /// Notes that a plan is used.
    pub fn touch(&self, plan: u64) {
        let mut state = self.lock();
        state.clock += 1;
        let clock = state.clock;
        if let Some(entry) = state.entries.get_mut(&plan) {
            entry.used = clock;
            entry.since = Instant::now();
        }
    }

    /// Counts plans no longer.
    pub fn release(&self, plans: impl IntoIterator<Item = u64>) {
        let mut state = self.lock();
        for plan in plans {
            if let Some(entry) = state.entries.remove(&plan) {
                state.bytes -= entry.bytes;
            }
        }
    }

    /// Plans of script's that are to go.
    pub fn take_leaving(&self) -> Vec<u64> {
        std::mem::take(&mut self.lock().leaving)
    }

    /// How many there are, and their bytes.
    #[cfg(test)]
    pub fn count(&self) -> (usize, usize) {
        let state = self.lock();
        (state.entries.len(), state.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_uses_goes_but_for_the_last_one() {
        let cache = PlanCache::default();
        let keep = || {
            let (number, leaving) = cache.keep(10, Owner::Script);
            leaving.leave();
            number
        };
        let [one, two, three] = [keep(), keep(), keep()];
        cache.touch(one);
        let (idle, now) = (Duration::from_secs(60), Instant::now());
        let expire = |at| {
            let (next, leaving) = cache.expire(idle, at);
            leaving.leave();
            (next.is_some(), cache.take_leaving().len(), cache.count())
        };
        assert_eq!(expire(now), (true, 0, (3, 30)));
        assert_eq!(expire(now + 2 * idle), (false, 2, (1, 10)));
        // The one that was used last is still there.
        cache.release([two, three]);
        assert_eq!(cache.count(), (1, 10));
        cache.release([one]);
        assert_eq!(cache.count(), (0, 0));
    }
}
