//! A tensor's memory.

use crate::error::{Error, Kind, Result};
use crate::memory::Bytes;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// The bytes of a tensor.
///
/// The timeline orders all accesses, so the lock is never waited for: it is an assertion of that order, and a violation
/// becomes an error instead of a race.
#[derive(Debug)]
pub struct Storage(RwLock<Bytes>);

impl Storage {
    pub fn new(bytes: Bytes) -> Self {
        Storage(RwLock::new(bytes))
    }

    pub fn read(&self) -> Result<RwLockReadGuard<'_, Bytes>> {
        match self.0.try_read() {
            Ok(guard) => Ok(guard),
            // A kernel that panicked leaves bytes that are valid, if meaningless; the tensor is errored then.
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(conflict()),
        }
    }

    pub fn write(&self) -> Result<RwLockWriteGuard<'_, Bytes>> {
        match self.0.try_write() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(conflict()),
        }
    }

    /// Takes other bytes of the same length instead of its own.
    pub fn replace(&self, bytes: Bytes) -> Result<()> {
        let mut own = self.write()?;
        assert_eq!(own.len(), bytes.len());
        *own = bytes;
        Ok(())
    }
}

fn conflict() -> Error {
    Error::new(Kind::Operation, "two accesses to one tensor at the same time (internal error)")
}
