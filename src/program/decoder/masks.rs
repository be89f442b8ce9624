//! The tokens that may be chosen after a step: known when it begins, or found out meanwhile.

use super::sampling::Allowed;
use crate::error::{Error, Kind, Result};
use crate::timeline::Watch;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// What may be chosen of each sequence, in its place; anything where there is nothing.
pub type Masks = Vec<Option<Allowed>>;

/// When the masks of a step are known.
#[derive(Debug)]
pub enum When {
    Now(Masks),
    /// [`Coming::give`] has them.
    Later,
}

/// The masks of the step that is under way.
#[derive(Debug, Default)]
pub(super) struct Coming {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    masks: Option<Masks>,
    /// Nobody will give any.
    is_closed: bool,
}

impl Coming {
    fn lock(&self) -> MutexGuard<'_, State> {
        // Masks are there as a whole, or not at all.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A step begins: what was given for an earlier one does not count.
    pub fn forget(&self) {
        self.lock().masks = None;
    }

    pub fn give(&self, masks: Masks) {
        self.lock().masks = Some(masks);
        self.changed.notify_all();
    }

    /// The call has ended.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
    }

    /// Has whoever waits look whether it was given up.
    pub fn wake(&self) {
        // Nobody is between looking and waiting.
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Waits for them.
    ///
    /// # Errors
    /// Where the work is given up, or its call has ended.
    pub fn take(&self, watch: &Watch) -> Result<Masks> {
        let mut state = self.lock();
        loop {
            watch.check()?;
            if let Some(masks) = state.masks.take() {
                return Ok(masks);
            }
            if state.is_closed {
                return Err(Error::new(Kind::Operation, "the call has ended (internal error)"));
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_waits_for_its_masks() {
        let coming = Coming::default();
        let watch = Watch::new(false);
        coming.give(vec![None, None]);
        coming.forget();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| coming.take(&watch).map(|masks| masks.len()));
            coming.give(vec![None]);
            assert_eq!(waiting.join().unwrap().unwrap(), 1);
        });
    }

    #[test]
    fn nobody_waits_for_what_does_not_come() {
        let (given_up, ended) = (Coming::default(), Coming::default());
        let watch = Watch::new(false);
        std::thread::scope(|scope| {
            let waiting = [scope.spawn(|| given_up.take(&watch)), scope.spawn(|| ended.take(&Watch::default()))];
            watch.give_up();
            given_up.wake();
            ended.close();
            for thread in waiting {
                assert!(thread.join().unwrap().is_err());
            }
        });
        // What has come before does not help.
        given_up.give(Vec::new());
        assert!(given_up.take(&watch).is_err());
    }
}
