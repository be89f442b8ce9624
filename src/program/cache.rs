//! What all plans of a model keep, counted in one place: when it is too much the least recently used ones go, whoever has them.
//!
//! Script has the plans of first parts, which it finds by shapes. Those of later parts and of the bodies of loops are behind the part that
//! they follow ([`super::plans`]), and go with it. Each use is told here. Which plans of script's are to go, script hears when it next
//! tells of one.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// So many are kept: a plan of a network of some hundred steps takes some hundred kilobytes.
pub const MOST: usize = 512;
/// Another number, for tests.
const MOST_OF_TESTS: &str = "WEBNN_PLANS";
/// What they keep beside the weights, at most, unless it is one.
pub const MOST_BYTES: usize = 32 << 20;

#[derive(Debug, Default)]
pub struct Cache(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
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

/// Plans that are to go, of which the owners hear when no lock is held.
#[must_use]
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

impl Cache {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        // Nothing that runs under the lock leaves the contents half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a plan that was made; its number, and those that go for it.
    pub fn keep(&self, bytes: usize, owner: Owner) -> (u64, Leaving) {
        let mut kept = self.lock();
        kept.clock += 1;
        kept.last += 1;
        let (number, used) = (kept.last, kept.clock);
        kept.bytes += bytes;
        kept.entries.insert(number, Entry { used, bytes, owner });
        let mut leaving = Vec::new();
        while kept.entries.len() > 1 && (kept.entries.len() > most() || kept.bytes > MOST_BYTES) {
            let oldest = kept.entries.iter().min_by_key(|(_, entry)| entry.used).map(|(number, _)| *number);
            let Some((oldest, entry)) = oldest.and_then(|oldest| kept.entries.remove_entry(&oldest)) else { break };
            kept.bytes -= entry.bytes;
            match entry.owner {
                Owner::Script => kept.leaving.push(oldest),
                Owner::Plans(owner) => leaving.push((oldest, owner)),
            }
        }
        (number, Leaving(leaving))
    }

    /// Notes that a plan is used.
    pub fn touch(&self, plan: u64) {
        let mut kept = self.lock();
        kept.clock += 1;
        let clock = kept.clock;
        if let Some(entry) = kept.entries.get_mut(&plan) {
            entry.used = clock;
        }
    }

    /// Counts plans no longer.
    pub fn release(&self, plans: impl IntoIterator<Item = u64>) {
        let mut kept = self.lock();
        for plan in plans {
            if let Some(entry) = kept.entries.remove(&plan) {
                kept.bytes -= entry.bytes;
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
        let kept = self.lock();
        (kept.entries.len(), kept.bytes)
    }
}
