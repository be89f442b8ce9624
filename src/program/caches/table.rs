//! The plans of a model: those that were used last, and which kinds of plans a model does not have.

use crate::error::Result;
use crate::program::run::spawn;
use crate::timeline::from_panic;
use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// So many plans are kept: of a model with some hundred nodes each takes some hundred kilobytes.
const MOST: usize = 96;

/// Rows before a plan is needed that it is made.
pub const AHEAD: usize = 24;

/// A plan, or why there is none; nothing while it is being made by whoever has the lock, or before.
type Slot<P> = Mutex<Option<Result<Arc<P>>>>;

/// Plans by what tells them apart.
#[derive(Debug)]
pub struct Table<K, P> {
    state: Mutex<State<K, P>>,
    /// Whether a plan that could not be made is tried again when it is wanted again.
    tries_again: bool,
    most: usize,
}

#[derive(Debug)]
struct State<K, P> {
    slots: HashMap<K, (Arc<Slot<P>>, u64)>,
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
            && let Some(oldest) = self.slots.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
        {
            self.slots.remove(&oldest);
        }
        let (slot, used) = self.slots.entry(key.clone()).or_default();
        *used = self.clock;
        slot.clone()
    }
}

impl<K: Clone + Eq + Hash, P> Table<K, P> {
    pub fn new(tries_again: bool) -> Table<K, P> {
        let state = Mutex::new(State { slots: HashMap::new(), clock: 0, kinds: HashMap::new() });
        Table { state, tries_again, most: MOST }
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
        let made = catch_unwind(AssertUnwindSafe(make)).unwrap_or_else(|panic| Err(from_panic(&*panic)));
        let made = made.map(Arc::new);
        *slot = Some(made.clone());
        made
    }

    /// Whether there is a plan, if somebody has found that out.
    pub fn has_plan(&self, key: &K) -> Option<bool> {
        let slot = self.lock().slots.get(key)?.0.clone();
        let plan = slot.try_lock().ok()?;
        plan.as_ref().map(Result::is_ok)
    }

    /// Looks at the keys of all plans that there are.
    pub fn each_made(&self, mut look: impl FnMut(&K)) {
        for (key, (slot, _)) in &self.lock().slots {
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
    fn made(table: &Table<usize, usize>, keys: impl IntoIterator<Item = usize>) -> usize {
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
        assert_eq!(made(&table, 0..MOST), MOST);
        assert_eq!(made(&table, [0, MOST]), 1);
        assert_eq!((table.has_plan(&0), table.has_plan(&1)), (Some(true), None));
        assert_eq!(made(&table, [0, 1]), 1);
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
