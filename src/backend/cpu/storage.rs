//! A tensor's memory.

use super::incoming::Incoming;
use crate::error::{Error, Kind, Result};
use crate::host_memory::HostBuffer;
use crate::memory::Bytes;
use std::ops::{Deref, DerefMut};
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// The bytes of a tensor.
///
/// The timeline orders all accesses, so the lock is never waited for: it is an assertion of that order, and a violation
/// becomes an error instead of a race.
#[derive(Debug)]
pub struct HostStorage(RwLock<Contents>);

/// Memory of our own, or JavaScript's for the length of one `compute()`.
#[derive(Debug)]
pub enum Contents {
    Own(Bytes),
    Host(HostBuffer),
}

impl Contents {
    /// The number of bytes, which need not be there yet.
    pub fn length(&self) -> usize {
        match self {
            Contents::Own(bytes) => bytes.len(),
            Contents::Host(buffer) => buffer.len(),
        }
    }

    /// Waits until the bytes are there.
    pub fn wait(&self) {
        match self {
            Contents::Own(_) => {}
            Contents::Host(buffer) => buffer.wait(),
        }
    }

    /// Where the bytes begin. Valid for writes as long as nobody else has a part of them.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match self {
            Contents::Own(bytes) => bytes.as_ptr(),
            Contents::Host(buffer) => buffer.address(),
        }
    }

    /// The bytes, as a kernel takes them.
    pub fn incoming(&self) -> Incoming<'_> {
        match self {
            Contents::Own(bytes) => Incoming::There(bytes),
            Contents::Host(buffer) => Incoming::Arriving(buffer),
        }
    }
}

impl Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Contents::Own(bytes) => bytes,
            Contents::Host(buffer) => buffer.as_slice(),
        }
    }
}

impl DerefMut for Contents {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Contents::Own(bytes) => bytes,
            Contents::Host(buffer) => buffer.as_mut_slice(),
        }
    }
}

impl HostStorage {
    pub fn new(contents: Contents) -> Self {
        HostStorage(RwLock::new(contents))
    }

    pub fn read(&self) -> Result<RwLockReadGuard<'_, Contents>> {
        match self.0.try_read() {
            Ok(guard) => Ok(guard),
            // A kernel that panicked leaves bytes that are valid, if meaningless; the tensor is errored then.
            Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => Err(conflict()),
        }
    }

    pub fn write(&self) -> Result<RwLockWriteGuard<'_, Contents>> {
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
        *own = Contents::Own(bytes);
        Ok(())
    }
}

fn conflict() -> Error {
    Error::new(Kind::Operation, "two accesses to one tensor at the same time (internal error)")
}
