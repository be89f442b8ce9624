//! Memory for the values in between of runs: as many arenas as runs have been under way at once. The graphs of one model share them, and
//! each has grown to the largest graph that it was used for.

use crate::error::Result;
use crate::memory::{Bytes, Charge, Usage, Use};
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub struct Arena {
    pub bytes: Bytes,
    _charge: Charge,
}

/// Those that no run has.
#[derive(Debug, Default)]
pub struct Arenas(Mutex<Vec<Arena>>);

impl Arenas {
    /// One of at least so many bytes; what is in it is left from other runs.
    ///
    /// # Errors
    /// `UnknownError` when there is no memory for it, `QuotaExceededError` where the context or the model may not hold it.
    pub fn take(&self, length: usize, usage: &Arc<Usage>) -> Result<Arena> {
        let found = {
            let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            // The smallest that is large enough, or else the largest, which is too small for any other graph too and goes.
            let fits = idle.iter().enumerate().filter(|(_, arena)| arena.bytes.len() >= length);
            let best = fits
                .min_by_key(|(_, arena)| arena.bytes.len())
                .or_else(|| idle.iter().enumerate().max_by_key(|(_, arena)| arena.bytes.len()));
            best.map(|(position, _)| position).map(|position| idle.swap_remove(position))
        };
        match found {
            Some(arena) if arena.bytes.len() >= length => Ok(arena),
            small => {
                // Before there is memory for the larger one.
                drop(small);
                let charge = usage.reserve(Use::Scratch, length)?;
                Ok(Arena { bytes: Bytes::zeroed(length)?, _charge: charge })
            }
        }
    }

    pub fn give_back(&self, arena: Arena) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(arena);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arenas_grow_to_the_largest_graph() {
        let (arenas, usage) = (Arenas::default(), Arc::new(Usage::default()));
        let small = arenas.take(64, &usage).unwrap();
        let large = arenas.take(4096, &usage).unwrap();
        assert_eq!((small.bytes.len(), large.bytes.len()), (64, 4096));
        arenas.give_back(large);
        arenas.give_back(small);
        // The smallest that is enough.
        let again = arenas.take(60, &usage).unwrap();
        assert_eq!(again.bytes.len(), 64);
        arenas.give_back(again);
        // One grows, and there are no more than were in use at once.
        let larger = arenas.take(8192, &usage).unwrap();
        assert_eq!(larger.bytes.len(), 8192);
        arenas.give_back(larger);
        assert_eq!(arenas.0.lock().unwrap().len(), 2);
    }
}
