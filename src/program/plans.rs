//! The parts that may follow another one, by what only a run can tell. How many are kept is counted for the whole model ([`PlanCache`]).

use super::CompiledPart;
use super::plan_cache::{Forget, Owner, PlanCache};
use super::values::Key;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

/// What a part counts for beside what its graph keeps: what is to be done after it.
const PART: usize = 4 << 10;

#[derive(Debug)]
pub struct Plans {
    state: Arc<State>,
    cache: Arc<PlanCache>,
}

/// Locked before the cache, if both are.
#[derive(Debug, Default)]
struct State(Mutex<HashMap<Key, Entry>>);

#[derive(Debug)]
struct Entry {
    slot: Arc<Slot>,
    /// Its number in the cache, once it was made.
    number: Option<u64>,
}

impl Forget for State {
    fn forget(&self, plan: u64) {
        let mut slots = lock(&self.0);
        let key = slots.iter().find(|(_, entry)| entry.number == Some(plan)).map(|(key, _)| key.clone());
        let gone = key.and_then(|key| slots.remove(&key));
        // What is after it goes with it.
        drop(slots);
        drop(gone);
    }
}

impl Drop for Plans {
    fn drop(&mut self) {
        let numbers: Vec<u64> = lock(&self.state.0).values().filter_map(|entry| entry.number).collect();
        self.cache.release(numbers);
    }
}

/// A part that exists, or is being made.
#[derive(Debug, Default)]
struct Slot {
    part: Mutex<Option<Result<Arc<CompiledPart>>>>,
    ready: Condvar,
}

/// Nothing that runs under these locks leaves the contents half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plans {
    /// None yet, of a model with that cache.
    pub fn of(cache: &Arc<PlanCache>) -> Plans {
        Plans { state: Arc::default(), cache: cache.clone() }
    }

    /// The part for a key, if it was made.
    pub fn find(&self, key: &Key) -> Option<Arc<CompiledPart>> {
        let slots = lock(&self.state.0);
        let Entry { slot, number } = slots.get(key)?;
        let part = lock(&slot.part).as_ref()?.as_ref().ok()?.clone();
        number.iter().for_each(|&number| self.cache.touch(number));
        Some(part)
    }

    /// The part for a key. Whoever asks first makes it, others wait for that.
    ///
    /// # Errors
    /// Those of making it; the next one who asks tries again.
    pub fn get(&self, key: Key, make: impl FnOnce() -> Result<CompiledPart>) -> Result<Arc<CompiledPart>> {
        let (slot, is_first) = {
            let mut slots = lock(&self.state.0);
            match slots.get(&key) {
                Some(Entry { slot, number }) => {
                    number.iter().for_each(|&number| self.cache.touch(number));
                    (slot.clone(), false)
                }
                None => {
                    let slot = Arc::new(Slot::default());
                    slots.insert(key.clone(), Entry { slot: slot.clone(), number: None });
                    (slot, true)
                }
            }
        };
        if !is_first {
            let mut part = lock(&slot.part);
            loop {
                match &*part {
                    Some(result) => return result.clone(),
                    None => part = slot.ready.wait(part).unwrap_or_else(PoisonError::into_inner),
                }
            }
        }
        let mut guard = Making { plans: self, key: &key, slot: &slot, result: None };
        let result = make().map(Arc::new);
        guard.result = Some(result.clone());
        drop(guard);
        if let Ok(part) = &result {
            let mut slots = lock(&self.state.0);
            let owner: Weak<dyn Forget> = Arc::<State>::downgrade(&self.state);
            let (number, leaving) = self.cache.keep(part.plan_bytes + PART, Owner::Plans(owner));
            if let Some(entry) = slots.get_mut(&key) {
                entry.number = Some(number);
            }
            drop(slots);
            leaving.leave();
        }
        result
    }
}

/// Whoever waits is told in any case.
struct Making<'a> {
    plans: &'a Plans,
    key: &'a Key,
    slot: &'a Slot,
    result: Option<Result<Arc<CompiledPart>>>,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let lost = || Err(crate::error::Error::new(crate::error::Kind::Operation, "a panic ended the making of a plan"));
        let result = self.result.take().unwrap_or_else(lost);
        if result.is_err() {
            lock(&self.plans.state.0).remove(self.key);
        }
        *lock(&self.slot.part) = Some(result);
        self.slot.ready.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan_cache::{MOST, MOST_BYTES};
    use super::*;

    fn part(cache: &Arc<PlanCache>, plan_bytes: usize) -> CompiledPart {
        CompiledPart { plan_bytes, ..CompiledPart::last(None, Plans::of(cache)) }
    }

    /// How many parts are made when these keys are asked for, each of so many bytes.
    fn made(plans: &Plans, keys: impl IntoIterator<Item = usize>, plan_bytes: usize) -> usize {
        let mut count = 0;
        for number in keys {
            let make = || {
                count += 1;
                Ok(part(&plans.cache, plan_bytes))
            };
            plans.get(Key::of_number(number), make).unwrap();
        }
        count
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let plans = Plans::of(&Arc::default());
        assert_eq!(made(&plans, 0..MOST, 0), MOST);
        assert_eq!(made(&plans, 0..MOST, 0), 0);
        assert!(plans.find(&Key::of_number(MOST)).is_none());
        // One that was found was used.
        assert!(plans.find(&Key::of_number(1)).is_some());
        assert_eq!(made(&plans, [MOST, 1, 0], 0), 2, "the first was let go of, and then the third");
    }

    #[test]
    fn plans_are_limited_by_what_they_keep() {
        let cache = Arc::<PlanCache>::default();
        let plans = Plans::of(&cache);
        let quarter = MOST_BYTES / 4 - PART;
        assert_eq!(made(&plans, 0..4, quarter), 4);
        assert_eq!(made(&plans, 0..4, quarter), 0);
        assert_eq!(made(&plans, [4, 1, 2, 3, 0], quarter), 2);
        // One that is larger than all may be stays alone.
        assert_eq!(made(&plans, [9, 9, 9], 2 * MOST_BYTES), 1);
        assert_eq!(made(&plans, [0], 1), 1);
        assert_eq!(cache.count(), (1, PART + 1));
        // What failed counts for nothing, and is made again.
        let failed = || Err(crate::error::Error::new(crate::error::Kind::Operation, "so it goes"));
        assert!(plans.get(Key::of_number(20), failed).is_err());
        assert_eq!(cache.count(), (1, PART + 1));
        assert_eq!(made(&plans, [20], 1), 1);
    }

    /// Parts after parts, and script's plans, are of one cache.
    #[test]
    fn all_plans_of_a_model_are_counted_together() {
        let cache = Arc::<PlanCache>::default();
        let plans = Plans::of(&cache);
        let third = MOST_BYTES / 3 - PART;
        let (script, leaving) = cache.keep(third, Owner::Script);
        leaving.leave();
        let first = plans.get(Key::of_number(0), || Ok(part(&cache, third))).unwrap();
        assert_eq!(made(&first.later, [0], third - PART), 1);
        assert_eq!((cache.count().0, cache.take_leaving()), (3, vec![]));
        cache.touch(script);
        // Another one after the first part: that itself is the oldest, and goes with all after it, once nobody runs it.
        assert_eq!(made(&first.later, [1], third - PART), 1);
        assert_eq!(cache.count().0, 3);
        drop(first);
        assert_eq!(cache.count(), (1, third));
        assert_eq!(made(&plans, [0], third), 1);
        // Script hears of its own.
        assert_eq!(made(&plans, [1, 2], third), 2);
        assert_eq!((cache.take_leaving(), cache.take_leaving()), (vec![script], vec![]));
        assert_eq!(cache.count().0, 3);
        drop(plans);
        assert_eq!(cache.count(), (0, 0));
    }
}
