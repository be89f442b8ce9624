//! The plans of a model: those that were used last, and which kinds of plans a model does not have.
//!
//! Plans that nobody has used for as long as the context keeps what is idle go, but for the one that was used last.

use crate::error::Result;
use crate::memory::Usage;
use crate::program::run::spawn;
use crate::runtime;
use crate::timeline::from_panic;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// So many plans are kept: of a model with some hundred nodes each takes some hundred kilobytes.
const MOST: usize = 96;

/// Rows before a plan is needed that it is made.
pub const AHEAD: usize = 24;

/// A plan that is being made when others are looked through is looked at again after so long.
const MAKING: Duration = Duration::from_secs(1);

/// A plan, or why there is none; nothing while it is being made by whoever has the lock, or before.
type Slot<P> = Mutex<Option<Result<Arc<P>>>>;

/// Plans by what tells them apart.
#[derive(Debug)]
pub struct Table<K, P> {
    state: Arc<Mutex<State<K, P>>>,
    /// Whether a plan that could not be made is tried again when it is wanted again.
    tries_again: bool,
    most: usize,
    /// Says how long plans stay that nobody uses; without it they do.
    usage: Option<Arc<Usage>>,
}

#[derive(Debug)]
struct Entry<P> {
    slot: Arc<Slot<P>>,
    /// Of the clock.
    used: u64,
    since: Instant,
}

#[derive(Debug)]
struct State<K, P> {
    slots: HashMap<K, Entry<P>>,
    /// Whether somebody will look for plans that nobody uses.
    is_watched: bool,
    /// Counts uses.
    clock: u64,
    /// By what plans of all lengths have in common: the first of their kinds that is not known to fail.
    kinds: HashMap<K, usize>,
}

impl<K: Clone + Eq + Hash, P> State<K, P> {
    /// The slot of a plan, which is used now.
    fn slot(&mut self, key: &K, most: usize) -> Arc<Slot<P>> {
        self.clock += 1;
        if !self.slots.contains_key(key)
            && self.slots.len() >= most
            && let Some(oldest) = self.slots.iter().min_by_key(|(_, entry)| entry.used).map(|(key, _)| key.clone())
        {
            self.slots.remove(&oldest);
        }
        let now = Instant::now();
        let entry = self.slots.entry(key.clone()).or_insert_with(|| Entry { slot: Arc::default(), used: 0, since: now });
        (entry.used, entry.since) = (self.clock, now);
        entry.slot.clone()
    }

    /// Takes out plans that nobody has used for so long, but for the one that was used last: it has the weights. Beside them when to look again,
    /// if there are others. What failed stays known.
    fn expire(&mut self, idle: Duration, now: Instant) -> (Vec<Entry<P>>, Option<Instant>) {
        let last = self.slots.values().map(|entry| entry.used).max();
        let mut next: Option<Instant> = None;
        let is_over = |_: &K, entry: &mut Entry<P>| {
            if Some(entry.used) == last {
                return false;
            }
            let goes = match entry.slot.try_lock().as_deref() {
                Ok(Some(Ok(_))) => entry.since.checked_add(idle),
                Ok(Some(Err(_))) => None,
                Ok(None) | Err(_) => Some(now + MAKING),
            };
            let is_over = goes.is_some_and(|goes| goes <= now);
            if let Some(goes) = goes.filter(|_| !is_over) {
                next = Some(next.map_or(goes, |next| next.min(goes)));
            }
            is_over
        };
        let gone = self.slots.extract_if(is_over).map(|(_, entry)| entry).collect();
        (gone, next)
    }
}

/// Has plans go when their time has come, until there is none to wait for.
async fn watch<K: Clone + Eq + Hash, P>(table: Weak<Mutex<State<K, P>>>, usage: Weak<Usage>) {
    loop {
        let (gone, next) = {
            let (Some(table), Some(usage)) = (table.upgrade(), usage.upgrade()) else { return };
            let mut state = table.lock().unwrap_or_else(PoisonError::into_inner);
            let (gone, next) = usage.idle().map_or((Vec::new(), None), |idle| state.expire(idle, Instant::now()));
            state.is_watched = next.is_some();
            (gone, next)
        };
        drop(gone);
        match next {
            Some(next) => tokio::time::sleep_until(next.into()).await,
            None => return,
        }
    }
}

impl<K: Clone + Eq + Hash + Send + 'static, P: Send + Sync + 'static> Table<K, P> {
    pub fn new(tries_again: bool) -> Table<K, P> {
        let state = State { slots: HashMap::new(), is_watched: false, clock: 0, kinds: HashMap::new() };
        Table { state: Arc::new(Mutex::new(state)), tries_again, most: MOST, usage: None }
    }

    /// The same where plans go that nobody has used for as long as these bytes stay.
    pub fn idle_as(self, usage: &Arc<Usage>) -> Table<K, P> {
        Table { usage: Some(usage.clone()), ..self }
    }

    /// Has somebody look for plans that nobody uses, if there may be some. Where nobody can, they stay.
    fn watch(&self) {
        let Some(usage) = self.usage.as_ref().filter(|usage| usage.idle().is_some()) else { return };
        let mut state = self.lock();
        if !state.is_watched && state.slots.len() > 1 {
            state.is_watched = runtime::spawn(watch(Arc::downgrade(&self.state), Arc::downgrade(usage))).is_ok();
        }
    }

    /// The same for so many plans.
    pub fn with_room(self, most: usize) -> Table<K, P> {
        Table { most, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, State<K, P>> {
        // Nothing that runs under the lock leaves the contents half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The plan for a key, which may have to be made.
    ///
    /// # Errors
    /// Those of making it.
    pub fn plan(&self, key: &K, make: impl FnOnce() -> Result<P>) -> Result<Arc<P>> {
        let slot = self.lock().slot(key, self.most);
        // Others have their plans meanwhile, and whoever wants this one waits for it.
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        match &*slot {
            Some(Ok(plan)) => return Ok(plan.clone()),
            Some(Err(error)) if !self.tries_again => return Err(error.clone()),
            _ => {}
        }
        let plan = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| Err(from_panic(&*panic)));
        let plan = plan.map(Arc::new);
        *slot = Some(plan.clone());
        drop(slot);
        self.watch();
        plan
    }

    /// Whether there is a plan, if somebody has found that out.
    pub fn has_plan(&self, key: &K) -> Option<bool> {
        let slot = self.lock().slots.get(key)?.slot.clone();
        let plan = slot.try_lock().ok()?;
        plan.as_ref().map(Result::is_ok)
    }

    /// Looks at the keys of all plans that there are.
    pub fn each_plan(&self, mut look: impl FnMut(&K)) {
        for (key, Entry { slot, .. }) in &self.lock().slots {
            if slot.try_lock().is_ok_and(|plan| matches!(&*plan, Some(Ok(_)))) {
                look(key);
            }
        }
    }

    /// Makes a plan on another thread that is needed soon, unless somebody has asked for it. If there is no thread for it, it is made when it is
    /// needed.
    pub fn make_ahead(&self, key: &K, make: impl FnOnce() + Send + 'static) {
        if !self.lock().slots.contains_key(key) {
            let _ = spawn((), move |()| make());
        }
    }

    /// The first kind of plan of a form that is not known to fail.
    pub fn kind(&self, form: &K) -> usize {
        self.lock().kinds.get(form).copied().unwrap_or(0)
    }

    /// Leaves the kinds of plans of a form before that one.
    pub fn leave(&self, form: &K, next: usize) {
        let mut state = self.lock();
        // Somebody else may have come further.
        let kind = state.kinds.entry(form.clone()).or_default();
        *kind = next.max(*kind);
    }

    /// All kinds of a form have failed: none is better than another one.
    pub fn begin_again(&self, form: &K) {
        self.lock().kinds.remove(form);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Error, Kind};

    /// How many plans are made when these keys are asked for.
    fn count_new(table: &Table<usize, usize>, keys: impl IntoIterator<Item = usize>) -> usize {
        let mut count = 0;
        for key in keys {
            let make = || {
                count += 1;
                Ok(key)
            };
            assert_eq!(*table.plan(&key, make).unwrap(), key);
        }
        count
    }

    #[test]
    fn the_least_recently_used_plans_go_first() {
        let table = Table::new(false);
        assert_eq!(count_new(&table, 0..MOST), MOST);
        assert_eq!(count_new(&table, [0, MOST]), 1);
        assert_eq!((table.has_plan(&0), table.has_plan(&1)), (Some(true), None));
        assert_eq!(count_new(&table, [0, 1]), 1);
    }

    #[test]
    fn plans_that_nobody_uses_go_but_for_the_last_one() {
        let table = Table::new(false);
        count_new(&table, 0..3);
        assert!(table.plan(&3, || Err(Error::new(Kind::NotSupported, "so it goes"))).is_err());
        count_new(&table, [1]);
        let (idle, now) = (Duration::from_secs(60), Instant::now());
        let expire = |at| {
            let (gone, next) = table.lock().expire(idle, at);
            (gone.len(), next.is_some())
        };
        assert_eq!(expire(now), (0, true));
        let slot = table.lock().slots[&0].slot.clone();
        let under_way = slot.lock().unwrap();
        assert_eq!(expire(now + 2 * idle), (1, true), "one is being made, one was used last, one has failed");
        drop(under_way);
        assert_eq!(expire(now + 2 * idle), (1, false));
        assert_eq!([0, 1, 2, 3].map(|key| table.has_plan(&key)), [None, Some(true), None, Some(false)]);
    }

    #[test]
    fn somebody_looks_for_them_if_the_context_says_so() {
        let usage = Arc::new(Usage::default());
        usage.keep_idle_for(None);
        let table = Table::new(false).idle_as(&usage);
        count_new(&table, 0..3);
        assert!(!table.lock().is_watched);
        usage.keep_idle_for(Some(Duration::ZERO));
        count_new(&table, [3]);
        while table.lock().is_watched {
            std::thread::yield_now();
        }
        assert_eq!([0, 1, 2, 3].map(|key| table.has_plan(&key)), [None, None, None, Some(true)]);
        // And again.
        count_new(&table, [0]);
        while table.has_plan(&3).is_some() {
            std::thread::yield_now();
        }
        assert_eq!(table.has_plan(&0), Some(true));
    }

    #[test]
    fn plans_that_cannot_be_made_are_known_or_tried_again() {
        let fail = || Err(Error::new(Kind::NotSupported, "so it goes"));
        for tries_again in [false, true] {
            let table = Table::new(tries_again);
            assert!(table.plan(&3, fail).is_err());
            assert_eq!(table.has_plan(&3), Some(false));
            assert_eq!(table.plan(&3, || Ok(3)).is_ok(), tries_again);
            // Whoever panics makes no plan.
            assert!(table.plan(&4, || panic!("so it goes")).is_err());
        }
    }

    #[test]
    fn kinds_of_plans_are_left_for_good() {
        let table = Table::<usize, usize>::new(true);
        table.leave(&1, 2);
        table.leave(&1, 1);
        assert_eq!((table.kind(&1), table.kind(&2)), (2, 0));
        table.begin_again(&1);
        assert_eq!(table.kind(&1), 0);
    }
}
