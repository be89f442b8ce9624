//! Bytes that may belong to a file.

use super::file_bytes::{Pin, Place, pin};
use crate::error::Result;
use bytes::Bytes;
use std::fmt;
use std::ops::{Deref, Range};
use std::panic::resume_unwind;
use std::sync::OnceLock;

/// Bytes that are read from their file when somebody first looks at them, and stay in memory for as long as this value. Where they lie,
/// and how many there are, is known before.
#[derive(Default)]
pub struct Data {
    /// Nobody looks at them without the pin.
    bytes: Bytes,
    pin: OnceLock<Option<Pin>>,
}

impl Data {
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Where they are. Nothing is read.
    pub fn place(&self) -> Place {
        Place { start: self.bytes.as_ptr().addr(), length: self.bytes.len() }
    }

    /// All of them, of which only what has a pin may be read.
    pub fn unread(&self) -> &[u8] {
        &self.bytes
    }

    /// A part. Nothing is read.
    ///
    /// # Panics
    /// When there are fewer bytes.
    pub fn slice(&self, range: Range<usize>) -> Data {
        self.bytes.slice(range).into()
    }

    /// Reads them, if that was not done.
    ///
    /// # Errors
    /// Those of [`pin`].
    pub fn read(&self) -> Result<&[u8]> {
        if self.pin.get().is_none() {
            // Where another thread was faster this one is dropped.
            let _ = self.pin.set(pin(self.place())?);
        }
        Ok(&self.bytes)
    }
}

/// The same bytes, which need not be in memory for it.
impl Clone for Data {
    fn clone(&self) -> Data {
        self.bytes.clone().into()
    }
}

impl From<Bytes> for Data {
    fn from(bytes: Bytes) -> Data {
        Data { bytes, pin: OnceLock::new() }
    }
}

impl From<Vec<u8>> for Data {
    fn from(bytes: Vec<u8>) -> Data {
        Bytes::from(bytes).into()
    }
}

/// The bytes. Whoever looks at weights expects no error: it unwinds, and becomes one again where panics do.
impl Deref for Data {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.read().unwrap_or_else(|error| resume_unwind(Box::new(error)))
    }
}

impl AsRef<[u8]> for Data {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl PartialEq for Data {
    fn eq(&self, other: &Data) -> bool {
        self.place() == other.place() || self.len() == other.len() && self[..] == other[..]
    }
}

impl fmt::Debug for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Data({} bytes)", self.len())
    }
}
