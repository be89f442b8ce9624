//! The stages that may follow another one, by what only a run can tell: the most recently used are kept.

use super::Stage;
use super::values::Key;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// So many are kept behind each stage.
const MOST: usize = 64;
/// What their graphs keep beside weights, at most, unless it is one.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug, Default)]
pub struct Plans(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    slots: HashMap<Key, (Arc<Slot>, u64)>,
    /// Counts uses.
    clock: u64,
    /// Of all stages that are kept and made.
    bytes: usize,
}

impl State {
    /// Counts a stage that was made, and lets go of the least recently used ones beyond the limit.
    fn keep(&mut self, made: &Arc<Slot>, bytes: usize) {
        made.bytes.store(bytes, Ordering::Relaxed);
        // Others may have let go of it meanwhile.
        if self.slots.values().any(|(slot, _)| Arc::ptr_eq(slot, made)) {
            self.bytes += bytes;
        }
        while self.bytes > MOST_BYTES && self.slots.len() > 1 {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.slots.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone());
        if let Some((slot, _)) = oldest.and_then(|key| self.slots.remove(&key)) {
            self.bytes -= slot.bytes.load(Ordering::Relaxed);
        }
    }
}

/// A stage that exists, or is being made.
#[derive(Debug, Default)]
struct Slot {
    stage: Mutex<Option<Result<Arc<Stage>>>>,
    ready: Condvar,
    /// What it counts for, under the lock of the plans.
    bytes: AtomicUsize,
}

/// Nothing that runs under these locks leaves the contents half changed.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plans {
    /// The stage for a key. Whoever asks first makes it, others wait for that.
    ///
    /// # Errors
    /// Those of making it; the next one who asks tries again.
    pub fn get(&self, key: Key, make: impl FnOnce() -> Result<Stage>) -> Result<Arc<Stage>> {
        let (slot, is_first) = {
            let mut state = lock(&self.0);
            state.clock += 1;
            let clock = state.clock;
            match state.slots.get_mut(&key) {
                Some((slot, used)) => {
                    *used = clock;
                    (slot.clone(), false)
                }
                None => {
                    if state.slots.len() >= MOST {
                        state.forget_oldest();
                    }
                    let slot = Arc::new(Slot::default());
                    state.slots.insert(key.clone(), (slot.clone(), clock));
                    (slot, true)
                }
            }
        };
        if !is_first {
            let mut stage = lock(&slot.stage);
            loop {
                match &*stage {
                    Some(result) => return result.clone(),
                    None => stage = slot.ready.wait(stage).unwrap_or_else(PoisonError::into_inner),
                }
            }
        }
        let mut guard = Making { slot: &slot, result: None };
        let result = make().map(Arc::new);
        if result.is_err() {
            lock(&self.0).slots.retain(|_, (other, _)| !Arc::ptr_eq(other, &slot));
        }
        guard.result = Some(result.clone());
        drop(guard);
        if let Ok(stage) = &result {
            lock(&self.0).keep(&slot, stage.kept_bytes);
        }
        result
    }
}

/// Whoever waits is told in any case.
struct Making<'a> {
    slot: &'a Slot,
    result: Option<Result<Arc<Stage>>>,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let lost = || Err(crate::error::Error::new(crate::error::Kind::Operation, "a panic ended the making of a plan"));
        *lock(&self.slot.stage) = Some(self.result.take().unwrap_or_else(lost));
        self.slot.ready.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stage(kept_bytes: usize) -> Stage {
        Stage {
            graph: None,
            exports: Vec::new(),
            next: None,
            bodies: Vec::new(),
            later: Plans::default(),
            outputs: Vec::new(),
            bytes: 0,
            kept_bytes,
        }
    }

    /// How many stages are made when these keys are asked for, each of so many bytes.
    fn made(plans: &Plans, keys: impl IntoIterator<Item = usize>, kept_bytes: usize) -> usize {
        let mut count = 0;
        for number in keys {
            let make = || {
                count += 1;
                Ok(stage(kept_bytes))
            };
            plans.get(Key::of_number(number), make).unwrap();
        }
        count
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let plans = Plans::default();
        assert_eq!(made(&plans, 0..MOST, 0), MOST);
        assert_eq!(made(&plans, 0..MOST, 0), 0);
        assert_eq!(made(&plans, [MOST, 1, 0], 0), 2, "the first was let go of, and then the third");
    }

    #[test]
    fn plans_are_limited_by_what_they_keep() {
        let plans = Plans::default();
        assert_eq!(made(&plans, 0..4, MOST_BYTES / 4), 4);
        assert_eq!(made(&plans, 0..4, MOST_BYTES / 4), 0);
        assert_eq!(made(&plans, [4, 1, 2, 3, 0], MOST_BYTES / 4), 2);
        // One that is larger than all may be stays alone.
        assert_eq!(made(&plans, [9, 9, 9], 2 * MOST_BYTES), 1);
        assert_eq!(made(&plans, [0], 1), 1);
        assert_eq!(lock(&plans.0).bytes, 1);
        // What failed counts for nothing.
        let failed = || Err(crate::error::Error::new(crate::error::Kind::Operation, "so it goes"));
        assert!(plans.get(Key::of_number(20), failed).is_err());
        assert_eq!(lock(&plans.0).bytes, 1);
        assert_eq!(lock(&plans.0).slots.len(), 1);
    }
}
