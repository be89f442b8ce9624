//! The stages that may follow another one, by what only a run can tell: the most recently used are kept.

use super::Stage;
use super::values::Key;
use crate::error::Result;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// So many are kept behind each stage.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub struct Plans(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    slots: HashMap<Key, (Arc<Slot>, u64)>,
    /// Counts uses.
    clock: u64,
}

/// A stage that exists, or is being made.
#[derive(Debug, Default)]
struct Slot {
    stage: Mutex<Option<Result<Arc<Stage>>>>,
    ready: Condvar,
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
                    if state.slots.len() >= MOST
                        && let Some(oldest) = state.slots.iter().min_by_key(|(_, (_, used))| *used).map(|(key, _)| key.clone())
                    {
                        state.slots.remove(&oldest);
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
